"""What a `GroupWriter` may answer beside yes and no."""

from dataclasses import dataclass

from drctl.model.topology import Unavailable


@dataclass(frozen=True, slots=True)
class Unanswered(Unavailable):
    """No answer came after a write was sent: it may have happened, or may happen yet."""


@dataclass(frozen=True, slots=True)
class Occupied(Unavailable):
    """The coordinator refused: the group has members."""
