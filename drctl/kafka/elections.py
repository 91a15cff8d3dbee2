"""Partitions and their replicas, who is alive and where each log ends; elections of leaders."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import KafkaError
from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined, unused-ignore]

from drctl.elections.cluster_state import Declined, Kind, Partition, PartitionStates, Replica
from drctl.kafka import protocol_partitions as wire
from drctl.kafka.broker_socket import Address, BrokerSocket
from drctl.kafka.brokers import ClusterClient, addresses_in, by_topic
from drctl.kafka.connection import in_chunks
from drctl.kafka.deadline import Deadline
from drctl.kafka.protocol_cluster import DESCRIBE_QUORUM, describe_quorum, read_quorum
from drctl.model.errors import Unknown
from drctl.model.health import Controller
from drctl.model.topology import TopicPartition, Unavailable

_CHUNK = 2000
_NUMBERS = {Kind.PREFERRED: wire.PREFERRED, Kind.UNCLEAN: wire.UNCLEAN}


def described(
    topics: Collection[str] | None,
) -> Callable[[BrokerSocket], tuple[Partition, ...] | None]:
    """All pages of a broker's answer; None where it is too old to be asked."""

    def run(opened: BrokerSocket) -> tuple[Partition, ...] | None:
        if wire.DESCRIBE_PARTITIONS not in opened:
            return None
        if topics is not None and not topics:
            return ()
        found: list[Partition] = []
        since: wire.Next | None = None
        while True:
            body = wire.describe_partitions(sorted(set(topics or ())), since)
            answer = opened.exchange(wire.DESCRIBE_PARTITIONS, body, wire.read_partitions)
            found += answer.partitions
            since = answer.following
            if since is None:
                return tuple(found)

    return run


def _own_ends(places: Collection[TopicPartition], opened: BrokerSocket) -> list[wire.End]:
    """Where the broker's own logs of these partitions end."""
    rows: list[wire.End] = []
    for chunk in in_chunks(places, _CHUNK):
        rows += opened.exchange(
            wire.LIST_OFFSETS, wire.ask_log_ends(by_topic(chunk)), wire.read_log_ends
        )
    return rows


def _epoch_ends(
    epochs: Mapping[TopicPartition, int], opened: BrokerSocket
) -> tuple[wire.EpochEnd, ...]:
    """Where the records up to these epochs end; the broker leads the partitions."""
    topics: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for place, epoch in epochs.items():
        topics[place.topic].append((place.partition, epoch))
    return opened.exchange(wire.EPOCH_ENDS, wire.ask_epoch_ends(topics), wire.read_epoch_ends)


def ask_controller(opened: BrokerSocket) -> Controller | Unavailable:
    """Who controls the cluster, as the metadata quorum says."""
    found = opened.exchange(DESCRIBE_QUORUM, describe_quorum(), read_quorum)
    if found.error == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
        return Unavailable("this user may not read it; grant it DESCRIBE on the cluster")
    if found.error:
        return Unavailable(f"{opened.address}: {KafkaError(found.error).str()}")
    if found.leader < 0:
        return Unavailable("the metadata quorum has no leader")
    return Controller(found.leader, found.epoch)


T = TypeVar("T")


