"""A cluster with a dead broker: refused as a target, and not treated as quiet as a source."""

import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined, unused-ignore]

from drctl.checks.registry import precheck_findings
from drctl.engine.ports import LinkReader
from drctl.kafka.connection import Connection
from drctl.kafka.groups import KafkaGroupReader
from drctl.kafka.health import KafkaHealthReader
from drctl.model.finding import Status
from drctl.model.groups import OFFSETS_TOPIC, Group
from drctl.model.health import Silent
from drctl.steps.verify_clients import remaining_groups
from tests.checks.observing import observed
from tests.cli.documents import check
from tests.cluster.command import Drctl
from tests.cluster.failover_stage import APP
from tests.cluster.lab_link import NewDrctl, cluster_section, link_over
from tests.cluster.link_command import GO, LinkCommand
from tests.cluster.link_state import end
from tests.cluster.refusals import WHY, is_refused_as_document, side_by_side
from tests.cluster.scenario import partitions_of
from tests.kafka.members import commit, member
from tests.kafka.tls_broker import ADMIN, PASSWORDS, TlsCluster
from tests.lab.cluster_under_test import QUIET, ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

PREFIX = "test-half-"
LED, START = "led", 1_700_000_000_000
SHORT, DARK = f"{PREFIX}short", f"{PREFIX}dark"
GROUPS = tuple(f"half-{number}" for number in range(8))
"""Their hashes are consecutive: each of the two brokers coordinates every other group."""
RETURNED = "returned"
"""The opposite link: the cluster with the dead broker was lost and has recovered."""
PRECHECKS = {
    "target-offline-partitions": f"1 partition has no leader: {DARK}-0",
    "target-under-min-isr": f"1 partition has too few replicas in sync: {SHORT}-0 has 1 of 2",
}


@dataclass(frozen=True)
class ClusterWithDeadBroker:
    """A cluster whose broker 2 is dead."""

    cluster: TlsCluster
    admin: AdminClient
    name: str = "secondary"

    def properties(self) -> dict[str, str]:
        return self.cluster.properties()


@pytest.fixture(scope="module")
def limping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterWithDeadBroker]:
    """One partition has lost its only replica, another one of its two."""
    cluster = TlsCluster(tmp_path_factory.mktemp("limping"))
    try:
        cluster.start()
        admin = AdminClient(cluster.properties(), logger=QUIET)
        new = [
            NewTopic(SHORT, 1, replica_assignment=[[1, 2]], config={"min.insync.replicas": "2"}),
            NewTopic(DARK, 1, replica_assignment=[[2]]),
        ]
        for done in admin.create_topics(new, operation_timeout=20).values():
            done.result()
        fill(cluster, admin)
        for name in GROUPS:
            commit(cluster.properties(), name, TopicPartition(SHORT, 0, 0))
        cluster.signal(2, signal.SIGKILL)
        cluster.wait_for_brokers(1)
        yield ClusterWithDeadBroker(cluster, admin)
    finally:
        cluster.close()


def fill(cluster: TlsCluster, admin: AdminClient) -> None:
    """Write three records to each partition of a topic; broker 2 has one; two in its copy."""
    # Retries must not reorder records: the test depends on which record is missing.
    producer = Producer({**cluster.properties(), "enable.idempotence": "true"}, logger=QUIET)
    topics = {LED: [[1], [2]], f"copy.{LED}": [[1], [1]]}
    new = [NewTopic(name, len(r), replica_assignment=r) for name, r in topics.items()]
    for done in admin.create_topics(new, operation_timeout=20).values():
        done.result()
    for name, partition, n in product(topics, (0, 1), range(3)):
        if n < 2 or name == LED:
            at = {"partition": partition, "timestamp": START + n}
            producer.produce(name, b"value", b"key-%d" % n, **at)
    assert producer.flush(30) == 0


class Command(LinkCommand):
    """drctl on a link to such a cluster, which a user-supplied tool replicates to."""

    deadline_s = 120.0

    def __init__(self, drctl: Drctl) -> None:
        self.drctl, self.link = drctl, "limping"


@pytest.fixture
def command(
    limping: ClusterWithDeadBroker, primary: ClusterUnderTest, new_drctl: NewDrctl, tmp_path: Path
) -> Iterator[Command]:
    for name in (SHORT, DARK):
        primary.create_topic(name)
    properties = limping.properties()
    bootstrap, secret = properties.pop("bootstrap.servers"), tmp_path / "password"
    secret.touch(mode=0o600)
    secret.write_text(properties["sasl.password"], encoding="utf-8")
    properties["sasl.password"] = f"${{file:{secret}}}"
    fence = {"method": "acl", "principals": [f"User:{APP}"]}
    none = {"kind": "none"}
    link = link_over(f"{PREFIX}.*", groups=["nobody"], replicator=none, fence=fence)
    clusters = {
        "primary": cluster_section(primary),
        "secondary": {"bootstrap": bootstrap, "properties": properties},
    }
    returned = {**link, "from": "secondary", "to": "primary", "groups": ["nobody-either"]}
    yield Command(new_drctl({"limping": link, RETURNED: returned}, clusters=clusters))
    primary.delete_topics([SHORT, DARK])


