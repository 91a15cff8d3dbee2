"""Offsets of very many partitions, with little work for each.

`offsets` asks the same of a cluster. There every answer has a future and objects of its own, which
is fine for a thousand answers and takes seconds for a hundred thousand. Here leaders are asked over
connections of our own; where those cannot log in, or a broker is too old, over librdkafka's.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AdminClient,
    ClusterMetadata,
)

from drctl.model.errors import ConfigError, Unreachable
from drctl.model.topology import Found, Mark, Overview, TopicPartition, Unavailable
from drctl.systems.closing import Closing
from drctl.systems.kafka.broker_security import BrokerSecurity, broker_security
from drctl.systems.kafka.broker_socket import Address
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.faults import Fault, no_leader, unknown
from drctl.systems.kafka.leader_talk import LeaderTalk
from drctl.systems.kafka.requests import GRACE_S, again, outcome, pauses, settled_by

# librdkafka puts the answers of a call in order by searching: the square of their number.
# Measured on 10,000 partitions: 0.14 s of CPU in calls of 250, 0.16 of 1,000, 0.80 in one.
_CHUNK = 250

# Over a connection of our own: what comes back interrupts whoever works meanwhile.
_OWN_CHUNK = 5_000

# A leader looks one time up after the other, in 0.7 ms where batches are large: as many as it
# answers well before a first try of a second ends, while as many are asked ahead.
_AT_ONCE = 500

Question = tuple[TopicPartition, int]
Answer = Found | Fault


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


class LookUps(Closing):
    """Asks the partitions' leaders; learns who they are when first asked, and after a failure."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._metadata: ClusterMetadata | None = None
        self._leaders: dict[TopicPartition, int | Fault] = {}
        self._talks: dict[int, LeaderTalk] = {}
        self._security = _security(connection)

    @property
    def seen(self) -> bool:
        """Whether the client has just learnt who the brokers are."""
        return self._metadata is not None

    def overview(self, deadline: Deadline) -> Overview:
        """The cluster's id and its partitions.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        known = self._learn(deadline)
        partitions = {name: tuple(topic.partitions) for name, topic in known.topics.items()}
        return Overview(str(known.cluster_id), partitions)

    def ask(
        self, questions: Sequence[Question], deadline: Deadline
    ) -> Callable[[], list[Found | Unavailable]]:
        """Send the questions; the result waits for the answers.

        Very many times are asked in portions, each with as much time as all of them were given:
        a leader answers one after the other.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        timed = any(when >= 0 for _, when in questions)
        portion = _AT_ONCE if timed else len(questions) or 1
        portions = [questions[n : n + portion] for n in range(0, len(questions), portion)]
        sent = deque([self._asked(portions[0], deadline)] if portions else ())

        def finish() -> list[Found | Unavailable]:
            answers: list[Found | Unavailable] = []
            for following in (*portions[1:], ()):
                if following:
                    sent.append(self._asked(following, Deadline.after(deadline.total)))
                answers += sent.popleft()() if sent else ()
            return answers

        return finish

    def _asked(
        self, questions: Sequence[Question], deadline: Deadline
    ) -> Callable[[], list[Found | Unavailable]]:
        attempts = deadline.attempts()
        answers: list[Answer] = [_NOT_ASKED] * len(questions)
        timeout = next(attempts, 0.0)
        waiting = self._send(questions, range(len(questions)), answers, timeout, deadline)

        def finish() -> list[Found | Unavailable]:
            self._collect(waiting, questions, answers, timeout)
            self._ask_again(questions, answers, attempts, deadline)
            pairs = enumerate(answers)
            return [self._reason(questions[n], a) if isinstance(a, Fault) else a for n, a in pairs]

        return finish

    def close(self) -> None:
        """Hang up; may be called again, and asked again."""
        for talk in self._talks.values():
            talk.close()
        self._talks = {}

    def _learn(self, deadline: Deadline) -> ClusterMetadata:
        self._leaders = {}
        self._metadata = self._connection.metadata(deadline)
        return self._metadata

    def _ask_again(
        self,
        questions: Sequence[Question],
        answers: list[Answer],
        attempts: Iterator[float],
        deadline: Deadline,
    ) -> None:
        settled, waits = settled_by(deadline), pauses()
        pending = [n for n, a in enumerate(answers) if again(a, settled)]
        while pending and (timeout := next(attempts, None)):
            self._connection.wait(min(next(waits), deadline.remaining))
            self._metadata = None
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
        questions: Sequence[Question],
        numbers: Sequence[int],
        answers: list[Answer],
        timeout: float,
        deadline: Deadline,
    ) -> list[Chunk]:
        if self._metadata is None:
            self._learn(deadline)
        calls = self._calls(questions, numbers, answers)
        return [(call, self._called(call, questions, timeout)) for call in calls]

    def _called(self, call: _Call, questions: Sequence[Question], timeout: float) -> "Future[Any]":
        talk = self._talk(call.leader)
        asked = [questions[n] for n in call.numbers]
        if talk is None:
            return _list_offsets(self._connection.admin(), asked, call.stable, timeout)
        return talk.ask(_by_topic(asked), Deadline.after(timeout), committed=call.stable)

    def _talk(self, leader: int) -> LeaderTalk | None:
        """The connection to it; None where librdkafka's is to be used."""
        assert self._metadata is not None
        node = self._metadata.brokers.get(leader)
        if self._security is None or node is None:
            return None
        address = Address(leader, str(node.host), int(node.port))
        talk = self._talks.get(leader)
        if talk is None or talk.address != address:
            if talk is not None:
                talk.close()
            talk = self._talks[leader] = LeaderTalk(address, self._security)
        return None if talk.unfit else talk

    def _calls(
        self, questions: Sequence[Question], numbers: Sequence[int], answers: list[Answer]
    ) -> Iterator[_Call]:
        """Questions that may stand in one call: of one leader, and each partition only once.

        What is asked of a partition for the n-th time goes into an n-th call with the others'.
        """
        assert self._metadata is not None
        topics, known = self._metadata.topics, self._leaders
        times: dict[bool, dict[TopicPartition, int]] = {False: {}, True: {}}
        calls: dict[tuple[int, bool, int], list[int]] = {}
        most: dict[int, int] = {}
        for n in numbers:
            partition, when = questions[n]
            leader = known.get(partition)
            if leader is None:
                leader = known[partition] = _leader(topics, partition)
            if isinstance(leader, Fault):
                answers[n] = leader
                continue
            stable = when == Mark.STABLE
            before = times[stable].get(partition, 0)
            times[stable][partition] = before + 1
            call = calls.setdefault((leader, stable, before), [])
            call.append(n)
            if leader not in most:
                most[leader] = _CHUNK if self._talk(leader) is None else _OWN_CHUNK
            if len(call) == most[leader]:
                yield _Call(leader, stable, calls.pop((leader, stable, before)))
        yield from (_Call(leader, stable, call) for (leader, stable, _), call in calls.items())

    def _collect(
        self,
        sent: Sequence[Chunk],
        questions: Sequence[Question],
        answers: list[Answer],
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

    def _reason(self, question: Question, fault: Fault) -> Unavailable:
        if fault.forbidden:
            return Unavailable(f"not authorized to describe topic {question[0].topic}")
        return Unavailable(self._connection.redacted(fault.text))


_NOT_ASKED = Fault(KafkaError._TIMED_OUT, "no answer")


def _leader(topics: Mapping[str, Any], partition: TopicPartition) -> int | Fault:
    topic = topics.get(partition.topic)
    known = topic.partitions.get(partition.partition) if topic else None
    if known is None:
        return unknown(f"partition {partition}")
    return no_leader() if known.leader < 0 else int(known.leader)


def _security(connection: Connection) -> BrokerSecurity | None:
    try:
        return broker_security(connection.properties)
    except ConfigError:
        # librdkafka has more ways to log in than connections of our own.
        return None


def _asked(when: int) -> int:
    return int(Mark.END) if when == Mark.STABLE else when


def _by_topic(questions: Sequence[Question]) -> dict[str, list[tuple[int, int]]]:
    topics = defaultdict[str, list[tuple[int, int]]](list)
    for (topic, number), when in questions:
        topics[topic].append((number, _asked(when)))
    return topics


def _list_offsets(
    admin: AdminClient, questions: Sequence[Question], stable: bool, timeout: float
) -> "Future[Any]":
    future: Future[Any] = Future()
    asked = [KafkaPartition(*partition, _asked(when)) for partition, when in questions]
    level = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
    # What AdminClient.list_offsets does, without a future for each partition.
    super(AdminClient, admin).list_offsets(
        asked, future, isolation_level_value=level.value, request_timeout=timeout
    )
    return future


def _answers(found: Any) -> Iterator[tuple[tuple[str, int], Answer]]:
    """Of either kind of connection."""
    if isinstance(found, list):
        for topic, partition, error, offset, timestamp_ms in found:
            yield (topic, partition), _fault(error) if error else Found(offset, timestamp_ms)
        return
    for place, info in found.items():
        yield (place.topic, place.partition), _answer(info)


def _fault(error: int) -> Fault:
    return Fault(error, KafkaError(error).str())


def _answer(info: Any) -> Answer:
    if isinstance(info, KafkaError):
        return Fault(info.code(), info.str())
    if info.offset == OFFSET_INVALID:
        return Fault(KafkaError._TIMED_OUT, "its leader did not answer")
    return Found(info.offset, info.timestamp)
