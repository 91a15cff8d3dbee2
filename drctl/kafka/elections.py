"""Leader elections, and the data to decide on them: replicas, live brokers, log end offsets."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import KafkaError
from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined, unused-ignore]

from drctl.elections.cluster_state import Declined, Kind, Partition, PartitionStates, Replica
from drctl.formats.primitives import Cursor
from drctl.kafka.brokers import Address, BrokerSocket, ClusterClient, Task, addresses_in
from drctl.kafka.connection import in_chunks
from drctl.kafka.deadline import Deadline
from drctl.kafka.protocol import (
    INT8,
    INT16,
    INT32,
    INT64,
    SHORT_STRING,
    STRING,
    TEXT,
    THROTTLE,
    Api,
    Field,
    Read,
    array,
    body_reader,
    body_writer,
    by_topic,
    nullable,
    only_field,
    rows,
    skipped,
    struct,
    topic_rows,
)
from drctl.model.errors import Unknown
from drctl.model.health import Controller
from drctl.model.topology import TopicPartition, Unavailable

DESCRIBE_PARTITIONS = Api("DescribeTopicPartitions", 75, 0, True, "3.8")
EPOCH_ENDS = Api("OffsetForLeaderEpoch", 23, 4, True, "2.8")
ELECT_LEADERS = Api("ElectLeaders", 43, 2, True, "2.4")
LIST_OFFSETS = Api("ListOffsets", 2, 1, False, "0.10.1")
DESCRIBE_QUORUM = Api("DescribeQuorum", 55, 0, True, "3.0")

_KINDS = {Kind.PREFERRED: 0, Kind.UNCLEAN: 1}
_CONSUMER = -1
_DEBUGGER = -2
"""With this replica id, any replica answers a request, with the end offset of its own log."""
_ANY_EPOCH = -1
_LATEST = -1
_PAGE = 2000

NextPage = tuple[str, int]
"""Topic and partition with which the next page begins."""

_NODES = array(INT32)
_TOPIC_ID = Field(bytes, lambda cursor: cursor.take(16))
_NEXT_PAGE = nullable(struct(STRING, INT32))
_PARTITION = rows(INT16, INT32, INT32, INT32, _NODES, _NODES, _NODES, _NODES, skipped(_NODES))
_TOPIC = rows(skipped(INT16), TEXT, skipped(_TOPIC_ID), skipped(INT8), _PARTITION, skipped(INT32))
_PARTITIONS_REQUEST = body_writer(rows(STRING), INT32, _NEXT_PAGE)
_PARTITIONS = body_reader(lambda *fields: fields, THROTTLE, _TOPIC, _NEXT_PAGE)


def describe_partitions(topics: Iterable[str], page: NextPage | None = None) -> bytes:
    """Request the partitions of these topics, or of all if none is named."""
    return _PARTITIONS_REQUEST(((name,) for name in topics), _PAGE, page)


def read_partitions(cursor: Cursor) -> tuple[tuple[Partition, ...], NextPage | None]:
    """Some partitions, and the next page; topics that are missing or not visible are left out.

    Raises:
        Undecodable: the response is malformed.
    """
    topics, page = _PARTITIONS(cursor)
    found = [
        Partition(TopicPartition(topic, n), leader if leader >= 0 else None, epoch, *nodes)
        for topic, partitions in topics
        for _error, n, leader, epoch, *nodes in partitions
    ]
    return tuple(found), page


class EpochEnd(NamedTuple):
    """One partition of a response.

    Attributes:
        error: Kafka's error code; 0 for success.
        epoch: the newest epoch with records, up to the requested one.
        end: the first offset after it.
    """

    topic: str
    error: int
    partition: int
    epoch: int
    end: int


_EPOCHS_REQUEST = body_writer(INT32, rows(STRING, rows(INT32, INT32, INT32)))


def write_epoch_ends(epochs: Mapping[str, Iterable[tuple[int, int]]]) -> bytes:
    """Request the end offsets of epochs, given by topic as pairs of partition and epoch."""
    topics = (
        (topic, ((number, _ANY_EPOCH, epoch) for number, epoch in pairs))
        for topic, pairs in epochs.items()
    )
    return _EPOCHS_REQUEST(_CONSUMER, topics)


read_epoch_ends: Read[tuple[EpochEnd, ...]] = body_reader(
    only_field, THROTTLE, topic_rows(INT16, INT32, INT32, INT64, into=EpochEnd)
)


class Elected(NamedTuple):
    """The result for one partition.

    Attributes:
        error: Kafka's error code; 0 if it has a new leader.
        text: the controller's error message; may be empty.
    """

    topic: str
    partition: int
    error: int
    text: str


class Election(NamedTuple):
    """The response to ElectLeaders.

    Attributes:
        error: Kafka's error code of the whole request; 0 for success.
    """

    error: int
    partitions: tuple[Elected, ...]


_ELECTION_REQUEST = body_writer(INT8, rows(STRING, array(INT32)), INT32)


def elect_leaders(kind: Kind, partitions: Mapping[str, Iterable[int]], timeout_ms: int) -> bytes:
    """Request elections, by topic and partition."""
    return _ELECTION_REQUEST(_KINDS[kind], partitions.items(), timeout_ms)


read_election = body_reader(Election, THROTTLE, INT16, topic_rows(INT32, INT16, TEXT, into=Elected))


class ReplicaEnd(NamedTuple):
    """One partition of a response.

    Attributes:
        error: Kafka's error code; 0 for success.
    """

    topic: str
    partition: int
    error: int
    offset: int


_LOG_ENDS = rows(SHORT_STRING, rows(INT32, INT64, flexible=False), flexible=False)
_LOG_ENDS_REQUEST = body_writer(INT32, _LOG_ENDS, flexible=False)


def write_log_ends(partitions: Mapping[str, Iterable[int]]) -> bytes:
    """Request the end of the broker's own log of each partition."""
    topics = ((name, ((n, _LATEST) for n in numbers)) for name, numbers in partitions.items())
    return _LOG_ENDS_REQUEST(_DEBUGGER, topics)


