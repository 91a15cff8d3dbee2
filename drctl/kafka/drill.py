"""A drill's producer, consumer and topics."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from drctl.drill.cleaning import drill_of
from drctl.drill.clients import Consumed, Written, identity
from drctl.gap.comparison import ScanFailed
from drctl.kafka.brokers import ClusterClient
from drctl.kafka.connection import GRACE_S, LOGGER, Connection, client_properties, outcome, refused
from drctl.kafka.deadline import Deadline
from drctl.kafka.faults import FORBIDDEN, Fault
from drctl.kafka.log_reader import KafkaRangeReader, LogSource
from drctl.kafka.offsets import read_offsets
from drctl.kafka.own_topics import DRILL, TIMEOUT_S, create
from drctl.model.errors import Unreachable
from drctl.model.topology import OffsetRange, Unavailable
from drctl.model.topology import TopicPartition as Place

_BATCH = 200
_POLL_S = 0.2
_END_S = 15.0
_SCAN_S = 60.0
_BROKERS = "check that its brokers are running"

C = TypeVar("C", Consumer, Producer)


def _opened(kind: type[C], cluster: str, settings: Mapping[str, Any]) -> C:
    """A consumer or producer of confluent-kafka."""
    try:
        return kind(dict(settings), logger=LOGGER)
    except (KafkaException, ValueError, TypeError) as error:
        what = f"a {kind.__name__.lower()} rejects its properties: {error.__class__.__name__}"
        raise refused(cluster, what) from None


class DrillReader:
    """Implements `drctl.drill.clients.Reader`; commits after each batch.

    Args:
        most: stop reading after this many records, but stay in the group; 0: no limit.
    """

    def __init__(
        self, name: str, properties: Mapping[str, str], topic: str, group: str, most: int = 0
    ) -> None:
        self._topic = topic
        self._most = most
        self._log = Consumed()
        self._failure = ""
        self._stopping = threading.Event()
        settings = {
            **client_properties(properties),
            "group.id": group,
            "enable.auto.commit": False,
            "session.timeout.ms": 6_000,
            # Without a committed offset it starts at the beginning, on both clusters.
            "auto.offset.reset": "earliest",
        }
        self._consumer = _opened(Consumer, name, settings)
        self._thread = threading.Thread(target=self._run, name=group, daemon=True)

    @property
    def log(self) -> Consumed:
        """The log so far."""
        return self._log

    @property
    def failure(self) -> str:
        """Why reading failed; empty if it did not."""
        return self._failure

    def start(self) -> None:
        """Start reading in a thread."""
        self._thread.start()

    def leave(self, *, wait: bool) -> None:
        """Leave the group."""
        self._stopping.set()
        if wait:
            self._thread.join(_END_S)

    def _run(self) -> None:
        try:
            self._consumer.subscribe([self._topic])
            while not self._stopping.is_set():
                self._take(self._consumer.consume(self._batch_size(), timeout=_POLL_S))
        except KafkaException as error:
            self._failure = str(error.args[0].str())
        finally:
            self._consumer.close()

    def _batch_size(self) -> int:
        """The batch size; 1 once the reader has enough records and only stays in the group."""
        left = self._most - len(self._log.read)
        if not self._most or left >= _BATCH:
            return _BATCH
        if left > 0:
            return left
        self._consumer.pause(self._consumer.assignment())
        return 1

    def _take(self, messages: Sequence[Message]) -> None:
        sound = [message for message in messages if message.error() is None]
        if not sound:
            return
        now = time.monotonic()
        values = [(message.value() or b"").decode() for message in sound]
        for value in values:
            self._log.read.setdefault(value, now)
        self._log.times += len(values)
        following = {(m.partition() or 0): (m.offset() or 0) + 1 for m in sound}
        wanted = [TopicPartition(self._topic, p, offset) for p, offset in following.items()]
        self._consumer.commit(offsets=wanted, asynchronous=False)
        self._log.finished.update(values)


def count_ids(name: str, properties: Mapping[str, str], topic: str) -> Mapping[str, int]:
    """Count how often each record id occurs in a topic; joins no group.

    Raises:
        Unreachable: the cluster did not answer.
    """
    connection = Connection(name, properties, _SCAN_S)
    with closing(connection):
        deadline = connection.deadline()
        known = connection.metadata(deadline).topics.get(topic)
        places = [Place(topic, number) for number in (known.partitions if known else ())]
        ranges: dict[int, list[OffsetRange]] = {}
        for place, ends in read_offsets(connection, places, deadline).items():
            if isinstance(ends, Unavailable):
                raise Unreachable(f"{place} of {name} cannot be read: {ends.reason}", _BROKERS)
            ranges[place.partition] = [OffsetRange(ends.log_start, ends.last_stable)]
    try:
        chunks = KafkaRangeReader(LogSource(name, properties)).read({topic: ranges})
        return Counter((row[3] or b"").decode() for chunk in chunks for row in chunk.rows)
    except ScanFailed as failed:
        message = f"topic {topic} of {name} cannot be read: {failed.message}"
        raise Unreachable(message, _BROKERS) from failed


_KEYS = 17
_DELIVERY_S = 30.0
_FLUSH_S = 10.0
_REFUSAL_S = 1.0


class DrillWriter:
    """Implements `drctl.drill.clients.Writer`.

    Args:
        side: prefix of the record ids.
    """

    def __init__(self, name: str, properties: Mapping[str, str], topic: str, side: str) -> None:
        self._name = name
        self._topic = topic
        self._side = side
        self._log = Written()
        self._failure = ""
        self._next = 0
        self._stopping = threading.Event()
        self._expected = threading.Event()
        self._thread: threading.Thread | None = None
        settings: dict[str, Any] = {
            **client_properties(properties),
            "acks": "all",
            "linger.ms": 5,
            "delivery.timeout.ms": int(_DELIVERY_S * 1000),
        }
        self._producer = _opened(Producer, name, settings)

    @property
    def log(self) -> Written:
        """The log so far."""
        return self._log

    @property
    def failure(self) -> str:
        """Why writing failed; empty if it did not."""
        return self._failure

    def write(self, count: int) -> None:
        """Write this many records and wait for them.

        Raises:
            Unreachable: a record was not acknowledged.
        """
        before = len(self._log.acknowledged)
        for _ in range(count):
            self._send()
        self._producer.flush(_DELIVERY_S + 1)
        acknowledged = len(self._log.acknowledged) - before
        if acknowledged != count:
            raise Unreachable(
                f"{self._name} acknowledged {acknowledged:,} of {count:,} records"
                f" of topic {self._topic}",
                "check that its brokers are running and that this user may write to it",
            )

    def start(self, rate: float) -> None:
        """Write in a thread at this rate until stopped."""
        self._thread = threading.Thread(target=self._run, args=(1 / rate,), daemon=True)
        self._thread.start()

    def expect_refusal(self) -> None:
        """Note that a fence was set: stop once a record is refused, or after a short time."""
        self._expected.set()

    def stop(self, *, wait: bool) -> None:
        """Stop; without `wait`, the outcome of in-flight records stays unknown."""
        self._stopping.set()
        if wait and self._thread is not None:
            self._thread.join(_DELIVERY_S)

    def _run(self, pause_s: float) -> None:
        try:
            self._write_until(self._stop_condition(), pause_s)
        except KafkaException as error:
            self._failure = str(error.args[0].str())

    def _stop_condition(self) -> Callable[[], bool]:
        since: float | None = None

        def over() -> bool:
            nonlocal since
            if self._stopping.is_set() or self._log.refused_at is not None:
                return True
            if since is None and self._expected.is_set():
                since = time.monotonic()
            return since is not None and time.monotonic() - since >= _REFUSAL_S

        return over

    def _write_until(self, over: Callable[[], bool], pause_s: float) -> None:
        while not over():
            self._send()
            self._producer.poll(0)
            self._stopping.wait(pause_s)
        # Do not wait long for a cluster that may be dead.
        self._producer.flush(_FLUSH_S if not self._stopping.is_set() else _REFUSAL_S)
        # In-flight records must not be written after the measurement.
        self._producer.purge()

    def _send(self) -> None:
        number = self._next
        self._next += 1
        value = identity(self._side, number)
        try:
            self._producer.produce(
                self._topic, value=value, key=str(number % _KEYS), on_delivery=self._delivered
            )
        except BufferError:
            self._producer.poll(0.1)
        except KafkaException as error:
            self._fault(error.args[0])

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._fault(error)
            return
        value = message.value() or b""
        self._log.acknowledged[value.decode()] = time.monotonic()

    def _fault(self, error: KafkaError) -> None:
        self._log.refused += 1
        if error.code() in FORBIDDEN and self._log.refused_at is None:
            self._log.refused_at = time.monotonic()


_PAUSE_S = 0.2
_GONE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
_NO_GROUP = frozenset({KafkaError.GROUP_ID_NOT_FOUND})
# A killed member stays in its group until its session expires.
_STILL_READ = frozenset({KafkaError.NON_EMPTY_GROUP})

Ask = Callable[[list[str]], Mapping[str, Any]]


class KafkaScratch(ClusterClient):
    """Implements `drctl.drill.clients.ScratchMaker`; connects on first use."""

    def make_topic(self, name: str, partitions: int) -> None:
        """Create a topic and wait for its leaders.

        Raises:
            ConfigError: this user may not create it.
            Unreachable: the cluster did not answer.
            Unknown: the topic got no leaders in time.
            ValueError: it is not the name of a drill topic.
        """
        _require_ours([name])
        create(self._connection, name, DRILL, {}, partitions)

    def delete_topics(self, names: Collection[str]) -> Mapping[str, Unavailable | None]:
        """Delete these topics; for each name, return None or why it failed.

        Raises:
            ValueError: a name is not that of a drill topic.
        """
        return self._deleted(
            names,
            lambda chosen: self._connection.admin().delete_topics(
                chosen, operation_timeout=TIMEOUT_S
            ),
            _GONE,
        )

    def delete_groups(self, names: Collection[str]) -> Mapping[str, Unavailable | None]:
        """Delete these groups; for each name, return None or why it failed.

        Raises:
            ValueError: a name is not that of a drill group.
        """
        return self._deleted(
            names,
            lambda chosen: self._connection.admin().delete_consumer_groups(
                chosen, request_timeout=TIMEOUT_S
            ),
            _NO_GROUP,
        )

    def _deleted(
        self, names: Collection[str], ask: Ask, gone: frozenset[int]
    ) -> Mapping[str, Unavailable | None]:
        _require_ours(names)
        found: dict[str, Unavailable | None] = {}
        pending, deadline = sorted(set(names)), Deadline.after(TIMEOUT_S)
        while pending:
            for name, future in ask(pending).items():
                done = outcome(future, TIMEOUT_S + GRACE_S)
                failed = isinstance(done, Fault) and done.code not in gone
                found[name] = Unavailable(self._connection.redacted(done.text)) if failed else None
                if not failed or not (done.retried or done.code in _STILL_READ):
                    pending = [each for each in pending if each != name]
            if deadline.expired:
                break
            self._connection.wait(_PAUSE_S if pending else 0)
        return found


def _require_ours(names: Collection[str]) -> None:
    """Require the names of drill topics and drill groups: nothing else may be deleted."""
    for name in names:
        if drill_of(name) is None:
            raise ValueError(f"not of a drill: {name}")
