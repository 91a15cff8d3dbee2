"""What a round uses: topics, a configuration and applications, all with names of their own."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from confluent_kafka import KafkaException
from confluent_kafka.admin import AclPermissionType, NewTopic  # type: ignore[attr-defined, unused-ignore]

from drctl.lab.cluster import LabCluster
from drctl.lab.lab import Lab
from drctl.lab.loads import ensure_topic
from drctl.lab.scenarios import stage
from drctl.lab.scenarios.clients import USER, EndpointFile
from drctl.lab.waiting import Patience
from drctl.model.errors import DrctlError, Stopped
from drctl.reconcile.policy import QUARANTINE
from tests.cluster.failover_stage import mirror_maker
from tests.cluster.lab_link import link_over, section_of
from tests.cluster.topic_acls import about
from tests.soak.grouping import CLASSIC, NEW, Member
from tests.soak.round_plan import PLAIN, PRIMARY, SECONDARY, Work
from tests.soak.writing import TransactionalWriter, Writer

PARTITIONS = 3
WRITERS = 2
RATE = 40.0
"""Records per second of each writer."""

COMPACTED_RATE = 10.0
_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "5000",
    "min.cleanable.dirty.ratio": "0.01",
}
BATCHES = (500, 20)
"""Batch sizes of the groups: one that keeps up, and one that commits often."""

_WAIT_S = 120
_LOOK_S = 0.3
_COMMITTED = {"source.consumer.isolation.level": "read_committed"}


@dataclass(frozen=True, slots=True)
class World:
    """A link of the lab, and its applications.

    Attributes:
        name: the round's name, in the names of all that it creates.
        updaters: writers of a compacted topic.
    """

    lab: Lab
    folder: Path
    name: str
    stopping: threading.Event
    endpoint: EndpointFile
    writers: tuple[Writer, ...]
    members: tuple[Member, ...]
    updaters: tuple[Writer, ...] = ()
    failures: list[str] = field(default_factory=list)

    @property
    def topic(self) -> str:
        """The topic, replicated by MirrorMaker 2."""
        return topic_of(self.name)

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics of the link."""
        return tuple(dict.fromkeys(each.topic for each in self.all_writers))

    @property
    def all_writers(self) -> tuple[Writer, ...]:
        """The writers of all topics."""
        return (*self.writers, *self.updaters)

    @property
    def people(self) -> tuple[Writer | Member, ...]:
        """All applications, groups first, so that nothing is written unread."""
        return (*self.members, *self.all_writers)

    def cluster(self, name: str) -> LabCluster:
        """Return a cluster of the lab."""
        return self.lab.cluster(name)

    def acknowledged(self, cluster: str) -> int:
        """Return the records of all writers that a cluster acknowledged."""
        return sum(each.acknowledged.get(cluster, 0) for each in self.writers)

    def wait(self, what: str, condition: Callable[[], bool], seconds: float = _WAIT_S) -> None:
        """Wait for a condition.

        Raises:
            Stopped: time limit exceeded, or an application failed.
            KeyboardInterrupt: the soak is to end.
        """

        def so() -> bool:
            if self.stopping.is_set():
                raise KeyboardInterrupt
            failures = [each.failure for each in self.people if each.failure]
            if failures:
                raise Stopped("; ".join(failures))
            met = condition()
            if not met:
                self.stopping.wait(_LOOK_S)  # many conditions read whole topics
            return met

        if not Patience.of(seconds).wait_until(so):
            raise Stopped(f"timed out after {seconds:.0f} s, waiting until {what}")

    def write_more(self, cluster: str, count: int) -> None:
        """Wait until the cluster has acknowledged this many more."""
        wanted = self.acknowledged(cluster) + count
        what = f"{cluster} acknowledges {count} records"
        self.wait(what, lambda: self.acknowledged(cluster) >= wanted)


