"""A record that proves that a cluster takes writes: it counts when all in-sync replicas have it."""

from collections.abc import Mapping

from drctl.model.errors import DrctlError, Refused, Unreachable
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.own_topics import CANARY
from drctl.systems.kafka.topic_creation import create_compacted
from drctl.systems.kafka.topic_writer import TopicWriter

_PATIENCE_S = 20.0
_KEY = b"canary"


class KafkaCanary:
    """Implements `drctl.engine.ports.Canary`."""

    def __init__(self, cluster: str, properties: Mapping[str, str], timeout_s: float = 10) -> None:
        self._cluster = cluster
        self._properties = dict(properties)
        self._timeout_s = timeout_s

    def sing(self, topic: str, text: str) -> None:
        """Write one; makes the topic where there is none.

        Raises:
            Refused: the cluster does not take it.
            Unreachable: no answer came; it may have been written.
        """
        connection = Connection(self._cluster, self._properties, self._timeout_s)
        try:
            create_compacted(connection, topic, CANARY)
            with TopicWriter(connection, topic, CANARY, _PATIENCE_S) as writer:
                writer.write([(_KEY, text.encode())])
        except Unreachable:
            raise
        except DrctlError as error:
            raise Refused(f"{self._cluster} took no record: {error.message}", error.hint) from error
        finally:
            connection.close()
