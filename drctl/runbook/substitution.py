"""`${parameter}` in the settings of a step: replaced by the value, once, and never evaluated."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from drctl.config.problems import Path
from drctl.runbook.parameters import Values, as_text

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
        return _REFERENCE.sub(lambda found: _text(found, values, env), raw)
    except ValueError as error:
        wrong(path, str(error))
        return raw


def _text(found: re.Match[str], values: Values, env: bool) -> str:
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
