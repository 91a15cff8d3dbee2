"""Read one Kafka cluster without changing it.

No group is joined or looked up, and no topic is requested by a name that a broker could create.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from confluent_kafka import KafkaError

from drctl.kafka.brokers import ClusterClient
from drctl.kafka.connection import Connection
from drctl.kafka.deadline import Deadline
from drctl.kafka.offsets import LookUps, list_offsets, read_offsets
from drctl.kafka.simple_consumer import SimpleConsumer
from drctl.kafka.topics import read_configurations, read_topics
from drctl.model.errors import Unknown, Unreachable
from drctl.model.ports import ClusterReader
from drctl.model.topology import (
    Chunk,
    Found,
    Mark,
    Overview,
    PartitionOffsets,
    Record,
    Row,
    TopicPartition,
    TopicState,
    Unavailable,
)

_POLL_S = 0.2
_QUICK_S = 1.0
_SMALL_FETCH, _LARGE_FETCH = 65_536, 1_048_576


class Fetched(NamedTuple):
    """A record of a partition, or why there is none.

    Attributes:
        error: 0 with a record; else librdkafka's code, for example `_PARTITION_EOF`.
        leader_epoch: in which the record was appended; -1 if the broker does not report it.
    """

    partition: TopicPartition
    record: Record | None
    error: int
    text: str
    leader_epoch: int = -1


Records = dict[TopicPartition, Record | Unavailable]
Read = dict[TopicPartition, Fetched]
Position = tuple[TopicPartition, int]


def _read_several(
    consumer: SimpleConsumer, waiting: dict[TopicPartition, range], number: int, until: Deadline
) -> dict[TopicPartition, tuple[Record, ...] | Unavailable]:
    """Read up to `number` records of each range; remove finished partitions from `waiting`."""
    for partition, offsets in waiting.items():
        consumer.start(partition, offsets.start)
    read: dict[TopicPartition, list[Record]] = defaultdict(list)
    ended: dict[TopicPartition, tuple[Record, ...] | Unavailable] = {}
    while waiting and not until.expired:
        for partition, error, rows in consumer.poll_rows(min(_POLL_S, until.remaining)):
            if partition not in waiting:
                continue
            if error and error != KafkaError._PARTITION_EOF:
                ended[partition] = _refused(partition, error, consumer.text_of(error))
            elif error or _is_last(read[partition], partition, rows, waiting[partition], number):
                ended[partition] = tuple(read[partition])
            else:
                continue
            del waiting[partition]
            consumer.stop(partition)
    for partition in waiting:
        consumer.stop(partition)
    return ended


def _is_last(
    read: list[Record], place: TopicPartition, rows: Sequence[Row], offsets: range, number: int
) -> bool:
    """Add the rows in the range, at most `number`; return whether no more are to be read."""
    for row in rows:
        offset = row[0]
        if offset in offsets:
            read.append(_record_of(place, row))
        if offset + 1 >= offsets.stop or len(read) >= number:
            return True
    return False


def _readable(
    positions: Mapping[TopicPartition, int],
    offsets: Mapping[TopicPartition, PartitionOffsets | Unavailable],
) -> dict[TopicPartition, tuple[int, int]]:
    """By partition the first and the end offset of readable records, if there are any."""
    return {
        partition: (at, known.last_stable)
        for partition, position in positions.items()
        if isinstance(known := offsets[partition], PartitionOffsets)
        and (at := max(position, known.log_start)) < known.last_stable
    }


def _read_first(
    connection: Connection, positions: Mapping[TopicPartition, int], deadline: Deadline
) -> tuple[Read, Records]:
    """The first record at or after each offset, and why other partitions could not be read."""
    offsets = read_offsets(connection, positions, deadline)
    failed: Records = {p: o for p, o in offsets.items() if isinstance(o, Unavailable)}
    wanted = {p: at for p, (at, _) in _readable(positions, offsets).items()}
    read: Read = {}
    # Small fetches first, in case the network is slow; they are slow if batches are large.
    for fetch_bytes, until in ((_SMALL_FETCH, deadline.sooner(_QUICK_S)), (_LARGE_FETCH, deadline)):
        if wanted:
            with SimpleConsumer(
                connection.properties, fetch_bytes, few=True, epochs=True
            ) as consumer:
                consumer.connect(deadline.remaining)
                read |= _read_round(consumer, wanted, until)
    failed.update((partition, _silence(deadline)) for partition in wanted)
    return read, failed


def _absent(offset: int, known: PartitionOffsets) -> Unavailable | None:
    if offset < known.log_start:
        return Unavailable(f"offset {offset} is before the log start offset {known.log_start}")
    if offset >= known.end:
        return Unavailable(f"offset {offset} is not before the end offset {known.end}")
    if offset >= known.last_stable:
        return Unavailable(
            f"offset {offset} is not before the last stable offset {known.last_stable}"
        )
    return None


def _read_exact(
    consumer: SimpleConsumer,
    wanted: Mapping[TopicPartition, list[int]],
    deadline: Deadline,
    found: dict[Position, Record | Unavailable],
) -> None:
    # A partition is read at one offset at a time: read the n-th offset of all partitions together.
    for offsets in zip_longest(*map(sorted, wanted.values())):
        at = {p: o for p, o in zip(wanted, offsets, strict=True) if o is not None}
        waiting = dict(at)
        read = _read_round(consumer, waiting, deadline)
        for partition, offset in at.items():
            record = _silence(deadline) if partition in waiting else _record(read[partition])
            if record is None or (isinstance(record, Record) and record.offset != offset):
                record = Unavailable(f"no committed record has offset {offset}")
            found[partition, offset] = record


def _read_round(
    consumer: SimpleConsumer, waiting: dict[TopicPartition, int], until: Deadline
) -> Read:
    """Read one record of each partition; remove finished partitions from `waiting`."""
    for partition, offset in waiting.items():
        consumer.start(partition, offset)
    read: Read = {}
    while waiting and not until.expired:
        for place, error, rows in consumer.poll_rows(min(_POLL_S, until.remaining), waiting):
            # After a stop or a reset, the queue may still return older records.
            position = waiting.get(place, sys.maxsize)
            row = next((row for row in rows if row[0] >= position), None)
            if place not in waiting or (row is None and not error):
                continue
            del waiting[place]
            consumer.stop(place)
            if error:
                read[place] = Fetched(place, None, error, consumer.text_of(error))
            elif row is not None:
                epoch = consumer.leader_epochs.get((place, row[0]), -1)
                read[place] = Fetched(place, _record_of(place, row), 0, "", epoch)
    for partition in waiting:
        consumer.stop(partition)
    return read


def _silence(deadline: Deadline) -> Unavailable:
    return Unavailable(f"no data from its leader within {deadline.total:g} s")


def _record_of(place: TopicPartition, row: Row) -> Record:
    offset, time, key, value, headers = row
    named = tuple((name.decode(errors="replace"), content) for name, content in headers)
    return Record(place.partition, offset, time, key, value, named)


def _record(fetched: Fetched) -> Record | Unavailable | None:
    """The record, or why it could not be read; None at the end of the partition."""
    if fetched.record is not None or fetched.error == KafkaError._PARTITION_EOF:
        return fetched.record
    return _refused(fetched.partition, fetched.error, fetched.text)


def _refused(partition: TopicPartition, error: int, text: str) -> Unavailable:
    if error == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return Unavailable(f"not authorized to read topic {partition.topic}")
    return Unavailable(text)


class KafkaClusterReader(ClusterClient):
    """Implements `ClusterReader` and `OffsetReader` of `drctl.model.ports`.

    A call that gets no answer raises `Unreachable` with the reason, which never has a credential.
    """

    @property
    def name(self) -> str:
        """The name that drctl.yaml gives the cluster."""
        return self._connection.name

    def cluster_id(self) -> str:
        """The cluster's own id.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: librdkafka rejects the properties.
        """
        return self._connection.nodes(self._connection.deadline()).cluster_id

    def topic_names(self) -> frozenset[str]:
        """All topics that this user may see, including internal ones.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return frozenset(self._connection.metadata(self._connection.deadline()).topics)

    def topics(self, names: Collection[str]) -> Mapping[str, TopicState | Unavailable | None]:
        """Each named topic's state; None if it does not exist.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        fresh = self._connection.part(LookUps).fresh
        return read_topics(self._connection, names, self._connection.deadline(), fresh)

    def offsets(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, PartitionOffsets | Unavailable]:
        """Log start, last stable and end offset of each partition, from its leader.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return read_offsets(self._connection, partitions, self._connection.deadline())

    def first_timestamps(
        self, positions: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Unavailable]:
        """Timestamp (ms) of the first committed record at or after each offset.

        Partitions without such a record are left out.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        read, found = _read_first(self._connection, positions, self._connection.deadline())
        found |= {p: r for p, f in read.items() if (r := _record(f)) is not None}
        return {p: r.timestamp_ms if isinstance(r, Record) else r for p, r in found.items()}

    def max_timestamps(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int | Unavailable]:
        """An upper bound of all timestamps (ms); -1 if the partition is empty (KIP-734).

        Brokers include transaction markers and aborted records, and deleted records until their
        segment is removed.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        marks = (Mark.START, Mark.END, Mark.NEWEST)
        deadline = self._connection.deadline()
        found: dict[TopicPartition, int | Unavailable] = {}
        for place, answer in list_offsets(self._connection, partitions, marks, deadline).items():
            if isinstance(answer, Unavailable):
                found[place] = answer
            else:
                start, end, newest = answer
                found[place] = -1 if start.offset >= end.offset else newest.timestamp_ms
        return found

    def records(
        self, positions: Sequence[tuple[TopicPartition, int]]
    ) -> Mapping[tuple[TopicPartition, int], Record | Unavailable]:
        """The committed records at exactly these offsets; for few offsets, not for scans.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        deadline = self._connection.deadline()
        offsets = read_offsets(self._connection, {place for place, _ in positions}, deadline)
        found: dict[Position, Record | Unavailable] = {}
        wanted: dict[TopicPartition, list[int]] = defaultdict(list)
        for partition, offset in dict.fromkeys(positions):
            known = offsets[partition]
            absent = known if isinstance(known, Unavailable) else _absent(offset, known)
            if absent:
                found[partition, offset] = absent
            else:
                wanted[partition].append(offset)
        if wanted:
            with SimpleConsumer(self._connection.properties, _SMALL_FETCH, few=True) as consumer:
                consumer.connect(deadline.remaining)
                _read_exact(consumer, wanted, deadline, found)
        return found

    def following(
        self, positions: Mapping[TopicPartition, int], number: int
    ) -> Mapping[TopicPartition, tuple[Record, ...] | Unavailable]:
        """The first committed records at or after each offset, up to `number` per partition.

        Records appended after the start of the call are left out.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        deadline = self._connection.deadline()
        offsets = read_offsets(self._connection, positions, deadline)
        found: dict[TopicPartition, tuple[Record, ...] | Unavailable] = {
            p: o if isinstance(o, Unavailable) else () for p, o in offsets.items()
        }
        waiting = {p: range(at, end) for p, (at, end) in _readable(positions, offsets).items()}
        if waiting:
            # There may be very many partitions: too many for one call per record.
            with SimpleConsumer(self._connection.properties, _SMALL_FETCH) as consumer:
                consumer.connect(deadline.remaining)
                found |= _read_several(consumer, waiting, number, deadline)
        return found | {partition: _silence(deadline) for partition in waiting}

    def leader_epochs(
        self, positions: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Unavailable]:
        """The leader epoch in which the committed record at exactly this offset was appended.

        Two replicas with the same epoch at an offset are equal up to there (KIP-101).

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        read, unread = _read_first(self._connection, positions, self._connection.deadline())
        found: dict[TopicPartition, int | Unavailable] = {}
        for partition, offset in positions.items():
            record = _record(read[partition]) if partition in read else unread.get(partition)
            if isinstance(record, Record) and record.offset == offset:
                found[partition] = read[partition].leader_epoch
            else:
                absent = Unavailable(f"no committed record has offset {offset}")
                found[partition] = record if isinstance(record, Unavailable) else absent
        return found

    def overview(self) -> Overview:
        """The cluster's id, and all partitions that this user may see.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return self._connection.part(LookUps).overview(self._connection.deadline())

    def configurations(
        self, names: Collection[str]
    ) -> Mapping[str, Mapping[str, str] | Unavailable]:
        """Each topic's configuration, name to value.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        fresh = self._connection.part(LookUps).fresh
        return read_configurations(self._connection, names, self._connection.deadline(), fresh)

    def look_up(
        self, questions: Sequence[tuple[TopicPartition, int]]
    ) -> Callable[[], Sequence[Found | Unavailable]]:
        """Ask each partition's leader for an offset; the returned function waits for the answers.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return self._connection.part(LookUps).ask(questions, self._connection.deadline())


