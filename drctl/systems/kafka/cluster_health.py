"""How one cluster stands, looked at from outside; nothing is changed."""

from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any

from confluent_kafka import KafkaError

from drctl.model.errors import ConfigError
from drctl.model.health import ClusterHealth, Controller, OpenTransactions, Shortage
from drctl.model.topology import TopicPartition, Unavailable
from drctl.systems.closing import Closing
from drctl.systems.kafka.broker_socket import Address, BrokerSocket
from drctl.systems.kafka.brokers import Brokers, addresses_in
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.open_transactions import read_open_transactions
from drctl.systems.kafka.topics import read_configurations
from drctl.wire.quorum import DESCRIBE_QUORUM, describe_quorum, read_quorum

_MIN_ISR = "min.insync.replicas"
# Any broker passes the question on: a few, in case one of them hangs.
_ASKED = 3
_PATIENCE_S = 5.0


class KafkaHealthReader(Closing):
    """Implements `HealthReader` of `drctl.model.health`.

    Connects on first use. Every call ends within `timeout_s` (and a moment).
    """

    def __init__(self, name: str, properties: Mapping[str, str], *, timeout_s: float = 10) -> None:
        self._connection = Connection(name, properties, timeout_s)
        self._brokers = Brokers(self._connection)

    def health(
        self, topics: Collection[str], known: Mapping[str, Mapping[str, str]] | None = None
    ) -> ClusterHealth:
        """The cluster and these topics.

        Args:
            known: configurations of topics that were read a moment ago; those of the others are
                asked for.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        deadline = self._connection.deadline()
        metadata = self._connection.metadata(deadline)
        wanted = sorted(set(topics))
        there = {name: metadata.topics[name] for name in wanted if name in metadata.topics}
        told = known or {}
        asked = tuple(name for name in there if name not in told)
        configs = read_configurations(self._connection, asked, deadline, seen=True) if asked else {}
        seen = _Seen(frozenset(metadata.brokers))
        for name, topic in there.items():
            seen.look(name, topic.partitions, told[name] if name in told else configs[name])
        return ClusterHealth(
            str(metadata.cluster_id),
            self._controller(addresses_in(metadata), deadline),
            tuple(sorted(metadata.brokers)),
            tuple(sorted(seen.holders - metadata.brokers.keys())),
            seen.partitions,
            tuple(name for name in wanted if name not in there),
            tuple(seen.offline),
            tuple(seen.under_min_isr),
            tuple(seen.under_replicated),
            seen.unknown,
        )

    def open_transactions(self, partitions: Collection[TopicPartition]) -> OpenTransactions:
        """Which transactions are open in these partitions, and which of them hang.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for connections of our own.
        """
        deadline = self._connection.deadline()
        return read_open_transactions(self._connection, self._brokers, partitions, deadline)

    def close(self) -> None:
        """Release connections; may be called again."""
        self._connection.close()

    def _controller(
        self, addresses: Mapping[int, Address], deadline: Deadline
    ) -> Controller | Unavailable:
        """Asked of the quorum: brokers name one of themselves instead of the controller."""
        some: dict[int, Address] = dict(islice(sorted(addresses.items()), _ASKED))
        soon = deadline.sooner(_PATIENCE_S)
        try:
            tasks = dict.fromkeys(some, _ask_controller)
            answers = self._brokers.ask(tasks, some, soon, enough=_is_controller)
        except ConfigError as cannot:
            return Unavailable(self._connection.redacted(cannot.message))
        found = [answer for answer in answers.values() if isinstance(answer, Controller)]
        why = next(iter(answers.values()), Unavailable("no broker is there"))
        return found[0] if found else why


class _Seen:
    """Adds up what is wrong with partitions."""

    def __init__(self, alive: frozenset[int]) -> None:
        self._alive = alive
        self.partitions = 0
        self.holders: set[int] = set()
        self.offline: list[TopicPartition] = []
        self.under_min_isr: list[Shortage] = []
        self.under_replicated: list[Shortage] = []
        self.unknown: dict[str, Unavailable] = {}

    def look(
        self, name: str, partitions: Mapping[int, Any], config: Mapping[str, str] | Unavailable
    ) -> None:
        least = _least(config)
        if isinstance(least, Unavailable):
            self.unknown[name] = least
        for number, each in sorted(partitions.items()):
            place = TopicPartition(name, number)
            in_sync, replicas = len(each.isrs), len(each.replicas)
            self.partitions += 1
            self.holders.update(each.replicas)
            if each.leader < 0 or each.leader not in self._alive:
                self.offline.append(place)
            elif isinstance(least, int) and in_sync < min(least, replicas):
                # More than there are replicas is taken for all of them.
                self.under_min_isr.append(Shortage(place, in_sync, min(least, replicas)))
            if in_sync < replicas:
                self.under_replicated.append(Shortage(place, in_sync, replicas))


def _least(config: Mapping[str, str] | Unavailable) -> int | Unavailable:
    if isinstance(config, Unavailable):
        return config
    text = config.get(_MIN_ISR, "")
    return int(text) if text.isdecimal() else Unavailable(f"the broker does not tell {_MIN_ISR}")


def _is_controller(answer: object) -> bool:
    return isinstance(answer, Controller)


def _ask_controller(opened: BrokerSocket) -> Controller | Unavailable:
    found = opened.exchange(DESCRIBE_QUORUM, describe_quorum(), read_quorum)
    if found.error == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
        return Unavailable("this user may not ask for it; grant DESCRIBE on the cluster")
    if found.error:
        return Unavailable(f"{opened.address}: {KafkaError(found.error).str()}")
    if found.leader < 0:
        return Unavailable("the metadata quorum has no leader")
    return Controller(found.leader, found.epoch)
