"""`drctl failover` where something else than MirrorMaker 2 copies, on real clusters.

`none` and `offset-preserving` are copied by plain clients of the tests' own, the latter to the same
offsets. Confluent Replicator is proprietary: a connector of MirrorMaker 2 stands in for it under
the name that the link gives. What that proves is what drctl does over Connect's REST interface
(stop, go on, positions), on a real worker; not how Replicator itself behaves.
"""

import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from tests.cluster.conftest import NewDrctl
from tests.cluster.copying import Copier
from tests.cluster.failover_stage import APP, DEADLINE_S, GO, PARTITIONS, Stage
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

KINDS = ("none", "offset-preserving", "confluent-replicator")
RECORDS = 120
EARLIER = 7
"""Records that are in each partition of a target that does not keep offsets, before any copy."""
ANSWER = ("--answer", "stop-replication=yes")


@dataclass
class Kind:
    """A link of one kind, with what copies its topic at work.

    Attributes:
        words: what a failover over it has to be told beside the usual.
        copier: what copies; None where a connector does.
        connector: its name; empty where none does.
    """

    name: str
    stage: Stage
    words: tuple[str, ...] = ()
    copier: Copier | None = None
    connector: str = ""

    @property
    def stopped(self) -> bool:
        """Whether what copies says that it is stopped."""
        if self.copier is not None:
            return self.copier.halted
        return self.state == "STOPPED"

    @property
    def state(self) -> str:
        """Of the connector."""
        client = self.stage.lab.parts.worker.client()
        try:
            return str(client.status(self.connector).state)
        finally:
            client.close()

    def copied(self, count: int) -> None:
        """Wait until so many records came over."""
        earlier = EARLIER * PARTITIONS if self.name == "none" else 0
        self.stage.copied(count + earlier)


@contextmanager
def granted(cluster: ClusterUnderTest, topic: str, users: Mapping[str, str]) -> Iterator[None]:
    """Users who may do something with topics that begin so: the lab grants them others only."""
    rules = [
        (user, getattr(AclOperation, operation))
        for user, operations in users.items()
        for operation in operations.split()
    ]
    pattern, allow = ResourcePatternType.PREFIXED, AclPermissionType.ALLOW
    bindings = [
        AclBinding(ResourceType.TOPIC, topic, pattern, f"User:{user}", "*", operation, allow)
        for user, operation in rules
    ]
    for done in cluster.admin.create_acls(bindings).values():
        done.result()
    try:
        yield
    finally:
        # The fences that runs left behind, too.
        of_topic = AclBindingFilter(
            *(ResourceType.TOPIC, topic, ResourcePatternType.ANY, None, None),
            *(AclOperation.ANY, AclPermissionType.ANY),
        )
        for done in cluster.admin.delete_acls([of_topic]).values():
            done.result()


@contextmanager
def connector(lab: Lab, name: str, topic: str) -> Iterator[None]:
    """MirrorMaker 2 copies one topic, under the name of a connector that stands for another."""
    own = dict(lab.parts.directions[0].configurations())["mm2-source"]
    settings = {
        **{key: value for key, value in own.items() if not key.startswith("offset-syncs.")},
        "name": name,
        "topics": topic,
        "tasks.max": "1",
        "emit.offset-syncs.enabled": "false",
        "sync.topic.configs.enabled": "false",
    }
    client = lab.parts.worker.client()
    client.put_config(name, settings)
    try:
        assert Patience.of(60).wait_until(lambda: name in client.statuses())
        yield
    finally:
        client.delete(name)
        client.close()


class Kinds:
    """Makes links, and takes everything away that they needed."""

    def __init__(
        self, lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic, folder: Path, open_: ExitStack
    ) -> None:
        self.lab, self.new_drctl, self.new_topic = lab, new_drctl, new_topic
        self.folder, self.open = folder, open_

    def make(self, name: str) -> Kind:
        """A link of a kind; its topic is copied from now on."""
        topic = self.new_topic(PARTITIONS)
        source = ClusterUnderTest(self.lab.cluster("primary"))
        target = ClusterUnderTest(self.lab.cluster("secondary"))
        users = {APP: "READ WRITE DESCRIBE", "replicator": "READ WRITE DESCRIBE"}
        for cluster in (source, target):
            self.open.enter_context(granted(cluster, topic, users))
        if name == "confluent-replicator":
            copies = f"replicator-{topic}"
            self.open.enter_context(connector(self.lab, copies, topic))
            url = f"http://127.0.0.1:{self.lab.parts.settings.connect_port}"
            settings: dict[str, Any] = {"connect": url, "connectors": {"source": copies}}
            return Kind(name, self._stage(name, topic, settings), connector=copies)
        folder = self.folder / topic
        folder.mkdir()
        copier = Copier(source, target, topic, folder, name == "offset-preserving")
        if name == "none":
            self._write_earlier(target, topic)
        self.open.enter_context(copier.at_work())
        commands = copier.commands if copier.keeps_offsets else {}
        words = () if commands else ANSWER
        return Kind(name, self._stage(name, topic, commands), words, copier)

    def _stage(self, name: str, topic: str, settings: Mapping[str, Any]) -> Stage:
        replicator = {"kind": name, **settings}
        return Stage(self.lab, self.new_drctl, topic, replicator, topics=[f"{topic}.*"])

    def _write_earlier(self, target: ClusterUnderTest, topic: str) -> None:
        """So that a copy never has the offset of its original."""
        producer = target.producer()
        for number in range(EARLIER * PARTITIONS):
            producer.produce(topic, partition=number % PARTITIONS, value=f"earlier-{number}")
        assert producer.flush(30) == 0