class KafkaElectionReader(ClusterClient):
    """Implements `ElectionReader` of `drctl.elections.cluster_state`."""

    def look(
        self, topics: Collection[str] | None, ends_of: Collection[TopicPartition] | None = None
    ) -> PartitionStates:
        """These topics, or all of them.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for connections of our own.
        """
        deadline = self._connection.deadline()
        metadata = self._connection.metadata(deadline)
        addresses = addresses_in(metadata)
        answers = self._each(addresses, described(topics), deadline.sooner(self._half))
        told = {node: rows for node, rows in answers.items() if not isinstance(rows, Unavailable)}
        partitions = _newest(told.values()) or _old(metadata, topics)
        alive = frozenset(told)
        living = {node: addresses[node] for node in alive}
        asked = [p for p in partitions if _asked(p, alive, ends_of)]
        return PartitionStates(
            str(metadata.cluster_id),
            self._controller(living, deadline),
            alive,
            {n: why for n, why in answers.items() if isinstance(why, Unavailable)},
            partitions,
            self._log_ends(asked, living, deadline),
            _absent(topics, partitions),
        )

    def ends_before(
        self, epochs: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Unavailable]:
        """Where, in the log of each partition's leader, the records up to an epoch end.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        deadline = self._connection.deadline()
        metadata = self._connection.metadata(deadline)
        led: dict[int, list[TopicPartition]] = defaultdict(list)
        for place in epochs:
            known = metadata.topics.get(place.topic)
            there = known.partitions.get(place.partition) if known else None
            led[there.leader if there else -1].append(place)
        found: dict[TopicPartition, int | Unavailable] = {
            place: Unavailable("no answer from its leader") for place in epochs
        }
        tasks = {
            node: partial(_epoch_ends, {p: epochs[p] for p in mine}) for node, mine in led.items()
        }
        for rows in self._brokers.ask(tasks, addresses_in(metadata), deadline).values():
            for row in () if isinstance(rows, Unavailable) else rows:
                found[TopicPartition(row.topic, row.partition)] = _end(row)
        return found

    @property
    def _half(self) -> float:
        """Leaves time for the second question where a broker hangs."""
        return self._connection.timeout_s / 2

    def _each(
        self, addresses: Mapping[int, Address], task: Callable[[BrokerSocket], T], until: Deadline
    ) -> dict[int, T | Unavailable]:
        return self._brokers.ask(dict.fromkeys(addresses, task), addresses, until)

    def _controller(
        self, living: Mapping[int, Address], deadline: Deadline
    ) -> Controller | Unavailable:
        answers = self._each(living, ask_controller, deadline.sooner(self._half)).values()
        found = [each for each in answers if isinstance(each, Controller)]
        silent = (each for each in answers if isinstance(each, Unavailable))
        why = next(silent, Unavailable("no broker answered"))
        return max(found, key=lambda each: each.epoch) if found else why

    def _log_ends(
        self, partitions: Sequence[Partition], living: Mapping[int, Address], deadline: Deadline
    ) -> Mapping[Replica, int | Unavailable]:
        held: dict[int, list[TopicPartition]] = defaultdict(list)
        for each in partitions:
            for node in each.replicas:
                if node in living:
                    held[node].append(each.place)
        tasks = {node: partial(_own_ends, places) for node, places in held.items()}
        found: dict[Replica, int | Unavailable] = {}
        for node, rows in self._brokers.ask(tasks, living, deadline).items():
            silent = (
                rows if isinstance(rows, Unavailable) else Unavailable("no answer from the broker")
            )
            found |= {Replica(place, node): silent for place in held[node]}
            for row in () if isinstance(rows, Unavailable) else rows:
                found[Replica(TopicPartition(row.topic, row.partition), node)] = _own(row)
        return found


def _newest(told: Iterable[tuple[Partition, ...] | None]) -> tuple[Partition, ...]:
    """Of each partition what the broker says that knows the newest epoch."""
    found: dict[TopicPartition, Partition] = {}
    for row in (row for rows in told for row in rows or ()):
        if row.place not in found or row.epoch > found[row.place].epoch:
            found[row.place] = row
    return tuple(found[place] for place in sorted(found))


def _old(metadata: ClusterMetadata, topics: Collection[str] | None) -> tuple[Partition, ...]:
    """From what every Kafka tells."""
    wanted = metadata.topics if topics is None else {t for t in topics if t in metadata.topics}
    rows: list[tuple[TopicPartition, Any]] = [
        (TopicPartition(name, number), row)
        for name in wanted
        for number, row in metadata.topics[name].partitions.items()
    ]
    return tuple(
        Partition(
            place, row.leader if row.leader >= 0 else None, -1, tuple(row.replicas), tuple(row.isrs)
        )
        for place, row in sorted(rows)
    )


def _asked(
    partition: Partition, alive: Collection[int], ends_of: Collection[TopicPartition] | None
) -> bool:
    if ends_of is not None:
        return partition.place in ends_of
    return partition.leader is None or partition.leader not in alive


def _absent(
    topics: Collection[str] | None, partitions: Sequence[Partition]
) -> dict[str, Unavailable]:
    there = {each.place.topic for each in partitions}
    why = Unavailable("the topic does not exist, or this user may not see it")
    return {name: why for name in topics or () if name not in there}


def _own(row: wire.End) -> int | Unavailable:
    return Unavailable(KafkaError(row.error).str()) if row.error else row.offset


def _end(row: wire.EpochEnd) -> int | Unavailable:
    if row.error:
        return Unavailable(KafkaError(row.error).str())
    # A leader without a record of any epoch up to this one keeps nothing of it.
    return max(0, row.end)


_NOT_NEEDED = KafkaError.ELECTION_NOT_NEEDED
_NO_ANSWER = frozenset({KafkaError.REQUEST_TIMED_OUT, KafkaError.NOT_CONTROLLER})


class KafkaElectionWriter(ClusterClient):
    """Implements `ElectionWriter` of `drctl.elections.cluster_state`."""

    def elect(
        self, kind: Kind, places: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, Unavailable | None]:
        """Ask the controller; by partition None where it did, or why it did not.

        Raises:
            Unknown: no answer came; some may have been elected.
        """
        deadline = self._connection.deadline()
        found: dict[TopicPartition, Unavailable | None] = {}
        for chunk in in_chunks(places, _CHUNK):
            found |= self._elect(kind, chunk, deadline)
        return found

    def _elect(
        self, kind: Kind, places: Sequence[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, Unavailable | None]:
        """Through one broker after the other: what is asked for twice is held once."""
        silent: list[str] = []
        addresses = self._brokers.addresses(deadline)
        for number, node in enumerate(sorted(addresses)):
            share = deadline.remaining / (len(addresses) - number)
            body = wire.elect_leaders(_NUMBERS[kind], by_topic(places), int(share * 1000))
            task = partial(
                BrokerSocket.exchange, api=wire.ELECT_LEADERS, body=body, read=wire.read_election
            )
            here = deadline.sooner(share)
            answer = self._brokers.ask({node: task}, addresses, here)[node]
            if isinstance(answer, Unavailable):
                silent.append(answer.reason)
            elif answer.error not in _NO_ANSWER:
                return _outcomes(answer, places)
            else:
                silent.append(KafkaError(answer.error).str())
        raise Unknown(
            f"no answer from cluster {self._connection.name}: {'; '.join(silent)}",
            "check the partitions before you retry",
        )


def _outcomes(
    answer: wire.Election, places: Sequence[TopicPartition]
) -> dict[TopicPartition, Unavailable | None]:
    if answer.error:
        return dict.fromkeys(places, Declined(KafkaError(answer.error).str()))
    # The controller leaves out partitions for which there was nothing to do.
    found: dict[TopicPartition, Unavailable | None] = dict.fromkeys(places, None)
    for row in answer.partitions:
        text = row.text or KafkaError(row.error).str()
        no = Declined(text) if row.error and row.error != _NOT_NEEDED else None
        found[TopicPartition(row.topic, row.partition)] = no
    return found
