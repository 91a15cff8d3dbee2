"""Asks before something is written: the engineer types the name of what takes the writes."""

import sys
from typing import TextIO

from drctl.cli.console import console
from drctl.model.errors import Refused

_INSTEAD = "on a terminal its name is asked for; in a script, --yes stands for the typing"


def confirm(cluster: str, what: str, *, yes: bool) -> None:
    """Go on only if somebody said so, in full.

    Args:
        cluster: the name that has to be typed.
        what: is about to be written there, in words for a person.
        yes: whether the command line said so already.

    Raises:
        Refused: another name was typed, or nobody is there to type it.
    """
    if yes:
        return
    if not (_attended(sys.stdin) and _attended(sys.stderr)):
        raise Refused(f"nobody confirmed writing to cluster {cluster}: {what}", _INSTEAD)
    console().warn(f"this writes to cluster {cluster}: {what}. Type the cluster's name to go on:")
    typed = sys.stdin.readline().strip()
    if typed != cluster:
        raise Refused(f"{typed!r} is not {cluster!r}: nothing was written", _INSTEAD)


def _attended(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()
