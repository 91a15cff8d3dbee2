"""What drctl's own user may do with a cluster."""

from collections.abc import Mapping

from drctl.model.topology import Unavailable
from drctl.systems.closing import Closing
from drctl.systems.kafka.brokers import Brokers
from drctl.systems.kafka.connection import Connection

_NOT_TOLD = Unavailable(
    "the cluster does not tell what this user may do; grant DESCRIBE on the cluster"
)


class KafkaRightsReader(Closing):
    """Implements `RightsReader` of `drctl.model.rights`; connects on first use."""

    def __init__(self, name: str, properties: Mapping[str, str], *, timeout_s: float = 10) -> None:
        self._connection = Connection(name, properties, timeout_s)
        self._brokers = Brokers(self._connection)

    def operations(self) -> frozenset[str] | Unavailable:
        """With the cluster itself, in Kafka's words; or why that is not known.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        found = self._brokers.described(self._connection.deadline())
        if isinstance(found, Unavailable):
            return found
        return _NOT_TOLD if found.operations is None else found.operations

    def close(self) -> None:
        """Release connections; may be called again."""
        self._connection.close()
