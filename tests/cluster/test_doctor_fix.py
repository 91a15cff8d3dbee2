"""`drctl doctor --fix` on real clusters: drift is planned, carried out, and gone."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import AclOperation, ConfigResource, ConfigSource, ResourceType  # type: ignore[attr-defined, unused-ignore]

from drctl.model.errors import Refused
from drctl.model.plan import Json
from drctl.steps.repairs import AddPartitions, ConfigureTopics
from tests.cli.documents import check
from tests.cluster.command import Drctl
from tests.cluster.failover_stage import APP
from tests.cluster.rights import forget, grant, rule, rules_of
from tests.cluster.site import NewDrctl, Site, link_over
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

GO = ("--execute", "--yes")
USER = "User:orders-app"
PARITY = (
    *("topics-missing-on-target", "fewer-partitions-on-target", "topic-config-parity"),
    *("acl-parity", "retention-parity", "timestamp-type-parity"),
)


@dataclass(frozen=True)
class Drifted:
    """A link whose target lacks things; MirrorMaker 2 does not copy topics of these names.

    Attributes:
        weak: a topic with fewer partitions, and weaker settings.
        missing: one that is not there.
    """

    drctl: Drctl
    weak: str
    missing: str

    def call(self, *words: str) -> tuple[int, str]:
        """The exit code, and stdout."""
        ran = self.drctl(*words)
        return ran.code, ran.stdout

    def json(self, *words: str) -> tuple[int, dict[str, Any]]:
        """The exit code, and the document."""
        code, text = self.call("-o", "json", *words)
        return code, check(json.loads(text))


@pytest.fixture
def drifted(site: Site) -> Drifted:
    config = {"max.message.bytes": "2000000", "retention.ms": "1209600000"}
    there = {"retention.ms": "1000"}
    weak = site.new_topic(3, target_partitions=1, config=config, target_config=there)
    missing = site.new_topic(2, config={"cleanup.policy": "compact"}, on=("primary",))
    grant(site.primary, rule(APP, weak, AclOperation.WRITE))
    for cluster in site.clusters:
        site.opened.callback(forget, cluster, weak, missing)
        grant(cluster, rule(APP, missing, AclOperation.READ))
    fence = {"method": "acl", "principals": [USER]}
    replicator = {"kind": "none"}
    link = link_over(weak, missing, groups=["nobody"], replicator=replicator, fence=fence)
    return Drifted(site.new_drctl({f"fix-{uuid4().hex[:8]}": link}), weak, missing)


def own_settings(cluster: ClusterUnderTest, topic: str) -> Mapping[str, str]:
    """What the topic itself is set to."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    (told,) = cluster.admin.describe_configs([resource]).values()
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {key: each.value for key, each in told.result().items() if each.source == own}


def partitions(cluster: ClusterUnderTest, topic: str) -> int:
    known = cluster.admin.list_topics(timeout=20).topics.get(topic)
    return len(known.partitions) if known else 0


def state(cluster: ClusterUnderTest, given: Drifted) -> object:
    """Everything of the target that may be changed."""
    return (
        own_settings(cluster, given.weak),
        [partitions(cluster, name) for name in (given.weak, given.missing)],
        [rules_of(cluster, name) for name in (given.weak, given.missing)],
    )


def test_drift_is_shown_repaired_after_a_crash_and_gone(
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
        *("check", "snapshot-state", "add-rules", "configure-topics", "add-partitions"),
        *("create-topics", "final-precheck"),
    ]
    changes = {c["what"]: c for step in plan["steps"] for c in step["settings"].get("changes", ())}
    made = changes.pop(f"topic {missing}")
    assert made["after"].startswith("2 partitions, 1 replica, cleanup.policy=compact")
    assert {what: (c["before"], c["after"]) for what, c in changes.items()} == {
        f"ACL ALLOW {USER} WRITE topic {weak}": ("missing", "present"),
        f"topic {weak}: max.message.bytes": ("1048588 (of its brokers)", "2000000"),
        f"topic {weak}: retention.ms": ("1000", "1209600000"),
        f"topic {weak}: partitions": ("1", "3"),
    }
    assert state(secondary, drifted) == before, "a plan has written"

    with monkeypatch.context() as patched:
        patched.setattr(AddPartitions, "check", refuse)
        code, back = drifted.json("doctor", "--fix", *GO)
    assert (code, back["status"]) == (3, "refused"), back
    assert state(secondary, drifted) == before, "not everything was put back"

    with monkeypatch.context() as patched:
        patched.setattr(ConfigureTopics, "apply", crash)
        assert drifted.call("doctor", "--fix", *GO)[0] == 70
    assert rules_of(secondary, weak) == {"ALLOW WRITE"}
    assert partitions(secondary, missing) == 0
    code, done = drifted.json("resume", *GO)
    assert (code, done["status"]) == (0, "done"), done
    assert own_settings(secondary, weak) == {
        "max.message.bytes": "2000000",
        "retention.ms": "1209600000",
    }
    assert own_settings(secondary, missing)["cleanup.policy"] == "compact"
    assert [partitions(secondary, name) for name in (weak, missing)] == [3, 2]
    assert state(primary, drifted) == ours, "the source was changed"

    _, rows = drifted.json("doctor")
    said = {row["check"]: row["status"] for row in rows["checks"]}
    assert {said[name] for name in PARITY} == {"ok"}
    assert said["runs-unfinished"] == "ok"
    code, again = drifted.json("doctor", "--fix", *GO)
    assert (code, again["schema"], again["steps"]) == (0, "drctl/plan/1", [])


def refuse(*_: object) -> Json:
    """Rules and settings are changed by then."""
    raise Refused("somebody else was quicker")


def crash(*_: object) -> tuple[str, ...]:
    """The process comes to no good end."""
    raise RuntimeError("the process is gone")


def test_what_the_target_would_refuse_is_left_with_its_reason(
    drifted: Drifted, new_drctl: NewDrctl, primary: ClusterUnderTest, secondary: ClusterUnderTest
) -> None:
    primary.configure(drifted.weak, min_insync_replicas="2")
    renamed = f"copy.{drifted.missing}"
    replicator = {"kind": "none", "rename": "copy.${topic}"}
    link = link_over(drifted.missing, groups=["nobody"], replicator=replicator)
    code, plan = drifted.json("doctor", "--fix")
    assert code == 1, plan["refused"]
    left = [each for each in plan["findings"] if each["status"] == "warn"]
    assert [each["subject"] for each in left] == [
        f"topic {drifted.weak}: min.insync.replicas=1 (source: 2)"
    ]
    assert "it would reject acks=all" in left[0]["reason"]
    other = Drifted(new_drctl({"prefixed": link}), "", drifted.missing)
    code, plan = other.json("doctor", "--fix")
    made = next(step for step in plan["steps"] if step["kind"] == "create-topics")
    assert [each["topic"] for each in made["settings"]["changes"]] == [renamed]
    assert partitions(secondary, renamed) == 0
