"""Values of a runbook's parameters, references to them, and what is wrong with values, in words."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, ValidationError

from drctl.config import document as tree
from drctl.config.document import Document, Scalar
from drctl.config.problems import Mark, Path, Problem, did_you_mean, escaped, one_of, quoted
from drctl.config.secret import names_secret
from drctl.model.errors import UsageError
from drctl.model.text import lines
from drctl.plans.inputs import Circumstances
from drctl.runbook.schema import ParameterConfig, ParameterType

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(s|m|h|d|)")


def seconds(value: object) -> float:
    """How many seconds a length of time has.

    Raises:
        ValueError: it is none.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    found = _DURATION.fullmatch(f"{value}") if number or isinstance(value, str) else None
    if found is None:
        raise ValueError("must be a length of time such as 90s, 5m, 2h or 1d")
    return float(found[1]) * _SECONDS[found[2]]


Duration = Annotated[float, BeforeValidator(seconds)]


Value = str | int | float | bool | tuple[str, ...]
Values = Mapping[str, Value]

NAMES = ("link", "source", "target")
"""What no parameter may be called: these stand for the link, and are there always."""

_SAMPLES: Mapping[ParameterType, Value] = {
    "string": "x",
    "integer": 1,
    "number": 1.0,
    "duration": "1s",
    "boolean": True,
    "list": ("x",),
}


def given_values(declared: Mapping[str, ParameterConfig], given: Mapping[str, str]) -> Values:
    """What holds for a run: what was given, else the defaults.

    Raises:
        UsageError: a value is missing, does not fit its type, or is for no parameter.
    """
    complaints = [
        f"{escaped(name)} is no parameter of this runbook; {_near(name, tuple(declared))}"
        for name in sorted(given.keys() - declared.keys())
    ]
    values: dict[str, Value] = {}
    for name, parameter in declared.items():
        if name not in given and parameter.default is None:
            complaints.append(f"{name} has no value: --set {name}={_shape(parameter)}")
            continue
        try:
            values[name] = (
                from_text(parameter, given[name])
                if name in given
                else from_yaml(parameter, parameter.default)
            )
        except ValueError as error:
            complaints.append(f"{name}: {error}")
    if complaints:
        raise UsageError(lines(complaints), "drctl runbook show NAME tells what it takes")
    return values


def from_text(parameter: ParameterConfig, text: str) -> Value:
    """A value as somebody typed it.

    Raises:
        ValueError: it does not fit the type.
    """
    if not text.isprintable():
        raise ValueError(f"must be printable ({quoted(text)})")
    return _TYPES[parameter.type](parameter, text)


def from_yaml(parameter: ParameterConfig, value: Any) -> Value:
    """A default as it stands in a runbook.

    Raises:
        ValueError: it does not fit the type.
    """
    if parameter.type == "list":
        if not isinstance(value, tuple) or not all(isinstance(each, str) for each in value):
            raise ValueError("must be a list of texts")
        return value
    kinds: dict[str, tuple[type, ...]] = {"boolean": (bool,), "integer": (int,)}
    kinds |= {"number": (int, float), "duration": (str, int, float)}
    fits = isinstance(value, kinds.get(parameter.type, (str,)))
    if not fits or (isinstance(value, bool) and parameter.type != "boolean"):
        raise ValueError(f"must be {_TYPE_WORDS[parameter.type]}")
    return value if isinstance(value, bool) else _TYPES[parameter.type](parameter, str(value))


def names_of(seen: Circumstances) -> Values:
    """What every runbook has: the names of the link and of its ends."""
    return dict(zip(NAMES, (seen.link, seen.source, seen.target), strict=True))


def sample(parameter: ParameterConfig) -> Value:
    """A value with which a runbook can be tried: the default where there is one."""
    if parameter.default is not None:
        return from_yaml(parameter, parameter.default)
    return parameter.choices[0] if parameter.type == "choice" else _SAMPLES[parameter.type]


def as_text(value: Value) -> str:
    """A value inside a longer text.

    Raises:
        ValueError: it is a list.
    """
    if isinstance(value, tuple):
        raise ValueError("is a list, and cannot stand inside a text")
    return str(value).lower() if isinstance(value, bool) else str(value)


def shown(value: Value) -> str:
    """A value as one would type it."""
    return ",".join(value) if isinstance(value, tuple) else as_text(value)


def _near(name: str, known: tuple[str, ...]) -> str:
    if not known:
        return "it has none"
    return did_you_mean(name, known) or f"there are {one_of(known)}"


def _shape(parameter: ParameterConfig) -> str:
    if parameter.type == "choice":
        return "|".join(parameter.choices)
    return {"list": "A,B", "duration": "5m", "boolean": "true|false"}.get(
        parameter.type, parameter.type.upper()
    )


