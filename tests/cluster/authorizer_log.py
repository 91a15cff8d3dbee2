"""Which ACLs a user has needed, from the authorizer's log of each broker."""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from drctl.kafka.brokers import BrokerSocket, ClusterClient
from drctl.kafka.connection import Connection
from drctl.kafka.protocol import (
    INT8,
    INT16,
    NULLABLE_STRING,
    STRING,
    THROTTLE,
    Api,
    body_reader,
    body_writer,
    only_field,
    rows,
    skipped,
)
from drctl.model.topology import Unavailable
from tests.lab.cluster_under_test import ClusterUnderTest

_ALTER = Api("IncrementalAlterConfigs", 44, 1, True, "2.4")
_REQUEST = body_writer(
    rows(INT8, STRING, rows(STRING, INT8, NULLABLE_STRING)),
    INT8,  # whether to validate only
)
_RESPONSE = body_reader(
    only_field, THROTTLE, rows(INT16, NULLABLE_STRING, skipped(INT8), skipped(STRING))
)
_LOGGER_OF_BROKER = 8
_SET = 0
_USED = re.compile(
    r"MatchingAcl\(acl=StandardAcl\(resourceType=(?P<kind>\w+), resourceName=(?P<name>.*?),"
    r" patternType=(?P<pattern>\w+), principal=User:(?P<user>[^,]*), host=\*,"
    r" operation=(?P<operation>\w+), permissionType=ALLOW\)",
    re.DOTALL,
)


class Used(NamedTuple):
    """An ACL that has allowed a request."""

    kind: str
    name: str
    operation: str


class _Loggers(ClusterClient):
    """Sets the level of the authorizer's logger on each broker."""

    def set(self, level: str) -> None:
        def change(broker: BrokerSocket) -> None:
            settings = [("kafka.authorizer.logger", _SET, level)]
            body = _REQUEST([(_LOGGER_OF_BROKER, str(broker.address.node), settings)], 0)
            for error, message in broker.exchange(_ALTER, body, _RESPONSE):
                assert not error, message

        deadline = self._connection.deadline()
        for answer in self._brokers.ask_all(change, deadline).values():
            assert not isinstance(answer, Unavailable), answer


@contextmanager
def used_acls(clusters: Sequence[ClusterUnderTest], user: str) -> Iterator[dict[str, set[Used]]]:
    """Log authorizations in the block; the result, by cluster, is complete at its end."""
    used: dict[str, set[Used]] = {}
    with ExitStack() as opened:
        begun = {}
        for cluster in clusters:
            loggers = opened.enter_context(
                _Loggers(Connection(cluster.name, cluster.properties(), timeout_s=20))
            )
            logs = [broker.part.log for broker in cluster.lab_cluster.brokers]
            begun[cluster.name] = [(log, log.stat().st_size) for log in logs]
            loggers.set("DEBUG")
            opened.callback(loggers.set, "INFO")
        yield used
        for cluster, logs in begun.items():
            used[cluster] = set()
            for log, size in logs:
                with log.open("rb") as written:
                    written.seek(size)
                    text = written.read().decode(errors="replace")
                used[cluster] |= {
                    Used(each["kind"], each["name"], each["operation"])
                    for each in _USED.finditer(text)
                    if each["user"] == user
                }
