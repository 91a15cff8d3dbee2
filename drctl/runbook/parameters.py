"""Parameters of a runbook: what was given, as its type says; never evaluated."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from drctl.config.problems import did_you_mean, escaped, one_of, quoted
from drctl.engine.sequences.circumstances import Circumstances
from drctl.model.errors import UsageError
from drctl.model.lines import lines
from drctl.runbook.durations import seconds
from drctl.runbook.schema import ParameterConfig, ParameterType

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
    complaints = [*_strangers(declared, given)]
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
        raise ValueError(f"must be {_WORDS[parameter.type]}")
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


def _strangers(declared: Mapping[str, ParameterConfig], given: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(given.keys() - declared.keys()):
        known = tuple(declared)
        near = did_you_mean(name, known) or (f"there are {one_of(known)}" if known else "")
        yield f"{escaped(name)} is no parameter of this runbook; {near or 'it has none'}"


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
_WORDS: Mapping[ParameterType, str] = {
    "string": "text: write it in quotes",
    "integer": "a whole number",
    "number": "a number",
    "duration": "a length of time such as 90s, 5m, 2h or 1d",
    "boolean": "true or false",
    "choice": "text: write it in quotes",
    "list": "a list of texts",
}
