"""What only a way back is asked: whoever looks from a link's source to its target refuses."""

from collections.abc import Sequence

from drctl.engine.returning import Owed, Reconciliation, Search
from drctl.model.errors import UsageError
from drctl.model.plan import Json

NO_WAY_BACK = "nothing is said of the other direction of this link"


class NoWayBack:
    """The part of `drctl.engine.ports.Look` that is about records of a cluster that returned."""

    __slots__ = ()

    def searched(self) -> Search:
        """Only a way back searches.

        Raises:
            UsageError: this is none.
        """
        raise UsageError(NO_WAY_BACK)

    def remnant(self) -> Search:
        """Only a way back fills a cluster anew.

        Raises:
            UsageError: this is none.
        """
        raise UsageError(NO_WAY_BACK)

    def reconciliation(self, wish: Json) -> Reconciliation:
        """Only a way back decides on records.

        Raises:
            UsageError: this is none.
        """
        raise UsageError(NO_WAY_BACK)

    def owed(self) -> Sequence[Owed]:
        """Only a way back settles what is owed.

        Raises:
            UsageError: this is none.
        """
        raise UsageError(NO_WAY_BACK)
