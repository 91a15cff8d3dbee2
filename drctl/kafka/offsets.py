"""Offsets of partitions, asked from each leader separately.

librdkafka answers one list_offsets call when the slowest leader has answered, and says
"offset -1001, no error" for the partitions of a leader that never did. So leaders are asked over
connections of our own; where those cannot log in, librdkafka is asked for one leader at a time.
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
from drctl.kafka.broker_socket import Address, BrokerSecurity, BrokerSocket, broker_security
from drctl.kafka.connection import GRACE_S, Connection, again, election_deadline, outcome, pauses
from drctl.kafka.deadline import Deadline
from drctl.kafka.faults import Fault, leader_of, unknown
from drctl.kafka.protocol_partitions import LOOK_UP, LookedUp, look_up, read_looked_up
from drctl.model.errors import ConfigError, DrctlError, Unreachable
from drctl.model.topology import (
    Found,
    Mark,
    Overview,
    PartitionOffsets,
    TopicPartition,
    Unavailable,
)


def read_offsets(
    connection: Connection, partitions: Collection[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, PartitionOffsets | Unavailable]:
    """Log start, last stable and end offset of each partition.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    marks = (Mark.START, Mark.STABLE, Mark.END)
    found = {
        p: told if isinstance(told, Unavailable) else _offsets(*told)
        for p, told in asked_of_each(connection, partitions, marks, deadline).items()
    }
    # Asked side by side: what was written in between is no open transaction.
    doubtful = [
        p
        for p, offsets in found.items()
        if isinstance(offsets, PartitionOffsets) and offsets.last_stable < offsets.end
    ]
    if doubtful:
        later = connection.part(LookUps).looks([(p, Mark.STABLE) for p in doubtful], deadline)()
        for p, stable in zip(doubtful, later, strict=True):
            offsets = found[p]
            if isinstance(offsets, PartitionOffsets) and not isinstance(stable, Unavailable):
                last = min(offsets.end, max(offsets.last_stable, stable.offset))
                found[p] = replace(offsets, last_stable=last)
    return found


def asked_of_each(
    connection: Connection,
    partitions: Collection[TopicPartition],
    whens: Sequence[int],
    deadline: Deadline,
) -> "dict[TopicPartition, list[Looked] | Unavailable]":
    """The answers to all of these questions about each partition, or why one has none."""
    places = list(dict.fromkeys(partitions))
    look_ups = connection.part(LookUps)
    # There may be topics that were not there when it was asked last.
    look_ups.learn(deadline)
    answers = look_ups.looks([(p, when) for when in whens for p in places], deadline)()
    found: dict[TopicPartition, list[Looked] | Unavailable] = {}
    for n, place in enumerate(places):
        told = answers[n :: len(places)]
        known = [each for each in told if not isinstance(each, Unavailable)]
        silent = (each for each in told if isinstance(each, Unavailable))
        found[place] = known if len(known) == len(told) else next(silent)
    return found


def _offsets(start: "Looked", stable: "Looked", end: "Looked") -> PartitionOffsets:
    # Asked side by side: the log may have grown or lost its head between the answers.
    last = max(start.offset, stable.offset)
    return PartitionOffsets(start.offset, last, max(last, end.offset), end.leader_epoch)


Whens = Mapping[str, Sequence[tuple[int, int]]]
"""By topic: partitions, and a time or mark each."""


class _Asked(NamedTuple):
    """What waits for its turn; the answer is told to whoever holds the future."""

    whens: Whens
    committed: bool
    deadline: Deadline
    answer: "Future[tuple[LookedUp, ...] | Fault]"


