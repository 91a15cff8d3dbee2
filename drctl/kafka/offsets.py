"""Offsets of partitions, requested from each leader separately.

A list_offsets call of librdkafka returns when the slowest leader has answered, and reports "offset
-1001, no error" for the partitions of a leader that never did. So drctl asks leaders over its own
connections; where those do not support the login, it uses librdkafka with one call per leader.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata  # type: ignore[attr-defined, unused-ignore]

from drctl.host.connections import Closing
from drctl.kafka.broker_security import BrokerSecurity, broker_security
from drctl.kafka.brokers import Address, BrokerSocket
from drctl.kafka.connection import GRACE_S, Connection, again, election_deadline, outcome, pauses
from drctl.kafka.deadline import Deadline
from drctl.kafka.faults import Fault, leader_of, not_described, protocol_fault, unknown_topic
from drctl.kafka.protocol import (
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    THROTTLE,
    Api,
    Read,
    body_reader,
    body_writer,
    only_field,
    rows,
    topic_rows,
)
from drctl.model.errors import ConfigError, DrctlError, Unreachable
from drctl.model.topology import (
    Found,
    Mark,
    Overview,
    PartitionOffsets,
    TopicPartition,
    Unavailable,
)

LIST_OFFSETS = Api("ListOffsets", 2, 7, True, "3.0")

_CONSUMER = -1
_ANY_EPOCH = -1
_MAX_TIME = (1 << 63) - 1


class OffsetRow(NamedTuple):
    """One partition of a response.

    Attributes:
        error: Kafka's error code; 0 for success.
        timestamp_ms: of the record found; else -1.
        offset: -1 if there is none.
        leader_epoch: of that record, or the newest one if the end was requested; else -1.
    """

    topic: str
    partition: int
    error: int
    timestamp_ms: int
    offset: int
    leader_epoch: int


Times = Mapping[str, Sequence[tuple[int, int]]]
"""By topic: pairs of a partition and a time in milliseconds, or a mark."""

_OFFSETS_REQUEST = body_writer(INT32, INT8, rows(STRING, rows(INT32, INT32, INT64)))


def write_list_offsets(times: Times, *, committed: bool) -> bytes:
    """Request offsets from a leader.

    Args:
        times: each partition at most once.
        committed: whether the end is the last stable offset.
    """
    topics = (
        (topic, ((number, _ANY_EPOCH, min(time, _MAX_TIME)) for number, time in asked))
        for topic, asked in times.items()
    )
    return _OFFSETS_REQUEST(_CONSUMER, committed, topics)


read_offset_rows: Read[tuple[OffsetRow, ...]] = body_reader(
    only_field, THROTTLE, topic_rows(INT32, INT16, INT64, INT64, INT32, into=OffsetRow)
)
"""The rows are in the broker's order."""


