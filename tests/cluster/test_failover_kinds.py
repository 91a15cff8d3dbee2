"""`drctl failover` with replicators other than MirrorMaker 2, on real clusters.

Plain clients of the tests copy for `none` and `offset-preserving`, the latter to the same offsets.
Confluent Replicator is proprietary: a MirrorMaker 2 connector stands for it under the name in the
link. This proves what drctl does through Connect's REST interface (stop, resume, offsets) on a
real worker; not how Replicator itself behaves.
"""

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import ResourcePatternType  # type: ignore[attr-defined, unused-ignore]

from drctl.lab.lab import Lab
from tests.cluster.copying import Copier
from tests.cluster.failover_stage import APP, PARTITIONS, Stage, connect
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, soon
from tests.cluster.topic_acls import USES, about, grant, revoke, rule
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

KINDS = ("none", "offset-preserving", "confluent-replicator")
RECORDS = 120
EARLIER = 7
"""Records that are in each partition of a target that does not keep offsets, before any copy."""
ANSWER = ("--answer", "stop-replication=yes")


@dataclass
class Kind:
    """A link of one kind, with running replication of its topic.

    Attributes:
        options: additional options of a failover.
        copier: what replicates; None for a connector.
        connector: its name; empty if there is none.
    """

    name: str
    stage: Stage
    options: tuple[str, ...] = ()
    copier: Copier | None = None
    connector: str = ""

    @property
    def stopped(self) -> bool:
        """Whether replication reports that it is stopped."""
        if self.copier is not None:
            return self.copier.halted
        return self.stage.states(self.connector) == ["STOPPED"]

    def copied(self, count: int) -> None:
        """Wait until this many records are replicated."""
        earlier = EARLIER * PARTITIONS if self.name == "none" else 0
        self.stage.copied(count + earlier)


@contextmanager
def granted(cluster: ClusterUnderTest, topic: str) -> Iterator[None]:
    """Grant users permissions on topics with this prefix: the lab grants only others."""
    prefixed = ResourcePatternType.PREFIXED
    users = product((APP, "replicator"), USES)
    grant(cluster, *(rule(user, topic, each, pattern=prefixed) for user, each in users))
    try:
        yield
    finally:
        # The fences that runs left behind, too.
        revoke(cluster, about(topic, pattern=ResourcePatternType.ANY))


@contextmanager
def connector(lab: Lab, name: str, topic: str) -> Iterator[None]:
    """Return a MirrorMaker 2 connector for one topic, under the name that it stands for."""
    own = dict(lab.parts.directions[0].configurations())["mm2-source"]
    settings = {
        **{key: value for key, value in own.items() if not key.startswith("offset-syncs.")},
        "name": name,
        "topics": topic,
        "tasks.max": "1",
        "emit.offset-syncs.enabled": "false",
        "sync.topic.configs.enabled": "false",
    }
    with connect(lab) as client:
        client.put_config(name, settings)
        soon(lambda: name in client.statuses())
        try:
            yield
        finally:
            client.delete(name)


