"""What elections need from outside: a look at the cluster, and one call that changes it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from drctl.elections.sight import Sight
from drctl.model.topology import TopicPartition, Unavailable


class Kind(StrEnum):
    """What may be elected."""

    PREFERRED = "preferred"
    """The first replica, where it is in sync: nothing is lost."""
    UNCLEAN = "unclean"
    """Any living replica, whatever it lacks."""


@dataclass(frozen=True, slots=True)
class Declined(Unavailable):
    """The controller said no, and why."""


class ElectionReader(Protocol):
    """Looks at partitions and replicas; changes nothing."""

    def look(
        self, topics: Collection[str] | None, ends_of: Collection[TopicPartition] | None = None
    ) -> Sight:
        """These topics, or all of them.

        Args:
            ends_of: partitions whose replicas are asked where their own logs end; None asks those
                without a leader.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for connections of our own.
        """

    def ends_before(
        self, epochs: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Unavailable]:
        """Where, in the log of each partition's leader, the records up to an epoch end.

        Raises:
            Unreachable: no broker answered within the deadline.
        """


class ElectionWriter(Protocol):
    """Has leaders elected."""

    def elect(
        self, kind: Kind, places: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, Unavailable | None]:
        """Ask the controller; by partition None where it did, or why it did not.

        Raises:
            Unknown: no answer came; some may have been elected.
        """


class Clock(Protocol):
    """Time, and the wish to stop."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    def wait(self, seconds: float) -> None:
        """Return after this time, or as soon as somebody wants to stop."""

    @property
    def stopping(self) -> bool:
        """Whether somebody wants to stop."""
