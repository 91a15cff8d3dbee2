"""Asks a step for its proof, until it is there or time is up."""

from collections.abc import Callable
from dataclasses import dataclass

from drctl.engine.kind import Seen, State
from drctl.engine.ports import Clock, Watcher
from drctl.model.errors import DrctlError, Fenced, Unknown

_PAUSE_S = 0.5

Sight = Callable[[], Seen]


class WantsToStop(Exception):
    """The engineer pressed Ctrl-C; effects are not begun any more."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Waits for proofs."""

    clock: Clock
    watcher: Watcher

    def wait_for(self, sight: Sight, step: str, seconds: float) -> Seen:
        """The last thing seen; done, failed, or what there was when time was up.

        Raises:
            WantsToStop: somebody wants to stop.
        """
        until = self.clock.monotonic() + seconds
        while True:
            seen = told(sight)
            left = until - self.clock.monotonic()
            if seen.state in (State.DONE, State.FAILED) or left <= 0:
                return seen
            if self.clock.stopping:
                raise WantsToStop
            self.watcher.waiting(step, seen.words, left)
            self.clock.wait(min(_PAUSE_S, left))


def told(sight: Sight) -> Seen:
    """What is seen; no answer is an answer, too."""
    try:
        return sight()
    except Fenced:
        # The link was taken by another run: nothing may be done any more.
        raise
    except Unknown as error:
        return Seen(State.UNKNOWN, error.message)
    except DrctlError as error:
        return Seen(State.FAILED, in_words(error))


def in_words(error: DrctlError) -> str:
    """What is true and what to do, in one line."""
    return f"{error.message}: {error.hint}" if error.hint else error.message
