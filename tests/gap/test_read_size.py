"""The estimated size of a read, from the middle of the largest partitions."""

from collections.abc import Mapping

from drctl.gap.analysis import PARTITIONS, RECORDS, sampled_bytes
from drctl.gap.comparison import Side
from drctl.model.topology import OffsetRange, Record, TopicPartition, Unavailable


class Source:
    """Records of 100 bytes at any offset."""

    def __init__(self, blind: bool = False) -> None:
        self.asked: Mapping[TopicPartition, int] = {}
        self.blind = blind

    def following(
        self, positions: Mapping[TopicPartition, int], number: int
    ) -> Mapping[TopicPartition, tuple[Record, ...] | Unavailable]:
        self.asked = positions
        if self.blind:
            return {place: Unavailable("no leader") for place in positions}
        record = Record(0, 0, 0, b"k" * 10, b"v" * 90)
        return dict.fromkeys(positions, (record,) * number)


def reads(partitions: int) -> dict[Side, dict[str, dict[int, tuple[OffsetRange, ...]]]]:
    ranges = {n: (OffsetRange(0, 10), OffsetRange(100, 300 + n)) for n in range(partitions)}
    return {Side.SOURCE: {"t": ranges}, Side.TARGET: {"t": {0: (OffsetRange(0, 50),)}}}


def test_the_mean_size_times_all_offsets() -> None:
    source = Source()
    assert sampled_bytes(source, reads(2)) == 100 * (210 + 211 + 50)  # type: ignore[arg-type]
    assert source.asked == {("t", 0): 200, ("t", 1): 200}


def test_few_of_many_partitions_are_sampled() -> None:
    source = Source()
    assert sampled_bytes(source, reads(500))  # type: ignore[arg-type]
    assert {place.partition for place in source.asked} == set(range(500 - PARTITIONS, 500))
    assert RECORDS * PARTITIONS < 200


def test_nothing_can_be_sampled() -> None:
    assert sampled_bytes(Source(blind=True), reads(2)) is None  # type: ignore[arg-type]
