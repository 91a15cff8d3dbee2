"""Consumer groups and what they have committed, as their cluster tells it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from drctl.model.topology import TopicPartition, Unavailable


class GroupCreator(Protocol):
    """Makes groups known as groups of the protocol of KIP-848."""

    def create(self, names: Collection[str]) -> Mapping[str, Unavailable | None]:
        """Make each known, and leave it empty; by group None where it is, or why it is not.

        Nothing is subscribed to, read or committed; what was committed stays. Repeated, it changes
        nothing. An empty group without positions is forgotten after some minutes: set them next.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for this.
        """


OFFSETS_TOPIC = "__consumer_offsets"
"""The leaders of its partitions are the coordinators of groups; without one, its groups are gone
from every list, and their positions answer nobody."""


class GroupProtocol(StrEnum):
    """How a group's members agree on who reads what; the names are Kafka's group types."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    """KIP-848."""
    SHARE = "share"
    """KIP-932: its positions are no committed offsets."""
    STREAMS = "streams"
    UNKNOWN = "unknown"


class GroupState(StrEnum):
    """What a group does; the names are Kafka's, in lower case."""

    EMPTY = "empty"
    DEAD = "dead"
    STABLE = "stable"
    PREPARING = "preparing-rebalance"
    COMPLETING = "completing-rebalance"
    ASSIGNING = "assigning"
    RECONCILING = "reconciling"
    UNKNOWN = "unknown"


class Member(NamedTuple):
    """Who reads in a group."""

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
        """Whether somebody may be reading in it; also where nobody knows."""
        return bool(self.members) or self.state not in {GroupState.EMPTY, GroupState.DEAD}


class Committed(NamedTuple):
    """A group's position in one partition.

    Attributes:
        offset: of the next record that the group wants.
        leader_epoch: of the last consumed record; -1 where the client gave none.
        metadata: what the client wrote beside it.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


Positions = Mapping[TopicPartition, Committed]
"""Of one group; a partition in which it has none is left out."""


@dataclass(frozen=True, slots=True)
class GroupActive(Unavailable):
    """The coordinator refused to move an offset: the group has members."""
