"""Ask the brokers of a cluster in parallel, over drctl's own connections.

`Brokers` runs tasks, `ask_leaders` asks the leader of each partition, `ClusterClient` is the base
of everything that holds a connection to one cluster.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Thread
from typing import Generic, Protocol, Self, TypeVar

from confluent_kafka import KafkaError
from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined, unused-ignore]

from drctl.formats.primitives import Cursor
from drctl.host.connections import Closing
from drctl.kafka.broker_socket import Address, BrokerSecurity, BrokerSocket, broker_security
from drctl.kafka.connection import (
    GRACE_S,
    Connection,
    Nodes,
    again,
    election_deadline,
    in_chunks,
    in_rounds,
)
from drctl.kafka.deadline import Deadline
from drctl.kafka.faults import Fault, leader_of
from drctl.kafka.protocol import Api
from drctl.kafka.protocol_cluster import (
    DESCRIBE_CLUSTER,
    DescribedCluster,
    describe_cluster,
    read_described,
)
from drctl.model.errors import ConfigError, DrctlError, Unreachable
from drctl.model.topology import TopicPartition, Unavailable

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NotRetriable(Unavailable):
    """A retry would fail in the same way."""


_ABSENT = Unavailable("the broker is not in the cluster")

Task = Callable[[BrokerSocket], T]


class Brokers:
    """Runs tasks on brokers, each over its own connection; a broker that hangs delays no other."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._security: BrokerSecurity | None = None

    def addresses(self, deadline: Deadline) -> dict[int, Address]:
        """Live brokers by id.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return addresses_in(self._connection.nodes(deadline))

    def ask(
        self,
        tasks: Mapping[K, Task[T]],
        addresses: Mapping[K, Address],
        deadline: Deadline,
        enough: Callable[[T], bool] = lambda _: False,
    ) -> dict[K, T | Unavailable]:
        """Run the tasks; return each result, or why there is none.

        Args:
            addresses: the broker of each task.
            enough: whether this answer suffices, so that the others are not awaited.

        Raises:
            ConfigError: drctl's own connections do not support the properties.
        """
        security = self._secured()
        found: dict[K, T | Unavailable] = dict.fromkeys(tasks, _ABSENT)
        side_by_side: _SideBySide[K, T] = _SideBySide(security, deadline)
        for key in [key for key in tasks if key in addresses]:
            found[key] = Unavailable(f"{addresses[key]} did not answer within {deadline.total:g} s")
            side_by_side.start(key, addresses[key], tasks[key])
        for key, answer in side_by_side.answers(enough).items():
            found[key] = self._redacted(answer) if isinstance(answer, DrctlError) else answer
        return found

    def first(self, task: "Task[T | Unavailable]", deadline: Deadline) -> T | Unavailable:
        """The first answer of any broker, or why there is none.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: drctl's own connections do not support the properties.
        """
        addresses = self.addresses(deadline)
        answered = lambda answer: not isinstance(answer, Unavailable)  # noqa: E731
        answers = self.ask(dict.fromkeys(addresses, task), addresses, deadline, answered)
        known = (each for each in answers.values() if not isinstance(each, Unavailable))
        return next(known, first_reason(answers))

    def described(self, deadline: Deadline) -> DescribedCluster | Unavailable:
        """DescribeCluster from any broker, or why there is no answer.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        try:
            return self.first(_described, deadline)
        except ConfigError as odd:
            # drctl's own connections do not support every SASL mechanism.
            return Unavailable(self._connection.redacted(odd.message))

    def _secured(self) -> BrokerSecurity:
        if self._security is None:
            self._security = broker_security(self._connection.properties)
        return self._security

    def _redacted(self, error: DrctlError) -> Unavailable:
        text = self._connection.redacted(error.message)
        return Unavailable(text) if isinstance(error, Unreachable) else NotRetriable(text)


class ClusterClient(Closing):
    """Base of everything that talks to one cluster; connects on first use.

    Args:
        connection: may be shared; it is closed with its last user.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._brokers = Brokers(connection)
        connection.use(self)

    def __enter__(self) -> Self:
        self._connection.use(self)  # it may have been closed before
        return self

    def prepare(self) -> None:
        """Create the client without sending a request.

        Raises:
            ConfigError: librdkafka rejects the properties.
        """
        self._connection.admin()

    def close(self) -> None:
        """Release the connection unless others use it; idempotent."""
        self._connection.leave(self)


def addresses_in(known: ClusterMetadata | Nodes) -> dict[int, Address]:
    """Live brokers by id."""
    brokers = known.brokers.items()
    return {node: Address(node, str(each.host), int(each.port)) for node, each in brokers}


def first_reason(answers: Mapping[int, object]) -> Unavailable:
    """The reason that the first broker gave."""
    reasons = (each for each in answers.values() if isinstance(each, Unavailable))
    return next(reasons, Unavailable("the cluster has no brokers"))


def _described(opened: BrokerSocket) -> DescribedCluster | Unavailable:
    found = opened.exchange(DESCRIBE_CLUSTER, describe_cluster(), read_described)
    if found.error:
        return Unavailable(found.text or KafkaError(found.error).str())
    return found


class _SideBySide(Generic[K, T]):
    """One thread per task; a thread that blocks forever (in DNS, for example) is abandoned."""

    def __init__(self, security: BrokerSecurity, deadline: Deadline) -> None:
        self._security = security
        self._deadline = deadline
        self._answers: Queue[tuple[K, T | BaseException]] = Queue()
        self._started = 0

    def start(self, key: K, address: Address, task: Task[T]) -> None:
        self._started += 1
        Thread(target=self._run, args=(key, address, task), daemon=True).start()

    def answers(self, enough: Callable[[T], bool]) -> dict[K, T | DrctlError]:
        found: dict[K, T | DrctlError] = {}
        while len(found) < self._started:
            try:
                key, answer = self._answers.get(timeout=self._deadline.remaining + GRACE_S)
            except Empty:
                break
            if isinstance(answer, BaseException) and not isinstance(answer, DrctlError):
                raise answer
            found[key] = answer
            if not isinstance(answer, DrctlError) and enough(answer):
                break
        return found

    def _run(self, key: K, address: Address, task: Task[T]) -> None:
        try:
            with BrokerSocket(address, self._security, self._deadline) as opened:
                self._answers.put((key, task(opened)))
        except DrctlError as error:
            self._answers.put((key, error))
        except BaseException as bug:
            self._answers.put((key, bug))
            raise


_CHUNK = 2000
_NO_ANSWER = Fault(KafkaError._TIMED_OUT, "no answer from its leader")


def by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic."""
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in places:
        topics[topic].append(partition)
    return topics


class Row(Protocol):
    """One partition in an answer."""

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
    return {p: _unless_fault(p, answers.get(p, _NO_ANSWER), connection) for p in partitions}


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
                fault = Fault(row.error, KafkaError(row.error).str()) if row.error else None
                found[TopicPartition(row.topic, row.partition)] = fault or row
    return found


def _task(question: Question[R], places: Collection[TopicPartition]) -> Task[list[R]]:
    def run(opened: BrokerSocket) -> list[R]:
        rows: list[R] = []
        for chunk in in_chunks(places, _CHUNK):
            rows += opened.exchange(question.api, question.write(by_topic(chunk)), question.read)
        return rows

    return run


def _unless_fault(
    place: TopicPartition, answer: "R | Fault", connection: Connection
) -> "R | Unavailable":
    if not isinstance(answer, Fault):
        return answer
    if answer.forbidden:
        return Unavailable(f"not authorized for topic {place.topic}")
    return Unavailable(connection.redacted(answer.text))
