"""Whether a cluster that gave no answer may still be alive."""

from dataclasses import dataclass

from drctl.model.errors import Unreachable
from drctl.model.topology import Unavailable


class NotLetIn(Unreachable):
    """Somebody is there, and does not let drctl in: a wrong password, a certificate."""

    @property
    def kind(self) -> str:
        """For scripts it is no answer like any other."""
        return Unreachable.__name__


@dataclass(frozen=True, slots=True)
class Silent(Unavailable):
    """Nothing came back: nobody may be there."""


@dataclass(frozen=True, slots=True)
class Locked(Unavailable):
    """Somebody is there, and does not let drctl in."""
