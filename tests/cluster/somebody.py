"""Somebody that drctl is on the target: for the administrator no rule counts."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from uuid import uuid4

import yaml
from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from drctl.formats.journal_records import TOPIC as JOURNAL_TOPIC
from tests.cluster.failover_stage import Stage
from tests.cluster.writer import known_to
from tests.lab.cluster_under_test import ClusterUnderTest


def may_use_the_transactional_id(user: str, link: str) -> AclBinding:
    return rule(user, ResourceType.TRANSACTIONAL_ID, f"drctl.{link}", AclOperation.WRITE)


def may_not_write_the_journal(user: str) -> AclBinding:
    return rule(user, ResourceType.TOPIC, JOURNAL_TOPIC, AclOperation.WRITE, deny=True)


def rule(
    user: str, kind: ResourceType, name: str, operation: AclOperation, *, deny: bool = False
) -> AclBinding:
    permission = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
    pattern = ResourcePatternType.LITERAL
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, permission)


@contextmanager
def as_somebody(stage: Stage, *rules: Callable[[str], AclBinding]) -> Iterator[None]:
    """Until the block ends, drctl is on the target somebody who may do this beside all else.

    All else are topics, groups and the cluster; transactional ids are not among them.
    """
    user, do = f"drctl-{uuid4().hex[:6]}", AclOperation
    given = [
        rule(user, ResourceType.TOPIC, "*", do.ALL),
        rule(user, ResourceType.GROUP, "*", do.ALL),
        rule(user, ResourceType.BROKER, "kafka-cluster", do.ALL),
        *(make(user) for make in rules),
    ]
    config = stage.drctl.config
    before = config.read_text(encoding="utf-8")
    with ExitStack() as known:
        password = known.enter_context(known_to((stage.target,), user, f"of-{user}"))
        for done in stage.target.admin.create_acls(given).values():
            done.result()
        known.callback(take_back, stage.target, given)
        file = stage.drctl.folder / user
        file.touch(mode=0o600)
        file.write_text(password, encoding="utf-8")
        document = yaml.safe_load(before)
        document["clusters"]["secondary"]["properties"] |= {
            "sasl.username": user,
            "sasl.password": f"${{file:{file}}}",
        }
        config.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        known.callback(config.write_text, before, encoding="utf-8")
        yield


def take_back(cluster: ClusterUnderTest, rules: list[AclBinding]) -> None:
    filters = [
        AclBindingFilter(
            *(each.restype, each.name, each.resource_pattern_type, each.principal, each.host),
            *(each.operation, each.permission_type),
        )
        for each in rules
    ]
    for done in cluster.admin.delete_acls(filters).values():
        done.result()
