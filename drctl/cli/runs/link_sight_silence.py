"""That a source did not answer, so that not each step of a failover waits for it anew."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from drctl.model.errors import Unreachable
from drctl.model.finding import Status
from drctl.model.reachability import NotLetIn

if TYPE_CHECKING:
    from drctl.model.finding import Finding

REMEMBERED_S = 60.0
"""After so long it is asked anew whatever is wanted of it: it may be back."""

ALIVE = "source-alive"
"""The guard that asks it by itself."""


@dataclass(slots=True)
class Silence:
    """Asks a cluster whether it is there, and remembers for a while that it is not.

    A step that only wants to read from it is told at once. Whatever is decided because a cluster
    is dead rests on `ask`, which remembers nothing.

    Args:
        question: has it tell its id.
    """

    question: Callable[[], str]
    clock: Callable[[], float] = monotonic
    _said: Unreachable | None = field(default=None, init=False)
    _until: float = field(default=0.0, init=False)

    def ask(self) -> str:
        """Its id; it is asked now.

        Raises:
            NotLetIn: somebody is there, and does not let drctl in.
            Unreachable: it did not answer.
        """
        self._said = None
        try:
            return self.question()
        except NotLetIn:
            raise
        except Unreachable as silent:
            self._remember(silent)
            raise

    def expect(self) -> None:
        """See that it is worth asking something else.

        Raises:
            Unreachable: it did not answer, now or a while ago.
        """
        if self._said is not None and self.clock() < self._until:
            raise Unreachable(self._said.message, self._said.hint)
        try:
            self.ask()
        except NotLetIn:
            # One that does not let drctl in says so to every question, and is not slow to.
            return

    def hear(self, findings: "Iterable[Finding]") -> None:
        """Take note of what the guard says that asked it just now."""
        for each in findings:
            if each.check == ALIVE and each.status is Status.OK:
                self._remember(Unreachable(each.evidence))
            elif each.check == ALIVE:
                self._said = None

    def _remember(self, silent: Unreachable) -> None:
        self._said, self._until = silent, self.clock() + REMEMBERED_S
