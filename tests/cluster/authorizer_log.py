"""What brokers have allowed a user: their authorizer logs it at level DEBUG."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from confluent_kafka.admin import AclBinding, AclOperation, ResourcePatternType, ResourceType  # type: ignore[attr-defined, unused-ignore]

from drctl.kafka.brokers import Brokers, BrokerSocket
from drctl.kafka.connection import Connection
from drctl.kafka.protocol import (
    INT8,
    INT16,
    NULLABLE_STRING,
    STRING,
    TEXT,
    THROTTLE,
    Api,
    body_reader,
    body_writer,
    only_field,
    rows,
)
from tests.lab.cluster_under_test import DEADLINE_S, ClusterUnderTest

ALTER_CONFIGS = Api("IncrementalAlterConfigs", 44, 1, True, "2.4")
_LOGGER, _BROKER_LOGGER, _SET, _DELETE = "kafka.authorizer.logger", 8, 0, 1
_write = body_writer(rows(INT8, STRING, rows(STRING, INT8, NULLABLE_STRING)), INT8)
_read = body_reader(only_field, THROTTLE, rows(INT16, TEXT, INT8, STRING))

_KINDS = {
    "Topic": ResourceType.TOPIC,
    "Group": ResourceType.GROUP,
    "TransactionalId": ResourceType.TRANSACTIONAL_ID,
    "Cluster": ResourceType.BROKER,
}
_IMPLIED_BY = {
    AclOperation.DESCRIBE: {
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    },
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}


class Allowed(NamedTuple):
    """An operation on a resource that a request needed; the name has no odd characters."""

    kind: ResourceType
    name: str
    operation: AclOperation

    def by(self, acl: AclBinding) -> bool:
        """Whether this ACL allows it."""
        name = _plain(acl.name)
        prefixed = acl.resource_pattern_type == ResourcePatternType.PREFIXED
        named = self.name.startswith(name) if prefixed else name in (self.name, "*")
        operations = {self.operation, *_IMPLIED_BY.get(self.operation, ())}
        return named and acl.restype == self.kind and acl.operation in operations


def _plain(name: str) -> str:
    """Without the characters that a broker may not be able to print."""
    return re.sub(r"[^ -~]|\?", "", name)


@contextmanager
def allowed_to(user: str, cluster: ClusterUnderTest) -> Iterator[set[Allowed]]:
    """Log what brokers allow during the block; after it, the set has what they allowed the user."""
    logs = [broker.part.log for broker in cluster.lab_cluster.brokers]
    before = [log.stat().st_size for log in logs]
    found: set[Allowed] = set()
    _set_level(cluster, _SET, "DEBUG")
    try:
        yield found
    finally:
        _set_level(cluster, _DELETE, None)
    for log, start in zip(logs, before, strict=True):
        with log.open("rb") as file:
            file.seek(start)
            found |= _allowed(user, file.read().decode(errors="replace"))


def _allowed(user: str, text: str) -> set[Allowed]:
    messages = re.findall(
        rf"Principal = User:{user} is Allowed operation = (\w+) from host = \S+"
        r" on resource = (\w+):LITERAL:(.*?) for request = \w+ with resourceRefCount = ",
        text,
        re.DOTALL,
    )
    return {
        Allowed(_KINDS[kind], _plain(name), AclOperation[what]) for what, kind, name in messages
    }


def _set_level(cluster: ClusterUnderTest, operation: int, level: str | None) -> None:
    """Set or remove the level of the authorizer's logger, which librdkafka cannot."""

    def change(broker: BrokerSocket) -> tuple[int, str]:
        resource = (_BROKER_LOGGER, str(broker.address.node), [(_LOGGER, operation, level)])
        ((error, text, *_),) = broker.exchange(ALTER_CONFIGS, _write([resource], 0), _read)
        return error, text

    connection = Connection("loggers", cluster.properties(), DEADLINE_S)
    answers = Brokers(connection).ask_all(change, connection.deadline())
    assert set(answers.values()) == {(0, "")}, answers