_LOG_END = topic_rows(INT32, INT16, skipped(INT64), INT64, into=ReplicaEnd, flexible=False)
read_log_ends: Read[tuple[ReplicaEnd, ...]] = body_reader(only_field, _LOG_END, flexible=False)


class Quorum(NamedTuple):
    """The response to DescribeQuorum.

    Attributes:
        error: Kafka's error code; 0 for success.
        leader: the active controller; -1 if there is none.
    """

    error: int
    leader: int = -1
    epoch: int = -1


def _quorum(error: int, topics: Sequence[tuple[str, Sequence[Quorum]]]) -> Quorum:
    return next((each for _topic, partitions in topics for each in partitions), Quorum(error))


_VOTERS = skipped(rows(INT32, INT64))
_QUORUM = (skipped(INT32), INT16, INT32, INT32, skipped(INT64), _VOTERS, _VOTERS)
describe_quorum = partial(body_writer(rows(STRING, rows(INT32))), [("__cluster_metadata", [(0,)])])
"""Request the leader of the metadata quorum."""

read_quorum = body_reader(_quorum, INT16, rows(STRING, rows(*_QUORUM, into=Quorum)))

_CHUNK = 2000


def partitions_task(topics: Collection[str] | None) -> Task[tuple[Partition, ...] | None]:
    """Read all pages of a broker's response; None if the broker is too old for the request."""

    def run(broker: BrokerSocket) -> tuple[Partition, ...] | None:
        if DESCRIBE_PARTITIONS not in broker:
            return None
        if topics is not None and not topics:
            return ()
        found: list[Partition] = []
        page: NextPage | None = None
        while True:
            body = describe_partitions(sorted(set(topics or ())), page)
            partitions, page = broker.exchange(DESCRIBE_PARTITIONS, body, read_partitions)
            found += partitions
            if page is None:
                return tuple(found)

    return run


def _own_log_ends(places: Collection[TopicPartition], broker: BrokerSocket) -> list[ReplicaEnd]:
    found: list[ReplicaEnd] = []
    for chunk in in_chunks(places, _CHUNK):
        found += broker.exchange(LIST_OFFSETS, write_log_ends(by_topic(chunk)), read_log_ends)
    return found


def _epoch_ends(epochs: Mapping[TopicPartition, int], leader: BrokerSocket) -> tuple[EpochEnd, ...]:
    topics: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for place, epoch in epochs.items():
        topics[place.topic].append((place.partition, epoch))
    return leader.exchange(EPOCH_ENDS, write_epoch_ends(topics), read_epoch_ends)


