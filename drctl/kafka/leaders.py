"""Ask each partition's leader, over drctl's own connections."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from confluent_kafka import KafkaError

from drctl.formats.primitives import Cursor
from drctl.kafka.brokers import Brokers, BrokerSocket, NotRetriable, Task, addresses_in
from drctl.kafka.connection import Connection, again, election_deadline, in_chunks, in_rounds
from drctl.kafka.deadline import Deadline
from drctl.kafka.faults import Fault, leader_of, protocol_fault
from drctl.kafka.protocol import Api, by_topic
from drctl.model.topology import TopicPartition, Unavailable

_CHUNK = 2000
_NO_ANSWER = Fault(KafkaError._TIMED_OUT, "no answer from its leader")


class Row(Protocol):
    """One partition in a response."""

    @property
    def topic(self) -> str:
        """The topic."""

    @property
    def partition(self) -> int:
        """The partition number."""

    @property
    def error(self) -> int:
        """Kafka's error code; 0 for success."""


R = TypeVar("R", bound=Row)


@dataclass(frozen=True, slots=True)
class Question(Generic[R]):
    """A request about partitions."""

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
    """Ask each partition's leader; retry until the deadline while leaders move.

    Raises:
        Unreachable: no broker answered within the deadline.
        ConfigError: drctl's own connections do not support the properties.
    """

    def attempt(
        pending: Collection[TopicPartition], timeout: float
    ) -> dict[TopicPartition, R | Fault]:
        # If a leader hangs, another one is elected soon.
        return _round(connection, brokers, question, pending, deadline.sooner(timeout))

    settled = election_deadline(deadline)
    answers = in_rounds(
        connection, partitions, attempt, lambda answer: again(answer, settled), deadline
    )
    found: dict[TopicPartition, R | Unavailable] = {}
    for place in partitions:
        answer = answers.get(place, _NO_ANSWER)
        if not isinstance(answer, Fault):
            found[place] = answer
        elif answer.forbidden:
            found[place] = Unavailable(f"not authorized for topic {place.topic}")
        else:
            found[place] = Unavailable(connection.redacted(answer.text))
    return found


def _round(
    connection: Connection,
    brokers: Brokers,
    question: Question[R],
    pending: Collection[TopicPartition],
    deadline: Deadline,
) -> dict[TopicPartition, R | Fault]:
    metadata = connection.metadata(deadline)
    found: dict[TopicPartition, R | Fault] = {}
    led: dict[int, list[TopicPartition]] = defaultdict(list)
    for place in pending:
        leader = leader_of(metadata.topics, place)
        if isinstance(leader, Fault):
            found[place] = leader
        else:
            led[leader].append(place)
    tasks: dict[int, Task[list[R]]] = {n: _task(question, places) for n, places in led.items()}
    for node, rows in brokers.ask(tasks, addresses_in(metadata), deadline).items():
        if isinstance(rows, Unavailable):
            code = KafkaError._FAIL if isinstance(rows, NotRetriable) else KafkaError._TIMED_OUT
            found.update(dict.fromkeys(led[node], Fault(code, rows.reason)))
        else:
            found.update(dict.fromkeys(led[node], _NO_ANSWER))
            for row in rows:
                fault = protocol_fault(row.error) if row.error else None
                found[TopicPartition(row.topic, row.partition)] = fault or row
    return found


def _task(question: Question[R], places: Collection[TopicPartition]) -> Task[list[R]]:
    def run(broker: BrokerSocket) -> list[R]:
        rows: list[R] = []
        for chunk in in_chunks(places, _CHUNK):
            rows += broker.exchange(question.api, question.write(by_topic(chunk)), question.read)
        return rows

    return run
