"""`drctl doctor --fix` on real clusters: differences are planned, repaired, and gone."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AclBinding,
    AclOperation,
    ConfigResource,
    ConfigSource,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from bench.quota import limit
from drctl.kafka.acls import KafkaAclReader
from drctl.kafka.connection import Connection
from drctl.kafka.quotas import KafkaQuotaReader
from drctl.model.errors import Refused
from drctl.model.plan import Json
from drctl.model.repairs import Acl, Acls
from drctl.model.topology import Unavailable
from drctl.steps.repairs import AddPartitions, ConfigureTopics
from tests.cli.documents import check
from tests.cluster.command import Drctl
from tests.cluster.failover_stage import APP
from tests.cluster.lab_link import NewDrctl, Site, link_over
from tests.cluster.topic_acls import delete_acls, forget, grant, rule, rules_of
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

GO = ("--execute", "--yes")
USER = "User:orders-app"
RATE, SHARE = "producer_byte_rate", "request_percentage"
PARITY = (
    *("topics-missing-on-target", "fewer-partitions-on-target", "topic-config-parity"),
    *("acl-parity", "retention-parity", "timestamp-type-parity", "quota-parity"),
    *("orphaned-copies",),
)


@dataclass(frozen=True)
class Drifted:
    """A link whose target differs; MirrorMaker 2 does not replicate topics of these names.

    Attributes:
        weak: a topic with fewer partitions and weaker settings.
        missing: a topic that does not exist.
        user: has a lower quota on the target, and no password there.
    """

    drctl: Drctl
    weak: str
    missing: str
    user: str = ""

    def call(self, *words: str) -> tuple[int, str]:
        """Return the exit code and stdout."""
        ran = self.drctl(*words)
        return ran.code, ran.stdout

    def json(self, *words: str) -> tuple[int, dict[str, Any]]:
        """Return the exit code and the document."""
        code, text = self.call("-o", "json", *words)
        return code, check(json.loads(text))


@pytest.fixture
def drifted(site: Site) -> Drifted:
    config = {"max.message.bytes": "2000000", "retention.ms": "1209600000"}
    there = {"retention.ms": "1000"}
    weak = site.new_topic(3, target_partitions=1, config=config, target_config=there)
    missing = site.new_topic(2, config={"cleanup.policy": "compact"}, on=("primary",))
    grant(site.primary, rule(APP, weak, AclOperation.WRITE))
    grant(site.primary, *others(weak))
    for cluster in site.clusters:
        site.opened.callback(delete_acls, cluster, *others(weak))
        site.opened.callback(forget, cluster, weak, missing)
        grant(cluster, rule(APP, missing, AclOperation.READ))
    user = f"fix-{uuid4().hex[:8]}"
    for cluster, rate in ((site.primary, 2_000_000.0), (site.secondary, 1_000_000.0)):
        limit(cluster.lab_cluster, user, rate, RATE)
        site.opened.callback(limit, cluster.lab_cluster, user, None, RATE)
    limit(site.primary.lab_cluster, user, 5.0, SHARE)
    site.opened.callback(limit, site.primary.lab_cluster, user, None, SHARE)
    site.opened.callback(limit, site.secondary.lab_cluster, user, None, SHARE)
    fence = {"method": "acl", "principals": [USER]}
    replicator = {"kind": "none"}
    link = link_over(weak, missing, groups=["nobody"], replicator=replicator, fence=fence)
    return Drifted(site.new_drctl({f"fix-{uuid4().hex[:8]}": link}), weak, missing, user)


def others(name: str) -> list[AclBinding]:
    """What the application needs besides its topics."""
    prefixed, groups = ResourcePatternType.PREFIXED, ResourceType.GROUP
    ids, write = ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE
    return [
        rule(APP, name, AclOperation.READ, kind=groups, pattern=prefixed),
        rule(APP, f"{name}-tx", write, kind=ids),
        rule(APP, "kafka-cluster", AclOperation.IDEMPOTENT_WRITE, kind=ResourceType.BROKER),
    ]


def other_rules(cluster: ClusterUnderTest, name: str) -> set[str]:
    """Those of them that are there."""
    with KafkaAclReader(Connection("x", cluster.properties(), timeout_s=20)) as reader:
        found = reader.acls()
    assert isinstance(found, Acls)
    mine = (r for r in found.rules if r.principal == USER and r.name in (name, f"{name}-tx"))
    own = {f"{r.operation} {r.on} {r.pattern}" for r in mine if r.resource != "TOPIC"}
    cluster_wide = Acl(
        "kafka-cluster", "LITERAL", USER, "*", "IDEMPOTENT_WRITE", "ALLOW", "CLUSTER"
    )
    return own | ({"IDEMPOTENT_WRITE"} if cluster_wide in found.rules else set())


def own_settings(cluster: ClusterUnderTest, topic: str) -> Mapping[str, str]:
    """Return the settings of the topic itself."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    (described,) = cluster.admin.describe_configs([resource]).values()
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {key: each.value for key, each in described.result().items() if each.source == own}


