"""Asks before something is written: the engineer types the name of what takes the writes."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TextIO

from drctl.cli import live_screen
from drctl.cli.console import console
from drctl.cli.terminal import is_terminal
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


_WORDS = {"yes": True, "no": False}


@dataclass(slots=True)
class People:
    """Whoever sits there.

    Attributes:
        given: answers from the command line, by question.
        terminal: whether somebody may be asked.
    """

    given: Mapping[str, bool]
    terminal: bool = False
    _said: dict[str, bool | None] = field(default_factory=dict, init=False)

    def answer(self, question: str, text: str) -> bool | None:
        """What a person says; None where nobody is there. The same question is asked once."""
        if question in self.given:
            return self.given[question]
        if question not in self._said:
            self._said[question] = _asked(text) if self.terminal else None
        return self._said[question]


def people() -> People:
    """Those of this terminal; what the command line answers is known once there is a plan."""
    attended = bool(sys.stdin and is_terminal(sys.stdin) and sys.stderr and is_terminal(sys.stderr))
    return People({}, attended)


def _asked(text: str) -> bool | None:
    with live_screen.paused():
        console().warn(f"{text}. Type yes when it is done, or no:")
        return _WORDS.get(sys.stdin.readline().strip().lower())
