"""A call requests no more records than can be read in time, for any number of partitions."""

from collections.abc import Mapping
from typing import cast

import pytest

from drctl.failback.observers.copies import AT_ONCE, in_chunks
from drctl.model.errors import Unreachable
from drctl.model.ports import ClusterReader
from drctl.model.topology import Record, TopicPartition, Unavailable


class Logs:
    """Partitions with a record at each offset, and more than any request asks for."""

    name = "secondary"

    def __init__(self, end: int, dark: int = -1) -> None:
        self.calls: list[int] = []
        self._end = end
        self._dark = dark

    def following(
        self, positions: Mapping[TopicPartition, int], number: int
    ) -> Mapping[TopicPartition, tuple[Record, ...] | Unavailable]:
        self.calls.append(len(positions) * number)
        return {
            place: Unavailable("no leader")
            if place.partition == self._dark
            else tuple(Record(0, n, n, None, None) for n in range(at, min(at + number, self._end)))
            for place, at in positions.items()
        }


def wanted(partitions: int, offsets: range) -> dict[TopicPartition, range]:
    return {TopicPartition("orders", n): offsets for n in range(partitions)}


@pytest.mark.parametrize(
    ("partitions", "length"), [(1, 70_000), (60, 1_500), (120, 40), (5_000, 3), (60_000, 1)]
)
def test_no_request_exceeds_the_read_limit(partitions: int, length: int) -> None:
    logs = Logs(length + 50)
    asked = wanted(partitions, range(20, 20 + length))
    found: dict[TopicPartition, list[int]] = {place: [] for place in asked}
    for place, records in in_chunks(cast(ClusterReader, logs), asked):
        found[place] += [record.offset for record in records]
    assert all(offsets == list(range(20, 20 + length)) for offsets in found.values())
    assert max(logs.calls) <= AT_ONCE
    assert len(logs.calls) <= 2 + 2 * partitions * length // AT_ONCE, "the chunks are too small"


def test_a_partition_that_cannot_be_read_is_named() -> None:
    logs = cast(ClusterReader, Logs(10, dark=60))
    with pytest.raises(Unreachable, match="orders-60 of secondary cannot be read: no leader"):
        list(in_chunks(logs, wanted(70, range(5))))