def _integer(_: ParameterConfig, text: str) -> Value:
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise ValueError(f"must be a whole number ({quoted(text)})")
    return int(text)


def _number(_: ParameterConfig, text: str) -> Value:
    if not re.fullmatch(r"-?[0-9]{1,18}(\.[0-9]{1,18})?", text):
        raise ValueError(f"must be a number ({quoted(text)})")
    return float(text)


def _duration(_: ParameterConfig, text: str) -> Value:
    try:
        seconds(text)
    except ValueError as error:
        raise ValueError(f"{error} ({quoted(text)})") from None
    return text


def _boolean(_: ParameterConfig, text: str) -> Value:
    if text not in ("true", "false"):
        raise ValueError(f"must be true or false ({quoted(text)})")
    return text == "true"


def _choice(parameter: ParameterConfig, text: str) -> Value:
    if text not in parameter.choices:
        near = did_you_mean(text, parameter.choices)
        said = f"must be {one_of(parameter.choices)}{'; ' if near else ''}{near}"
        raise ValueError(f"{said} ({quoted(text)})")
    return text


def _list(_: ParameterConfig, text: str) -> Value:
    return tuple(each.strip() for each in text.split(",") if each.strip())


_TYPES: Mapping[ParameterType, Callable[[ParameterConfig, str], Value]] = {
    "string": lambda _, text: text,
    "integer": _integer,
    "number": _number,
    "duration": _duration,
    "boolean": _boolean,
    "choice": _choice,
    "list": _list,
}
_TYPE_WORDS: Mapping[ParameterType, str] = {
    "string": "text: write it in quotes",
    "integer": "a whole number",
    "number": "a number",
    "duration": "a length of time such as 90s, 5m, 2h or 1d",
    "boolean": "true or false",
    "choice": "text: write it in quotes",
    "list": "a list of texts",
}


_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_HARMLESS = re.compile(r"[\w.:,/@%+=$-]*")
_PLACES = ("env:", "file:")

Wrong = Callable[[Path, str], None]


def references(text: str) -> Iterator[str]:
    """The names of parameters that a text refers to; references to secrets left out."""
    for found in _REFERENCE.finditer(text):
        if found[0] != "$${" and not found[1].startswith(_PLACES):
            yield found[1] if found[2] else found[0]


def could_be(written: str, text: str) -> bool:
    """Whether a text of an environment is what a runbook says, whatever its parameters are."""
    pattern, end = "", 0
    for found in _REFERENCE.finditer(written):
        pattern += re.escape(written[end : found.start()])
        plain = found[0] == "$${" or found[1].startswith(_PLACES)
        # A value brings no reference of its own: what looks like one is escaped.
        pattern += re.escape(found[0]) if plain else r"(?:[^$]|\$(?!\{)|\$\$\{)*"
        end = found.end()
    return re.fullmatch(pattern + re.escape(written[end:]), text, re.DOTALL) is not None


def holds_secret_reference(text: str) -> bool:
    """Whether it refers to the environment or to a file."""
    return any(
        found[0] != "$${" and found[1].startswith(_PLACES) for found in _REFERENCE.finditer(text)
    )


def fit_for_shell(values: Values) -> Values:
    """Only those values that a shell takes as they are: people copy command lines."""
    return {
        name: value
        for name, value in values.items()
        if not isinstance(value, str) or _HARMLESS.fullmatch(value)
    }


def filled(raw: Any, values: Values, path: Path, wrong: Wrong, *, env: bool = False) -> Any:
    """The raw settings with values for references.

    Args:
        wrong: is told of what cannot be replaced.
        env: whether it is an environment, which is read later: what drctl puts into it must not
            be a reference there.
    """
    if isinstance(raw, Mapping):
        return {
            key: filled(each, values, (*path, key), wrong, env=env or key == "env")
            for key, each in raw.items()
        }
    if isinstance(raw, tuple):
        return tuple(filled(each, values, (*path, n), wrong, env=env) for n, each in enumerate(raw))
    if not isinstance(raw, str):
        return raw
    whole = _REFERENCE.fullmatch(raw)
    if whole and whole[1] in values and not env:
        return values[whole[1]]
    try:
        return _REFERENCE.sub(lambda found: _replacement(found, values, env), raw)
    except ValueError as error:
        wrong(path, str(error))
        return raw


def _replacement(found: re.Match[str], values: Values, env: bool) -> str:
    if found[0] == "$${":
        return "$${" if env else "${"
    if found[1] in values and found[2]:
        try:
            text = as_text(values[found[1]])
        except ValueError as error:
            raise ValueError(f"${{{found[1]}}} {error}") from None
        return text.replace("${", "$${") if env else text
    # What is no parameter was told of when the file was read.
    return found[0]


