"""What came to the target since the gap analysis, as far as it stands against a plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from drctl.model.topology import TopicPartition


@dataclass(frozen=True, slots=True)
class Grown:
    """By partition of the source.

    Attributes:
        offsets: how many offsets came to the partitions that were looked at.
        waiting: how many of them lie behind open transactions, and were not looked at yet.
        there: the first record that was missing, and is on the target by now.
        newer: how many records that were safe to copy are behind something newer by now.
        unread: why what came could not be looked through.
        more: whether `newer` may be more: too much came to count it.
    """

    offsets: int = 0
    waiting: int = 0
    there: Mapping[TopicPartition, int] = field(default_factory=dict)
    newer: Mapping[TopicPartition, int] = field(default_factory=dict)
    unread: Mapping[TopicPartition, str] = field(default_factory=dict)
    more: bool = False

    def __add__(self, other: "Grown") -> "Grown":
        """Of other partitions, too."""
        return Grown(
            self.offsets + other.offsets,
            self.waiting + other.waiting,
            {**self.there, **other.there},
            {**self.newer, **other.newer},
            {**self.unread, **other.unread},
            self.more or other.more,
        )
