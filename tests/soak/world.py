"""What a round uses: topics, a configuration and applications, all with names of their own."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from confluent_kafka import KafkaException
from confluent_kafka.admin import AclPermissionType  # type: ignore[attr-defined, unused-ignore]

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
from tests.soak.grouping import Member
from tests.soak.round_plan import PRIMARY, SECONDARY
from tests.soak.writing import Writer

PARTITIONS = 3
WRITERS = 2
RATE = 25.0
"""Records per second of each writer."""

BATCHES = (500, 20)
"""Batch sizes of the groups: one that keeps up, and one that commits often."""

_WAIT_S = 120


@dataclass(frozen=True, slots=True)
class World:
    """A link of the lab, and its applications.

    Attributes:
        name: the round's name, in the names of all that it creates.
    """

    lab: Lab
    folder: Path
    name: str
    stopping: threading.Event
    endpoint: EndpointFile
    writers: tuple[Writer, ...]
    members: tuple[Member, ...]
    failures: list[str] = field(default_factory=list)

    @property
    def topic(self) -> str:
        """The topic, replicated by MirrorMaker 2."""
        return topic_of(self.name)

    @property
    def people(self) -> tuple[Writer | Member, ...]:
        """All applications, groups first, so that nothing is written unread."""
        return (*self.members, *self.writers)

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
            return condition()

        if not Patience.of(seconds).wait_until(so):
            raise Stopped(f"timed out after {seconds:.0f} s, waiting until {what}")

    def write_more(self, cluster: str, count: int) -> None:
        """Wait until the cluster has acknowledged this many more."""
        wanted = self.acknowledged(cluster) + count
        what = f"{cluster} acknowledges {count} records"
        self.wait(what, lambda: self.acknowledged(cluster) >= wanted)


@contextmanager
def world(lab: Lab, folder: Path, name: str, stopping: threading.Event) -> Iterator[World]:
    """Create everything without starting it; remove it at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    endpoint = EndpointFile(folder / "bootstrap", lab.parts.clusters)
    endpoint.point_to(PRIMARY)
    topic = topic_of(name)
    for cluster in lab.parts.clusters:
        ensure_topic(cluster, topic, PARTITIONS)
    writers = tuple(Writer(n, endpoint, topic, folder, RATE) for n in range(WRITERS))
    members = tuple(
        Member(f"{USER}-{name}-{n}", endpoint, topic, folder, batch)
        for n, batch in enumerate(BATCHES)
    )
    made = World(lab, folder, name, stopping, endpoint, writers, members)
    groups = [each.group for each in members]
    (folder / "drctl.yaml").write_text(_configuration(lab, name, groups), encoding="utf-8")
    try:
        stage.deploy(lab, topic, reverse_of(name))
        yield made
    finally:
        for each in made.people:
            each.ask_to_stop()
        _keep_logs(lab, folder, members)
        if not stopping.is_set():  # otherwise the whole lab is removed anyway
            _cleanup(made)


def topic_of(name: str) -> str:
    """Return the name on both clusters."""
    return f"flights-{name}"


def reverse_of(name: str) -> str:
    """Return the name of the reverse connector."""
    return f"mm2-{name}"


def _configuration(lab: Lab, name: str, groups: list[str]) -> str:
    link = link_over(
        topic_of(name),
        groups=groups,
        replicator={**mirror_maker(lab, reverse_of(name)), "rename": "${topic}"},
        fence={"method": "acl", "principals": [f"User:{USER}"]},
        endpoints=[{"kind": "file", "path": "bootstrap"}],
    )
    document = {
        "clusters": {each.name: section_of(each) for each in lab.parts.clusters},
        "links": {name: link},
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
    lab, topic = made.lab, made.topic
    steps: tuple[Callable[[], object], ...] = (
        *(lambda part=part: lab.start(part) for part in (PRIMARY, SECONDARY, "connect")),
        lambda: stage.remove(lab, reverse_of(made.name)),
        lambda: [each.stop() for each in made.people],
        *(lambda cluster=c: _empty(cluster, topic, made) for c in lab.parts.clusters),
        lambda: lab.replicate(True),
    )
    for step in steps:
        try:
            step()
        except (DrctlError, KafkaException) as error:
            made.failures.append(f"cleanup of the round: {error}")
    for each in made.people:
        each.log.close()


def _empty(cluster: LabCluster, topic: str, made: World) -> None:
    """Remove topics, groups and fences of the round."""
    admin = cluster.admin()
    for rules in admin.delete_acls([about(topic, permission=AclPermissionType.DENY)]).values():
        rules.result()
    known = admin.list_topics(timeout=20).topics
    present = [name for name in (topic, QUARANTINE + topic) if name in known]
    if present:
        for gone in admin.delete_topics(present, operation_timeout=20).values():
            gone.result()
    for group in admin.delete_consumer_groups([each.group for each in made.members]).values():
        with suppress(KafkaException):  # the group may not exist, or still have a member
            group.result()
