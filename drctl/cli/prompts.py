"""Asks for confirmation: the engineer types the name of the cluster that is written to."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TextIO

from drctl.cli import live_screen
from drctl.cli.console import console
from drctl.cli.terminal import is_terminal
from drctl.model.errors import Refused

_INSTEAD = "run the command in a terminal and type the cluster's name, or pass --yes"


def confirm(cluster: str, what: str, *, yes: bool) -> None:
    """Ask for the name of the cluster before a write.

    Args:
        cluster: the name to type.
        what: description of the write.
        yes: whether --yes was given.

    Raises:
        Refused: another name was typed, or there is no terminal.
    """
    if yes:
        return
    if not (_attended(sys.stdin) and _attended(sys.stderr)):
        raise Refused(f"not confirmed: write to cluster {cluster}: {what}", _INSTEAD)
    console().warn(
        f"this writes to cluster {cluster}: {what}. Type the cluster's name to continue:"
    )
    typed = sys.stdin.readline().strip()
    if typed != cluster:
        raise Refused(
            f"not confirmed: typed {typed!r} instead of {cluster!r}; nothing was written", _INSTEAD
        )


def _attended(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


_WORDS = {"yes": True, "no": False}


@dataclass(slots=True)
class Prompts:
    """Answers to questions of manual steps.

    Attributes:
        given: answers from --answer, by question.
        terminal: whether questions can be asked on a terminal.
    """

    given: Mapping[str, bool]
    terminal: bool = False
    _typed: dict[str, bool | None] = field(default_factory=dict, init=False)

    def answer(self, question: str, text: str) -> bool | None:
        """The answer, or None without a terminal. Each question is asked once."""
        if question in self.given:
            return self.given[question]
        if question not in self._typed:
            self._typed[question] = _asked(text) if self.terminal else None
        return self._typed[question]


def prompts() -> Prompts:
    """Prompts on this terminal; answers of the command line are added once there is a plan."""
    attended = bool(sys.stdin and is_terminal(sys.stdin) and sys.stderr and is_terminal(sys.stderr))
    return Prompts({}, attended)


def _asked(text: str) -> bool | None:
    with live_screen.paused():
        console().warn(f"{text}. Type yes to confirm, otherwise no:")
        return _WORDS.get(sys.stdin.readline().strip().lower())
