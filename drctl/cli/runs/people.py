"""Questions that a plan asks a person: on a terminal, or answered beforehand with --answer."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from drctl.cli.console import console
from drctl.cli.runs import live_screen
from drctl.cli.terminal import is_terminal

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
