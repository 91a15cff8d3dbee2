"""Asks a source that is given up all the while, so that no step has to wait for it in line."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Thread
from time import monotonic

from drctl.model.errors import DrctlError

FRESH_S = 3.0
"""How old the last answer may be, or the last time that none came, for a decision to rest on it."""

_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class _Said:
    """What a question came to; it ended at `at`."""

    at: float
    error: DrctlError | None


class SourceWatch:
    """Asks in a thread of its own, again and again, until it is closed.

    Args:
        ask: sees whether it is there, by a client of its own; has a deadline.
    """

    def __init__(self, ask: Callable[[], None], clock: Callable[[], float] = monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._changed = Condition()
        self._said: _Said | None = None
        self._over = False
        # A question that never ends must not keep the process from ending.
        Thread(target=self._watch, name="source-watch", daemon=True).start()

    def newest(self, fresh_s: float = FRESH_S) -> None:
        """Return where it is there, by the newest question that ended within this time.

        Raises:
            NotLetIn: somebody is there, and does not let drctl in.
            Unreachable: it did not answer.
            ConfigError: it cannot be asked.
        """
        since = self._clock() - fresh_s
        with self._changed:
            while (said := self._said) is None or said.at < since:
                self._changed.wait(0.2)
        if said.error is not None:
            raise said.error

    def close(self) -> None:
        """Ask no more."""
        self._over = True

    def _watch(self) -> None:
        while not self._over:
            error: DrctlError | None = None
            try:
                self._ask()
            except DrctlError as said:
                error = said
            with self._changed:
                self._said = _Said(self._clock(), error)
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._over, _PAUSE_S)