_CHECK_EVERY_S = 5.0
_CONNECT_S = 1.0
_BEGINNING = -2

_ENDS = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.TOPIC_AUTHORIZATION_FAILED})


class TopicTail:
    """Follows a topic without a consumer group.

    Args:
        cluster: checked regularly for new partitions and a recreated topic.
        warn: called once when the cluster stops answering, and once when it answers again.
    """

    def __init__(
        self,
        cluster: ClusterReader,
        properties: Mapping[str, str],
        topic: TopicState,
        warn: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._properties = properties
        self._topic = topic
        self._warn = warn
        self._silent = False

    def chunks(self, positions: Mapping[int, int]) -> Iterator[Chunk]:
        """Records from these offsets on, and all records of partitions added later.

        Raises:
            Unknown: the topic was deleted or recreated, or records were deleted before they were
                read.
        """
        known = set(positions)
        check = Deadline.after(_CHECK_EVERY_S)
        with SimpleConsumer(self._properties) as consumer:
            consumer.connect(_CONNECT_S)
            for number, offset in positions.items():
                consumer.start(TopicPartition(self._topic.name, number), offset)
            while True:
                yield from self._poll(consumer)
                if check.expired:
                    for number in self._partitions() - known:
                        consumer.start(TopicPartition(self._topic.name, number), _BEGINNING)
                        known.add(number)
                    check = Deadline.after(_CHECK_EVERY_S)

    def _poll(self, consumer: SimpleConsumer) -> Iterator[Chunk]:
        for partition, error, rows in consumer.poll_rows(_POLL_S):
            if not error:
                yield Chunk(*partition, rows)
            elif error in _ENDS:
                raise Unknown(
                    f"{self._where}: cannot follow partition {partition.partition}:"
                    f" {consumer.text_of(error)}",
                    "run the command again; records may have been deleted before they were read",
                )

    def _partitions(self) -> set[int]:
        """The topic's current partitions; none if the cluster does not answer."""
        name = self._topic.name
        try:
            state = self._cluster.topics([name])[name]
        except Unreachable as error:
            if not self._silent:
                self._warn(f"{error.message}; waiting for the cluster")
            self._silent = True
            return set()
        if self._silent:
            self._warn(f"cluster {self._cluster.name} answers again")
        self._silent = False
        if state is None or (
            isinstance(state, TopicState) and state.topic_id != self._topic.topic_id
        ):
            raise Unknown(f"{self._where} was deleted or recreated", "run the command again")
        return set(state.partitions) if isinstance(state, TopicState) else set()

    @property
    def _where(self) -> str:
        return f"topic {self._topic.name} of {self._cluster.name}"