def read_offsets(
    connection: Connection, partitions: Collection[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, PartitionOffsets | Unavailable]:
    """Log start, last stable and end offset of each partition.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    found: dict[TopicPartition, PartitionOffsets | Unavailable] = {}
    marks = (Mark.START, Mark.STABLE, Mark.END)
    for place, answer in list_offsets(connection, partitions, marks, deadline).items():
        if isinstance(answer, Unavailable):
            found[place] = answer
            continue
        start, stable, end = answer
        # Requested in parallel: the log may have grown, or been truncated, between the answers.
        last = max(start.offset, stable.offset)
        found[place] = PartitionOffsets(start.offset, last, max(last, end.offset), end.leader_epoch)
    # For the same reason, records written in between look like an open transaction: ask again.
    doubtful = [
        p
        for p, offsets in found.items()
        if isinstance(offsets, PartitionOffsets) and offsets.last_stable < offsets.end
    ]
    if doubtful:
        later = connection.part(LookUps).send([(p, Mark.STABLE) for p in doubtful], deadline)()
        for p, repeated in zip(doubtful, later, strict=True):
            offsets = found[p]
            if isinstance(offsets, PartitionOffsets) and not isinstance(repeated, Unavailable):
                last = min(offsets.end, max(offsets.last_stable, repeated.offset))
                found[p] = replace(offsets, last_stable=last)
    return found


def list_offsets(
    connection: Connection,
    partitions: Collection[TopicPartition],
    times: Sequence[int],
    deadline: Deadline,
) -> "dict[TopicPartition, list[FoundOffset] | Unavailable]":
    """For each partition the offsets at all of these times or marks, or why one is unavailable.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    places = list(dict.fromkeys(partitions))
    look_ups = connection.part(LookUps)
    # Topics may have been created since the last request.
    look_ups.refresh(deadline)
    answers = look_ups.send([(p, time) for time in times for p in places], deadline)()
    found: dict[TopicPartition, list[FoundOffset] | Unavailable] = {}
    for n, place in enumerate(places):
        of_place = answers[n :: len(places)]
        known = [each for each in of_place if not isinstance(each, Unavailable)]
        reasons = (each for each in of_place if isinstance(each, Unavailable))
        found[place] = known if len(known) == len(of_place) else next(reasons)
    return found


class _Request(NamedTuple):
    """A request in the queue of a leader, and the future of its answer."""

    times: Times
    committed: bool
    deadline: Deadline
    answer: "Future[tuple[OffsetRow, ...] | Fault]"


class LeaderConnection(Closing):
    """A connection to one leader with its own thread; connects on first use and after a failure.

    Attributes:
        unsupported: why this broker cannot be asked over such a connection; else empty.
    """

    def __init__(self, address: Address, security: BrokerSecurity) -> None:
        self.address = address
        self.unsupported = ""
        self._security = security
        self._socket: BrokerSocket | None = None
        self._queue: SimpleQueue[_Request | None] = SimpleQueue()
        Thread(target=self._work, name="drctl-look-ups", daemon=True).start()

    def ask(
        self, times: Times, deadline: Deadline, *, committed: bool
    ) -> "Future[tuple[OffsetRow, ...] | Fault]":
        """Queue a request; the future gets the answers, or one fault for all of them."""
        request = _Request(times, committed, deadline, Future())
        self._queue.put(request)
        return request.answer

    def close(self) -> None:
        """Disconnect after the queued requests; idempotent."""
        self._queue.put(None)

    def _work(self) -> None:
        while request := self._queue.get():
            try:
                request.answer.set_result(self._answer(request))
            except BaseException as bug:
                request.answer.set_exception(bug)
                raise
        self._disconnect()

    def _answer(self, request: _Request) -> tuple[OffsetRow, ...] | Fault:
        if request.deadline.expired:
            return Fault(KafkaError._TIMED_OUT, f"no time left to ask {self.address}")
        try:
            broker = self._connected(request.deadline)
            body = write_list_offsets(request.times, committed=request.committed)
            return broker.exchange(LIST_OFFSETS, body, read_offset_rows)
        except Unreachable as error:
            self._disconnect()
            late = request.deadline.expired
            return Fault(KafkaError._TIMED_OUT if late else KafkaError._TRANSPORT, error.message)
        except DrctlError as error:
            self._disconnect()
            self.unsupported = error.message
            return Fault(KafkaError._TRANSPORT, error.message)

    def _connected(self, deadline: Deadline) -> BrokerSocket:
        if self._socket is None:
            opened = BrokerSocket(self.address, self._security, deadline)
            self._socket = opened.__enter__()
        self._socket.until(deadline)
        return self._socket

    def _disconnect(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.close()
            self._socket = None


# librdkafka sorts the answers of a call by searching, in quadratic time. Measured with 10,000
# partitions: 0.14 s of CPU in calls of 250, 0.16 s in calls of 1,000, 0.80 s in one call.
_CHUNK = 250

# Over drctl's own connection: decoding a response delays other threads.
_OWN_CHUNK = 5_000

# A leader looks up one time after another, in 0.7 ms each if batches are large. It answers this
# many well within the first attempt, which takes a second, even with the next portion in flight.
_PORTION = 500

LookUpQuestion = tuple[TopicPartition, int]


class FoundOffset(NamedTuple):
    """An offset; `OffsetRow` describes the attributes."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


LookUpAnswer = FoundOffset | Fault


class _Call(NamedTuple):
    """What is requested from a leader at once.

    Attributes:
        stable: whether the end is the last stable offset.
        numbers: the numbers of the questions.
    """

    leader: int
    stable: bool
    numbers: list[int]


Chunk = tuple[_Call, "Future[Any]"]

_FRESH_S = 1.0


class _Known:
    """A snapshot of the cluster's metadata, with the leader of each partition."""

    def __init__(self, metadata: ClusterMetadata) -> None:
        self.metadata = metadata
        self.at = monotonic()
        self._leaders: dict[TopicPartition, int | Fault] = {}

    def leader_of(self, place: TopicPartition) -> int | Fault:
        leader = self._leaders.get(place)
        if leader is None:
            topics = self.metadata.topics
            exists = place.topic in topics
            leader = leader_of(topics, place) if exists else unknown_topic(place.topic)
            self._leaders[place] = leader
        return leader


class LookUps(Closing):
    """Asks the partitions' leaders; finds them on first use, and again after a failure."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: _Known | None = None
        self._leaders: dict[int, LeaderConnection] = {}
        self._security = _security(connection)

    @property
    def fresh(self) -> bool:
        """Whether the cluster's metadata was read less than a second ago."""
        return self._known is not None and monotonic() - self._known.at < _FRESH_S

    def overview(self, deadline: Deadline) -> Overview:
        """The cluster's id and its partitions.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        known = self.refresh(deadline).metadata
        partitions = {name: tuple(topic.partitions) for name, topic in known.topics.items()}
        return Overview(str(known.cluster_id), partitions)

    def ask(
        self, questions: Sequence[LookUpQuestion], deadline: Deadline, *, refresh: bool = False
    ) -> Callable[[], list[Found | Unavailable]]:
        """Send the questions; the returned function waits for the answers.

        Args:
            refresh: whether topics may have been created since the last request.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        if refresh:
            self.refresh(deadline)
        finish = self.send(questions, deadline)
        return lambda: [a if isinstance(a, Unavailable) else Found(*a) for a in finish()]

    def send(
        self, questions: Sequence[LookUpQuestion], deadline: Deadline
    ) -> Callable[[], list[FoundOffset | Unavailable]]:
        """Like `ask`, with the leader epochs.

        A long list of times is requested in portions, and each portion may take the full duration
        of the deadline, because a leader handles one portion after another.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        timed = any(time >= 0 for _, time in questions)
        portion = _PORTION if timed else len(questions) or 1
        portions = [questions[n : n + portion] for n in range(0, len(questions), portion)]
        sent = deque([self._start(portions[0], deadline)] if portions else ())

        def finish() -> list[FoundOffset | Unavailable]:
            answers: list[FoundOffset | Unavailable] = []
            for following in (*portions[1:], ()):
                if following:
                    sent.append(self._start(following, Deadline.after(deadline.total)))
                answers += sent.popleft()() if sent else ()
            return answers

        return finish

    def _start(
        self, questions: Sequence[LookUpQuestion], deadline: Deadline
    ) -> Callable[[], list[FoundOffset | Unavailable]]:
        attempts = deadline.attempts()
        answers: list[LookUpAnswer] = [_NOT_ASKED] * len(questions)
        timeout = next(attempts, 0.0)
        waiting = self._send(questions, range(len(questions)), answers, timeout, deadline)

        def finish() -> list[FoundOffset | Unavailable]:
            self._collect(waiting, questions, answers, timeout)
            self._ask_again(questions, answers, attempts, deadline)
            # Deliver the client's log lines and errors.
            self._connection.wait(0)
            pairs = enumerate(answers)
            return [self._reason(questions[n], a) if isinstance(a, Fault) else a for n, a in pairs]

        return finish

    def close(self) -> None:
        """Disconnect; the next request reconnects. Idempotent."""
        for leader in self._leaders.values():
            leader.close()
        self._leaders = {}

    def refresh(self, deadline: Deadline) -> _Known:
        """Read the cluster's metadata.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        self._known = known = _Known(self._connection.metadata(deadline))
        return known

    def _ask_again(
        self,
        questions: Sequence[LookUpQuestion],
        answers: list[LookUpAnswer],
        attempts: Iterator[float],
        deadline: Deadline,
    ) -> None:
        settled, waits = election_deadline(deadline), pauses()
        pending = [n for n, a in enumerate(answers) if again(a, settled)]
        while pending and (timeout := next(attempts, None)):
            self._connection.wait(min(next(waits), deadline.remaining))
            self._known = None
            try:
                sent = self._send(questions, pending, answers, timeout, deadline)
            except Unreachable:
                if len(pending) == len(questions):
                    raise
                return
            self._collect(sent, questions, answers, timeout)
            pending = [n for n in pending if again(answers[n], settled)]

    def _send(
        self,
        questions: Sequence[LookUpQuestion],
        numbers: Sequence[int],
        answers: list[LookUpAnswer],
        timeout: float,
        deadline: Deadline,
    ) -> list[Chunk]:
        known = self._known or self.refresh(deadline)
        calls = self._calls(known, questions, numbers, answers)
        return [(call, self._called(known, call, questions, timeout)) for call in calls]

    def _called(
        self, known: _Known, call: _Call, questions: Sequence[LookUpQuestion], timeout: float
    ) -> "Future[Any]":
        leader = self._leader(known, call.leader)
        asked = [questions[n] for n in call.numbers]
        if leader is None:
            places = [KafkaPartition(*place, _end_if_stable(time)) for place, time in asked]
            return _list_offsets(self._connection.admin(), places, call.stable, timeout)
        return leader.ask(_by_topic(asked), Deadline.after(timeout), committed=call.stable)

    def _leader(self, known: _Known, number: int) -> LeaderConnection | None:
        """The connection to a leader; None if librdkafka must be used."""
        node = known.metadata.brokers.get(number)
        if self._security is None or node is None:
            return None
        address = Address(number, str(node.host), int(node.port))
        found = self._leaders.get(number)
        if found is None or found.address != address:
            if found is not None:
                found.close()
            found = self._leaders[number] = LeaderConnection(address, self._security)
        return None if found.unsupported else found

    def _calls(
        self,
        known: _Known,
        questions: Sequence[LookUpQuestion],
        numbers: Sequence[int],
        answers: list[LookUpAnswer],
    ) -> Iterator[_Call]:
        """Group the questions into calls; each call asks one leader, each partition at most once.

        Several questions about a partition go into different calls.
        """
        times: dict[bool, dict[TopicPartition, int]] = {False: {}, True: {}}
        calls: dict[tuple[int, bool, int], list[int]] = {}
        most: dict[int, int] = {}
        for n in numbers:
            partition, time = questions[n]
            leader = known.leader_of(partition)
            if isinstance(leader, Fault):
                answers[n] = leader
                continue
            stable = time == Mark.STABLE
            before = times[stable].get(partition, 0)
            times[stable][partition] = before + 1
            call = calls.setdefault((leader, stable, before), [])
            call.append(n)
            if leader not in most:
                most[leader] = _CHUNK if self._leader(known, leader) is None else _OWN_CHUNK
            if len(call) == most[leader]:
                yield _Call(leader, stable, calls.pop((leader, stable, before)))
        yield from (_Call(leader, stable, call) for (leader, stable, _), call in calls.items())

    def _collect(
        self,
        sent: Sequence[Chunk],
        questions: Sequence[LookUpQuestion],
        answers: list[LookUpAnswer],
        timeout: float,
    ) -> None:
        for call, future in sent:
            found = outcome(future, timeout + GRACE_S)
            if isinstance(found, Fault):
                for n in call.numbers:
                    answers[n] = found
                continue
            number: dict[tuple[str, int], int] = {questions[n][0]: n for n in call.numbers}
            for place, answer in _answers(found):
                answers[number[place]] = answer

    def _reason(self, question: LookUpQuestion, fault: Fault) -> Unavailable:
        if fault.forbidden:
            return Unavailable(not_described(question[0].topic))
        return Unavailable(self._connection.redacted(fault.text))


_NOT_ASKED = Fault(KafkaError._TIMED_OUT, "no answer")


def _security(connection: Connection) -> BrokerSecurity | None:
    try:
        return broker_security(connection.properties)
    except ConfigError:
        # drctl's own connections do not support every SASL mechanism.
        return None


def _end_if_stable(time: int) -> int:
    """The last stable offset is the end, for a reader of committed records."""
    return int(Mark.END) if time == Mark.STABLE else time


def _by_topic(questions: Sequence[LookUpQuestion]) -> dict[str, list[tuple[int, int]]]:
    topics = defaultdict[str, list[tuple[int, int]]](list)
    for (topic, number), time in questions:
        topics[topic].append((number, _end_if_stable(time)))
    return topics


def _answers(found: Any) -> Iterator[tuple[tuple[str, int], LookUpAnswer]]:
    """The answers in a response of drctl's own connection, or of librdkafka."""
    if isinstance(found, tuple):
        for topic, partition, error, time, offset, epoch in found:
            fault = protocol_fault(error) if error else None
            yield (topic, partition), fault or FoundOffset(offset, time, epoch)
        return
    for place, info in found.items():
        yield (place.topic, place.partition), _answer(info)


def _answer(info: Any) -> LookUpAnswer:
    if isinstance(info, KafkaError):
        return Fault(info.code(), info.str())
    if info.offset == OFFSET_INVALID:
        return Fault(KafkaError._TIMED_OUT, "no answer from its leader")
    epoch = -1 if info.leader_epoch is None else info.leader_epoch
    return FoundOffset(info.offset, info.timestamp, epoch)


def _list_offsets(
    admin: AdminClient, asked: list[KafkaPartition], stable: bool, timeout: float
) -> "Future[Any]":
    """Like AdminClient.list_offsets, without a future for each partition."""
    future: Future[Any] = Future()
    level = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
    super(AdminClient, admin).list_offsets(
        asked, future, isolation_level_value=level.value, request_timeout=timeout
    )
    return future
