"""What topics are: partitions, leaders, configuration, and whether they may be read."""

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any

from confluent_kafka import TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AclOperation,
    ConfigResource,
    ResourceType,
    TopicDescription,
)

from drctl.model.topology import TopicState, Unavailable
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.faults import Fault
from drctl.systems.kafka.requests import gather, in_chunks

_CHUNK = 100
_DESCRIPTION, _CONFIG = "description", "configuration"

Question = tuple[str, str]
State = TopicState | Unavailable | None


def read_topics(
    connection: Connection, names: Collection[str], deadline: Deadline
) -> dict[str, State]:
    """Each named topic's state; None where the cluster says that it does not exist.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    questions = [(kind, name) for kind in (_DESCRIPTION, _CONFIG) for name in names]
    answers = gather(connection, questions, partial(_ask, connection), deadline)
    return {name: _state(name, answers, connection) for name in names}


def _ask(
    connection: Connection, questions: Collection[Question], timeout: float, deadline: Deadline
) -> Iterator[tuple[Question, Any]]:
    # Tells the client which broker to ask: the one it asked before may be dead.
    connection.metadata(deadline)
    admin = connection.admin()
    for chunk in in_chunks([name for kind, name in questions if kind == _DESCRIPTION], _CHUNK):
        described = admin.describe_topics(
            TopicCollection(chunk), include_authorized_operations=True, request_timeout=timeout
        )
        yield from (((_DESCRIPTION, name), described[name]) for name in chunk)
    for chunk in in_chunks([name for kind, name in questions if kind == _CONFIG], _CHUNK):
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in chunk]
        configured = admin.describe_configs(resources, request_timeout=timeout)
        yield from (
            ((_CONFIG, name), f) for name, f in zip(chunk, configured.values(), strict=True)
        )


def _state(name: str, answers: Mapping[Question, Any], connection: Connection) -> State:
    description, config = answers[_DESCRIPTION, name], answers[_CONFIG, name]
    if isinstance(description, Fault):
        return None if description.missing else _unavailable(name, description, connection)
    if isinstance(config, Fault):
        if config.missing:
            return None
        if not config.forbidden:
            return _unavailable(name, config, connection)
        config = {}
    return TopicState(
        name,
        {p.id: None if p.leader is None else p.leader.id for p in description.partitions},
        {key: entry.value for key, entry in config.items() if entry.value is not None},
        _readable(description),
        str(description.topic_id),
    )


def _unavailable(name: str, fault: Fault, connection: Connection) -> Unavailable:
    if fault.forbidden:
        return Unavailable(f"not authorized to describe topic {name}")
    return Unavailable(f"topic {name} could not be described: {connection.redacted(fault.text)}")


def _readable(description: TopicDescription) -> bool:
    # None from brokers before 2.3, which do not tell.
    operations = description.authorized_operations
    return operations is None or AclOperation.READ in operations