@pytest.fixture
def kinds(lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic, tmp_path: Path) -> Iterator[Kinds]:
    with ExitStack() as opened:
        try:
            yield Kinds(lab, new_drctl, new_topic, tmp_path, opened)
        finally:
            lab.start("primary")
            lab.replicate(True)


def fail_over(kind: Kind, *words: str) -> dict[str, Any]:
    """To its end; where a person stops what copies, when everything was brought over."""
    stage = kind.stage
    words = ("failover", *words, *kind.words, *GO)
    if not kind.words:
        return stage.json(*words, code=0)
    assert kind.copier is not None
    with stage.running(*words) as process:

        def drained() -> bool:
            assert process.poll() is None, stage.said
            return ("done", "drain") in entries_of(stage)

        assert Patience.of(90).wait_until(drained), stage.said
        kind.copier.halt()
        assert process.wait(DEADLINE_S) == 0, stage.said
    run = str(stage.journaled()[0]["run"])
    return stage.json("report", run, "--verify", code=0)


def entries_of(stage: Stage) -> list[tuple[str, str]]:
    return [(str(e["entry"]), str(e.get("step", ""))) for e in stage.journaled()]


@pytest.mark.parametrize("name", KINDS)
def test_a_planned_one_loses_nothing_whatever_copies(kinds: Kinds, name: str) -> None:
    kind = kinds.make(name)
    stage = kind.stage
    written = stage.write(RECORDS, "before")
    kind.copied(RECORDS)
    read = stage.read(stage.source, most=50)
    done = fail_over(kind)
    assert kind.stopped
    by_id = {step["id"]: step for step in done["steps"]}
    assert {step["status"] for step in by_id.values()} <= {"done", "passed"}
    assert (done["rpo"]["records"], done["rpo"]["exact"]) == (0, True)
    assert stage.endpoint.read_text(encoding="utf-8") == stage.bootstrap("secondary")
    assert stage.write(3, "refused") == [], "the fence lets somebody through"
    written += stage.write(RECORDS, "after", stage.target)
    left = 2 * RECORDS - len(read)
    # Where a group has no position it begins at the start, before what was there first.
    read += stage.read(stage.target, most=10_000, wait_for=left, but="earlier")
    assert set(read) == set(written)
    if kind.connector:
        boundary = facts_of(stage, "stop-replication")["boundary"][kind.connector]
        assert {at["partition"]["topic"] for at in boundary} == {stage.topic}
        ends = stage.source.end_offsets(stage.topic)
        came = {at["partition"]["partition"]: at["offset"]["offset"] + 1 for at in boundary}
        assert came == {number: end for number, end in ends.items() if end}


def facts_of(stage: Stage, step: str) -> Mapping[str, Any]:
    """What the newest run saw of a step that is done."""
    found = [e for e in stage.journaled() if e["entry"] == "done" and e["step"] == step]
    facts: Mapping[str, Any] = found[-1]["facts"]
    return facts


@pytest.mark.parametrize(
    "name",
    [pytest.param("offset-preserving", marks=pytest.mark.nightly), "confluent-replicator"],
)
def test_a_topic_that_is_made_behind_the_fence_keeps_the_target_closed(
    kinds: Kinds, name: str
) -> None:
    """The fence does not name it; and everything is put back, so that what copies goes on."""
    kind = kinds.make(name)
    stage, later = kind.stage, f"{kind.stage.topic}-later"
    stage.write(RECORDS, "before")
    kind.copied(RECORDS)
    with stage.running("failover", *kind.words, *GO) as process:

        def fenced() -> bool:
            assert process.poll() is None, stage.said
            return ("done", "fence-producers") in entries_of(stage)

        try:
            assert Patience.of(90).wait_until(fenced), stage.said
            stage.source.create_topic(later)
            assert process.wait(DEADLINE_S) == 3, stage.said
        finally:
            stage.source.delete_topics([later])
    assert "moved-behind-fence: 1 topics were made on primary behind the fence" in stage.said
    assert ("undone", "stop-replication") in entries_of(stage)
    assert ("intend", "open-target") not in entries_of(stage)
    assert stage.denials(stage.source) == 0
    assert Patience.of(60).wait_until(lambda: not kind.stopped)
    assert len(stage.write(5, "again")) == 5
    kind.copied(RECORDS + 5)


@pytest.mark.nightly
def test_unplanned_ones_need_no_source_whatever_copies(kinds: Kinds) -> None:
    made = [kinds.make(name) for name in KINDS]
    for kind in made:
        assert len(kind.stage.write(RECORDS, "before")) == RECORDS
        kind.copied(RECORDS)
    kinds.lab.signal("primary", signal.SIGKILL)
    for kind in made:
        stage = kind.stage
        done = stage.json("failover", "--mode", "unplanned", *kind.words, *GO, code=1)
        assert done["status"] == "done", done
        if kind.copier is not None and kind.words:
            kind.copier.halt()
        assert Patience.of(10).wait_until(lambda kind=kind: kind.stopped)  # type: ignore[misc]
        assert any("fence" in each for each in done["owed"])
        assert done["rpo"]["exact"] is False
        assert stage.endpoint.read_text(encoding="utf-8") == stage.bootstrap("secondary")
        assert len(stage.write(5, "after", stage.target)) == 5
