"""Transactions that keep partitions' last stable offsets back, and whether somebody will end them.

A transaction hangs where a partition has it open and no coordinator knows of it any more, or of
this partition in it (KIP-664). It then stays open for ever.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError

from drctl.model.health import OpenTransaction, OpenTransactions
from drctl.model.topology import Mark, TopicPartition, Unavailable
from drctl.systems.kafka.broker_socket import BrokerSocket
from drctl.systems.kafka.brokers import Brokers
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.leaders import Question, ask_leaders
from drctl.systems.kafka.look_ups import LookUps
from drctl.wire.open_transactions import (
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
    Described,
    describe_transactions,
    list_transactions,
    read_described,
    read_listed,
)
from drctl.wire.producer_ids import (
    DESCRIBE_PRODUCERS,
    PartitionProducers,
    Producer,
    describe_producers,
    read_producers,
)

_PRODUCERS = Question(DESCRIBE_PRODUCERS, describe_producers, read_producers)
_NOBODYS = "drctl-nobodys-transaction"
"""Who may not ask for this one may not see all."""

_UNDER_WAY = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


@dataclass(frozen=True, slots=True)
class _Known:
    """What the coordinators know.

    Attributes:
        whole: whether every broker answered, and told us all.
        by_producer: transactions by producer id.
    """

    whole: bool
    by_producer: Mapping[int, Described]


def read_open_transactions(
    connection: Connection,
    brokers: Brokers,
    partitions: Collection[TopicPartition],
    deadline: Deadline,
) -> OpenTransactions:
    """By partition; those without an open transaction are left out.

    Raises:
        Unreachable: no broker answered within the deadline.
        ConfigError: the properties cannot be used for connections of our own.
    """
    undecided, found = _undecided(connection, partitions, deadline)
    if not undecided:
        return found
    rows = ask_leaders(connection, brokers, _PRODUCERS, undecided, deadline)
    ids = {p.producer_id for row in rows.values() for p in _open(row)}
    known = _known(brokers, ids, deadline) if ids else _Known(True, {})
    # What ended before its coordinator was asked would look as if none knew of it.
    rows = ask_leaders(connection, brokers, _PRODUCERS, undecided, deadline) if ids else rows
    for place, row in rows.items():
        if isinstance(row, Unavailable):
            found[place] = row
        elif still_open := [each for each in _open(row) if each.producer_id in ids]:
            found[place] = tuple(_transaction(place, each, known) for each in still_open)
    return found


def _undecided(
    connection: Connection, partitions: Collection[TopicPartition], deadline: Deadline
) -> tuple[list[TopicPartition], dict[TopicPartition, "tuple[OpenTransaction, ...] | Unavailable"]]:
    """Partitions whose last stable offset is behind their end; others need no second question."""
    places = list(dict.fromkeys(partitions))
    questions = [(place, mark) for mark in (Mark.STABLE, Mark.END) for place in places]
    with LookUps(connection) as look_ups:
        answers = look_ups.ask(questions, deadline)()
    stable, ends = answers[: len(places)], answers[len(places) :]
    undecided: list[TopicPartition] = []
    unread: dict[TopicPartition, tuple[OpenTransaction, ...] | Unavailable] = {}
    for place, low, high in zip(places, stable, ends, strict=True):
        if isinstance(low, Unavailable):
            unread[place] = low
        elif isinstance(high, Unavailable):
            unread[place] = high
        elif low.offset < high.offset:
            undecided.append(place)
    return undecided, unread


def _open(row: PartitionProducers | Unavailable) -> list[Producer]:
    """What was undecided a moment ago may be decided by now."""
    if isinstance(row, Unavailable):
        return []
    return [each for each in row.producers if each.open_since >= 0]


def _known(brokers: Brokers, ids: Collection[int], deadline: Deadline) -> _Known:
    addresses = brokers.addresses(deadline)

    def ask(opened: BrokerSocket) -> tuple[Described, ...] | Unavailable:
        error, listed = opened.exchange(LIST_TRANSACTIONS, list_transactions(ids), read_listed)
        if error:
            return Unavailable(f"{opened.address}: {KafkaError(error).str()}")
        names = [each.transactional_id for each in listed]
        body = describe_transactions([*names, _NOBODYS])
        return opened.exchange(DESCRIBE_TRANSACTIONS, body, read_described)

    answers = brokers.ask(dict.fromkeys(addresses, ask), addresses, deadline).values()
    told = [each for each in answers if not isinstance(each, Unavailable)]
    rows = [one for each in told for one in each]
    # What this user may not see is left out of a listing without a word.
    blind = any(one.error == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED for one in rows)
    whole = len(told) == len(addresses) and not blind
    return _Known(whole, {one.producer_id: one for one in rows if not one.error})


def _transaction(place: TopicPartition, producer: Producer, known: _Known) -> OpenTransaction:
    mine = known.by_producer.get(producer.producer_id)
    coordinated = mine is not None and mine.state in _UNDER_WAY and place in mine.partitions
    return OpenTransaction(
        producer.producer_id,
        producer.epoch,
        producer.open_since,
        producer.timestamp_ms,
        mine.transactional_id if mine else "",
        mine.state if mine else "",
        hanging=False if coordinated else (True if known.whole else None),
    )
