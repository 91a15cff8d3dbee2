"""A limit on how fast a user may read from a cluster: a slow line, for replication."""

from struct import pack

from drctl.formats.primitives import Cursor, compact_nullable_string, compact_string
from drctl.kafka.broker_socket import BrokerSocket
from drctl.kafka.brokers import Brokers
from drctl.kafka.connection import Connection
from drctl.kafka.protocol import NO_TAGS, Api, compact_array
from drctl.lab.cluster import LabCluster

_ALTER_QUOTAS = Api("AlterClientQuotas", 49, 1, True, "2.8")
_KEY = "consumer_byte_rate"
_TIMEOUT_S = 20.0


def limit_reading(cluster: LabCluster, user: str, bytes_per_second: float | None) -> None:
    """Set it, or take it away.

    Raises:
        Unreachable: no broker answered.
    """
    name = compact_string("user") + compact_nullable_string(user) + NO_TAGS
    limit = pack(">d?", bytes_per_second or 0.0, bytes_per_second is None)
    change = compact_string(_KEY) + limit + NO_TAGS
    entry = compact_array((name,)) + compact_array((change,)) + NO_TAGS
    body = compact_array((entry,)) + b"\0" + NO_TAGS

    def ask(opened: BrokerSocket) -> bytes:
        return opened.exchange(_ALTER_QUOTAS, body, Cursor.rest)

    connection = Connection(cluster.name, cluster.client_properties(), _TIMEOUT_S)
    try:
        Brokers(connection).first(ask, connection.deadline())
    finally:
        connection.close()
