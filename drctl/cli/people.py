"""Questions that a plan asks a person: on a terminal, or answered beforehand with --answer."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from drctl.cli.console import console
from drctl.cli.terminal import is_terminal
from drctl.model.errors import UsageError

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


def parse_answers(given: Iterable[str]) -> Mapping[str, bool]:
    """`QUESTION=yes` or `=no`, as typed.

    Raises:
        UsageError: it is neither.
    """
    found = {}
    for text in given:
        name, _, word = text.partition("=")
        if not name or word not in _WORDS:
            raise UsageError(f"--answer {text}: is no answer", "write --answer QUESTION=yes or =no")
        found[name] = _WORDS[word]
    return found


def people(given: Iterable[str]) -> People:
    """Those of this command line.

    Raises:
        UsageError: an answer is none.
    """
    attended = bool(sys.stdin and is_terminal(sys.stdin) and sys.stderr and is_terminal(sys.stderr))
    return People(parse_answers(given), attended)


def _asked(text: str) -> bool | None:
    console().warn(f"{text}. Type yes when it is done, or no:")
    return _WORDS.get(sys.stdin.readline().strip().lower())
