"""Commands work with exactly the permissions of docs/howto/permissions.md."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple
from uuid import uuid4

import pytest
import yaml
from confluent_kafka.admin import AclOperation, ResourceType  # type: ignore[attr-defined, unused-ignore]

from tests.cluster.failover_stage import Stage
from tests.cluster.isolated_links import READ, RECORDS, OwnLinks, at_work
from tests.cluster.link_command import GO
from tests.cluster.topic_acls import delete_acls, grant, rule
from tests.cluster.writer import known_to

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(300)]

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.BROKER,
    ResourceType.TRANSACTIONAL_ID,
)
SOURCE, TARGET = "primary", "secondary"
BOTH = (SOURCE, TARGET)
PLANS = ("planned", "unplanned")


class Row(NamedTuple):
    """A row of a table of the page."""

    clusters: Sequence[str]
    kind: ResourceType
    name: str
    operations: str


READ_ONLY = (
    Row(BOTH, TOPIC, "{topic}", "READ DESCRIBE_CONFIGS"),
    Row((SOURCE,), TOPIC, "mm2-offset-syncs.secondary.internal", "READ"),
    Row((TARGET,), TOPIC, "mm2-offset-syncs.primary.internal", "READ"),
    Row((TARGET,), TOPIC, "primary.checkpoints.internal", "READ"),
    Row((TARGET,), TOPIC, "__drctl_journal", "READ"),
    Row(BOTH, TOPIC, "__consumer_offsets", "DESCRIBE"),
    Row(BOTH, GROUP, "{group}", "DESCRIBE"),
    Row(BOTH, CLUSTER, "kafka-cluster", "DESCRIBE DESCRIBE_CONFIGS"),
)
JOURNAL = (
    Row((TARGET,), TOPIC, "__drctl_journal", "READ DESCRIBE_CONFIGS WRITE CREATE"),
    Row((TARGET,), TRANSACTIONAL_ID, "drctl.{link}", "WRITE"),
)
FAILOVER = (
    Row(BOTH, CLUSTER, "kafka-cluster", "ALTER DESCRIBE"),
    Row((SOURCE,), TRANSACTIONAL_ID, "*", "DESCRIBE WRITE"),
    Row((TARGET,), GROUP, "{group}", "READ"),
    Row((TARGET,), TOPIC, "__drctl_canary", "READ WRITE CREATE"),
)
TRACKING = (
    Row((TARGET,), TOPIC, "__drctl_anchors", "READ DESCRIBE_CONFIGS WRITE CREATE"),
    Row((SOURCE,), GROUP, "{group}", "DESCRIBE"),
    Row((SOURCE,), TOPIC, "__consumer_offsets", "DESCRIBE"),
    Row((SOURCE,), TOPIC, "{topic}", "READ"),
)


@contextmanager
def permitted(stage: Stage, *rows: Row) -> Iterator[None]:
    """Let drctl use a user with these permissions, and no other, on both clusters."""
    user = f"drctl-{uuid4().hex[:6]}"
    names = {"topic": stage.topic, "group": stage.group, "link": stage.link}
    config = stage.drctl.config
    before = config.read_text(encoding="utf-8")
    with ExitStack() as opened:
        password = opened.enter_context(known_to(stage.site.clusters, user, f"none-of-{user}"))
        for cluster in stage.site.clusters:
            allowed = {
                (row.kind, row.name.format(**names), operation)
                for row in rows
                if cluster.name in row.clusters
                for operation in row.operations.split()
            }
            rules = [rule(user, n, AclOperation[o], kind=k) for k, n, o in allowed]
            grant(cluster, *rules)
            opened.callback(delete_acls, cluster, *rules)
        file = stage.drctl.folder / user
        file.touch(mode=0o600)
        file.write_text(password, encoding="utf-8")
        document = yaml.safe_load(before)
        for name in BOTH:
            document["clusters"][name]["properties"] |= {
                "sasl.username": user,
                "sasl.password": f"${{file:{file}}}",
            }
        config.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        opened.callback(config.write_text, before, encoding="utf-8")
        yield


def test_read_only_commands_need_only_the_read_only_permissions(links: OwnLinks) -> None:
    stage = links.make()
    at_work(stage)
    stage.copied(RECORDS)
    with permitted(stage, *READ_ONLY):
        gap = stage.json("gap", code=0)
        translated = stage.json("offsets", "translate", code=0)
        status = stage.json("status", code=1)
    assert gap["totals"]["unreplicated"] == 0
    assert {row["target_offset"] for row in translated["rows"]} == {READ}
    # Only what would write is refused for lack of permission.
    blocking = {each["check"] for plan in PLANS for each in status[plan]["blockers"]}
    assert blocking == {"fence-not-possible", "journal-not-writable"}
    unreadable = [each for each in status["other_findings"] if "may not" in str(each)]
    assert not unreadable


def test_a_planned_failover_needs_the_documented_permissions(links: OwnLinks) -> None:
    stage = links.make()
    at_work(stage)
    stage.copied(RECORDS)
    with permitted(stage, *READ_ONLY, *JOURNAL, *FAILOVER):
        done = stage.json("failover", *GO, code=0)
    assert done["status"] == "done"


def test_offsets_are_tracked_with_the_documented_permissions(links: OwnLinks) -> None:
    stage = links.make()
    at_work(stage)
    with permitted(stage, *TRACKING):
        stage.json("offsets", "track", "--once", *GO, code=0)