class LeaderConnection(Closing):
    """Connects when first asked, and again after a failure.

    Attributes:
        unfit: why this broker cannot be asked in this way; empty as far as known.
    """

    def __init__(self, address: Address, security: BrokerSecurity) -> None:
        self.address = address
        self.unfit = ""
        self._security = security
        self._socket: BrokerSocket | None = None
        self._asked: SimpleQueue[_Asked | None] = SimpleQueue()
        Thread(target=self._work, name="drctl-look-ups", daemon=True).start()

    def ask(
        self, whens: Whens, deadline: Deadline, *, committed: bool
    ) -> "Future[tuple[LookedUp, ...] | Fault]":
        """The answers, or the fault of all of them, once it is their turn."""
        asked = _Asked(whens, committed, deadline, Future())
        self._asked.put(asked)
        return asked.answer

    def close(self) -> None:
        """Hang up after what has been asked; may be called again."""
        self._asked.put(None)

    def _work(self) -> None:
        while asked := self._asked.get():
            try:
                asked.answer.set_result(self._answer(asked))
            except BaseException as bug:
                asked.answer.set_exception(bug)
                raise
        self._hang_up()

    def _answer(self, asked: _Asked) -> tuple[LookedUp, ...] | Fault:
        if asked.deadline.expired:
            return Fault(KafkaError._TIMED_OUT, f"no time left to ask {self.address}")
        try:
            socket = self._connected(asked.deadline)
            body = look_up(asked.whens, committed=asked.committed)
            return socket.exchange(LOOK_UP, body, read_looked_up)
        except Unreachable as error:
            self._hang_up()
            late = asked.deadline.expired
            return Fault(KafkaError._TIMED_OUT if late else KafkaError._TRANSPORT, error.message)
        except DrctlError as error:
            self._hang_up()
            self.unfit = error.message
            return Fault(KafkaError._TRANSPORT, error.message)

    def _connected(self, deadline: Deadline) -> BrokerSocket:
        if self._socket is None:
            opened = BrokerSocket(self.address, self._security, deadline)
            self._socket = opened.__enter__()
        self._socket.until(deadline)
        return self._socket

    def _hang_up(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.close()
            self._socket = None


# librdkafka puts the answers of a call in order by searching: the square of their number.
# Measured on 10,000 partitions: 0.14 s of CPU in calls of 250, 0.16 of 1,000, 0.80 in one.
_CHUNK = 250

# Over a connection of our own: what comes back interrupts whoever works meanwhile.
_OWN_CHUNK = 5_000

# A leader looks one time up after the other, in 0.7 ms where batches are large: as many as it
# answers well before a first try of a second ends, while as many are asked ahead.
_AT_ONCE = 500

LookUpQuestion = tuple[TopicPartition, int]


class Looked(NamedTuple):
    """As `LookedUp` has it."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


LookUpAnswer = Looked | Fault


class _Call(NamedTuple):
    """What is asked of a leader at once.

    Attributes:
        stable: whether the end is that of the last stable record.
        numbers: of the questions.
    """

    leader: int
    stable: bool
    numbers: list[int]


Chunk = tuple[_Call, "Future[Any]"]


_JUST_S = 1.0


class _Known:
    """Who leads the partitions, as of one look at the cluster."""

    def __init__(self, metadata: ClusterMetadata) -> None:
        self.metadata = metadata
        self.at = monotonic()
        self._leaders: dict[TopicPartition, int | Fault] = {}

    def leader_of(self, place: TopicPartition) -> int | Fault:
        leader = self._leaders.get(place)
        if leader is None:
            topics = self.metadata.topics
            there = place.topic in topics
            leader = leader_of(topics, place) if there else unknown(f"topic {place.topic}")
            self._leaders[place] = leader
        return leader


class LookUps(Closing):
    """Asks the partitions' leaders; learns who they are when first asked, and after a failure."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: _Known | None = None
        self._talks: dict[int, LeaderConnection] = {}
        self._security = _security(connection)

    @property
    def seen(self) -> bool:
        """Whether the client has just learnt who the brokers are."""
        return self._known is not None and monotonic() - self._known.at < _JUST_S

    def overview(self, deadline: Deadline) -> Overview:
        """The cluster's id and its partitions.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        known = self.learn(deadline).metadata
        partitions = {name: tuple(topic.partitions) for name, topic in known.topics.items()}
        return Overview(str(known.cluster_id), partitions)

    def ask(
        self, questions: Sequence[LookUpQuestion], deadline: Deadline, *, anew: bool = False
    ) -> Callable[[], list[Found | Unavailable]]:
        """Send the questions; the result waits for the answers.

        Args:
            anew: whether there may be topics that were not there when it was asked last.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        if anew:
            self.learn(deadline)
        finish = self.looks(questions, deadline)
        return lambda: [a if isinstance(a, Unavailable) else Found(*a[:2]) for a in finish()]

    def looks(
        self, questions: Sequence[LookUpQuestion], deadline: Deadline
    ) -> Callable[[], list[Looked | Unavailable]]:
        """The same, with the leader epochs.

        Very many times are asked in portions, each with as much time as all of them were given:
        a leader answers one after the other.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        timed = any(when >= 0 for _, when in questions)
        portion = _AT_ONCE if timed else len(questions) or 1
        portions = [questions[n : n + portion] for n in range(0, len(questions), portion)]
        sent = deque([self._asked(portions[0], deadline)] if portions else ())

        def finish() -> list[Looked | Unavailable]:
            answers: list[Looked | Unavailable] = []
            for following in (*portions[1:], ()):
                if following:
                    sent.append(self._asked(following, Deadline.after(deadline.total)))
                answers += sent.popleft()() if sent else ()
            return answers

        return finish

    def _asked(
        self, questions: Sequence[LookUpQuestion], deadline: Deadline
    ) -> Callable[[], list[Looked | Unavailable]]:
        attempts = deadline.attempts()
        answers: list[LookUpAnswer] = [_NOT_ASKED] * len(questions)
        timeout = next(attempts, 0.0)
        waiting = self._send(questions, range(len(questions)), answers, timeout, deadline)

        def finish() -> list[Looked | Unavailable]:
            self._collect(waiting, questions, answers, timeout)
            self._ask_again(questions, answers, attempts, deadline)
            # What the client met and logged meanwhile is handed over.
            self._connection.wait(0)
            pairs = enumerate(answers)
            return [self._reason(questions[n], a) if isinstance(a, Fault) else a for n, a in pairs]

        return finish

    def close(self) -> None:
        """Hang up; may be called again, and asked again."""
        for talk in self._talks.values():
            talk.close()
        self._talks = {}

    def learn(self, deadline: Deadline) -> _Known:
        """See who leads the partitions now.

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
        known = self._known or self.learn(deadline)
        calls = self._calls(known, questions, numbers, answers)
        return [(call, self._called(known, call, questions, timeout)) for call in calls]

    def _called(
        self, known: _Known, call: _Call, questions: Sequence[LookUpQuestion], timeout: float
    ) -> "Future[Any]":
        talk = self._talk(known, call.leader)
        asked = [questions[n] for n in call.numbers]
        if talk is None:
            places = [KafkaPartition(*place, _asked(when)) for place, when in asked]
            return _list_offsets(self._connection.admin(), places, call.stable, timeout)
        return talk.ask(_by_topic(asked), Deadline.after(timeout), committed=call.stable)

    def _talk(self, known: _Known, leader: int) -> LeaderConnection | None:
        """The connection to it; None where librdkafka's is to be used."""
        node = known.metadata.brokers.get(leader)
        if self._security is None or node is None:
            return None
        address = Address(leader, str(node.host), int(node.port))
        talk = self._talks.get(leader)
        if talk is None or talk.address != address:
            if talk is not None:
                talk.close()
            talk = self._talks[leader] = LeaderConnection(address, self._security)
        return None if talk.unfit else talk

    def _calls(
        self,
        known: _Known,
        questions: Sequence[LookUpQuestion],
        numbers: Sequence[int],
        answers: list[LookUpAnswer],
    ) -> Iterator[_Call]:
        """Questions that may stand in one call: of one leader, and each partition only once.

        What is asked of a partition for the n-th time goes into an n-th call with the others'.
        """
        times: dict[bool, dict[TopicPartition, int]] = {False: {}, True: {}}
        calls: dict[tuple[int, bool, int], list[int]] = {}
        most: dict[int, int] = {}
        for n in numbers:
            partition, when = questions[n]
            leader = known.leader_of(partition)
            if isinstance(leader, Fault):
                answers[n] = leader
                continue
            stable = when == Mark.STABLE
            before = times[stable].get(partition, 0)
            times[stable][partition] = before + 1
            call = calls.setdefault((leader, stable, before), [])
            call.append(n)
            if leader not in most:
                most[leader] = _CHUNK if self._talk(known, leader) is None else _OWN_CHUNK
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
            return Unavailable(f"not authorized to describe topic {question[0].topic}")
        return Unavailable(self._connection.redacted(fault.text))


_NOT_ASKED = Fault(KafkaError._TIMED_OUT, "no answer")


def _security(connection: Connection) -> BrokerSecurity | None:
    try:
        return broker_security(connection.properties)
    except ConfigError:
        # librdkafka has more ways to log in than connections of our own.
        return None


def _asked(when: int) -> int:
    return int(Mark.END) if when == Mark.STABLE else when


def _by_topic(questions: Sequence[LookUpQuestion]) -> dict[str, list[tuple[int, int]]]:
    topics = defaultdict[str, list[tuple[int, int]]](list)
    for (topic, number), when in questions:
        topics[topic].append((number, _asked(when)))
    return topics


def _answers(found: Any) -> Iterator[tuple[tuple[str, int], LookUpAnswer]]:
    """Of either kind of connection."""
    if isinstance(found, tuple):
        for topic, partition, error, time, offset, epoch in found:
            fault = Fault(error, KafkaError(error).str()) if error else None
            yield (topic, partition), fault or Looked(offset, time, epoch)
        return
    for place, info in found.items():
        yield (place.topic, place.partition), _answer(info)


def _answer(info: Any) -> LookUpAnswer:
    if isinstance(info, KafkaError):
        return Fault(info.code(), info.str())
    if info.offset == OFFSET_INVALID:
        return Fault(KafkaError._TIMED_OUT, "no answer from its leader")
    epoch = -1 if info.leader_epoch is None else info.leader_epoch
    return Looked(info.offset, info.timestamp, epoch)


def _list_offsets(
    admin: AdminClient, asked: list[KafkaPartition], stable: bool, timeout: float
) -> "Future[Any]":
    """What AdminClient.list_offsets does, without a future for each partition."""
    future: Future[Any] = Future()
    level = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
    super(AdminClient, admin).list_offsets(
        asked, future, isolation_level_value=level.value, request_timeout=timeout
    )
    return future
