"""A topic of our own: made where there is none, and whether this user may write it."""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AclOperation,
    NewTopic,
)

from drctl.model.errors import ConfigError, Unknown
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.faults import Fault
from drctl.systems.kafka.own_topics import LEDGER, Purpose
from drctl.systems.kafka.requests import GRACE_S, outcome

_REPLICAS = 3
_PATIENCE_S = 30.0
_PAUSE_S = 0.1


def create_compacted(
    connection: Connection,
    topic: str,
    purpose: Purpose = LEDGER,
    config: Mapping[str, str] | None = None,
) -> None:
    """Make a compacted topic of one partition, unless somebody else just did.

    A write counts when all replicas but one have it, where there are three.

    Args:
        config: what else it is to be like.

    Raises:
        ConfigError: this user may not, or the cluster does not take it.
        Unreachable: the cluster did not answer.
        Unknown: it has no leader in time.
    """
    brokers = len(connection.metadata(connection.deadline()).brokers)
    replicas = min(_REPLICAS, brokers)
    insync = {"min.insync.replicas": str(max(1, replicas - 1))}
    settings = {"cleanup.policy": "compact", **insync, **(config or {})}
    new = NewTopic(topic, 1, replication_factor=replicas, config=settings)
    asked = connection.admin().create_topics([new], operation_timeout=_PATIENCE_S)
    done = outcome(asked[topic], _PATIENCE_S + GRACE_S)
    if isinstance(done, Fault) and done.code != KafkaError.TOPIC_ALREADY_EXISTS:
        raise ConfigError(
            f"topic {topic} of {connection.name} cannot be made: {connection.redacted(done.text)}",
            f"grant CREATE on it ({purpose.page}), or make it: 1 partition, cleanup.policy compact",
        )
    _await_leader(connection, topic)


def check_writable(connection: Connection, topic: str, purpose: Purpose = LEDGER) -> None:
    """Ask what this user may do; where the cluster does not tell, writing will.

    Raises:
        ConfigError: this user may not write it.
    """
    asked: Mapping[str, Any] = connection.admin().describe_topics(
        TopicCollection([topic]), include_authorized_operations=True
    )
    found = outcome(asked[topic], connection.timeout_s)
    allowed = None if isinstance(found, Fault) else found.authorized_operations
    if allowed is not None and AclOperation.WRITE not in allowed:
        raise ConfigError(
            f"topic {topic} of {connection.name} may not be written by this user",
            f"grant READ, WRITE and DESCRIBE_CONFIGS on it ({purpose.page})",
        )


def _await_leader(connection: Connection, topic: str) -> None:
    deadline = Deadline.after(_PATIENCE_S)
    while not deadline.expired:
        known = connection.metadata(deadline).topics.get(topic)
        if known and known.partitions and known.partitions[0].leader >= 0:
            return
        connection.wait(_PAUSE_S)
    raise Unknown(
        f"topic {topic} of {connection.name} has no leader after {_PATIENCE_S:g} s",
        "see that its brokers run",
    )
