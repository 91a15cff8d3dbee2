"""Producer ids and transactions: what leaders and coordinators know, and how to advance ids.

A broker allocates ids from a block of 1,000 that it gets from the controller. No request asks for a
new block: the ids in a block are used up one by one, which takes 0.1 ms each or more.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from time import sleep
from typing import Any, NamedTuple

from confluent_kafka import KafkaError

from drctl.kafka.brokers import BrokerSocket, ClusterClient
from drctl.kafka.deadline import Deadline
from drctl.kafka.leaders import Question, ask_leaders
from drctl.kafka.protocol import (
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    TEXT,
    THROTTLE,
    Api,
    Read,
    array,
    body_reader,
    body_writer,
    only_field,
    rows,
    skipped,
    topic_rows,
)
from drctl.model.errors import ConfigError, Unknown
from drctl.model.producer_ids import Advanced, Producer, Producers
from drctl.model.topology import TopicPartition, Unavailable

DESCRIBE_PRODUCERS = Api("DescribeProducers", 61, 0, True, "2.8")
INIT_PRODUCER_ID = Api("InitProducerId", 22, 4, True, "2.7")
LIST_TRANSACTIONS = Api("ListTransactions", 66, 0, True, "3.0")
DESCRIBE_TRANSACTIONS = Api("DescribeTransactions", 65, 0, True, "3.0")

_UNUSED_TIMEOUT_MS = 60_000


class PartitionProducers(NamedTuple):
    """The producers of one partition.

    Attributes:
        error: Kafka's error code; 0 for success.
        text: the broker's error message; may be empty.
    """

    topic: str
    partition: int
    error: int
    text: str
    producers: tuple[Producer, ...]


class AllocatedId(NamedTuple):
    """The response to InitProducerId.

    Attributes:
        error: Kafka's error code; 0 for success.
    """

    error: int
    producer_id: int
    epoch: int


class ListedTransaction(NamedTuple):
    """A transactional id and its state, as Kafka names it."""

    transactional_id: str
    producer_id: int
    state: str


class DescribedTransaction(NamedTuple):
    """A transaction as its coordinator describes it.

    Attributes:
        error: Kafka's error code; 0 for success.
        started_ms: start time; -1 if there is none.
        partitions: its partitions, as topic and number.
    """

    error: int
    transactional_id: str
    state: str
    timeout_ms: int
    started_ms: int
    producer_id: int
    epoch: int
    partitions: frozenset[tuple[str, int]]


def _described(*fields: Any) -> DescribedTransaction:
    *row, topics = fields
    places = frozenset((topic, number) for topic, numbers in topics for number in numbers)
    return DescribedTransaction._make([*row, places])


_PRODUCERS_REQUEST = body_writer(rows(STRING, array(INT32)))
_PRODUCER = rows(INT64, INT32, INT32, INT64, INT32, INT64, into=Producer)


def describe_producers(partitions: Mapping[str, Iterable[int]]) -> bytes:
    """Request the producers that a leader knows, by topic and partition."""
    return _PRODUCERS_REQUEST(partitions.items())


read_producers: Read[Sequence[PartitionProducers]] = body_reader(
    only_field, THROTTLE, topic_rows(INT32, INT16, TEXT, _PRODUCER, into=PartitionProducers)
)

_INIT_REQUEST = body_writer(NULLABLE_STRING, INT32, INT64, INT16)


def init_producer_id(transactional_id: str | None = None) -> bytes:
    """Request a producer id; one with a transactional id fences the producer that has it now."""
    return _INIT_REQUEST(transactional_id, _UNUSED_TIMEOUT_MS, -1, -1)


read_init = body_reader(AllocatedId, THROTTLE, INT16, INT64, INT16)

list_transactions = partial(body_writer(array(STRING), array(INT64)), ())
"""Request the transactions that the broker coordinates: those of these producer ids, or all if none
is given."""

read_listed: Read[tuple[int, tuple[ListedTransaction, ...]]] = body_reader(
    lambda *fields: fields,
    *(THROTTLE, INT16, skipped(array(STRING))),
    rows(STRING, INT64, STRING, into=ListedTransaction),
)
"""Kafka's error code, and the transactions."""

