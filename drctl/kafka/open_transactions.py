"""Open transactions: which hold back a partition, which of them hang, and how to abort them.

A transaction hangs if no coordinator knows it: nothing will ever end it (KIP-664, KIP-890).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from confluent_kafka import KafkaError

from drctl.kafka.brokers import Brokers, BrokerSocket, ClusterClient
from drctl.kafka.connection import Connection
from drctl.kafka.deadline import Deadline
from drctl.kafka.leaders import Question, ask_leaders
from drctl.kafka.offsets import LookUps
from drctl.kafka.producer_ids import (
    DESCRIBE_TRANSACTIONS,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    PRODUCERS,
    DescribedTransaction,
    PartitionProducers,
    describe_transactions,
    init_producer_id,
    list_transactions,
    read_described,
    read_init,
    read_listed,
)
from drctl.kafka.protocol import (
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    Api,
    Read,
    array,
    body_reader,
    body_writer,
    by_topic,
    only_field,
    rows,
    skipped,
    topic_rows,
)
from drctl.model.health import BlockingTransaction, OpenTransaction, OpenTransactions
from drctl.model.producer_ids import Producer
from drctl.model.topology import Mark, TopicPartition, Unavailable

WRITE_TXN_MARKERS = Api("WriteTxnMarkers", 27, 1, True, "2.8")
_ABORT = 0


class Marked(NamedTuple):
    """A partition in the response to WriteTxnMarkers; `error` is Kafka's code, 0 for success."""

    topic: str
    partition: int
    error: int


_MARKERS_REQUEST = body_writer(rows(INT64, INT16, INT8, rows(STRING, array(INT32)), INT32))


def write_abort_markers(markers: Iterable[tuple[TopicPartition, OpenTransaction]]) -> bytes:
    """Request to abort transactions, each in one partition, in the name of their coordinators."""
    return _MARKERS_REQUEST(
        (
            each.producer_id,
            each.epoch,
            _ABORT,
            by_topic([at]).items(),
            max(0, each.coordinator_epoch),
        )
        for at, each in markers
    )


def _flat(markers: Iterable[Sequence[Marked]]) -> tuple[Marked, ...]:
    """All partitions, those with errors last: a partition may have several transactions."""
    found = (each for marker in markers for each in marker)
    return tuple(sorted(found, key=lambda each: each.error != 0))


read_marked: Read[tuple[Marked, ...]] = body_reader(
    _flat, rows(skipped(INT64), topic_rows(INT32, INT16, into=Marked), into=only_field)
)


_UNUSED_ID = "drctl-unused-transactional-id"
"""An unused transactional id: a user who may not describe it may not see all transactions."""

_IN_PROGRESS = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


@dataclass(frozen=True, slots=True)
class _Known:
    """The transactions that the coordinators know.

    Attributes:
        complete: whether every broker answered, and this user may see all.
        by_producer: transactions by producer id.
    """

    complete: bool
    by_producer: Mapping[int, DescribedTransaction]


def read_open_transactions(
    connection: Connection,
    brokers: Brokers,
    partitions: Collection[TopicPartition],
    deadline: Deadline,
) -> OpenTransactions:
    """The open transactions of each partition that has any.

    Raises:
        Unreachable: no broker answered within the deadline.
        ConfigError: drctl's own connections do not support the properties.
    """
    undecided, found = _undecided(connection, partitions, deadline)
    if not undecided:
        return found
    rows = ask_leaders(connection, brokers, PRODUCERS, undecided, deadline)
    before = {at: {(p.producer_id, p.open_since) for p in _open(row)} for at, row in rows.items()}
    ids = {producer for found_open in before.values() for producer, _ in found_open}
    known = _known(brokers, ids, deadline) if ids else _Known(True, {})
    # A transaction that ended before its coordinator was asked would look like a hanging one.
    rows = ask_leaders(connection, brokers, PRODUCERS, undecided, deadline) if ids else rows
    for place, row in rows.items():
        if isinstance(row, Unavailable):
            found[place] = row
        elif open_now := _open(row):
            found[place] = tuple(
                _transaction(place, each, known, before.get(place, ())) for each in open_now
            )
    return found


