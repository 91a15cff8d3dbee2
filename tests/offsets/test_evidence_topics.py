"""Which timestamp counts if its key is in several partitions."""

import pytest

from drctl.formats.consumer_timestamps import TOPIC, ConsumerTimestamp, encode_key, encode_value
from drctl.formats.consumer_timestamps import GroupPartition as Key
from drctl.model.topology import Row, TopicPartition
from drctl.model.translation import GroupPartition
from drctl.offsets.by_time import Consumed
from drctl.offsets.evidence_topics import EvidenceTopics
from tests.fakes import FakeCluster, FakeLog

KEY = encode_key(Key("app", "orders", 0))
WHOSE = GroupPartition("app", TopicPartition("orders", 0))


def noted(*, timestamp_ms: int | None, at_ms: int, offset: int = 0) -> Row:
    value = None if timestamp_ms is None else encode_value(ConsumerTimestamp(timestamp_ms))
    return offset, at_ms, KEY, value, ()


def cluster(name: str, *partitions: list[Row]) -> FakeCluster:
    logs = {TopicPartition(TOPIC, n): FakeLog(rows, len(rows)) for n, rows in enumerate(partitions)}
    return FakeCluster(logs, name)


def consumed(source: FakeCluster, target: FakeCluster) -> dict[GroupPartition, Consumed]:
    places = (source, source), (target, target)
    reader = EvidenceTopics(*places, lambda: None, mirrors=False)  # type: ignore[arg-type]
    return dict(reader.read(True, lambda _phase: None).consumed)


@pytest.mark.parametrize("newer", [0, 1])
def test_the_partition_written_last_counts(newer: int) -> None:
    rows = [noted(timestamp_ms=5, at_ms=10)], [noted(timestamp_ms=9, at_ms=20)]
    source = cluster("source", *(rows if newer else reversed(rows)))
    assert consumed(source, cluster("target")) == {WHOSE: Consumed(9, 20)}


def test_a_later_tombstone_removes_an_older_row() -> None:
    source = cluster(
        "source", [noted(timestamp_ms=None, at_ms=20)], [noted(timestamp_ms=5, at_ms=10)]
    )
    assert consumed(source, cluster("target")) == {}


def test_within_a_partition_the_later_record_counts_whatever_its_time() -> None:
    rows = [noted(timestamp_ms=9, at_ms=20), noted(timestamp_ms=5, at_ms=10, offset=1)]
    assert consumed(cluster("source", rows), cluster("target")) == {WHOSE: Consumed(5, 10)}


def test_the_newer_timestamp_of_both_clusters_counts() -> None:
    source = cluster("source", [noted(timestamp_ms=5, at_ms=10)])
    target = cluster("target", [noted(timestamp_ms=9, at_ms=20)])
    assert consumed(source, target) == {WHOSE: Consumed(9, 20)}
