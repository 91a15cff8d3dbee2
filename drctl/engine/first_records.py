"""The first records behind some offsets: what travels, without drctl's copies, and what came."""

from collections.abc import Collection, Mapping

from drctl.engine.returning import Offsets
from drctl.model.errors import Unreachable
from drctl.model.ports import ClusterReader
from drctl.model.topology import Record, TopicPartition, Unavailable
from drctl.wire.provenance import HEADER

_AT_ONCE = 500
_TIMES = 200

KEY, VALUE, TIMESTAMP = "key", "value", "timestamp"
FIELDS = (KEY, VALUE, TIMESTAMP)
"""What of a record tells it from others; names as of a link's `identity`. Headers may be added on
the way."""

Firsts = Mapping[TopicPartition, Record]
"""Without the partitions that have none."""


def first_records(site: ClusterReader, since: Offsets) -> Firsts:
    """The first record of each partition, at or behind its offset.

    Raises:
        Unreachable: a partition could not be read.
    """
    return {place: found[0] for place, found in records_from(site, since, 1).items() if found}


def first_new_records(site: ClusterReader, since: Offsets) -> Firsts:
    """The same, where drctl's own copies are passed over.

    Raises:
        Unreachable: a partition could not be read, or holds copies without end.
    """
    found: dict[TopicPartition, Record] = {}
    waiting = dict(since)
    for time in range(_TIMES):
        if not waiting:
            return found
        going_on = {}
        # Copies come behind what is new: of nearly all partitions one record tells.
        for place, records in records_from(site, waiting, _AT_ONCE if time else 1).items():
            new = next((each for each in records if not is_copy(each)), None)
            if new is not None:
                found[place] = new
            elif records:
                going_on[place] = records[-1].offset + 1
        waiting = going_on
    raise Unreachable(f"{next(iter(waiting))} of {site.name} holds too many copies to look through")


def is_copy(record: Record) -> bool:
    """Whether a filter of Connect takes it for one that drctl brought: it sees but the header."""
    return any(name == HEADER for name, _ in record.headers)


def same_record(one: Record, other: Record, fields: Collection[str] = FIELDS) -> bool:
    """Whether one is a copy of the other, by these fields; their offsets differ.

    Args:
        fields: some of `FIELDS`.
    """
    return _told_by(one, fields) == _told_by(other, fields)


def _told_by(record: Record, fields: Collection[str]) -> tuple[object, ...]:
    known = {KEY: record.key, VALUE: record.value, TIMESTAMP: record.timestamp_ms}
    return tuple(known[name] for name in FIELDS if name in fields)


def records_from(
    site: ClusterReader, since: Offsets, number: int
) -> Mapping[TopicPartition, tuple[Record, ...]]:
    """So many records of each partition, at or behind its offset.

    Raises:
        Unreachable: a partition could not be read.
    """
    if not since:
        return {}
    found: dict[TopicPartition, tuple[Record, ...]] = {}
    for place, records in site.following(since, number).items():
        if isinstance(records, Unavailable):
            raise Unreachable(f"{place} of {site.name} cannot be read: {records.reason}")
        found[place] = records
    return found
