"""The health of one cluster, the user's rights and open transactions; nothing is changed."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from confluent_kafka import KafkaError

from drctl.kafka import protocol_producers as wire
from drctl.kafka.broker_socket import Address, BrokerSocket
from drctl.kafka.brokers import Brokers, ClusterClient, addresses_in, ask_leaders
from drctl.kafka.connection import Connection
from drctl.kafka.deadline import Deadline
from drctl.kafka.elections import ask_controller
from drctl.kafka.offsets import LookUps
from drctl.kafka.producer_ids import PRODUCERS
from drctl.kafka.topics import read_configurations
from drctl.model.errors import ConfigError
from drctl.model.health import (
    ClusterHealth,
    Controller,
    OpenTransaction,
    OpenTransactions,
    Shortage,
)
from drctl.model.producer_ids import Producer
from drctl.model.topology import Mark, TopicPartition, Unavailable

_NOT_TOLD = Unavailable(
    "the cluster does not report this user's permissions; grant it DESCRIBE on the cluster"
)


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
    by_producer: Mapping[int, wire.Described]


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
    rows = ask_leaders(connection, brokers, PRODUCERS, undecided, deadline)
    ids = {p.producer_id for row in rows.values() for p in _open(row)}
    known = _known(brokers, ids, deadline) if ids else _Known(True, {})
    # What ended before its coordinator was asked would look as if none knew of it.
    rows = ask_leaders(connection, brokers, PRODUCERS, undecided, deadline) if ids else rows
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
    answers = connection.part(LookUps).ask(questions, deadline, anew=True)()
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


def _open(row: wire.PartitionProducers | Unavailable) -> list[Producer]:
    """What was undecided a moment ago may be decided by now."""
    if isinstance(row, Unavailable):
        return []
    return [each for each in row.producers if each.open_since >= 0]


def _known(brokers: Brokers, ids: Collection[int], deadline: Deadline) -> _Known:
    addresses = brokers.addresses(deadline)

    def ask(opened: BrokerSocket) -> tuple[wire.Described, ...] | Unavailable:
        error, listed = opened.exchange(
            wire.LIST_TRANSACTIONS, wire.list_transactions(ids), wire.read_listed
        )
        if error:
            return Unavailable(f"{opened.address}: {KafkaError(error).str()}")
        names = [each.transactional_id for each in listed]
        body = wire.describe_transactions([*names, _NOBODYS])
        return opened.exchange(wire.DESCRIBE_TRANSACTIONS, body, wire.read_described)

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


_MIN_ISR = "min.insync.replicas"
# Any broker passes the question on: a few, in case one of them hangs.
_ASKED = 3
_PATIENCE_S = 5.0


class KafkaHealthReader(ClusterClient):
    """Implements `HealthReader` and `RightsReader` of `drctl.model.health`."""

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

    def operations(self) -> frozenset[str] | Unavailable:
        """With the cluster itself, in Kafka's words; or why that is not known.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        found = self._brokers.described(self._connection.deadline())
        if isinstance(found, Unavailable):
            return found
        return _NOT_TOLD if found.operations is None else found.operations

    def open_transactions(self, partitions: Collection[TopicPartition]) -> OpenTransactions:
        """Which transactions are open in these partitions, and which of them hang.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for connections of our own.
        """
        deadline = self._connection.deadline()
        return read_open_transactions(self._connection, self._brokers, partitions, deadline)

    def _controller(
        self, addresses: Mapping[int, Address], deadline: Deadline
    ) -> Controller | Unavailable:
        """Asked of the quorum: brokers name one of themselves instead of the controller."""
        some: dict[int, Address] = dict(islice(sorted(addresses.items()), _ASKED))
        soon = deadline.sooner(_PATIENCE_S)
        try:
            tasks = dict.fromkeys(some, ask_controller)
            enough = lambda answer: isinstance(answer, Controller)  # noqa: E731
            answers = self._brokers.ask(tasks, some, soon, enough)
        except ConfigError as cannot:
            return Unavailable(self._connection.redacted(cannot.message))
        found = [answer for answer in answers.values() if isinstance(answer, Controller)]
        why = next(iter(answers.values()), Unavailable("the cluster has no brokers"))
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
    return int(text) if text.isdecimal() else Unavailable(f"the broker does not report {_MIN_ISR}")
