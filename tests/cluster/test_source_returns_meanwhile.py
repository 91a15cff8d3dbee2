"""A frozen source that goes on while clients are moved away, behind MirrorMaker 2's defaults.

Its tasks were told to stop, or are gone, and its connectors still wait for it: nothing that it says
from then on may stand behind what applications write to the target.
"""

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from drctl.kafka.connection import Connection
from drctl.kafka.reader import KafkaClusterReader
from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from drctl.model.topology import TopicPartition, Unavailable
from tests.cluster.conftest import NewDrctl
from tests.cluster.failover_stage import DEADLINE_S, GO, PARTITIONS, Stage, mirror_maker
from tests.conftest import NewTopic

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(600)]

COPIED, FETCHED, BACKLOG, AFTER = 200, 20, 50, 40
BY_DEFAULT = (
    "admin.request.timeout.ms",
    "admin.default.api.timeout.ms",
    "admin.metadata.recovery.strategy",
)
"""What a lab sets so that connectors let go of a dead cluster soon."""

UNPLANNED = ("failover", "--mode", "unplanned", "--output", "json", *GO)


@pytest.fixture
def stage(lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic) -> Iterator[Stage]:
    topic = new_topic(PARTITIONS, mirrored=True)
    replicator = mirror_maker(lab)
    made, client = Stage(lab, new_drctl, topic, replicator), lab.parts.worker.client(60)
    before = {name: client.config(name) for name in replicator["connectors"].values()}
    for name in before:
        client.configure(name, dict.fromkeys(BY_DEFAULT))
    lab.replicate(True)
    try:
        yield made
    finally:
        lab.signal("primary", signal.SIGCONT)
        for name, config in before.items():
            client.put_config(name, config)
        lab.replicate(True)
        client.close()


def frozen(stage: Stage) -> None:
    """The source hangs, with records that nobody has fetched: the replicator was cut short."""
    assert len(stage.write(COPIED, "copied")) == COPIED
    stage.copied(COPIED)
    stage.lab.signal("connect", signal.SIGSTOP)
    # These answer the fetches that are under way; nobody asks for what comes after them.
    assert len(stage.write(FETCHED, "fetched")) == FETCHED
    assert len(stage.write(BACKLOG, "backlog")) == BACKLOG
    stage.lab.signal("primary", signal.SIGSTOP)
    stage.lab.signal("connect", signal.SIGCONT)
    answers = stage.lab.parts.worker.answering
    assert Patience.of(60).wait_until(lambda: answers(3))


def at_step(stage: Stage, what: str, step: str) -> bool:
    """Whether the journal has this entry of a step."""
    return any((e["entry"], e.get("step")) == (what, step) for e in stage.journaled())


def moved_while(stage: Stage, what: str, step: str) -> int:
    """The exit code of an unplanned failover; the source goes on at this entry of its journal."""
    with stage.running(*UNPLANNED) as process:
        until = time.monotonic() + DEADLINE_S
        while not at_step(stage, what, step):
            assert process.poll() is None, stage.said
            assert time.monotonic() < until, stage.said
            time.sleep(0.02)
        stage.lab.signal("primary", signal.SIGCONT)
        if step != "request-stop":
            assert len(stage.write(AFTER, "after", stage.target)) == AFTER
        return process.wait(DEADLINE_S)


def values_there(stage: Stage) -> list[list[str]]:
    """Of each partition of the target, in their order."""
    places = {TopicPartition(stage.topic, number): 0 for number in range(PARTITIONS)}
    with KafkaClusterReader(Connection("secondary", stage.target.properties())) as reader:
        found = reader.following(places, 1000).values()
    assert not [each for each in found if isinstance(each, Unavailable)]
    return [
        [(record.value or b"").decode() for record in records]
        for records in found
        if not isinstance(records, Unavailable)
    ]


def test_one_that_is_back_before_the_tasks_are_gone_keeps_the_target_closed(stage: Stage) -> None:
    frozen(stage)
    assert moved_while(stage, "done", "request-stop") == 3, stage.said
    assert not at_step(stage, "done", "open-target")
    states = lambda: stage.states() == {"RUNNING"}  # noqa: E731
    assert Patience.of(120).wait_until(states), stage.states()
    stage.copied(COPIED + FETCHED + BACKLOG)
    assert stage.endpoint.read_text(encoding="utf-8") == stage.bootstrap("primary")


def test_one_that_is_back_once_the_target_is_open_copies_nothing_more(stage: Stage) -> None:
    frozen(stage)
    assert moved_while(stage, "done", "open-target") == 1, stage.said
    owed: dict[str, Any] = {e["step"]: e for e in stage.journaled() if e["entry"] == "owed"}
    assert "answers again" in str(owed["confirm-stop"])
    assert stage.states() == {"STOPPED"}
    # What a fetch had brought before it froze, then the application's own: nothing in between.
    there = values_there(stage)
    assert COPIED + AFTER <= sum(map(len, there)) <= COPIED + FETCHED + AFTER
    for values in there:
        kinds = [value.partition("-")[0] for value in values]
        assert kinds == sorted(kinds, key=("copied", "fetched", "after").index)
