"""Values of a runbook's parameters, and the references to them."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator

from drctl.config.problems import Path, did_you_mean, escaped, one_of, quoted
from drctl.config.schema_errors import one_of_these
from drctl.model.errors import UsageError
from drctl.model.text import lines
from drctl.plans.inputs import PlanInputs
from drctl.runbook.schema import ParameterConfig, ParameterType

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(s|m|h|d|)")


def seconds(value: object) -> float:
    """Parse a duration.

    Raises:
        ValueError: it is not a duration.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    found = _DURATION.fullmatch(f"{value}") if number or isinstance(value, str) else None
    if found is None:
        raise ValueError("must be a duration such as 90s, 5m, 2h or 1d")
    return float(found[1]) * _SECONDS[found[2]]


Duration = Annotated[float, BeforeValidator(seconds)]


Value = str | int | float | bool | tuple[str, ...]
Values = Mapping[str, Value]

LINK_NAMES = ("link", "source", "target")
"""Names that every runbook can refer to, and that no parameter may have."""

_SAMPLES: Mapping[ParameterType, Value] = {
    "string": "x",
    "integer": 1,
    "number": 1.0,
    "duration": "1s",
    "boolean": True,
    "list": ("x",),
}


def given_values(declared: Mapping[str, ParameterConfig], given: Mapping[str, str]) -> Values:
    """The values of all parameters: those given, otherwise the defaults.

    Raises:
        UsageError: a value is missing, does not fit its type, or has no such parameter.
    """
    errors = [
        f"{escaped(name)} is not a parameter of this runbook; {_suggestion(name, tuple(declared))}"
        for name in sorted(given.keys() - declared.keys())
    ]
    values: dict[str, Value] = {}
    for name, parameter in declared.items():
        if name not in given and parameter.default is None:
            errors.append(f"{name} has no value: use --set {name}={_placeholder(parameter)}")
            continue
        try:
            values[name] = (
                from_text(parameter, given[name])
                if name in given
                else from_yaml(parameter, parameter.default)
            )
        except ValueError as error:
            errors.append(f"{name}: {error}")
    if errors:
        raise UsageError(lines(errors), "run drctl runbook show NAME to see its parameters")
    return values


def from_text(parameter: ParameterConfig, text: str) -> Value:
    """Parse a value that the user typed.

    Raises:
        ValueError: it does not fit the type.
    """
    if not text.isprintable():
        raise ValueError(f"must be printable ({quoted(text)})")
    return _TYPES[parameter.type](parameter, text)


def from_yaml(parameter: ParameterConfig, value: Any) -> Value:
    """Check a default of a runbook file.

    Raises:
        ValueError: it does not fit the type.
    """
    if parameter.type == "list":
        if not isinstance(value, tuple) or not all(isinstance(each, str) for each in value):
            raise ValueError("must be a list of strings")
        return value
    kinds: dict[str, tuple[type, ...]] = {"boolean": (bool,), "integer": (int,)}
    kinds |= {"number": (int, float), "duration": (str, int, float)}
    fits = isinstance(value, kinds.get(parameter.type, (str,)))
    if not fits or (isinstance(value, bool) and parameter.type != "boolean"):
        raise ValueError(f"must be {_TYPE_WORDS[parameter.type]}")
    return value if isinstance(value, bool) else _TYPES[parameter.type](parameter, str(value))


def link_names(inputs: PlanInputs) -> Values:
    """The values of `LINK_NAMES`."""
    return dict(zip(LINK_NAMES, (inputs.link, inputs.source, inputs.target), strict=True))


def sample(parameter: ParameterConfig) -> Value:
    """The default, or an example value if there is none."""
    if parameter.default is not None:
        return from_yaml(parameter, parameter.default)
    return parameter.choices[0] if parameter.type == "choice" else _SAMPLES[parameter.type]


def as_text(value: Value) -> str:
    """Format a value for use inside a longer text.

    Raises:
        ValueError: it is a list.
    """
    if isinstance(value, tuple):
        raise ValueError("is a list and cannot be used inside a string")
    return str(value).lower() if isinstance(value, bool) else str(value)


def shown(value: Value) -> str:
    """Format a value as a user would type it."""
    return ",".join(value) if isinstance(value, tuple) else as_text(value)


def _suggestion(name: str, known: tuple[str, ...]) -> str:
    if not known:
        return "it has none"
    return did_you_mean(name, known) or f"available: {one_of(known)}"


def _placeholder(parameter: ParameterConfig) -> str:
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
        raise ValueError(f"{one_of_these(text, parameter.choices)} ({quoted(text)})")
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
    "duration": "a duration such as 90s, 5m, 2h or 1d",
    "boolean": "true or false",
    "choice": "text: write it in quotes",
    "list": "a list of strings",
}


_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_SHELL_SAFE = re.compile(r"[\w.:,/@%+=$-]*")
_SECRETS = ("env:", "file:")

Report = Callable[[Path, str], None]
"""Reports a problem at a path in the file."""


def references(text: str) -> Iterator[str]:
    """The names of the parameters that a text refers to, without references to secrets."""
    for found in _REFERENCE.finditer(text):
        if found[0] != "$${" and not found[1].startswith(_SECRETS):
            yield found[1] if found[2] else found[0]


def could_be(template: str, text: str) -> bool:
    """Whether some values of the parameters turn the template of a variable into this text."""
    pattern, end = "", 0
    for found in _REFERENCE.finditer(template):
        pattern += re.escape(template[end : found.start()])
        literal = found[0] == "$${" or found[1].startswith(_SECRETS)
        # Values are escaped, so they never contain a reference.
        pattern += re.escape(found[0]) if literal else r"(?:[^$]|\$(?!\{)|\$\$\{)*"
        end = found.end()
    return re.fullmatch(pattern + re.escape(template[end:]), text, re.DOTALL) is not None


def holds_secret_reference(text: str) -> bool:
    """Whether a text refers to an environment variable or a file."""
    return any(
        found[0] != "$${" and found[1].startswith(_SECRETS) for found in _REFERENCE.finditer(text)
    )


def shell_safe(values: Values) -> Values:
    """The values that need no quoting in a shell, because people copy command lines."""
    return {
        name: value
        for name, value in values.items()
        if not isinstance(value, str) or _SHELL_SAFE.fullmatch(value)
    }


def filled(raw: Any, values: Values, path: Path, report: Report, *, env: bool = False) -> Any:
    """Replace references in raw settings with values.

    Args:
        report: called for each reference that cannot be replaced.
        env: whether these are environment variables. Their references to secrets are resolved
            later, so values are escaped.
    """
    if isinstance(raw, Mapping):
        return {
            key: filled(each, values, (*path, key), report, env=env or key == "env")
            for key, each in raw.items()
        }
    if isinstance(raw, tuple):
        return tuple(
            filled(each, values, (*path, n), report, env=env) for n, each in enumerate(raw)
        )
    if not isinstance(raw, str):
        return raw
    whole = _REFERENCE.fullmatch(raw)
    if whole and whole[1] in values and not env:
        return values[whole[1]]
    try:
        return _REFERENCE.sub(lambda found: _replacement(found, values, env), raw)
    except ValueError as error:
        report(path, str(error))
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
    # Unknown names were reported when the file was read.
    return found[0]


PATTERNS = {
    "": "must be lower-case letters and digits, with '-' between words",
    "parameters": "must be lower-case letters, digits and '_', the first a letter",
    "principals": "must be TYPE:NAME, such as User:orders-app",
}
"""Descriptions of the patterns that texts must match, by a key above them."""
