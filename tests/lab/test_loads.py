"""Loads: the cluster has every record that they report as acknowledged."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, TopicPartition

from drctl.lab.lab import Lab
from drctl.lab.loading import flights
from drctl.lab.loads import Loads, in_words
from drctl.lab.waiting import Patience
from drctl.model.errors import Refused, Unreachable
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import QUIET, ClusterUnderTest

pytestmark = pytest.mark.jvm


@pytest.fixture
def loads(lab: Lab) -> Iterator[Loads]:
    opened = Loads(lab)
    yield opened
    if opened.state("primary").running:
        opened.stop("primary")


def logged(path: str, topic: str) -> list[dict[str, Any]]:
    text = Path(path).read_text(encoding="ascii")
    lines = text[: text.rfind("\n") + 1].splitlines()  # the last line may be half written yet
    return [entry for entry in map(json.loads, lines) if entry["topic"] == topic]


def stored(cluster: ClusterUnderTest, topic: str) -> dict[tuple[int, int], tuple[Any, Any, int]]:
    """Return key, value and timestamp of each record by offset."""
    ends = cluster.end_offsets(topic)
    consumer = Consumer({**cluster.properties(), "group.id": "tests-never-joined"}, logger=QUIET)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
    found: dict[tuple[int, int], tuple[Any, Any, int]] = {}

    def whole() -> bool:
        for message in consumer.consume(10_000, timeout=1):
            assert message.error() is None
            place = cast(tuple[int, int], (message.partition(), message.offset()))
            found[place] = (message.key(), message.value(), message.timestamp()[1])
        return len(found) >= sum(ends.values())

    assert Patience.of(60).wait_until(whole)
    consumer.close()
    return found


def test_every_acknowledged_row_is_at_its_offset(
    loads: Loads, new_topic: NewTopic, primary: ClusterUnderTest
) -> None:
    topic = new_topic(4, mirrored=True, on=("primary",))
    state = loads.run(loads.spec(topic=topic, count=500))
    assert state.last is not None
    assert (state.last.acknowledged, state.last.failed) == (500, 0)
    assert "not running" in in_words(state)
    acks = logged(state.acks, topic)
    rows = {row.number: (row.key, row.value, row.timestamp_ms) for row in flights(count=500)}
    expected = {(ack["partition"], ack["offset"]): rows[ack["row"]] for ack in acks}
    assert sorted(ack["row"] for ack in acks) == list(range(500))
    assert stored(primary, topic) == expected


def test_the_next_load_continues_after_the_last(
    loads: Loads, new_topic: NewTopic, secondary: ClusterUnderTest
) -> None:
    topic = new_topic(1, mirrored=True)
    loads.run(loads.spec(topic=topic, start=40, count=5))
    spec = loads.spec("secondary", topic, count=5)
    assert spec.start == 45
    loads.run(spec)
    assert secondary.end_offsets(topic)[0] >= 5
    with pytest.raises(Refused, match="no flights from record 336776 on"):
        loads.run(loads.spec(topic=topic, start=336_776))


@pytest.mark.nightly
def test_a_background_load_outlives_a_dead_broker(
    lab: Lab, loads: Loads, new_topic: NewTopic, primary: ClusterUnderTest
) -> None:
    topic = new_topic(4, mirrored=True, on=("primary",))
    state = loads.start(loads.spec(topic=topic, rate=400))
    assert state.running
    with pytest.raises(Refused, match="a load to primary is already running"):
        loads.start(loads.spec(topic=topic))
    lab.signal("primary", signal.SIGKILL)
    with pytest.raises(Unreachable, match=r"could not create topic .* on primary") as caught:
        loads.run(loads.spec(topic=topic, count=1))
    assert "drctl lab start primary" in caught.value.hint
    before = len(logged(state.acks, topic))
    lab.start("primary")
    assert Patience.of(60).wait_until(lambda: len(logged(state.acks, topic)) > before + 200)
    ended = loads.stop("primary")
    assert not ended.running
    acks = logged(ended.acks, topic)
    assert ended.last is not None
    assert len(acks) == ended.last.acknowledged
    rows = {row.number: row.value for row in flights(count=ended.last.next_row)}
    held = {place: value for place, (_, value, _) in stored(primary, topic).items()}
    for ack in acks:
        assert held[ack["partition"], ack["offset"]] == rows[ack["row"]]


def test_nothing_to_stop(loads: Loads) -> None:
    with pytest.raises(Refused, match="no background load to secondary was started"):
        loads.stop("secondary")
