"""A quota on a user's reads or writes, to slow down replication."""

from drctl.formats.primitives import Cursor
from drctl.kafka.brokers import Brokers, BrokerSocket
from drctl.kafka.connection import Connection
from drctl.kafka.protocol import INT8, NULLABLE_STRING, STRING, Api, body_writer, rows
from drctl.kafka.survey import FLOAT64
from drctl.lab.cluster import LabCluster

_ALTER_QUOTAS = Api("AlterClientQuotas", 49, 1, True, "2.8")
_LIMITS = rows(STRING, FLOAT64, INT8)
_BODY = body_writer(rows(rows(STRING, NULLABLE_STRING), _LIMITS), INT8)
_FOR_GOOD = 0
READING = "consumer_byte_rate"
_TIMEOUT_S = 20.0


def limit(
    cluster: LabCluster, user: str, bytes_per_second: float | None, key: str = READING
) -> None:
    """Set or remove it.

    Raises:
        Unreachable: no broker answered.
    """
    change = key, bytes_per_second or 0.0, bytes_per_second is None
    body = _BODY([([("user", user)], [change])], _FOR_GOOD)

    def ask(opened: BrokerSocket) -> bytes:
        return opened.exchange(_ALTER_QUOTAS, body, Cursor.rest)

    connection = Connection(cluster.name, cluster.client_properties(), _TIMEOUT_S)
    try:
        Brokers(connection).first(ask, connection.deadline())
    finally:
        connection.close()
