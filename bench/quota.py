"""A quota on a user's reads or writes, to slow down replication."""

from drctl.kafka.connection import Connection
from drctl.kafka.quotas import KafkaQuotaWriter
from drctl.lab.cluster import LabCluster
from drctl.model.survey import Limit

READING = "consumer_byte_rate"
_TIMEOUT_S = 20.0


def limit(
    cluster: LabCluster, user: str, bytes_per_second: float | None, key: str = READING
) -> None:
    """Set or remove it.

    Raises:
        Unreachable: no broker answered.
    """
    wanted = Limit((("user", user),), key, bytes_per_second)
    connection = Connection(cluster.name, cluster.client_properties(), _TIMEOUT_S)
    with KafkaQuotaWriter(connection) as writer:
        assert writer.set_quotas([wanted]) == {wanted: None}
