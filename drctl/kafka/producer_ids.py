"""Producer ids of one cluster: looked at, and moved on.

A broker gives ids from a block of 1,000 that the controller gave it. No request asks for a block:
the ids in it are used up, one by one, which takes a tenth of a millisecond each, or more.
"""

from collections.abc import Collection, Mapping
from time import sleep

from confluent_kafka import KafkaError

from drctl.kafka import protocol_producers as wire
from drctl.kafka.broker_socket import BrokerSocket
from drctl.kafka.brokers import ClusterClient, Question, ask_leaders
from drctl.kafka.deadline import Deadline
from drctl.model.errors import ConfigError, Unknown
from drctl.model.producer_ids import Advanced, Producers
from drctl.model.topology import TopicPartition, Unavailable

BLOCK = 1000
"""How many ids a broker gets at a time."""

_AT_ONCE = 100
_PAUSE_S = 0.02
PRODUCERS = Question(wire.DESCRIBE_PRODUCERS, wire.describe_producers, wire.read_producers)
"""What a leader knows of producers."""


class KafkaProducerIdReader(ClusterClient):
    """Implements `ProducerIdReader` of `drctl.model.producer_ids`."""

    def in_use(self, partitions: Collection[TopicPartition]) -> Producers:
        """The producers that each partition remembers.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for connections of our own.
        """
        deadline = self._connection.deadline()
        rows = ask_leaders(self._connection, self._brokers, PRODUCERS, partitions, deadline)
        return {p: r if isinstance(r, Unavailable) else r.producers for p, r in rows.items()}

    def next_ids(self) -> Mapping[int, int | Unavailable]:
        """By broker an id that it has just given; those that follow are higher.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for connections of our own.
        """
        deadline = self._connection.deadline()
        addresses = self._brokers.addresses(deadline)

        def one(opened: BrokerSocket) -> int:
            return _taken(opened, 1, deadline)[0]

        return self._brokers.ask(dict.fromkeys(addresses, one), addresses, deadline)


class KafkaProducerIdWriter(ClusterClient):
    """Implements `ProducerIdWriter` of `drctl.model.producer_ids`.

    Ends within `timeout_s` (and a moment); what is not done by then is done by calling it again.
    """

    def advance(self, beyond: int) -> Mapping[int, Advanced | Unavailable]:
        """Use up ids until every broker only gives higher ones.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for connections of our own.
        """
        deadline = self._connection.deadline()
        addresses = self._brokers.addresses(deadline)

        def move(opened: BrokerSocket) -> Advanced:
            return _advanced(opened, beyond, deadline)

        return self._brokers.ask(dict.fromkeys(addresses, move), addresses, deadline)


def _advanced(opened: BrokerSocket, beyond: int, deadline: Deadline) -> Advanced:
    first = last = _taken(opened, 1, deadline)[0]
    # The connection has the same deadline: what it got by then is worth knowing.
    until = deadline.sooner(max(0.0, deadline.remaining - _AT_ONCE * _PAUSE_S / 10))
    while last <= beyond and not until.expired:
        last = max(_taken(opened, min(_AT_ONCE, beyond + 1 - last), deadline))
    return Advanced(first, last, beyond)


def _taken(opened: BrokerSocket, count: int, deadline: Deadline) -> list[int]:
    """So many ids, or fewer but one at least."""
    while True:
        for _ in range(count):
            opened.send(wire.INIT_PRODUCER_ID, wire.init_producer_id())
        given = [opened.receive(wire.INIT_PRODUCER_ID, wire.read_init) for _ in range(count)]
        ids = [each.producer_id for each in given if not each.error]
        refused = next((each.error for each in given if each.error), 0)
        if refused and refused != KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
            raise _refusal(opened, refused)
        if ids:
            return ids
        # Its next block is on the way.
        sleep(min(_PAUSE_S, deadline.remaining))


def _refusal(opened: BrokerSocket, code: int) -> ConfigError | Unknown:
    if code == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
        return ConfigError(
            "this user may not allocate producer ids; grant it IDEMPOTENT_WRITE on the cluster, or"
            " WRITE on a topic"
        )
    return Unknown(f"no producer id from {opened.address}: {KafkaError(code).str()}")
