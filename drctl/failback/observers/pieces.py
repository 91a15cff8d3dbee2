"""Reads partitions a piece at a time: however much there is, no more than that is held."""

from collections.abc import Iterator, Mapping
from itertools import islice

from drctl.model.errors import Unreachable
from drctl.model.ports import ClusterReader
from drctl.model.topology import Record, TopicPartition, Unavailable

AT_ONCE, _LEAST = 50_000, 1_000
"""So many records are asked for at once, of all partitions together; and so many of each."""

AT_A_LOOK = 1_000_000
"""So many offsets are looked through where somebody only looks: more of them take minutes."""


def in_pieces(
    reader: ClusterReader, wanted: Mapping[TopicPartition, range]
) -> Iterator[tuple[TopicPartition, tuple[Record, ...]]]:
    """The committed records at these offsets; those of a partition in their order.

    Raises:
        Unreachable: a partition could not be read.
    """
    waiting = {place: offsets.start for place, offsets in wanted.items() if offsets}
    while waiting:
        longest = max(wanted[place].stop - at for place, at in waiting.items())
        number = min(longest, max(_LEAST, AT_ONCE // len(waiting)))
        going_on: dict[TopicPartition, int] = {}
        for some in _portions(waiting, max(1, AT_ONCE // number)):
            for place, records in _read(reader, some, number):
                stop = wanted[place].stop
                yield place, tuple(record for record in records if record.offset < stop)
                if len(records) >= number and records[-1].offset + 1 < stop:
                    going_on[place] = records[-1].offset + 1
        waiting = going_on


def _portions(
    waiting: Mapping[TopicPartition, int], size: int
) -> Iterator[Mapping[TopicPartition, int]]:
    places = iter(waiting.items())
    while some := dict(islice(places, size)):
        yield some


def _read(
    reader: ClusterReader, since: Mapping[TopicPartition, int], number: int
) -> Iterator[tuple[TopicPartition, tuple[Record, ...]]]:
    for place, records in reader.following(since, number).items():
        if isinstance(records, Unavailable):
            raise Unreachable(f"{place} of {reader.name} cannot be read: {records.reason}")
        yield place, records
