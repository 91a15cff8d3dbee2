"""What a freeze leaves out, on both clusters."""

from collections.abc import Collection, Mapping

import pytest

from drctl.gap.freeze import FrozenTopic, freeze
from drctl.model.gap import NotCompared
from drctl.model.topology import PartitionOffsets, TopicPartition, TopicState, Unavailable
from tests.links import link

WHOLE = PartitionOffsets(0, 10, 10)
DARK = Unavailable("the partition has no leader")

Offsets = Mapping[int, PartitionOffsets | Unavailable]


class Cluster:
    """One topic of a cluster, as a reader shows it."""

    def __init__(self, name: str, offsets: Offsets) -> None:
        self.name = name
        self._offsets = offsets

    def topics(self, names: Collection[str]) -> dict[str, TopicState]:
        config = {"cleanup.policy": "delete"}
        return {name: TopicState(name, dict.fromkeys(self._offsets, 1), config) for name in names}

    def offsets(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, PartitionOffsets | Unavailable]:
        return {p: self._offsets[p.partition] for p in partitions}


def frozen(
    source: Offsets, target: Offsets, keeps_partitions: bool = True
) -> tuple[FrozenTopic | None, set[NotCompared]]:
    ends = Cluster("primary", source), Cluster("secondary", target)
    found = freeze(link(keeps_partitions=keeps_partitions), *ends, ["orders"])  # type: ignore[arg-type]
    return next(iter(found.topics), None), set(found.not_compared)


@pytest.mark.parametrize("dark", ["primary", "secondary"])
def test_a_partition_that_one_side_cannot_read_is_compared_on_neither(dark: str) -> None:
    sides = {"primary": {0: WHOLE, 1: WHOLE}, "secondary": {0: WHOLE, 1: WHOLE}}
    sides[dark] = {0: WHOLE, 1: DARK}  # type: ignore[dict-item]
    topic, left_out = frozen(sides["primary"], sides["secondary"])
    assert topic.source == topic.target == {0: WHOLE}
    assert left_out == {NotCompared("orders", 1, f"{dark}: the partition has no leader")}


@pytest.mark.parametrize("dark", ["primary", "secondary"])
def test_a_topic_compared_as_a_whole_needs_all_partitions(dark: str) -> None:
    sides = {"primary": {0: WHOLE, 1: WHOLE}, "secondary": {0: WHOLE, 1: WHOLE}}
    sides[dark] = {0: WHOLE, 1: DARK}  # type: ignore[dict-item]
    topic, left_out = frozen(sides["primary"], sides["secondary"], keeps_partitions=False)
    assert topic is None
    assert left_out == {
        NotCompared("orders", 1, f"{dark}: the partition has no leader"),
        NotCompared(
            "orders", None, "all partitions are compared together, and some are not readable"
        ),
    }


def test_partitions_of_only_one_cluster_are_kept() -> None:
    topic, left_out = frozen({0: WHOLE, 1: WHOLE}, {0: WHOLE, 2: WHOLE})
    assert (topic.source.keys(), topic.target.keys()) == ({0, 1}, {0, 2})
    assert not left_out


def test_records_hidden_by_an_open_transaction_on_the_target_are_listed() -> None:
    topic, left_out = frozen({0: WHOLE}, {0: PartitionOffsets(0, 7, 10)})
    assert topic.target == {0: PartitionOffsets(0, 7, 10)}
    (item,) = left_out
    assert (item.topic, item.partition) == ("orders", 0)
    assert "open transaction: 3 offsets" in item.reason


def test_records_arriving_during_the_wait_count_and_new_ones_do_not() -> None:
    source, target = {0: PartitionOffsets(0, 7, 10)}, {0: PartitionOffsets(0, 6, 6)}
    ends = Cluster("primary", source), Cluster("secondary", target)

    def stabilize() -> None:
        source[0], target[0] = PartitionOffsets(0, 12, 15), WHOLE

    found = freeze(link(keeps_partitions=True), *ends, ["orders"], stabilize)  # type: ignore[arg-type]
    assert found.topics[0].source == {0: WHOLE}
    assert found.topics[0].target == {0: WHOLE}


@pytest.mark.parametrize("later", [DARK, PartitionOffsets(0, 3, 3), PartitionOffsets(0, 7, 10)])
def test_undecided_records_stay_undecided_without_evidence(
    later: PartitionOffsets | Unavailable,
) -> None:
    before = PartitionOffsets(0, 7, 10)
    source: dict[int, PartitionOffsets | Unavailable] = {0: before}
    ends = Cluster("primary", source), Cluster("secondary", {0: WHOLE})
    stabilize = lambda: source.update({0: later})  # noqa: E731
    found = freeze(link(keeps_partitions=True), *ends, ["orders"], stabilize)  # type: ignore[arg-type]
    assert found.topics[0].source == {0: before}