def _undecided(
    connection: Connection, partitions: Collection[TopicPartition], deadline: Deadline
) -> tuple[list[TopicPartition], dict[TopicPartition, "tuple[OpenTransaction, ...] | Unavailable"]]:
    """Partitions whose last stable offset is less than the end offset, and unreadable ones."""
    places = list(dict.fromkeys(partitions))
    questions = [(place, mark) for mark in (Mark.STABLE, Mark.END) for place in places]
    answers = connection.part(LookUps).ask(questions, deadline, refresh=True)()
    stable, ends = answers[: len(places)], answers[len(places) :]
    undecided: list[TopicPartition] = []
    unreadable: dict[TopicPartition, tuple[OpenTransaction, ...] | Unavailable] = {}
    for place, low, high in zip(places, stable, ends, strict=True):
        if isinstance(low, Unavailable):
            unreadable[place] = low
        elif isinstance(high, Unavailable):
            unreadable[place] = high
        elif low.offset < high.offset:
            undecided.append(place)
    return undecided, unreadable


def _open(row: PartitionProducers | Unavailable) -> list[Producer]:
    if isinstance(row, Unavailable):
        return []
    return [each for each in row.producers if each.open_since >= 0]


def _known(brokers: Brokers, ids: Collection[int], deadline: Deadline) -> _Known:
    def ask(broker: BrokerSocket) -> tuple[DescribedTransaction, ...] | Unavailable:
        error, listed = broker.exchange(LIST_TRANSACTIONS, list_transactions(ids), read_listed)
        if error:
            return Unavailable(f"{broker.address}: {KafkaError(error).str()}")
        names = [each.transactional_id for each in listed]
        body = describe_transactions([*names, _UNUSED_ID])
        return broker.exchange(DESCRIBE_TRANSACTIONS, body, read_described)

    answers = brokers.ask_all(ask, deadline).values()
    known = [each for each in answers if not isinstance(each, Unavailable)]
    found = [transaction for each in known for transaction in each]
    # A listing silently omits transactions that this user may not see.
    denied = any(t.error == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED for t in found)
    complete = len(known) == len(answers) and not denied
    return _Known(complete, {t.producer_id: t for t in found if not t.error})


def _transaction(
    place: TopicPartition, producer: Producer, known: _Known, before: Collection[tuple[int, int]]
) -> OpenTransaction:
    """The open transaction of a producer.

    Args:
        before: producer ids and first offsets of those open before the coordinators were asked.
    """
    mine = known.by_producer.get(producer.producer_id)
    coordinated = mine is not None and mine.state in _IN_PROGRESS and place in mine.partitions
    # The coordinator of one that began since then may not have known it yet.
    alive = coordinated or (producer.producer_id, producer.open_since) not in before
    return OpenTransaction(
        producer.producer_id,
        producer.epoch,
        producer.open_since,
        producer.timestamp_ms,
        mine.transactional_id if mine else "",
        mine.state if mine else "",
        hanging=False if alive else (True if known.complete else None),
        coordinator_epoch=producer.coordinator_epoch,
    )


_DENIED = KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_NOT_FOUND = 105
_NOT_COORDINATED = frozenset({KafkaError.NOT_COORDINATOR, _NOT_FOUND})
_ABORTING = frozenset({0, KafkaError.CONCURRENT_TRANSACTIONS})
"""A coordinator that starts to abort a transaction asks the client to repeat the request."""

_WRITES_AGAIN = Unavailable("its producer wrote again meanwhile: stop that producer")
_COORDINATOR_UNKNOWN = Unavailable(
    "cannot tell whether a coordinator knows the transaction: not every broker answered, or this"
    " user may not DESCRIBE transactional ids"
)
_NO_COORDINATOR = Unavailable("the coordinator of its transactional id did not answer")

Answers = dict[BlockingTransaction, Unavailable | None]


