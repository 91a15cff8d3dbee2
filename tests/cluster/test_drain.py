"""Missing records after a fence on real clusters: found cheaply, then verified by content once."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from drctl.app.gap import GapRuns
from drctl.app.link_reader import ClusterLinkReader
from drctl.config.loading import load
from drctl.engine.ports import Missing
from drctl.kafka.log_reader import KafkaRangeReader
from drctl.model.gap import GapResult
from drctl.model.topology import Chunk, Record, TopicPartition, TopicRanges
from drctl.steps.waiting import Drain, DrainIntent
from tests.cluster.groups import commit_offsets
from tests.cluster.link_command import soon
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

Look = Callable[..., ClusterLinkReader]
Compared = list[frozenset[TopicPartition]]


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Compared:
    """The partitions of each comparison."""
    made, answer = Compared(), GapRuns.answer

    def noted(runs: GapRuns) -> GapResult:
        made.append(frozenset(runs.options.only or ()))
        return answer(runs)

    monkeypatch.setattr(GapRuns, "answer", noted)
    return made


@pytest.fixture
def look(lab_yaml: Callable[..., Path]) -> Iterator[Look]:
    """Open the reader of a link with one topic; MirrorMaker 2 replicates it by default."""
    with ExitStack() as opened:

        def make(topic: str, **replicator: object) -> ClusterLinkReader:
            config = load(lab_yaml(topic))
            link = config.link("main")
            changed = link.settings.replicator.model_copy(update=replicator)
            settings = link.settings.model_copy(update={"replicator": changed})
            return opened.enter_context(
                ClusterLinkReader(
                    config, replace(link, settings=settings), lambda _reader, _mode: ()
                )
            )

        yield make


def records(numbers: range, partitions: int) -> list[Record]:
    now_ms = int(time.time() * 1000)
    return [Record(n % partitions, 0, now_ms, b"k", b"%d" % n) for n in numbers]


def await_missing(reader: ClusterLinkReader, wanted: Missing) -> None:
    found: list[Missing] = []

    def seen() -> bool:
        found.append(reader.missing())
        return found[-1] == wanted

    soon(seen, found)


def test_records_that_mirror_maker_copies_are_awaited_and_compared_once(
    look: Look, compared: Compared, new_topic: NewTopic, primary: ClusterUnderTest
) -> None:
    topic = new_topic(2, mirrored=True, on=("primary",))
    primary.produce(topic, records(range(60), 2))
    reader = look(topic)
    await_missing(reader, Missing(0))
    compared.clear()
    assert [reader.missing() for _ in range(3)] == [Missing(0)] * 3
    assert compared == []
    primary.produce(topic, records(range(60, 70), 1))
    await_missing(reader, Missing(0))
    assert set(compared) == {frozenset({TopicPartition(topic, 0)})}


def test_idle_partitions_are_compared_before_the_fence(
    look: Look,
    compared: Compared,
    new_topic: NewTopic,
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
) -> None:
    topic = new_topic(2)
    written, both = records(range(60), 2), (primary, secondary)
    for cluster in both:
        cluster.produce(topic, written)
    reader = look(topic, kind="none")
    reader.compare_ahead()
    assert compared == [frozenset(TopicPartition(topic, n) for n in range(2))]
    compared.clear()
    assert reader.missing() == Missing(0)
    assert compared == []
    written = records(range(60, 70), 1)
    for cluster in both:
        cluster.produce(topic, written)
    await_missing(reader, Missing(0))
    assert set(compared) == {frozenset({TopicPartition(topic, 0)})}


def test_only_offsets_that_moved_are_translated_again(
    look: Look,
    new_topic: NewTopic,
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = new_topic(2)
    written, both = records(range(60), 2), (primary, secondary)
    for cluster in both:
        cluster.produce(topic, written)
    group, read, scan = f"orders-app-{topic}", set[int](), KafkaRangeReader.read

    def noted(reader: KafkaRangeReader, ranges: TopicRanges, **more: bool) -> Iterator[Chunk]:
        read.update(ranges.get(topic, ()))
        return scan(reader, ranges, **more)

    monkeypatch.setattr(KafkaRangeReader, "read", noted)

    def offsets() -> dict[int, int]:
        read.clear()
        wanted = (row for row in reader.translated().wanted if row.group == group)
        return {row.partition.partition: row.to.offset for row in wanted if row.to}

    commit_offsets(primary, topic, {group: {0: 5, 1: 7}})
    reader = look(topic, kind="none")
    assert offsets() == {0: 5, 1: 7}
    assert read == {0, 1}
    assert offsets() == {0: 5, 1: 7}
    assert read == set()
    commit_offsets(primary, topic, {group: {0: 6}})
    assert offsets() == {0: 6, 1: 7}
    assert read == {0}
    written = records(range(61, 62), 2)
    for cluster in both:
        cluster.produce(topic, written)
    assert offsets() == {0: 6, 1: 7}
    assert read == {1}


def test_records_that_are_never_copied_are_named_for_each_replicator(
    look: Look,
    compared: Compared,
    new_topic: NewTopic,
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
) -> None:
    topic = new_topic(2)
    written = records(range(60), 2)
    primary.produce(topic, written)
    secondary.produce(topic, [r for r in written if r.value != b"31"])
    reader, missing = look(topic, kind="none"), Missing(1, (), (f"{topic}-1: 1 missing",))
    await_missing(reader, missing)
    compared.clear()
    assert reader.missing() == missing
    assert compared == []


def test_an_open_transaction_is_awaited(
    look: Look, new_topic: NewTopic, primary: ClusterUnderTest, secondary: ClusterUnderTest
) -> None:
    topic = new_topic(1)
    written = records(range(20), 1)
    for cluster in (primary, secondary):
        cluster.produce(topic, written)
    reader = look(topic, kind="none")
    await_missing(reader, Missing(0))
    primary.produce(topic, records(range(20, 23), 1), ending="open")
    left_out = f"{topic}-0: 3 offsets follow an open transaction: commit or abort it on the source"
    try:
        soon(lambda: left_out in reader.missing().not_compared)
        seen = Drain().verify(DrainIntent(source="primary"), reader)
        named = rf"open on primary: {topic}-0 \(transactional id test-\d+, producer id \d+, epoch"
        assert re.search(
            rf"{named} \d+, open since offset 20, last record \d+ s ago\)", seen.message
        )
    finally:
        primary.close()
