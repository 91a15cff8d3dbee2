"""Asks partitions' leaders for what librdkafka cannot ask them, many partitions in a request."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from confluent_kafka import KafkaError
from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined, unused-ignore]

from drctl.model.errors import Unreachable
from drctl.model.topology import TopicPartition, Unavailable
from drctl.systems.kafka.broker_socket import BrokerSocket
from drctl.systems.kafka.brokers import Brokers, Hopeless, Task, addresses_in
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.faults import Fault, no_leader, unknown
from drctl.systems.kafka.requests import again, in_chunks, pauses, settled_by
from drctl.wire.broker_requests import Api
from drctl.wire.cursor import Cursor

_CHUNK = 2000
_SILENT = Fault(KafkaError._TIMED_OUT, "its leader did not answer for it")


class Row(Protocol):
    """A partition's part of an answer."""

    @property
    def topic(self) -> str:
        """Its topic."""

    @property
    def partition(self) -> int:
        """Its number."""

    @property
    def error(self) -> int:
        """Kafka's number; 0 where there is none."""


R = TypeVar("R", bound=Row)


@dataclass(frozen=True, slots=True)
class Question(Generic[R]):
    """What is asked of every partition."""

    api: Api
    write: Callable[[Mapping[str, Iterable[int]]], bytes]
    read: Callable[[Cursor], Sequence[R]]


def ask_leaders(
    connection: Connection,
    brokers: Brokers,
    question: Question[R],
    partitions: Collection[TopicPartition],
    deadline: Deadline,
) -> dict[TopicPartition, R | Unavailable]:
    """Each partition's row; asked again where a leader moves, until the deadline.

    Raises:
        Unreachable: no broker answered within the deadline.
        ConfigError: the properties cannot be used for connections of our own.
    """
    answers: dict[TopicPartition, R | Fault] = {}
    pending = list(dict.fromkeys(partitions))
    settled, waits = settled_by(deadline), pauses()
    for timeout in deadline.attempts():
        if not pending:
            break
        try:
            # One that hangs is led by another one in a while.
            soon = deadline.sooner(timeout)
            answers |= _round(connection, brokers, question, pending, soon)
        except Unreachable:
            if not answers:
                raise
            break
        pending = [p for p in pending if again(answers[p], settled)]
        connection.wait(min(next(waits), deadline.remaining) if pending else 0)
    return {p: _told(p, answers.get(p, _SILENT), connection) for p in partitions}


def _round(
    connection: Connection,
    brokers: Brokers,
    question: Question[R],
    pending: Collection[TopicPartition],
    deadline: Deadline,
) -> dict[TopicPartition, R | Fault]:
    metadata = connection.metadata(deadline)
    leaderless, led = _by_leader(metadata, pending)
    found: dict[TopicPartition, R | Fault] = {**leaderless}
    tasks: dict[int, Task[list[R]]] = {n: _task(question, places) for n, places in led.items()}
    for node, rows in brokers.ask(tasks, addresses_in(metadata), deadline).items():
        if isinstance(rows, Unavailable):
            found.update(dict.fromkeys(led[node], _lost(rows)))
        else:
            found.update(dict.fromkeys(led[node], _SILENT))
            found.update((TopicPartition(r.topic, r.partition), _judged(r)) for r in rows)
    return found


def _by_leader(
    metadata: ClusterMetadata, pending: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, Fault], dict[int, list[TopicPartition]]]:
    topics = metadata.topics
    found: dict[TopicPartition, Fault] = {}
    led: dict[int, list[TopicPartition]] = defaultdict(list)
    for place in pending:
        topic = topics.get(place.topic)
        known = topic.partitions.get(place.partition) if topic else None
        if known is None:
            found[place] = unknown(f"partition {place}")
        elif known.leader < 0:
            found[place] = no_leader()
        else:
            led[known.leader].append(place)
    return found, led


def _task(question: Question[R], places: Collection[TopicPartition]) -> Task[list[R]]:
    def run(opened: BrokerSocket) -> list[R]:
        rows: list[R] = []
        for chunk in in_chunks(places, _CHUNK):
            topics: dict[str, list[int]] = defaultdict(list)
            for topic, partition in chunk:
                topics[topic].append(partition)
            rows += opened.exchange(question.api, question.write(topics), question.read)
        return rows

    return run


def _lost(why: Unavailable) -> Fault:
    code = KafkaError._FAIL if isinstance(why, Hopeless) else KafkaError._TIMED_OUT
    return Fault(code, why.reason)


def _judged(row: R) -> R | Fault:
    return Fault(row.error, KafkaError(row.error).str()) if row.error else row


def _told(place: TopicPartition, answer: "R | Fault", connection: Connection) -> "R | Unavailable":
    if not isinstance(answer, Fault):
        return answer
    if answer.forbidden:
        return Unavailable(f"not authorized for topic {place.topic}")
    return Unavailable(connection.redacted(answer.text))
