"""Lengths of time on the command line: `90s`, `5m`, `2h`, `1d`; a bare number is seconds."""

import re

import typer

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|)")


def seconds(text: str) -> float:
    """How many seconds a length of time has.

    Raises:
        typer.BadParameter: it is none, or has no length.
    """
    found = _DURATION.fullmatch(text.strip())
    length = float(found[1]) * _SECONDS[found[2]] if found else 0
    if length <= 0:
        raise typer.BadParameter(f"{text!r} is no length of time; write 90s, 5m, 2h or 1d")
    return length
