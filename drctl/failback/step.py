"""A step of the way back, and what was seen of it."""

from dataclasses import dataclass
from enum import StrEnum


class Observed(StrEnum):
    """Whether a step has happened, as seen on the clusters."""

    DONE = "done"
    NOT_DONE = "not-done"
    UNKNOWN = "unknown"
    """Not visible from outside, or nobody answered: never a guess."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What an observer says.

    Attributes:
        why: in words for a tired engineer.
        begun: whether some of the step has happened, though it is not done.
    """

    observed: Observed
    why: str
    begun: bool = False

    @property
    def happened(self) -> bool:
        """Whether all or some of it has."""
        return self.begun or self.observed is Observed.DONE


def done(why: str) -> Seen:
    """It has happened."""
    return Seen(Observed.DONE, why)


def not_done(why: str, *, begun: bool = False) -> Seen:
    """It has not, or not all of it."""
    return Seen(Observed.NOT_DONE, why, begun)


def unknown(why: str, *, begun: bool = False) -> Seen:
    """Nobody can see it from here."""
    return Seen(Observed.UNKNOWN, why, begun)