def test_a_target_that_cannot_accept_every_record_is_refused(
    limping: ClusterWithDeadBroker, primary: ClusterUnderTest, command: Command
) -> None:
    words = [word for precheck in PRECHECKS for word in ("--override", f"{precheck}={WHY}")]
    before = [end(each, PREFIX) for each in (primary, limping)]
    refused, shown, passed = side_by_side(
        lambda: command.run("failover", *GO, "--output", "json"),
        lambda: command.run("failover", "--output", "json"),
        lambda: command.run("failover", *words, "--output", "json"),
    )
    assert [end(each, PREFIX) for each in (primary, limping)] == before
    assert command.journaled() == []
    plan = check(shown.document())
    failing = {each["check"]: each for each in plan["findings"] if each["status"] == "fail"}
    assert {name: each["reason"] for name, each in failing.items()} == PRECHECKS
    is_refused_as_document(refused, *failing.values())
    # Other checks cannot read the leaderless partition, or groups that no broker coordinates.
    left = {each["precheck"] for each in check(passed.document())["refused"]}
    assert left == {"groups-active-on-target", "producer-ids-collide"}


def test_a_failback_to_a_cluster_that_cannot_accept_every_record_is_refused(
    command: Command,
) -> None:
    refused, passed = side_by_side(
        lambda: command.run("failback", "--output", "json", link=RETURNED),
        lambda: command.run(
            "failback", "--override", f"source-unhealthy={WHY}", "--output", "json", link=RETURNED
        ),
    )
    findings = check(refused.document())["findings"]
    (found,) = [e for e in findings if (e["check"], e["status"]) == ("source-unhealthy", "fail")]
    assert found["reason"] == (
        f"it does not accept all writes: 1 partition has no leader ({DARK}-0);"
        f" 1 partition is below min.insync.replicas ({SHORT}-0)"
    )
    assert "source-unhealthy" in {each["precheck"] for each in check(refused.document())["refused"]}
    assert "source-unhealthy" not in {
        each["precheck"] for each in check(passed.document())["refused"]
    }


class Looking:
    """Reads the groups of one cluster."""

    def __init__(self, reader: KafkaGroupReader) -> None:
        self.reader = reader

    def groups(self, _cluster: str) -> KafkaGroupReader:
        return self.reader

    def link_groups(self, _cluster: str, *, incomplete: bool) -> tuple[str, ...]:
        listed = self.reader.groups(incomplete=incomplete)
        return tuple(name for name in listed if name in GROUPS)


def test_a_group_of_a_dead_coordinator_does_not_count_as_gone(
    limping: ClusterWithDeadBroker,
) -> None:
    """The remaining brokers do not list such groups: only describing them by name shows it."""
    with KafkaGroupReader(Connection("half", limping.properties(), timeout_s=3)) as reader:
        look: Any = Looking(reader)
        described = reader.described(GROUPS)
        alive = sorted(name for name, each in described.items() if isinstance(each, Group))
        mute = sorted(name for name, each in described.items() if isinstance(each, Silent))
        assert alive
        assert mute
        assert set(alive) | set(mute) == set(GROUPS)
        assert set(look.link_groups("half", incomplete=True)) == set(alive)
        found = remaining_groups("half", GROUPS, cast(LinkReader, look))
        assert found.stayed == ()
        assert found.unseen == tuple(
            f"group {name}: its coordinator did not answer" for name in mute
        )
        with member(limping.properties(), alive[0], SHORT):
            stayed = remaining_groups("half", GROUPS, cast(LinkReader, look)).stayed
        assert [each.partition(" ")[0] for each in stayed] == alive[:1]


def test_groups_without_a_coordinator_block_a_planned_failover(
    limping: ClusterWithDeadBroker,
) -> None:
    with KafkaHealthReader(Connection("half", limping.properties())) as reader:
        found = reader.health([OFFSETS_TOPIC], {OFFSETS_TOPIC: {}})
    assert 0 < len(found.offline) < found.partitions
    looked = replace(observed({"link": {}}), source_coordinators=found)
    offline = [
        each for each in precheck_findings(looked) if each.check == "groups-without-coordinator"
    ]
    assert [each.status for each in offline] == [Status.FAIL]
    assert f"{len(found.offline)} of {found.partitions}" in offline[0].reason


def section(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return a cluster's section of drctl.yaml."""
    kept = {k: v for k, v in properties.items() if k != "bootstrap.servers"}
    return {
        "bootstrap": properties["bootstrap.servers"],
        "properties": {**kept, "sasl.password": "${env:PASSWORD}"},
    }


def test_a_partition_without_leader_is_not_compared_but_the_others_are(
    limping: ClusterWithDeadBroker, new_drctl: NewDrctl
) -> None:
    """A topic and its copy on the same cluster, over TLS."""
    link = link_over(LED, replicator={"kind": "none", "rename": "copy.${topic}"})
    cluster = limping.cluster
    clusters = {
        "primary": section(cluster.properties()),
        "secondary": section(cluster.tls_properties()),
    }
    drctl = new_drctl({"main": link}, clusters=clusters)
    ended = drctl.gap(environ={"PASSWORD": PASSWORDS[ADMIN]})
    assert ended.code == 5, ended.stderr
    document = ended.gap()
    assert not document["complete"]
    (item,) = document["not_compared"]
    assert (item["topic"], item["partition"]) == (LED, 1)
    assert item["reason"] == "primary: the partition has no leader"
    (zero,) = partitions_of(document, LED)
    assert (zero["partition"], zero["ranges"], zero["read_from_source"]) == (0, [[2, 2]], 3)
