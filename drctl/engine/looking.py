"""Asks a step for its proof, until it is there or time is up."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, repeat

from drctl.engine.kind import Seen, State
from drctl.engine.ports import Clock, Watcher
from drctl.model.errors import DrctlError, Fenced, Unknown

_PAUSES_S = (0.125, 0.125, 0.25, 0.5)
"""Between looks; what comes soon is seen soon, for clients may wait for it."""

AGAIN_S = 2.0
"""For so long is looked whether something was done all the same that was complained of."""

Sight = Callable[[], Seen]

_SETTLED = frozenset({State.DONE, State.FAILED})
_TOLD = _SETTLED | {State.WAITING}


def nobody_asks() -> None:
    """Nothing has to hold while one waits."""


class WantsToStop(Exception):
    """The engineer pressed Ctrl-C; effects are not begun any more."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Waits for proofs.

    Args:
        held: is asked while one waits; raises Fenced where this run may not go on any more.
    """

    clock: Clock
    watcher: Watcher
    held: Callable[[], None] = nobody_asks

    def wait_for(self, sight: Sight, step: str, seconds: float) -> Seen:
        """The last thing seen; done, failed, or what there was when time was up.

        Raises:
            Fenced: another run took the link.
            WantsToStop: somebody wants to stop.
        """
        return self._wait(sight, step, seconds, _SETTLED)

    def wait_for_word(self, sight: Sight, step: str, seconds: float) -> Seen:
        """The first thing seen; only no answer is waited for to become one.

        Raises:
            Fenced: another run took the link.
            WantsToStop: somebody wants to stop.
        """
        return self._wait(sight, step, seconds, _TOLD)

    def wait_shortly(self, sight: Sight, step: str, soon_s: float, seconds: float) -> Seen:
        """As `wait_for` for so long; from then on only no answer is waited for to become one.

        Raises:
            Fenced: another run took the link.
            WantsToStop: somebody wants to stop.
        """
        seen = self.wait_for(sight, step, min(soon_s, seconds))
        if seen.state is State.UNKNOWN:
            return self.wait_for_word(sight, step, seconds)
        return seen

    def _wait(self, sight: Sight, step: str, seconds: float, enough: frozenset[State]) -> Seen:
        until = self.clock.monotonic() + seconds
        pauses = chain(_PAUSES_S, repeat(_PAUSES_S[-1]))
        while True:
            seen = told(sight)
            left = until - self.clock.monotonic()
            if seen.state in enough or left <= 0:
                return seen
            self.held()
            if self.clock.stopping:
                raise WantsToStop
            self.watcher.waiting(step, seen.words, left)
            self.clock.wait(min(next(pauses), left))


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
