"""Groups that have not read copies made by drctl.

On the target a copy follows newer records; on the source its original precedes them. A group that
has read the newer records but not the copy would skip the original.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from drctl.failback.observers.copies import in_chunks, original
from drctl.model.groups import Committed, Positions
from drctl.model.ports import ClusterReader
from drctl.model.text import plural
from drctl.model.topology import TopicPartition, Unavailable
from drctl.offsets.applying import Bounds, Wanted
from drctl.reconcile.policy import Action
from drctl.reconcile.progress import Key, Progress

MOST = 1_000_000
"""How many offsets are searched for copies; a group that lags more is not moved."""

CommittedOffsets = Mapping[str, Positions | Unavailable]
"""Committed offsets of groups on the target."""


class Copy(NamedTuple):
    """A copy on the target, and the offset of its original on the source."""

    offset: int
    original: int


class CopiedRecords(NamedTuple):
    """Copies that drctl made on the target and that groups may not have read.

    Attributes:
        last: by partition, the offset of the last copy; partitions without one are left out.
        copies: those that a group may not have read.
        too_far: partitions with too many offsets to search.
    """

    last: Mapping[TopicPartition, int]
    copies: Mapping[TopicPartition, Sequence[Copy]]
    too_far: frozenset[TopicPartition] = frozenset()


def last_copies(kept: Mapping[Key, Progress], source_id: str) -> dict[TopicPartition, int]:
    """By partition of the target, the offset of the last copy that drctl made there.

    Args:
        source_id: of the cluster that the originals are on.
    """
    found: dict[TopicPartition, int] = {}
    for key, progress in kept.items():
        for each in progress.segments:
            if key.source_id == source_id and each.action is Action.COPY and each.to_last >= 0:
                place = TopicPartition(each.to, key.record_set.place.partition)
                found[place] = max(each.to_last, found.get(place, -1))
    return found


def unread_from(
    last: Mapping[TopicPartition, int], committed: CommittedOffsets
) -> dict[TopicPartition, int]:
    """By partition, the lowest offset of a group that may not have read all copies in it."""
    found: dict[TopicPartition, int] = {}
    for positions in committed.values():
        if isinstance(positions, Unavailable):
            continue
        for place, at in positions.items():
            if at.offset <= last.get(place, -1):
                found[place] = min(at.offset, found.get(place, at.offset))
    return found


def find_copies(
    reader: ClusterReader,
    since: Mapping[TopicPartition, int],
    last: Mapping[TopicPartition, int],
    source_id: str,
    source_topic: Callable[[str], str] = lambda topic: topic,
) -> Mapping[TopicPartition, Sequence[Copy]]:
    """The copies from these offsets on, up to the last one.

    Args:
        source_topic: returns the name on the source of a target topic, if names differ.

    Raises:
        Unreachable: a partition could not be read.
    """
    found: dict[TopicPartition, list[Copy]] = {place: [] for place in since}
    for place, records in in_chunks(
        reader, {place: range(at, last[place] + 1) for place, at in since.items()}
    ):
        source_place = TopicPartition(source_topic(place.topic), place.partition)
        found[place] += (
            Copy(record.offset, at)
            for record in records
            if (at := original(record, source_id, source_place)) is not None
        )
    return found


def held_back(
    wanted: Iterable[Wanted],
    committed: CommittedOffsets,
    copied: CopiedRecords,
    copy_of: Callable[[str], str | None] = lambda topic: topic,
) -> tuple[Wanted, ...]:
    """Reduce target offsets so that no group skips an original that it has not read.

    Args:
        copy_of: returns the name on the target of a source topic, if names differ.
    """
    places = ((each, each.partition.topic, each.partition.partition) for each in wanted)
    return tuple(
        _held_back(each, TopicPartition(copy_of(topic) or topic, number), committed, copied)
        for each, topic, number in places
    )


def _held_back(
    each: Wanted, place: TopicPartition, committed: CommittedOffsets, copied: CopiedRecords
) -> Wanted:
    if each.to is None or place not in copied.last:
        return each
    positions = committed.get(each.group, Unavailable("its offsets were not read"))
    if isinstance(positions, Unavailable):
        why = f"cannot tell whether it has read reconciled records: {positions.reason}"
        return replace(each, blocked=why)
    at = positions.get(place)
    if at is None:
        return each
    if place in copied.too_far:
        why = (
            "it may not have read reconciled records and lags by more than"
            f" {plural(MOST, 'offset')}"
        )
        return replace(each, blocked=why)
    unread = [c.original for c in copied.copies.get(place, ()) if c.offset >= at.offset]
    first = min(unread, default=each.to.offset)
    if first >= each.to.offset:
        return each
    more = each.to.offset - first
    known = each.bounds.rereads_at_most if each.bounds else 0
    rereads = None if known is None else known + more
    return replace(each, to=Committed(first), bounds=Bounds(rereads, 0))
