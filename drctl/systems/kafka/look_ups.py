"""Offsets of very many partitions, with little work for each.

`offsets` asks the same of a cluster. There every answer has a future of its own, which is fine
for a thousand answers and takes seconds for a hundred thousand; here a future serves hundreds.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AdminClient,
    ClusterMetadata,
)

from drctl.model.errors import Unreachable
from drctl.model.topology import Found, Mark, Overview, TopicPartition, Unavailable
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.faults import Fault, no_leader, unknown
from drctl.systems.kafka.requests import GRACE_S, again, outcome, pauses, settled_by

# librdkafka puts the answers of a call in order by searching: the square of their number.
# Measured on 10,000 partitions: 0.14 s of CPU in calls of 250, 0.16 of 1,000, 0.80 in one.
_CHUNK = 250

# A leader looks one time up after the other, in 0.7 ms where batches are large: as many as it
# answers well before a first try of a second ends, while as many are asked ahead.
_AT_ONCE = 500

Question = tuple[TopicPartition, int]
Answer = Found | Fault
Chunk = tuple[list[int], "Future[Any]"]


class LookUps:
    """Asks the partitions' leaders; learns who they are when first asked, and after a failure."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._metadata: ClusterMetadata | None = None
        self._leaders: dict[TopicPartition, int | Fault] = {}

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
        admin = self._connection.admin()
        return [
            (call, _list_offsets(admin, [_asked(*questions[n]) for n in call], stable, timeout))
            for call, stable in self._calls(questions, numbers, answers)
        ]

    def _calls(
        self, questions: Sequence[Question], numbers: Sequence[int], answers: list[Answer]
    ) -> Iterator[tuple[list[int], bool]]:
        """Questions that may stand in one call: of one leader, and each partition only once.

        What is asked of a partition for the n-th time goes into an n-th call with the others'.
        """
        assert self._metadata is not None
        topics, known = self._metadata.topics, self._leaders
        times: dict[bool, dict[TopicPartition, int]] = {False: {}, True: {}}
        calls: dict[tuple[int, bool, int], list[int]] = {}
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
            if len(call) == _CHUNK:
                yield calls.pop((leader, stable, before)), stable
        yield from ((call, stable) for (_, stable, _), call in calls.items())

    def _collect(
        self,
        sent: Sequence[Chunk],
        questions: Sequence[Question],
        answers: list[Answer],
        timeout: float,
    ) -> None:
        for chunk, future in sent:
            found = outcome(future, timeout + GRACE_S)
            if isinstance(found, Fault):
                for n in chunk:
                    answers[n] = found
                continue
            number: dict[tuple[str, int], int] = {questions[n][0]: n for n in chunk}
            for place, info in found.items():
                answers[number[place.topic, place.partition]] = _answer(info)

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


def _asked(partition: TopicPartition, when: int) -> KafkaPartition:
    return KafkaPartition(*partition, Mark.END if when == Mark.STABLE else when)


def _list_offsets(
    admin: AdminClient, asked: list[KafkaPartition], stable: bool, timeout: float
) -> "Future[Any]":
    future: Future[Any] = Future()
    level = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
    # What AdminClient.list_offsets does, without a future for each partition.
    super(AdminClient, admin).list_offsets(
        asked, future, isolation_level_value=level.value, request_timeout=timeout
    )
    return future


def _answer(info: Any) -> Answer:
    if isinstance(info, KafkaError):
        return Fault(info.code(), info.str())
    if info.offset == OFFSET_INVALID:
        return Fault(KafkaError._TIMED_OUT, "its leader did not answer")
    return Found(info.offset, info.timestamp)