def ask_controller(broker: BrokerSocket) -> Controller | Unavailable:
    """The active controller, as the metadata quorum reports it."""
    found = broker.exchange(DESCRIBE_QUORUM, describe_quorum(), read_quorum)
    if found.error == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
        return Unavailable(
            "this user may not read the metadata quorum; grant it DESCRIBE on the cluster"
        )
    if found.error:
        return Unavailable(f"{broker.address}: {KafkaError(found.error).str()}")
    if found.leader < 0:
        return Unavailable("the metadata quorum has no leader")
    return Controller(found.leader, found.epoch)


class KafkaElectionReader(ClusterClient):
    """Implements `ElectionReader` of `drctl.elections.cluster_state`."""

    def look(
        self, topics: Collection[str] | None, ends_of: Collection[TopicPartition] | None = None
    ) -> PartitionStates:
        """The partitions of these topics, or of all topics.

        Args:
            ends_of: partitions whose log end offsets to read from each replica; by default those
                without a live leader.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: drctl's own connections do not support the properties.
        """
        deadline = self._connection.deadline()
        metadata = self._connection.metadata(deadline)
        addresses = addresses_in(metadata)
        tasks = dict.fromkeys(addresses, partitions_task(topics))
        answers = self._brokers.ask(tasks, addresses, deadline.sooner(self._half))
        reported = {n: found for n, found in answers.items() if not isinstance(found, Unavailable)}
        partitions = _newest(reported.values()) or _from_metadata(metadata, topics)
        live = {node: addresses[node] for node in reported}
        if ends_of is None:
            asked = [each for each in partitions if each.leader not in live]
        else:
            asked = [each for each in partitions if each.place in ends_of]
        visible = {each.place.topic for each in partitions}
        return PartitionStates(
            str(metadata.cluster_id),
            self._controller(live, deadline),
            frozenset(live),
            {n: why for n, why in answers.items() if isinstance(why, Unavailable)},
            partitions,
            self._log_ends(asked, live, deadline),
            {name: _NOT_VISIBLE for name in topics or () if name not in visible},
        )

    def ends_before(
        self, epochs: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Unavailable]:
        """The end offset of the records up to an epoch, in the log of each partition's leader.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        deadline = self._connection.deadline()
        metadata = self._connection.metadata(deadline)
        led: dict[int, list[TopicPartition]] = defaultdict(list)
        for place in epochs:
            topic = metadata.topics.get(place.topic)
            known = topic.partitions.get(place.partition) if topic else None
            led[known.leader if known else -1].append(place)
        found: dict[TopicPartition, int | Unavailable] = {
            place: Unavailable("no answer from its leader") for place in epochs
        }
        tasks = {
            node: partial(_epoch_ends, {p: epochs[p] for p in mine}) for node, mine in led.items()
        }
        for ends in self._brokers.ask(tasks, addresses_in(metadata), deadline).values():
            for end in () if isinstance(ends, Unavailable) else ends:
                # A leader without records of any epoch up to this one has retained none of them.
                found[TopicPartition(end.topic, end.partition)] = (
                    Unavailable(KafkaError(end.error).str()) if end.error else max(0, end.end)
                )
        return found

    @property
    def _half(self) -> float:
        """Leaves time for a second request if a broker hangs."""
        return self._connection.timeout_s / 2

    def _controller(
        self, live: Mapping[int, Address], deadline: Deadline
    ) -> Controller | Unavailable:
        tasks = dict.fromkeys(live, ask_controller)
        answers = self._brokers.ask(tasks, live, deadline.sooner(self._half)).values()
        found = [each for each in answers if isinstance(each, Controller)]
        if found:
            return max(found, key=lambda each: each.epoch)
        reasons = (each for each in answers if isinstance(each, Unavailable))
        return next(reasons, Unavailable("no broker answered"))

    def _log_ends(
        self, partitions: Sequence[Partition], live: Mapping[int, Address], deadline: Deadline
    ) -> Mapping[Replica, int | Unavailable]:
        held: dict[int, list[TopicPartition]] = defaultdict(list)
        for each in partitions:
            for node in each.replicas:
                if node in live:
                    held[node].append(each.place)
        tasks = {node: partial(_own_log_ends, places) for node, places in held.items()}
        found: dict[Replica, int | Unavailable] = {}
        for node, ends in self._brokers.ask(tasks, live, deadline).items():
            why = ends if isinstance(ends, Unavailable) else _NO_LOG_END
            found |= {Replica(place, node): why for place in held[node]}
            for end in () if isinstance(ends, Unavailable) else ends:
                found[Replica(TopicPartition(end.topic, end.partition), node)] = (
                    Unavailable(KafkaError(end.error).str()) if end.error else end.offset
                )
        return found


_NO_LOG_END = Unavailable("no answer from the broker")
_NOT_VISIBLE = Unavailable("the topic does not exist, or this user may not see it")


def _newest(answers: Iterable[tuple[Partition, ...] | None]) -> tuple[Partition, ...]:
    """Each partition as reported by the broker that knows its newest epoch."""
    found: dict[TopicPartition, Partition] = {}
    for each in (each for partitions in answers for each in partitions or ()):
        if each.place not in found or each.epoch > found[each.place].epoch:
            found[each.place] = each
    return tuple(found[place] for place in sorted(found))


def _from_metadata(
    metadata: ClusterMetadata, topics: Collection[str] | None
) -> tuple[Partition, ...]:
    """The partitions as every Kafka version reports them."""
    wanted = metadata.topics if topics is None else {t for t in topics if t in metadata.topics}
    found: list[tuple[TopicPartition, Any]] = [
        (TopicPartition(name, number), each)
        for name in wanted
        for number, each in metadata.topics[name].partitions.items()
    ]
    return tuple(
        Partition(
            place,
            each.leader if each.leader >= 0 else None,
            -1,
            tuple(each.replicas),
            tuple(each.isrs),
        )
        for place, each in sorted(found)
    )


_NOT_NEEDED = KafkaError.ELECTION_NOT_NEEDED
_NO_ANSWER = frozenset({KafkaError.REQUEST_TIMED_OUT, KafkaError.NOT_CONTROLLER})


class KafkaElectionWriter(ClusterClient):
    """Implements `ElectionWriter` of `drctl.elections.cluster_state`."""

    def elect(
        self, kind: Kind, places: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, Unavailable | None]:
        """Elect leaders; for each partition, return None or why it failed.

        Raises:
            Unknown: no broker answered; some leaders may have been elected.
        """
        deadline = self._connection.deadline()
        found: dict[TopicPartition, Unavailable | None] = {}
        for chunk in in_chunks(places, _CHUNK):
            found |= self._elect(kind, chunk, deadline)
        return found

    def _elect(
        self, kind: Kind, places: Sequence[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, Unavailable | None]:
        """Ask one broker after the other: repeating an election changes nothing."""
        reasons: list[str] = []
        addresses = self._brokers.addresses(deadline)
        for number, node in enumerate(sorted(addresses)):
            share = deadline.remaining / (len(addresses) - number)
            body = elect_leaders(kind, by_topic(places), int(share * 1000))
            task = partial(BrokerSocket.exchange, api=ELECT_LEADERS, body=body, read=read_election)
            answer = self._brokers.ask({node: task}, addresses, deadline.sooner(share))[node]
            if isinstance(answer, Unavailable):
                reasons.append(answer.reason)
            elif answer.error not in _NO_ANSWER:
                return _outcomes(answer, places)
            else:
                reasons.append(KafkaError(answer.error).str())
        raise Unknown(
            f"no answer from cluster {self._connection.name}: {'; '.join(reasons)}",
            "check the partitions before you retry",
        )


def _outcomes(
    answer: Election, places: Sequence[TopicPartition]
) -> dict[TopicPartition, Unavailable | None]:
    if answer.error:
        return dict.fromkeys(places, Declined(KafkaError(answer.error).str()))
    # The controller leaves out partitions that needed no election.
    found: dict[TopicPartition, Unavailable | None] = dict.fromkeys(places, None)
    for row in answer.partitions:
        text = row.text or KafkaError(row.error).str()
        failed = row.error not in (0, _NOT_NEEDED)
        found[TopicPartition(row.topic, row.partition)] = Declined(text) if failed else None
    return found