_SCHEMA_ERRORS = {
    "string_type": "must be text: write it in quotes",
    "string_too_short": "must not be empty",
    "string_too_long": "must not be longer than 64 characters",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "tuple_type": "must be a list",
    "too_short": "must not be empty",
    "mapping_type": "must hold `key: value` lines",
    "dict_type": "must hold `key: value` lines",
    "model_type": "must hold `key: value` lines",
    "model_attributes_type": "must hold `key: value` lines",
}
_PATTERNS = {
    "parameters": "must be lower-case letters, digits and '_', the first a letter",
    "principals": "must be TYPE:NAME, such as User:orders-app",
}
_MOST_TOLD = 30
_NAME = "must be lower-case words, digits too, with '-' between"

Place = Callable[[Path], Path]
Known = Callable[[Path], tuple[str, ...]]


def problems_of(
    error: ValidationError, document: Document, known: Known, place: Place = lambda path: path
) -> Iterator[Problem]:
    """Each thing that a schema refuses.

    Args:
        known: the keys that may stand beside the last of a path.
        place: where in the file that is which the schema calls so.
    """
    for detail in error.errors(include_url=False, include_input=False):
        loc = tuple(part for part in detail["loc"] if part != "[key]")
        path = place(loc)
        if detail["type"] == "extra_forbidden":
            yield at_key(document, path, unknown(str(loc[-1]), known(loc)))
        elif detail["type"] == "missing":
            text = "has no value" if document.entry(path) else "is required"
            yield at_key(document, path, text)
        elif detail["type"] == "too_short" and _holds_items(document, path):
            continue  # nothing valid is left in it, and each invalid part has its own error
        elif detail["loc"][-1:] == ("[key]",):
            yield at_key(document, path, _said(detail, loc))
        else:
            yield at_value(document, path, _said(detail, loc, document, path))


def at_key(document: Document, path: Path, text: str) -> Problem:
    """Something is wrong with a key, or with its absence."""
    entry = document.entry(path)
    above = path
    while entry is None and above:
        above = above[:-1]
        entry = document.entry(above)
    return Problem(entry.mark if entry else Mark(1, 1), path, text)


def at_value(document: Document, path: Path, text: str) -> Problem:
    """Something is wrong with a value; it is shown."""
    while path and document.entry(path) is None:
        path = path[:-1]
    entry = document.entry(path)
    if entry is None:
        return Problem(Mark(1, 1), path, text)
    node = entry.node
    if isinstance(node, Scalar) and node.value is None:
        return Problem(entry.mark, path, "has no value")
    secret = any(names_secret(str(part)) for part in path)
    return Problem(node.mark, path, text if secret else f"{text} ({_shown(node)})")


def unknown(word: str, known: tuple[str, ...]) -> str:
    """A word that is none of these."""
    near = did_you_mean(word, known)
    allowed = f"allowed here: {', '.join(known) or 'nothing'}"
    return f"is not known; {near} ({allowed})" if near else f"is not known; {allowed}"


def none_of(word: str, known: tuple[str, ...], what: str) -> str:
    """A value that is none of many."""
    told = did_you_mean(word, known)
    if not told and len(known) <= _MOST_TOLD:
        told = f"there are {one_of(known)}"
    return f"is no {what}{'; ' if told else ''}{told}"


def _said(
    detail: "ErrorDetails", loc: Path, document: Document | None = None, path: Path = ()
) -> str:
    context = detail.get("ctx", {})
    if detail["type"] == "literal_error":
        allowed = re.findall(r"'([^']*)'", str(context["expected"]))
        entry = document.entry(path) if document else None
        written = entry.node.text if entry and isinstance(entry.node, Scalar) else ""
        near = did_you_mean(written, allowed)
        return f"must be {one_of(allowed)}{'; ' if near else ''}{near}"
    if detail["type"] == "value_error":
        return str(context["error"])
    if detail["type"] == "greater_than_equal":
        return f"must be {context['ge']:g} or more"
    if detail["type"] == "string_pattern_mismatch":
        return next((_PATTERNS[str(part)] for part in loc if str(part) in _PATTERNS), _NAME)
    return _SCHEMA_ERRORS.get(detail["type"], detail["msg"])


def _holds_items(document: Document, path: Path) -> bool:
    entry = document.entry(path)
    return entry is not None and isinstance(entry.node, tree.Sequence) and bool(entry.node.items)


def _shown(node: tree.Node) -> str:
    if isinstance(node, Scalar):
        return quoted(node.text) if isinstance(node.value, str) else escaped(node.text)
    if isinstance(node, tree.Mapping):
        return "a mapping" if node.entries else "an empty mapping"
    return "a list" if node.items else "an empty list"
