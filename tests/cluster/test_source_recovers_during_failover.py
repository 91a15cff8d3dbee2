"""A frozen source continues while clients move, with MirrorMaker 2's defaults.

Its tasks were stopped or are gone, and its connectors still wait for the source: none of its
records may follow those that applications write to the target.
"""

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from drctl.kafka.connection import Connection
from drctl.kafka.reader import KafkaClusterReader
from drctl.model.topology import TopicPartition, Unavailable
from tests.cluster.failover_stage import FORWARD, PARTITIONS, Stage
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, soon

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(600)]

COPIED, FETCHED, BACKLOG, AFTER = 200, 20, 50, 40
BY_DEFAULT = (
    "admin.request.timeout.ms",
    "admin.default.api.timeout.ms",
    "admin.metadata.recovery.strategy",
)
"""Settings with which the lab's connectors give up a dead cluster soon; removed here."""

UNPLANNED = ("failover", "--mode", "unplanned", "--output", "json", *GO)


@pytest.fixture
def by_default(site: Site) -> Iterator[Stage]:
    made, client = Stage(site), site.lab.parts.worker.client(60)
    before = {name: client.config(name) for name in FORWARD.values()}
    for name in before:
        client.configure(name, dict.fromkeys(BY_DEFAULT))
    site.lab.replicate(True)
    try:
        yield made
    finally:
        site.lab.signal("primary", signal.SIGCONT)
        for name, config in before.items():
            client.put_config(name, config)
        site.lab.replicate(True)
        client.close()


def frozen(stage: Stage) -> None:
    """Freeze the source with unreplicated records: replication was cut off."""
    stage.written(COPIED, "copied")
    stage.lab.signal("connect", signal.SIGSTOP)
    # These records complete the fetches that are in flight; later records are never fetched.
    assert len(stage.write(FETCHED, "fetched")) == FETCHED
    assert len(stage.write(BACKLOG, "backlog")) == BACKLOG
    stage.lab.signal("primary", signal.SIGSTOP)
    stage.lab.signal("connect", signal.SIGCONT)
    soon(lambda: stage.lab.parts.worker.answering(3))


def moved_while(stage: Stage, what: str, step: str) -> int:
    """Return the exit code of an unplanned failover; the source continues at this journal entry."""
    with stage.running(*UNPLANNED) as process:
        until = time.monotonic() + stage.deadline_s
        while not stage.has(what, step):
            assert process.poll() is None, stage.output
            assert time.monotonic() < until, stage.output
            time.sleep(0.02)
        stage.lab.signal("primary", signal.SIGCONT)
        if step != "request-stop":
            assert len(stage.write(AFTER, "after", stage.target)) == AFTER
        return process.wait(stage.deadline_s)


def values_there(stage: Stage) -> list[list[str]]:
    """Return the values of each partition of the target, in order."""
    places = {TopicPartition(stage.topic, number): 0 for number in range(PARTITIONS)}
    with KafkaClusterReader(Connection("secondary", stage.target.properties())) as reader:
        found = reader.following(places, 1000).values()
    assert not [each for each in found if isinstance(each, Unavailable)]
    return [
        [(record.value or b"").decode() for record in records]
        for records in found
        if not isinstance(records, Unavailable)
    ]


def test_a_source_that_recovers_before_tasks_ended_prevents_enabling_writes(
    by_default: Stage,
) -> None:
    stage = by_default
    frozen(stage)
    assert moved_while(stage, "done", "request-stop") == 3, stage.output
    assert not stage.has("done", "enable-writes")
    soon(lambda: stage.all_states() == {"RUNNING"}, "connectors stand", 120)
    stage.copied(COPIED + FETCHED + BACKLOG)
    assert stage.directs_to("primary")


def test_a_source_that_recovers_after_writes_are_enabled_copies_nothing(by_default: Stage) -> None:
    stage = by_default
    frozen(stage)
    assert moved_while(stage, "done", "enable-writes") == 1, stage.output
    outstanding: dict[str, Any] = {e["step"]: e for e in stage.entries("outstanding")}
    assert "responds again" in str(outstanding["confirm-stop"])
    assert stage.all_states() == {"STOPPED"}
    # Records fetched before the freeze, then the application's new ones: nothing in between.
    there = values_there(stage)
    assert COPIED + AFTER <= sum(map(len, there)) <= COPIED + FETCHED + AFTER
    for values in there:
        kinds = [value.partition("-")[0] for value in values]
        assert kinds == sorted(kinds, key=("copied", "fetched", "after").index)
