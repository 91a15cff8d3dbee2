"""A restricted user for drctl on the target: ACLs do not apply to the administrator."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from uuid import uuid4

import yaml
from confluent_kafka.admin import AclBinding, AclOperation, ResourceType  # type: ignore[attr-defined, unused-ignore]

from drctl.formats.journal_records import TOPIC as JOURNAL_TOPIC
from tests.cluster.failover_stage import Stage
from tests.cluster.topic_acls import delete_acls, grant, rule
from tests.cluster.writer import known_to


def may_use_the_transactional_id(user: str, link: str) -> AclBinding:
    kind = ResourceType.TRANSACTIONAL_ID
    return rule(user, f"drctl.{link}", AclOperation.WRITE, kind=kind)


def may_not_write_the_journal(user: str) -> AclBinding:
    return rule(user, JOURNAL_TOPIC, AclOperation.WRITE, deny=True)


@contextmanager
def as_somebody(stage: Stage, *rules: Callable[[str], AclBinding]) -> Iterator[None]:
    """Use a restricted user on the target during the block, with these permissions besides others.

    The others are topics, groups and the cluster, but not transactional ids.
    """
    user, all_ = f"drctl-{uuid4().hex[:6]}", AclOperation.ALL
    given = [
        rule(user, "*", all_),
        rule(user, "*", all_, kind=ResourceType.GROUP),
        rule(user, "kafka-cluster", all_, kind=ResourceType.BROKER),
        *(make(user) for make in rules),
    ]
    config = stage.drctl.config
    before = config.read_text(encoding="utf-8")
    with ExitStack() as known:
        password = known.enter_context(known_to((stage.target,), user, f"of-{user}"))
        grant(stage.target, *given)
        known.callback(delete_acls, stage.target, *given)
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