describe_transactions = body_writer(array(STRING))
"""Request the transactions of these transactional ids."""

_TRANSACTION = (INT16, STRING, STRING, INT32, INT64, INT64, INT16, rows(STRING, array(INT32)))
read_described: Read[tuple[DescribedTransaction, ...]] = body_reader(
    only_field, THROTTLE, rows(*_TRANSACTION, into=_described)
)

BLOCK = 1000
"""How many ids a broker gets at a time."""

_PIPELINED = 100
_PAUSE_S = 0.02
PRODUCERS = Question(DESCRIBE_PRODUCERS, describe_producers, read_producers)
"""Asks a leader for the producers of its partitions."""


class KafkaProducerIdReader(ClusterClient):
    """Implements `ProducerIdReader` of `drctl.model.producer_ids`."""

    def in_use(self, partitions: Collection[TopicPartition]) -> Producers:
        """The producers that each partition remembers.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: drctl's own connections do not support the properties.
        """
        deadline = self._connection.deadline()
        found = ask_leaders(self._connection, self._brokers, PRODUCERS, partitions, deadline)
        return {p: f if isinstance(f, Unavailable) else f.producers for p, f in found.items()}

    def next_ids(self) -> Mapping[int, int | Unavailable]:
        """Allocate one producer id from each broker; its later ids are higher.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: drctl's own connections do not support the properties.
        """
        deadline = self._connection.deadline()
        return self._brokers.ask_all(lambda broker: _allocate(broker, 1, deadline)[0], deadline)


class KafkaProducerIdWriter(ClusterClient):
    """Implements `ProducerIdWriter` of `drctl.model.producer_ids`.

    A call ends within about `timeout_s`; call it again to continue.
    """

    def advance(self, beyond: int) -> Mapping[int, Advanced | Unavailable]:
        """Use up ids until every broker only allocates ids higher than `beyond`.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: drctl's own connections do not support the properties.
        """
        deadline = self._connection.deadline()
        return self._brokers.ask_all(lambda broker: _advance(broker, beyond, deadline), deadline)


def _advance(broker: BrokerSocket, beyond: int, deadline: Deadline) -> Advanced:
    first = last = _allocate(broker, 1, deadline)[0]
    # Stop before the deadline of the connection, to return what was done.
    until = deadline.sooner(max(0.0, deadline.remaining - _PIPELINED * _PAUSE_S / 10))
    while last <= beyond and not until.expired:
        last = max(_allocate(broker, min(_PIPELINED, beyond + 1 - last), deadline))
    return Advanced(first, last, beyond)


def _allocate(broker: BrokerSocket, count: int, deadline: Deadline) -> list[int]:
    """Allocate up to `count` ids, at least one."""
    while True:
        for _ in range(count):
            broker.send(INIT_PRODUCER_ID, init_producer_id())
        answers = [broker.receive(INIT_PRODUCER_ID, read_init) for _ in range(count)]
        ids = [each.producer_id for each in answers if not each.error]
        refused = next((each.error for each in answers if each.error), 0)
        if refused and refused != KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
            raise _refusal(broker, refused)
        if ids:
            return ids
        # The broker is getting its next block.
        sleep(min(_PAUSE_S, deadline.remaining))


def _refusal(broker: BrokerSocket, code: int) -> ConfigError | Unknown:
    if code == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
        return ConfigError(
            "this user may not allocate producer ids; grant it IDEMPOTENT_WRITE on the cluster, or"
            " WRITE on a topic"
        )
    return Unknown(f"no producer id from {broker.address}: {KafkaError(code).str()}")