class Kinds:
    """Creates links, and removes everything that they needed."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site, self.folder, self.open = site, folder, site.opened

    def make(self, name: str, **more: Any) -> Kind:
        """Create a link of a kind with other keys; its topic is replicated from now on."""
        topic = self.site.new_topic(PARTITIONS)
        for cluster in self.site.clusters:
            self.open.enter_context(granted(cluster, topic))
        if name == "confluent-replicator":
            copies = f"replicator-{topic}"
            self.open.enter_context(connector(self.site.lab, copies, topic))
            url = self.site.lab.parts.worker.url
            settings: dict[str, Any] = {"connect": url, "connectors": {"source": copies}}
            return Kind(name, self._stage(name, topic, settings, **more), connector=copies)
        folder = self.folder / topic
        folder.mkdir()
        copier = Copier(*self.site.clusters, topic, folder, name == "offset-preserving")
        if name == "none":
            self._write_earlier(topic)
        self.open.enter_context(copier.at_work())
        commands = copier.commands if copier.keeps_offsets else {}
        words = () if commands else ANSWER
        return Kind(name, self._stage(name, topic, commands, **more), words, copier)

    def _stage(self, name: str, topic: str, settings: Mapping[str, Any], **more: Any) -> Stage:
        replicator = {"kind": name, **settings}
        return Stage(self.site, topic, replicator, topics=[f"{topic}.*"], **more)

    def _write_earlier(self, topic: str) -> None:
        """Write records, so that a copy never has the offset of its original."""
        producer = self.site.secondary.producer()
        for number in range(EARLIER * PARTITIONS):
            producer.produce(topic, partition=number % PARTITIONS, value=f"earlier-{number}")
        assert producer.flush(30) == 0

    def close(self) -> None:
        self.site.lab.start("primary")
        self.site.lab.replicate(True)


@pytest.fixture
def kinds(site: Site, tmp_path: Path) -> Kinds:
    return site.keep(Kinds(site, tmp_path))


def fail_over(kind: Kind, *words: str) -> dict[str, Any]:
    """Fail over; a person stops replication after it has caught up, if drctl cannot."""
    stage = kind.stage
    words = ("failover", *words, *kind.options, *GO)
    if not kind.options:
        return stage.json(*words, code=0)
    assert kind.copier is not None
    with stage.running(*words) as process:
        stage.until(process, lambda: stage.has("done", "drain"))
        kind.copier.halt()
        stage.ends(process)
    return stage.json("report", stage.newest_run, "--verify", code=0)


@pytest.mark.parametrize("name", KINDS)
def test_planned_failovers_lose_nothing_with_any_replicator(kinds: Kinds, name: str) -> None:
    kind = kinds.make(name)
    stage = kind.stage
    written = stage.write(RECORDS, "before")
    kind.copied(RECORDS)
    read = stage.read(stage.source, most=50)
    done = fail_over(kind)
    assert kind.stopped
    assert {step["status"] for step in done["steps"]} <= {"done", "skipped"}
    assert (done["rpo"]["records"], done["rpo"]["exact"]) == (0, True)
    assert stage.directs_to("secondary")
    assert stage.write(3, "refused") == [], "a fenced producer could write"
    written += stage.write(RECORDS, "after", stage.target)
    left = 2 * RECORDS - len(read)
    # Without a committed offset the group starts at the log start, before the earlier records.
    read += stage.read(stage.target, most=10_000, wait_for=left, but="earlier")
    assert set(read) == set(written)
    if kind.connector:
        boundary = stage.entries("done", "stop-replication")[-1]["facts"]["boundary"][
            kind.connector
        ]
        assert {at["partition"]["topic"] for at in boundary} == {stage.topic}
        ends = stage.source.end_offsets(stage.topic)
        came = {at["partition"]["partition"]: at["offset"]["offset"] + 1 for at in boundary}
        assert came == {number: end for number, end in ends.items() if end}


@pytest.mark.parametrize(
    "name", [pytest.param("offset-preserving", marks=pytest.mark.nightly), "confluent-replicator"]
)
def test_a_topic_created_after_the_fence_prevents_enabling_writes(kinds: Kinds, name: str) -> None:
    """The fence does not include it; everything is rolled back, and replication continues."""
    kind = kinds.make(name)
    stage, later = kind.stage, f"{kind.stage.topic}-later"
    stage.write(RECORDS, "before")
    kind.copied(RECORDS)
    with stage.running("failover", *kind.options, *GO) as process:
        try:
            stage.until(process, lambda: stage.has("done", "fence-producers"))
            stage.source.create_topic(later)
            stage.ends(process, 3)
        finally:
            stage.source.delete_topics([later])
    assert "changed-after-fence: 1 topic was created on primary after the fence" in stage.output
    assert stage.has("undone", "stop-replication")
    assert not stage.has("intend", "enable-writes")
    assert stage.denials(stage.source) == 0
    soon(lambda: not kind.stopped)
    assert len(stage.write(5, "again")) == 5
    kind.copied(RECORDS + 5)


@pytest.mark.nightly
def test_unplanned_failovers_need_no_source_with_any_replicator(kinds: Kinds) -> None:
    made = [kinds.make(name) for name in KINDS]
    for kind in made:
        assert len(kind.stage.write(RECORDS, "before")) == RECORDS
        kind.copied(RECORDS)
    kinds.site.lab.signal("primary", signal.SIGKILL)
    # Registered last, this runs first: the cleanup of the kinds needs the primary.
    kinds.open.callback(kinds.site.lab.start, "primary")
    for kind in made:
        stage = kind.stage
        done = stage.json("failover", "--mode", "unplanned", *kind.options, *GO, code=1)
        assert done["status"] == "done", done
        if kind.copier is not None and kind.options:
            kind.copier.halt()
        soon(lambda kind=kind: kind.stopped, seconds=10)  # type: ignore[misc]
        assert any("fence" in each for each in done["outstanding"])
        assert done["rpo"]["exact"] is False
        assert stage.directs_to("secondary")
        assert len(stage.write(5, "after", stage.target)) == 5
