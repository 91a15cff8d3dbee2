"""Offsets of partitions, asked from each leader separately.

librdkafka answers one list_offsets call when the slowest leader has answered, and says
"offset -1001, no error" for the partitions of a leader that never did.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AdminClient,
    ClusterMetadata,
    ListOffsetsResultInfo,
)

from drctl.model.topology import PartitionOffsets, TopicPartition, Unavailable
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.faults import Fault, no_leader, unknown
from drctl.systems.kafka.requests import gather, in_chunks

# Larger calls are slower: the client's work on one call grows faster than its partitions.
_CHUNK = 1000
# The protocol gives some negative timestamps a meaning. The last stable offset is the latest as
# seen by a reader of committed records; its number is ours.
_LATEST, _EARLIEST, _NEWEST, _STABLE = -1, -2, -3, -100
_COMMITTED, _UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED

_SILENT = KafkaError(KafkaError._TIMED_OUT, "its leader did not answer")

Answer = ListOffsetsResultInfo | Fault


class _Call:
    """One request about many partitions; a future for each of them costs more than the request."""

    def __init__(
        self, admin: AdminClient, partitions: Collection[TopicPartition], what: int, timeout: float
    ) -> None:
        self._future: Future[Any] = Future()
        self._found: dict[tuple[str, int], Any] | None = None
        level = _COMMITTED if what == _STABLE else _UNCOMMITTED
        when = _LATEST if what == _STABLE else what
        # What AdminClient.list_offsets does, without a future for each partition.
        super(AdminClient, admin).list_offsets(
            [KafkaPartition(*partition, when) for partition in partitions],
            self._future,
            isolation_level_value=level.value,
            request_timeout=timeout,
        )

    def of(self, partition: TopicPartition, timeout: float | None = None) -> Any:
        """The answer about one of them, which may be an error.

        Raises:
            KafkaException, TimeoutError: there is no answer about any of them.
        """
        if self._found is None:
            answers = self._future.result(timeout).items()
            self._found = {(place.topic, place.partition): info for place, info in answers}
        return self._found.get(partition, _SILENT)


class _Share:
    """What a future of its own would be to a partition."""

    __slots__ = ("_call", "_partition")

    def __init__(self, call: _Call, partition: TopicPartition) -> None:
        self._call, self._partition = call, partition

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Why there is no answer; None where there is one.

        Raises:
            TimeoutError: it did not come in time.
        """
        try:
            found = self._call.of(self._partition, timeout)
        except KafkaException as failed:
            return failed
        return KafkaException(found) if isinstance(found, KafkaError) else None

    def result(self) -> Any:
        """The answer."""
        return self._call.of(self._partition)


class Question(NamedTuple):
    """What to ask of a partition: a timestamp, or one of the negative values above."""

    partition: TopicPartition
    what: int


