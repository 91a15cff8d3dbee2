"""Topic partitions, leaders, configurations, and whether this user may read them."""

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from itertools import count
from typing import Any

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AclOperation, ConfigResource, ResourceType, TopicDescription  # type: ignore[attr-defined, unused-ignore]

from drctl.kafka.connection import Connection, gather, in_chunks
from drctl.kafka.deadline import Deadline
from drctl.kafka.faults import Fault, not_described
from drctl.model.topology import TopicState, Unavailable

_CHUNK = 100
_DESCRIPTION, _CONFIG = "description", "configuration"

Question = tuple[str, str]
State = TopicState | Unavailable | None


def read_topics(
    connection: Connection, names: Collection[str], deadline: Deadline, refreshed: bool = False
) -> dict[str, State]:
    """Each named topic's state; None if it does not exist.

    Args:
        refreshed: whether the client has just read the cluster's metadata.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    questions = [(kind, name) for kind in (_DESCRIPTION, _CONFIG) for name in names]
    ask = partial(_ask, connection, count(int(not refreshed)))
    answers = gather(connection, questions, ask, deadline)
    return {name: _state(name, answers, connection) for name in names}


def read_configurations(
    connection: Connection, names: Collection[str], deadline: Deadline, refreshed: bool = False
) -> dict[str, Mapping[str, str] | Unavailable]:
    """Each topic's configuration; `refreshed` as for `read_topics`.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    questions = [(_CONFIG, name) for name in names]
    ask = partial(_ask, connection, count(int(not refreshed)))
    answers = gather(connection, questions, ask, deadline)
    found: dict[str, Mapping[str, str] | Unavailable] = {}
    for _, name in questions:
        answer = answers[_CONFIG, name]
        fault = isinstance(answer, Fault)
        found[name] = _unavailable(name, answer, connection) if fault else _values(answer)
    return found


def _ask(
    connection: Connection,
    rounds: Iterator[int],
    questions: Collection[Question],
    timeout: float,
    deadline: Deadline,
) -> Iterator[tuple[Question, Any]]:
    if next(rounds):
        # Refresh the client's brokers: the one that it asked before may be dead.
        connection.nodes(deadline)
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
        _values(config),
        _readable(description),
        str(description.topic_id),
    )


def _values(config: Mapping[str, Any]) -> dict[str, str]:
    return {key: entry.value for key, entry in config.items() if entry.value is not None}


def _unavailable(name: str, fault: Fault, connection: Connection) -> Unavailable:
    if fault.forbidden:
        return Unavailable(not_described(name))
    return Unavailable(f"topic {name} could not be described: {connection.redacted(fault.text)}")


def _readable(description: TopicDescription) -> bool:
    # None from brokers before 2.3, which do not report it.
    operations = description.authorized_operations
    return operations is None or AclOperation.READ in operations