@contextmanager
def world(
    lab: Lab, folder: Path, name: str, stopping: threading.Event, work: Work = PLAIN
) -> Iterator[World]:
    """Create everything without starting it; remove it at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    endpoint = EndpointFile(folder / "bootstrap", lab.parts.clusters)
    endpoint.point_to(PRIMARY)
    topic = topic_of(name)
    for cluster in lab.parts.clusters:
        ensure_topic(cluster, topic, PARTITIONS)
    members = tuple(
        Member(f"{USER}-{name}-{n}", endpoint, topic, folder, batch, protocol)
        for n, (batch, protocol) in enumerate(
            zip(BATCHES, (CLASSIC, NEW if work.new_protocol else CLASSIC), strict=True)
        )
    )
    writers = _writers(endpoint, topic, folder, name, work)
    updaters: tuple[Writer, ...] = ()
    if work.compacted:
        keyed = compacted_of(name)
        for cluster in reversed(lab.parts.clusters):  # else MirrorMaker 2 may create it there
            wanted = NewTopic(keyed, PARTITIONS, lab.parts.settings.replication, config=_COMPACTED)
            admin = cluster.admin()
            admin.create_topics([wanted], operation_timeout=20)[keyed].result()
        updaters = (Writer(WRITERS, endpoint, keyed, folder, COMPACTED_RATE, keyless=False),)
    made = World(lab, folder, name, stopping, endpoint, writers, members, updaters)
    (folder / "drctl.yaml").write_text(_configuration(made), encoding="utf-8")
    try:
        _create_reverse(made)
        yield made
    finally:
        for each in made.people:
            each.ask_to_stop()
        _keep_logs(lab, folder, members)
        if not stopping.is_set():  # otherwise the whole lab is removed anyway
            _cleanup(made)


def _writers(
    endpoint: EndpointFile, topic: str, folder: Path, name: str, work: Work
) -> tuple[Writer, ...]:
    plain = Writer(0, endpoint, topic, folder, RATE)
    if not work.transactional:
        return plain, Writer(1, endpoint, topic, folder, RATE)
    identity = f"{USER}-{name}"
    return plain, TransactionalWriter(1, endpoint, topic, folder, RATE, identity)


def replicate_committed_records(lab: Lab) -> None:
    """Let MirrorMaker 2 replicate no aborted records, which it does by default."""
    client = lab.parts.worker.client()
    try:
        (direction,) = lab.parts.directions
        source = direction.names["source"]
        client.put_config(source, {**client.config(source), **_COMMITTED})
    finally:
        client.close()


def _create_reverse(made: World) -> None:
    """Create the reverse connector, stopped and without source offsets."""
    client = made.lab.parts.worker.client()
    try:
        wanted = {**stage.configuration(made.lab), **_COMMITTED, "topics": ",".join(made.topics)}
        client.create_stopped(reverse_of(made.name), wanted)
    finally:
        client.close()


def topic_of(name: str) -> str:
    """Return the name on both clusters."""
    return f"flights-{name}"


def reverse_of(name: str) -> str:
    """Return the name of the reverse connector."""
    return f"mm2-{name}"


def compacted_of(name: str) -> str:
    """Return the name of the compacted topic on both clusters."""
    return f"flights-{name}-keys"


def _configuration(made: World) -> str:
    lab = made.lab
    link = link_over(
        *made.topics,
        groups=[each.group for each in made.members],
        replicator={**mirror_maker(lab, reverse_of(made.name)), "rename": "${topic}"},
        fence={"method": "acl", "principals": [f"User:{USER}"]},
        endpoints=[{"kind": "file", "path": str(made.endpoint.file)}],
    )
    document = {
        "clusters": {each.name: section_of(each) for each in lab.parts.clusters},
        "links": {made.name: link},
        # Applications write all the time: records in flight must not block a failover.
        "policy": {"max_lag_records": 100_000, "max_rpo_seconds": 600},
    }
    return yaml.safe_dump(document, sort_keys=False)


def _keep_logs(lab: Lab, folder: Path, members: tuple[Member, ...]) -> None:
    """Copy the logs of the lab's components beside those of the applications."""
    for part in lab.parts.names:
        with suppress(FileNotFoundError):
            shutil.copyfile(lab.parts.part(part).log, folder / f"{part}.log")
    for each in members:
        each.client_log.write(folder / f"{each.group}.log")


def _cleanup(made: World) -> None:
    """Restore the lab; failures are reported without hiding the round's result."""
    lab = made.lab
    steps: tuple[Callable[[], object], ...] = (
        *(lambda part=part: lab.start(part) for part in (PRIMARY, SECONDARY, "connect")),
        lambda: stage.remove(lab, reverse_of(made.name)),
        lambda: [each.stop() for each in made.people],
        *(lambda cluster=c: _empty(cluster, made) for c in lab.parts.clusters),
        lambda: lab.replicate(True),
    )
    for step in steps:
        try:
            step()
        except (DrctlError, KafkaException) as error:
            made.failures.append(f"cleanup of the round: {error}")
    for each in made.people:
        each.log.close()


def _empty(cluster: LabCluster, made: World) -> None:
    """Remove topics, groups and fences of the round."""
    admin = cluster.admin()
    fences = [about(topic, permission=AclPermissionType.DENY) for topic in made.topics]
    for rules in admin.delete_acls(fences).values():
        rules.result()
    known = admin.list_topics(timeout=20).topics
    ours = (*made.topics, *(QUARANTINE + topic for topic in made.topics))
    if present := [name for name in ours if name in known]:
        for gone in admin.delete_topics(present, operation_timeout=20).values():
            gone.result()
    for group in admin.delete_consumer_groups([each.group for each in made.members]).values():
        with suppress(KafkaException):  # the group may not exist, or still have a member
            group.result()
