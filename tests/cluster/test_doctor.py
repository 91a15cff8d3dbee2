"""`drctl doctor` on real clusters: a healthy link, then each fault is found."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclPermissionType, ResourcePatternType  # type: ignore[attr-defined, unused-ignore]

from bench.quota import limit
from drctl.formats.journal_records import TOPIC as JOURNAL
from drctl.lab.lab import Lab
from drctl.model.topology import Record
from tests.cli.documents import check
from tests.cluster.command import Drctl
from tests.cluster.failover_stage import connect, has_consumer_groups
from tests.cluster.link_command import soon
from tests.cluster.logs import read_logs
from tests.cluster.topic_acls import about, allow, forget
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

HEADERS = (("trace", b"\x00\xff"),)

Rows = Mapping[str, set[str]]


def doctor(config: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the document."""
    ran = Drctl(config.parent, config)("-o", "json", "doctor", *words)
    return ran.code, check(ran.document())


def statuses(document: dict[str, Any]) -> Rows:
    found: dict[str, set[str]] = {}
    for row in document["checks"]:
        found.setdefault(row["check"], set()).add(row["status"])
    return found


@pytest.fixture
def topic(primary: ClusterUnderTest, secondary: ClusterUnderTest, new_topic: NewTopic) -> str:
    """A fully replicated topic of two partitions."""
    name = new_topic(2, mirrored=True)
    primary.produce(
        name, [Record(n % 2, -1, 1_700_000_000_000 + n, b"k", b"v", HEADERS) for n in range(40)]
    )
    soon(lambda: sum(secondary.end_offsets(name).values()) == 40)
    return name


@contextmanager
def stopped(lab: Lab) -> Iterator[None]:
    """Stop MirrorMaker 2 during the block."""
    with connect(lab) as client:
        client.stop("mm2-source")
        try:
            soon(lambda: client.statuses()["mm2-source"].state == "STOPPED")
            yield
        finally:
            client.resume("mm2-source")
            soon(lambda: client.statuses()["mm2-source"].all_in("RUNNING"))


@contextmanager
def without_rules(lab: Lab, principal: str) -> Iterator[None]:
    """Deny this user writes to the secondary during the block."""
    cluster = lab.cluster("secondary")
    admin = cluster.admin()
    user, allow = principal.removeprefix("User:"), AclPermissionType.ALLOW
    every = about(None, user, pattern=ResourcePatternType.ANY, permission=allow)
    try:
        for future in admin.delete_acls([every]).values():
            assert future.result()
        yield
    finally:
        cluster.grant(admin)


@contextmanager
def limited(lab: Lab, user: str, bytes_per_second: float) -> Iterator[None]:
    """Set a client quota, which librdkafka cannot."""
    key = "producer_byte_rate"
    limit(lab.cluster("primary"), user, bytes_per_second, key)
    try:
        yield
    finally:
        limit(lab.cluster("primary"), user, None, key)


def test_a_healthy_link_and_injected_faults(
    lab: Lab,
    lab_yaml: Callable[..., Path],
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
    topic: str,
    tmp_path: Path,
) -> None:
    config = lab_yaml(topic)
    config.chmod(0o600)
    # Connect stores MirrorMaker 2's offsets some seconds after the records have arrived.
    soon(lambda: "fail" not in statuses(doctor(config)[1])["replication-lag"])
    code, document = doctor(config)
    healthy = statuses(document)
    assert [name for name, found in healthy.items() if "fail" in found] == []
    fine = (
        *("brokers-answer", "partitions-offline", "replicas-out-of-sync"),
        *(
            "unclean-election",
            "leader-skew",
            "replication-not-running",
            "connectors-not-configured",
        ),
        *("topic-config-parity", "acl-parity", "retention-parity", "timestamp-type-parity"),
        *("scram-user-parity", "quota-parity", "third-clusters", "replication-loops"),
        *("super-users", "groups-active-on-both", "runs-unfinished", "secret-files"),
        *("retention-objective", "topics-missing-on-target", "groups-not-translated", "own-topics"),
    )
    others = [row for row in document["checks"] if row["check"] in fine and row["status"] != "ok"]
    assert others == []
    older_target = has_consumer_groups(primary) and not has_consumer_groups(secondary)
    assert healthy["broker-versions"] == ({"ok", "warn"} if older_target else {"ok"})
    assert healthy["replication-factor"] == {"warn"}  # one broker each
    assert healthy["client-versions"] == {"not-checked"}
    assert (code, document["ready"]) == (0, True)

    assert healthy["mm2-converters"] == healthy["mm2-exactly-once"] == {"not-checked"}
    properties = lab.root / "connect" / "worker.properties"
    found = statuses(doctor(config, "--worker", str(properties))[1])
    assert (found["mm2-converters"], found["mm2-exactly-once"]) == ({"ok"}, {"warn"})
    copies = read_logs(secondary, [topic])[topic].records
    assert [each.headers for each in (*copies[0], *copies[1])] == [HEADERS] * 40

    with stopped(lab):
        found = doctor(config)
        assert found[0] == 1
        assert "fail" in statuses(found[1])["replication-not-running"]
        # Stopped replication does not repair differences in topic settings either.
        primary.configure(topic, min_insync_replicas="2")
        primary.add_partitions(topic, 3)
        found = statuses(doctor(config)[1])
        assert found["topic-config-parity"] == {"fail"}
        assert found["fewer-partitions-on-target"] == {"fail"}

    with without_rules(lab, "User:orders-app"):
        _, document = doctor(config)
        assert statuses(document)["acl-parity"] == {"fail"}
        row = next(each for each in document["checks"] if each["check"] == "acl-parity")
        assert f"User:orders-app may not WRITE {topic}" in row["evidence"]

    allow(secondary, "orders-app", JOURNAL)
    try:
        document = doctor(config)[1]
        assert statuses(document)["own-topics"] == {"ok", "warn"}
        row = next(r for r in document["checks"] if r["check"] == "own-topics" and r["impact"])
        assert row["evidence"] == f"User:orders-app: WRITE on {JOURNAL}"
    finally:
        forget(secondary, JOURNAL)

    with limited(lab, "orders-app", 1_000_000.0):
        document = doctor(config)[1]
        assert statuses(document)["quota-parity"] == {"warn"}
        row = next(each for each in document["checks"] if each["check"] == "quota-parity")
        assert row["evidence"] == "user orders-app: producer_byte_rate"

    primary.produce(topic, [Record(0, -1, 1_700_000_000_000, b"k", b"v")], "commit")
    assert statuses(doctor(config)[1])["transactional-ids"] == {"warn"}

    config.chmod(0o666)
    client = tmp_path / "app.properties"
    client.write_text("bootstrap.servers=10.0.0.1:9092\nkey.serializer=x\n", encoding="utf-8")
    found = statuses(doctor(config, "--client", f"{client}=java-2.6.1")[1])
    assert found["secret-files"] == {"fail"}
    assert found["client-versions"] == {"fail"}
    assert found["client-rebootstrap"] == {"fail"}
