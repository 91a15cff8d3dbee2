"""Where the records of a leader's epoch end in the log of another leader (KIP-101)."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from drctl.wire.broker_requests import NO_TAGS, Api, compact_array, each
from drctl.wire.cursor import Cursor
from drctl.wire.primitives import compact_string, int32

EPOCH_ENDS = Api("OffsetForLeaderEpoch", 23, 4, True, "2.8")

_CONSUMER = -1
_ANY_EPOCH = -1


class EpochEnd(NamedTuple):
    """One partition's answer.

    Attributes:
        error: Kafka's number; 0 where there is none.
        epoch: the newest one, up to that which was asked for, of which there are records.
        end: the first offset behind it.
    """

    topic: str
    partition: int
    error: int
    epoch: int
    end: int


def ask_epoch_ends(epochs: Mapping[str, Iterable[tuple[int, int]]]) -> bytes:
    """Ask leaders, by topic, for pairs of a partition and an epoch."""
    topics = (
        compact_string(topic)
        + compact_array(
            int32(number) + int32(_ANY_EPOCH) + int32(epoch) + NO_TAGS for number, epoch in pairs
        )
        + NO_TAGS
        for topic, pairs in epochs.items()
    )
    return int32(_CONSUMER) + compact_array(topics) + NO_TAGS


def read_epoch_ends(cursor: Cursor) -> tuple[EpochEnd, ...]:
    """The ends.

    Raises:
        Undecodable: it is no such answer.
    """
    cursor.int32()
    topics = each(cursor, _topic)
    cursor.tags()
    cursor.end()
    return tuple(row for rows in topics for row in rows)


def _topic(cursor: Cursor) -> tuple[EpochEnd, ...]:
    topic = cursor.compact_string()
    rows = each(cursor, lambda inner: _partition(topic, inner))
    cursor.tags()
    return rows


def _partition(topic: str, cursor: Cursor) -> EpochEnd:
    error, number = cursor.int16(), cursor.int32()
    epoch, end = cursor.int32(), cursor.int64()
    cursor.tags()
    return EpochEnd(topic, number, error, epoch, end)
