"""What drctl's own user may do with a cluster."""

from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Self

from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined, unused-ignore]

from drctl.model.topology import Unavailable
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.faults import Fault
from drctl.systems.kafka.requests import Asked, gather

_CLUSTER = "cluster"
_NOT_TOLD = Unavailable(
    "the cluster does not tell what this user may do; grant DESCRIBE on the cluster"
)


class KafkaRightsReader:
    """Implements `RightsReader` of `drctl.model.rights`; connects on first use."""

    def __init__(self, name: str, properties: Mapping[str, str], *, timeout_s: float = 10) -> None:
        self._connection = Connection(name, properties, timeout_s)

    def operations(self) -> frozenset[str] | Unavailable:
        """With the cluster itself, in Kafka's words; or why that is not known.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        found = gather(self._connection, [_CLUSTER], self._ask, self._connection.deadline())[
            _CLUSTER
        ]
        if isinstance(found, Fault):
            return Unavailable(self._connection.redacted(found.text))
        allowed: list[AclOperation] | None = found.authorized_operations
        return _NOT_TOLD if allowed is None else frozenset(each.name for each in allowed)

    def _ask(self, questions: Collection[str], timeout: float, deadline: Deadline) -> Asked[str]:
        self._connection.nodes(deadline)
        asked = self._connection.admin().describe_cluster(
            include_authorized_operations=True, request_timeout=timeout
        )
        return ((question, asked) for question in questions)

    def close(self) -> None:
        """Release connections; may be called again."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