class KafkaTransactionWriter(ClusterClient):
    """Implements `TransactionWriter` of `drctl.model.health`."""

    def abort(
        self, transactions: Collection[BlockingTransaction]
    ) -> Mapping[BlockingTransaction, Unavailable | None]:
        """Abort transactions that are still as given; leave all others alone.

        Those that hang are aborted with WriteTxnMarkers, which needs ALTER or CLUSTER_ACTION on the
        cluster. The rest are aborted with InitProducerId, which also fences their producer and
        needs WRITE on the transactional id.

        Returns:
            For each transaction, None if it was aborted or had already ended, else why not.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: drctl's own connections do not support the properties.
        """
        deadline = self._connection.deadline()
        places = [each.place for each in transactions]
        now = read_open_transactions(self._connection, self._brokers, places, deadline)
        answers: Answers = {}
        hanging: dict[BlockingTransaction, OpenTransaction] = {}
        coordinated: list[BlockingTransaction] = []
        for each in transactions:
            there = now.get(each.place, ())
            if isinstance(there, Unavailable):
                answers[each] = there
                continue
            found = next(filter(each.is_still, there), None)
            answers[each] = None
            if found is None:
                continue
            if found.timestamp_ms != each.timestamp_ms:
                answers[each] = _WRITES_AGAIN
            elif found.hanging is None:
                answers[each] = _COORDINATOR_UNKNOWN
            elif found.hanging:
                hanging[each] = found
            else:
                coordinated.append(each)
        if hanging:
            answers |= self._write_markers(hanging, deadline)
        if coordinated:
            answers |= self._fence(coordinated, deadline)
        return answers

    def _write_markers(
        self, hanging: Mapping[BlockingTransaction, OpenTransaction], deadline: Deadline
    ) -> Answers:
        def write(topics: Mapping[str, Iterable[int]]) -> bytes:
            asked = {TopicPartition(topic, n) for topic, numbers in topics.items() for n in numbers}
            return write_abort_markers((e.place, o) for e, o in hanging.items() if e.place in asked)

        question = Question(WRITE_TXN_MARKERS, write, read_marked)
        places = list(dict.fromkeys(each.place for each in hanging))
        found = ask_leaders(self._connection, self._brokers, question, places, deadline)
        return {e: a if isinstance(a := found[e.place], Unavailable) else None for e in hanging}

    def _fence(self, coordinated: Collection[BlockingTransaction], deadline: Deadline) -> Answers:
        by_id: dict[str, list[BlockingTransaction]] = defaultdict(list)
        for each in coordinated:
            by_id[each.transactional_id].append(each)

        def ask(broker: BrokerSocket) -> dict[str, Unavailable | None]:
            body = describe_transactions(by_id)
            found = broker.exchange(DESCRIBE_TRANSACTIONS, body, read_described)
            mine = [each for each in found if each.error not in _NOT_COORDINATED]
            return {t.transactional_id: _fenced(broker, t, by_id) for t in mine}

        known: dict[str, Unavailable | None] = {}
        for answer in self._brokers.ask_all(ask, deadline).values():
            known |= {} if isinstance(answer, Unavailable) else answer
        return {each: known.get(each.transactional_id, _NO_COORDINATOR) for each in coordinated}


def _fenced(
    broker: BrokerSocket,
    found: DescribedTransaction,
    wanted: Mapping[str, Sequence[BlockingTransaction]],
) -> Unavailable | None:
    """Fence the producer of an unchanged transaction, which its coordinator then aborts."""
    name = found.transactional_id
    if found.error:
        return _refusal(found.error, name)
    same = any((e.producer_id, e.epoch) == (found.producer_id, found.epoch) for e in wanted[name])
    if not same or found.state != "Ongoing":
        return None
    answer = broker.exchange(INIT_PRODUCER_ID, init_producer_id(name), read_init)
    return None if answer.error in _ABORTING else _refusal(answer.error, name)


def _refusal(code: int, name: str) -> Unavailable:
    if code == _DENIED:
        return Unavailable(f"this user may not use the transactional id {name}: grant it WRITE")
    return Unavailable(KafkaError(code).str())