def read_offsets(
    connection: Connection, partitions: Collection[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, PartitionOffsets | Unavailable]:
    """Log start, last stable and end offset of each partition.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    answers = _ask_all(connection, partitions, (_EARLIEST, _STABLE, _LATEST), deadline)
    found = {p: _offsets(p, answers, connection) for p in partitions}
    # Asked side by side: what was written in between is no open transaction.
    doubtful = [p for p, o in found.items() if isinstance(o, PartitionOffsets) and _waits(o)]
    if not doubtful:
        return found
    later = _ask_all(connection, doubtful, (_STABLE,), deadline)
    return {**found, **{p: _decided(found[p], later[Question(p, _STABLE)]) for p in doubtful}}


def read_offsets_for_time(
    connection: Connection,
    partitions: Collection[TopicPartition],
    timestamp_ms: int,
    deadline: Deadline,
) -> dict[TopicPartition, int | Unavailable]:
    """First offset whose timestamp is at or after the given one; the end offset if none is.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    # A negative timestamp means something else in the protocol.
    when = max(0, timestamp_ms)
    answers = _ask_all(connection, partitions, (_LATEST, when), deadline)
    found: dict[TopicPartition, int | Unavailable] = {}
    for partition in partitions:
        end, at = answers[Question(partition, _LATEST)], answers[Question(partition, when)]
        if isinstance(end, Fault) or isinstance(at, Fault):
            found[partition] = _unavailable(partition, (end, at), connection)
        else:
            found[partition] = end.offset if at.offset < 0 else at.offset
    return found


def read_max_timestamps(
    connection: Connection, partitions: Collection[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, int | Unavailable]:
    """No record of the partition is younger than this; -1 where it is empty.

    Brokers count transaction markers and aborted records too, and go on reporting a record
    that was deleted while its segment lives.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    answers = _ask_all(connection, partitions, (_EARLIEST, _LATEST, _NEWEST), deadline)
    found: dict[TopicPartition, int | Unavailable] = {}
    for partition in partitions:
        offsets = _offsets(partition, answers, connection)
        newest = answers[Question(partition, _NEWEST)]
        if isinstance(offsets, Unavailable):
            found[partition] = offsets
        elif isinstance(newest, Fault):
            found[partition] = _unavailable(partition, (newest,), connection)
        else:
            found[partition] = -1 if offsets.log_start == offsets.end else newest.timestamp
    return found


def _offsets(
    partition: TopicPartition, answers: Mapping[Question, Answer], connection: Connection
) -> PartitionOffsets | Unavailable:
    start = answers[Question(partition, _EARLIEST)]
    end = answers[Question(partition, _LATEST)]
    stable = answers.get(Question(partition, _STABLE), end)
    if isinstance(start, Fault) or isinstance(stable, Fault) or isinstance(end, Fault):
        return _unavailable(partition, (start, stable, end), connection)
    # Asked side by side: the log may have grown or lost its head between the answers.
    last = max(start.offset, stable.offset)
    epoch = -1 if end.leader_epoch is None else end.leader_epoch
    return PartitionOffsets(start.offset, last, max(last, end.offset), epoch)


def _waits(offsets: PartitionOffsets) -> bool:
    return offsets.last_stable < offsets.end


def _decided(
    offsets: PartitionOffsets | Unavailable, stable: Answer
) -> PartitionOffsets | Unavailable:
    """The same end; what is stable up to it by a later answer, if there is one."""
    if isinstance(offsets, Unavailable) or isinstance(stable, Fault):
        return offsets
    last = min(offsets.end, max(offsets.last_stable, stable.offset))
    return replace(offsets, last_stable=last)


def _unavailable(
    partition: TopicPartition, answers: tuple[Answer, ...], connection: Connection
) -> Unavailable:
    fault = next(answer for answer in answers if isinstance(answer, Fault))
    if fault.forbidden:
        return Unavailable(f"not authorized to describe topic {partition.topic}")
    return Unavailable(connection.redacted(fault.text))


def _ask_all(
    connection: Connection,
    partitions: Collection[TopicPartition],
    whats: tuple[int, ...],
    deadline: Deadline,
) -> Mapping[Question, Answer]:
    questions = [Question(partition, what) for what in whats for partition in partitions]
    return gather(connection, questions, partial(_ask, connection), deadline, _answered)


def _ask(
    connection: Connection, questions: Collection[Question], timeout: float, deadline: Deadline
) -> Iterator[tuple[Question, Any]]:
    metadata = connection.metadata(deadline)
    groups: dict[tuple[int, int], list[Question]] = defaultdict(list)
    for question in questions:
        leader = _leader(metadata, question.partition)
        if isinstance(leader, Fault):
            yield question, leader
        else:
            groups[leader, question.what].append(question)
    for (_, what), group in groups.items():
        for chunk in in_chunks(group, _CHUNK):
            call = _Call(connection.admin(), [each.partition for each in chunk], what, timeout)
            yield from ((each, _Share(call, each.partition)) for each in chunk)


def _leader(metadata: ClusterMetadata, partition: TopicPartition) -> int | Fault:
    topic = metadata.topics.get(partition.topic)
    known = topic.partitions.get(partition.partition) if topic else None
    if known is None:
        return unknown(f"topic {partition.topic}" if topic is None else f"partition {partition}")
    return no_leader() if known.leader < 0 else known.leader


def _answered(value: Any) -> Any:
    if isinstance(value, ListOffsetsResultInfo) and value.offset == OFFSET_INVALID:
        return Fault(KafkaError._TIMED_OUT, "its leader did not answer")
    return value
