"""Cluster health, and this user's permissions."""

from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

from confluent_kafka import KafkaError

from drctl.kafka.acls import OPERATIONS
from drctl.kafka.brokers import Address, Brokers, BrokerSocket, ClusterClient, addresses_in
from drctl.kafka.connection import Connection
from drctl.kafka.deadline import Deadline
from drctl.kafka.elections import ask_controller
from drctl.kafka.open_transactions import read_open_transactions
from drctl.kafka.protocol import (
    INT8,
    INT16,
    INT32,
    STRING,
    TEXT,
    THROTTLE,
    Api,
    body_reader,
    body_writer,
    rows,
    skipped,
)
from drctl.kafka.topics import read_configurations
from drctl.model.errors import ConfigError
from drctl.model.health import ClusterHealth, Controller, OpenTransactions, Shortage
from drctl.model.topology import TopicPartition, Unavailable

DESCRIBE_CLUSTER = Api("DescribeCluster", 60, 0, True, "2.8")
_INCLUDE_OPERATIONS = 1


class DescribedCluster(NamedTuple):
    """The response to DescribeCluster.

    Attributes:
        error: Kafka's error code; 0 for success.
        text: the broker's error message; may be empty.
        racks: by broker; empty if it has none.
        operations: cluster operations that this user may perform; None if not reported.
    """

    error: int
    text: str
    racks: Mapping[int, str]
    operations: frozenset[str] | None


def _cluster(
    error: int, text: str, racks: Iterable[tuple[int, str]], bits: int
) -> DescribedCluster:
    """Bit n is operation n; a user without DESCRIBE on the cluster gets no bits."""
    allowed = frozenset(name for number, name in enumerate(OPERATIONS) if bits >> number & 1)
    return DescribedCluster(error, text, dict(racks), allowed if bits > 0 else None)


CLUSTER_REQUEST = body_writer(INT8)(_INCLUDE_OPERATIONS)
_BROKERS = rows(INT32, skipped(STRING), skipped(INT32), TEXT)
read_cluster = body_reader(
    _cluster, THROTTLE, INT16, TEXT, skipped(STRING), skipped(INT32), _BROKERS, INT32
)


def describe_cluster(
    connection: Connection, brokers: Brokers, deadline: Deadline
) -> DescribedCluster | Unavailable:
    """DescribeCluster from any broker, or why there is no answer.

    Raises:
        Unreachable: no broker answered within the deadline.
    """

    def ask(broker: BrokerSocket) -> DescribedCluster | Unavailable:
        found = broker.exchange(DESCRIBE_CLUSTER, CLUSTER_REQUEST, read_cluster)
        if found.error:
            return Unavailable(found.text or KafkaError(found.error).str())
        return found

    try:
        return brokers.first(ask, deadline)
    except ConfigError as unsupported:
        # drctl's own connections do not support every SASL mechanism.
        return Unavailable(connection.redacted(unsupported.message))


_NOT_REPORTED = Unavailable(
    "the cluster does not report this user's permissions; grant it DESCRIBE on the cluster"
)


_MIN_ISR = "min.insync.replicas"
# Any broker forwards the request; ask several in case one hangs.
_ASKED = 3
_CONTROLLER_S = 5.0


class KafkaHealthReader(ClusterClient):
    """Implements `HealthReader` and `RightsReader` of `drctl.model.health`."""

    def health(
        self, topics: Collection[str], known: Mapping[str, Mapping[str, str]] | None = None
    ) -> ClusterHealth:
        """The health of the cluster and these topics.

        Args:
            known: topic configurations that were just read; the others are requested.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        deadline = self._connection.deadline()
        metadata = self._connection.metadata(deadline)
        wanted = sorted(set(topics))
        existing = {name: metadata.topics[name] for name in wanted if name in metadata.topics}
        configs: dict[str, Mapping[str, str] | Unavailable] = dict(known or {})
        asked = tuple(name for name in existing if name not in configs)
        if asked:
            configs |= read_configurations(self._connection, asked, deadline, refreshed=True)
        summary = _Summary(frozenset(metadata.brokers))
        for name, topic in existing.items():
            summary.add(name, topic.partitions, configs[name])
        return ClusterHealth(
            str(metadata.cluster_id),
            self._controller(addresses_in(metadata), deadline),
            tuple(sorted(metadata.brokers)),
            tuple(sorted(summary.holders - metadata.brokers.keys())),
            summary.partitions,
            tuple(name for name in wanted if name not in existing),
            tuple(summary.offline),
            tuple(summary.under_min_isr),
            tuple(summary.under_replicated),
            summary.unknown,
        )

    def operations(self) -> frozenset[str] | Unavailable:
        """This user's cluster operations, as Kafka names them; or why they are unknown.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        deadline = self._connection.deadline()
        found = describe_cluster(self._connection, self._brokers, deadline)
        if isinstance(found, Unavailable):
            return found
        return _NOT_REPORTED if found.operations is None else found.operations

    def open_transactions(self, partitions: Collection[TopicPartition]) -> OpenTransactions:
        """The open transactions in these partitions, and which of them hang.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: drctl's own connections do not support the properties.
        """
        deadline = self._connection.deadline()
        return read_open_transactions(self._connection, self._brokers, partitions, deadline)

    def _controller(
        self, addresses: Mapping[int, Address], deadline: Deadline
    ) -> Controller | Unavailable:
        """The controller, from the metadata quorum: cluster metadata names some broker instead."""
        some: dict[int, Address] = dict(islice(sorted(addresses.items()), _ASKED))
        soon = deadline.sooner(_CONTROLLER_S)
        try:
            tasks = dict.fromkeys(some, ask_controller)
            enough = lambda answer: isinstance(answer, Controller)  # noqa: E731
            answers = self._brokers.ask(tasks, some, soon, enough)
        except ConfigError as unsupported:
            return Unavailable(self._connection.redacted(unsupported.message))
        found = [answer for answer in answers.values() if isinstance(answer, Controller)]
        why = next(iter(answers.values()), Unavailable("the cluster has no brokers"))
        return found[0] if found else why


class _Summary:
    """Collects problems of partitions."""

    def __init__(self, alive: frozenset[int]) -> None:
        self._alive = alive
        self.partitions = 0
        self.holders: set[int] = set()
        self.offline: list[TopicPartition] = []
        self.under_min_isr: list[Shortage] = []
        self.under_replicated: list[Shortage] = []
        self.unknown: dict[str, Unavailable] = {}

    def add(
        self, name: str, partitions: Mapping[int, Any], config: Mapping[str, str] | Unavailable
    ) -> None:
        minimum = _min_isr(config)
        if isinstance(minimum, Unavailable):
            self.unknown[name] = minimum
        for number, each in sorted(partitions.items()):
            place = TopicPartition(name, number)
            in_sync, replicas = len(each.isrs), len(each.replicas)
            self.partitions += 1
            self.holders.update(each.replicas)
            if each.leader < 0 or each.leader not in self._alive:
                self.offline.append(place)
            elif isinstance(minimum, int) and in_sync < min(minimum, replicas):
                # A minimum above the number of replicas means all of them.
                self.under_min_isr.append(Shortage(place, in_sync, min(minimum, replicas)))
            if in_sync < replicas:
                self.under_replicated.append(Shortage(place, in_sync, replicas))


def _min_isr(config: Mapping[str, str] | Unavailable) -> int | Unavailable:
    if isinstance(config, Unavailable):
        return config
    text = config.get(_MIN_ISR, "")
    return int(text) if text.isdecimal() else Unavailable(f"the broker does not report {_MIN_ISR}")