def partitions(cluster: ClusterUnderTest, topic: str) -> int:
    known = cluster.admin.list_topics(timeout=20).topics.get(topic)
    return len(known.partitions) if known else 0


def quotas(cluster: ClusterUnderTest, user: str) -> Mapping[str, float]:
    with KafkaQuotaReader(Connection("x", cluster.properties(), timeout_s=20)) as reader:
        found = reader.quotas()
    assert not isinstance(found, Unavailable)
    return found.get((("user", user),), {})


def state(cluster: ClusterUnderTest, given: Drifted) -> object:
    """Return everything on the target that may be changed."""
    return (
        quotas(cluster, given.user),
        own_settings(cluster, given.weak),
        [partitions(cluster, name) for name in (given.weak, given.missing)],
        [rules_of(cluster, name) for name in (given.weak, given.missing)],
        other_rules(cluster, given.weak),
    )


def test_drift_is_planned_repaired_after_a_crash_and_gone(
    drifted: Drifted,
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weak, missing = drifted.weak, drifted.missing
    before, ours = state(secondary, drifted), state(primary, drifted)
    file = drifted.drctl.folder / "plan.json"
    code, text = drifted.call("doctor", "--fix", "--plan-out", str(file))
    assert code == 1, text
    assert "Nothing has been changed. To apply the changes:" in text
    plan = check(json.loads(file.read_text(encoding="utf-8")))
    kinds = [step["kind"] for step in plan["steps"]]
    assert kinds == [
        *("check", "snapshot-state", "add-acls", "set-quotas", "configure-topics"),
        *("add-partitions", "create-topics", "final-precheck"),
    ]
    changes = {c["what"]: c for step in plan["steps"] for c in step["settings"].get("changes", ())}
    made = changes.pop(f"topic {missing}")
    assert made["after"].startswith("2 partitions, 1 replica, cleanup.policy=compact")
    assert {what: (c["before"], c["after"]) for what, c in changes.items()} == {
        f"ACL ALLOW {USER} WRITE topic {weak}": ("missing", "present"),
        f"ACL ALLOW {USER} READ group {weak}...": ("missing", "present"),
        f"ACL ALLOW {USER} WRITE transactional id {weak}-tx": ("missing", "present"),
        f"ACL ALLOW {USER} IDEMPOTENT_WRITE cluster kafka-cluster": ("missing", "present"),
        f"topic {weak}: max.message.bytes": ("1048588 (broker default)", "2000000"),
        f"topic {weak}: retention.ms": ("1000", "1209600000"),
        f"topic {weak}: partitions": ("1", "3"),
        f"quota {RATE} of user {drifted.user}": ("1e+06", "2e+06"),
        f"quota {SHARE} of user {drifted.user}": ("missing", "5"),
    }
    assert state(secondary, drifted) == before, "the plan wrote something"

    with monkeypatch.context() as patched:
        patched.setattr(AddPartitions, "check", refuse)
        code, back = drifted.json("doctor", "--fix", *GO)
    assert (code, back["status"]) == (3, "refused"), back
    assert state(secondary, drifted) == before, "not everything was rolled back"

    with monkeypatch.context() as patched:
        patched.setattr(ConfigureTopics, "apply", crash)
        assert drifted.call("doctor", "--fix", *GO)[0] == 70
    assert rules_of(secondary, weak) == {"ALLOW WRITE"}
    assert (
        other_rules(secondary, weak)
        == other_rules(primary, weak)
        == {
            f"READ group {weak} PREFIXED",
            f"WRITE transactional id {weak}-tx LITERAL",
            "IDEMPOTENT_WRITE",
        }
    )
    assert partitions(secondary, missing) == 0
    code, done = drifted.json("resume", *GO)
    assert (code, done["status"]) == (0, "done"), done
    assert quotas(secondary, drifted.user) == {RATE: 2_000_000.0, SHARE: 5.0}
    assert own_settings(secondary, weak) == {
        "max.message.bytes": "2000000",
        "retention.ms": "1209600000",
    }
    assert own_settings(secondary, missing)["cleanup.policy"] == "compact"
    assert [partitions(secondary, name) for name in (weak, missing)] == [3, 2]
    assert state(primary, drifted) == ours, "the source was changed"

    _, rows = drifted.json("doctor")
    statuses = {row["check"]: row["status"] for row in rows["checks"]}
    assert {name: statuses[name] for name in PARITY if statuses[name] != "ok"} == {}
    assert statuses["runs-unfinished"] == "ok"
    code, again = drifted.json("doctor", "--fix", *GO)
    assert (code, again["schema"], again["steps"]) == (0, "drctl/plan/1", [])
    disks = next(row for row in rows["checks"] if row["check"] == "disk-capacity")
    assert " free" in disks["evidence"]
    assert disks["status"] in ("ok", "warn"), "the status depends on this host's disk"

    primary.delete_topics([missing])
    _, rows = drifted.json("doctor")
    orphans = next(row for row in rows["checks"] if row["check"] == "orphaned-copies")
    assert orphans["status"] == "warn"
    assert orphans["reason"] == f"without a topic on primary: {missing}"
    assert partitions(secondary, missing) == 2


def alter_user(cluster: ClusterUnderTest, change: object) -> None:
    """Add or delete a SCRAM user."""
    (done,) = cluster.admin.alter_user_scram_credentials([change]).values()
    done.result()


def refuse(*_: object) -> Json:
    """Refuse; ACLs and settings are changed by then."""
    raise Refused("somebody else was quicker")


def crash(*_: object) -> tuple[str, ...]:
    """End the process."""
    raise RuntimeError("the process is gone")


def test_a_change_that_the_target_refuses_is_reported_with_its_reason(
    drifted: Drifted,
    new_drctl: NewDrctl,
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
    site: Site,
) -> None:
    primary.configure(drifted.weak, min_insync_replicas="2")
    sha = ScramMechanism.SCRAM_SHA_512
    info = ScramCredentialInfo(sha, 4096)
    alter_user(primary, UserScramCredentialUpsertion(drifted.user, info, b"secret"))
    gone = UserScramCredentialDeletion(drifted.user, sha)
    site.opened.callback(alter_user, primary, gone)
    renamed = f"copy.{drifted.missing}"
    replicator = {"kind": "none", "rename": "copy.${topic}"}
    link = link_over(drifted.missing, groups=["nobody"], replicator=replicator)
    code, plan = drifted.json("doctor", "--fix")
    assert code == 1, plan["refused"]
    left = {each["subject"]: each for each in plan["findings"] if each["status"] == "warn"}
    topic = left.pop(f"topic {drifted.weak}: min.insync.replicas=1 (source: 2)")
    assert "it would reject acks=all" in topic["reason"]
    user = left.pop(f"SCRAM user {drifted.user} is not on secondary")
    assert user["reason"].startswith("passwords cannot be read")
    assert f"--entity-name {drifted.user}" in user["remedy"]
    assert not left
    other = Drifted(new_drctl({"prefixed": link}), "", drifted.missing)
    code, plan = other.json("doctor", "--fix")
    made = next(step for step in plan["steps"] if step["kind"] == "create-topics")
    assert [each["topic"] for each in made["settings"]["changes"]] == [renamed]
    assert partitions(secondary, renamed) == 0
