"""Consumer groups and their committed offsets."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from drctl.model.topology import TopicPartition, Unavailable


class GroupCreator(Protocol):
    """Creates KIP-848 groups."""

    def create(self, names: Collection[str]) -> Mapping[str, Unavailable | None]:
        """Create empty groups; for each group, return None or why it failed.

        Idempotent; committed offsets are kept. Brokers delete an empty group without offsets after
        some minutes, so commit offsets next.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for this.
        """


OFFSETS_TOPIC = "__consumer_offsets"
"""The leaders of this topic's partitions coordinate the groups; groups of a leaderless partition
are not listed, and their offsets cannot be read."""


class GroupProtocol(StrEnum):
    """How a group's members agree on who reads what; the names are Kafka's group types."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    """KIP-848."""
    SHARE = "share"
    """KIP-932: has no committed offsets."""
    STREAMS = "streams"
    UNKNOWN = "unknown"


class GroupState(StrEnum):
    """The state of a group; Kafka's names in lower case."""

    EMPTY = "empty"
    DEAD = "dead"
    STABLE = "stable"
    PREPARING = "preparing-rebalance"
    COMPLETING = "completing-rebalance"
    ASSIGNING = "assigning"
    RECONCILING = "reconciling"
    UNKNOWN = "unknown"


class Member(NamedTuple):
    """A member of a group."""

    client_id: str
    host: str


@dataclass(frozen=True, slots=True)
class Group:
    """A group as its coordinator describes it.

    Attributes:
        members: as far as the coordinator knows; never complete for a group that rebalances.
    """

    name: str
    protocol: GroupProtocol
    state: GroupState
    members: tuple[Member, ...] = ()

    @property
    def active(self) -> bool:
        """Whether the group has, or may have, active members."""
        return bool(self.members) or self.state not in {GroupState.EMPTY, GroupState.DEAD}


class Committed(NamedTuple):
    """A committed offset.

    Attributes:
        offset: offset of the next record to consume.
        leader_epoch: leader epoch of the last consumed record; -1 if not committed.
        metadata: the client's commit metadata.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


Positions = Mapping[TopicPartition, Committed]
"""The committed offsets of one group; partitions in which it has none are left out."""


@dataclass(frozen=True, slots=True)
class GroupActive(Unavailable):
    """The coordinator refused to move an offset: the group has members."""
