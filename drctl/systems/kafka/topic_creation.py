"""A topic of our own: made where there is none, and whether this user may write it."""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AclOperation,
    NewTopic,
)

from drctl.model.errors import ConfigError, Unknown, Unreachable
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
    """Make a compacted topic of one partition, as `create` does.

    Raises:
        ConfigError, Unreachable, Unknown: likewise.
    """
    create(connection, topic, purpose, {"cleanup.policy": "compact", **(config or {})})


def create(connection: Connection, topic: str, purpose: Purpose, config: Mapping[str, str]) -> None:
    """Make a topic of one partition, unless somebody else just did.

    A write counts when all replicas but one have it, where there are three.

    Args:
        config: what else it is to be like.

    Raises:
        ConfigError: this user may not, or the cluster does not take it.
        Unreachable: the cluster did not answer.
        Unknown: it has no leader in time.
    """
    _ask_for(connection, topic, purpose, config)
    _await_leader(connection, topic)


def check_creatable(
    connection: Connection, topic: str, purpose: Purpose, config: Mapping[str, str]
) -> None:
    """Ask whether this user may make such a topic; makes none.

    Raises:
        ConfigError: this user may not, or the cluster does not take it.
        Unreachable: the cluster did not answer.
    """
    _ask_for(connection, topic, purpose, config, validate_only=True)


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


def _ask_for(
    connection: Connection,
    topic: str,
    purpose: Purpose,
    config: Mapping[str, str],
    *,
    validate_only: bool = False,
) -> None:
    brokers = len(connection.nodes(connection.deadline()).brokers)
    replicas = min(_REPLICAS, brokers)
    settings = {"min.insync.replicas": str(max(1, replicas - 1)), **config}
    new = NewTopic(topic, 1, replication_factor=replicas, config=settings)
    asked = connection.admin().create_topics(
        [new], operation_timeout=_PATIENCE_S, validate_only=validate_only
    )
    done = outcome(asked[topic], _PATIENCE_S + GRACE_S)
    if not isinstance(done, Fault) or done.code == KafkaError.TOPIC_ALREADY_EXISTS:
        return
    reason = connection.redacted(done.text)
    message = f"topic {topic} of {connection.name} cannot be made: {reason}"
    if done.retried:
        raise Unreachable(message, "see that its brokers run, and run it again")
    policy = config["cleanup.policy"]
    raise ConfigError(
        message,
        f"grant CREATE on it ({purpose.page}), or make it: 1 partition, cleanup.policy {policy}",
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
