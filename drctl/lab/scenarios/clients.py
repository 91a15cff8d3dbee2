"""The applications of a scenario: a producer and consumer groups that follow an endpoint file."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from drctl.lab.cluster import LOGGER, LabCluster, Position
from drctl.lab.environment import write_environment
from drctl.lab.lab import Lab
from drctl.lab.loading import Ack, AckLog, Failure, Row, flights, load
from drctl.lab.loads import Loads, ensure_topic
from drctl.lab.scenarios.stage import NAME, Stage
from drctl.lab.settings import CLUSTERS
from drctl.lab.waiting import Patience
from drctl.model.errors import DrctlError, Stopped

USER = "orders-app"
"""User name of the applications."""


@dataclass(frozen=True, slots=True)
class EndpointFile:
    """The file that tells applications which cluster to use; they check it continuously.

    Attributes:
        file: holds the bootstrap address of one of the clusters.
    """

    file: Path
    clusters: tuple[LabCluster, ...]

    def point_to(self, name: str) -> None:
        """Write the address of this cluster."""
        bootstrap = next(each.bootstrap for each in self.clusters if each.name == name)
        self.file.write_text(f"{bootstrap}\n", encoding="utf-8")

    def cluster(self) -> LabCluster:
        """The cluster whose address the file holds.

        Raises:
            Stopped: it is not the address of a lab cluster.
        """
        address = self.file.read_text(encoding="utf-8").strip()
        for each in self.clusters:
            if each.bootstrap == address:
                return each
        raise Stopped(f"{self.file} does not name a cluster of the lab: {address}")


_BATCH = 500
_POLL_S = 0.2
_END_S = 60
# After a move, a group must have a committed offset: a missing one is an error, not a reset.
_RESET = {True: "earliest", False: "error"}
# TOPIC_AUTHORIZATION_FAILED is not fatal: it can be a fence, which is lifted later.
_FATAL = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.GROUP_AUTHORIZATION_FAILED})
_SETTINGS: dict[str, str | int | float | bool] = {
    "enable.auto.commit": False,
    "session.timeout.ms": 6_000,
    "reconnect.backoff.max.ms": 500,
    # Small fetches, so that slow groups read from all partitions.
    "max.partition.fetch.bytes": 32_768,
}


@dataclass(frozen=True, slots=True)
class ReaderProfile:
    """How a group reads on the first cluster.

    Attributes:
        rate: records per second; 0 is unlimited.
        most: it goes idle after about this many records, until the move; 0: it never does.
    """

    group: str
    rate: int = 0
    most: int = 0


@dataclass(frozen=True, slots=True)
class GroupReads:
    """The records that a group consumed on one cluster.

    Attributes:
        values: record values by partition and offset.
        committed: the committed offset of each partition, as acknowledged by the cluster.
    """

    values: Mapping[Position, bytes]
    committed: Mapping[int, int]

    @property
    def finished(self) -> set[bytes]:
        """Values of the records below the committed offsets."""
        return {
            value
            for (partition, offset), value in self.values.items()
            if offset < self.committed.get(partition, 0)
        }


class Reader:
    """The single member of a consumer group, in its own thread."""

    def __init__(self, endpoint: EndpointFile, topic: str, profile: ReaderProfile) -> None:
        self.profile = profile
        self.failure = ""
        self._endpoint = endpoint
        self._topic = topic
        self._first = endpoint.cluster().name
        self._values: dict[str, dict[Position, bytes]] = {name: {} for name in CLUSTERS}
        self._committed: dict[str, dict[int, int]] = {name: {} for name in CLUSTERS}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=profile.group, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> bool:
        """Leave the group; return whether it left in time."""
        self._stopping.set()
        self._thread.join(_END_S)
        return not self._thread.is_alive()

    def ask_to_stop(self) -> None:
        """Ask the thread to stop, without waiting."""
        self._stopping.set()

    def committed(self, cluster: str) -> Mapping[int, int]:
        """The committed offset of each partition; may be called while it reads."""
        return self._committed[cluster]

    def committed_offsets(self) -> str:
        """The committed offsets on both clusters, for messages."""
        places = ", ".join(f"{name} {self._committed[name]}" for name in CLUSTERS)
        return f"{self.profile.group} has committed on {places}"

    def reads(self, cluster: str) -> GroupReads:
        """The records it consumed on this cluster; call it after `stop`."""
        return GroupReads(self._values[cluster], self._committed[cluster])

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._read_on(self._endpoint.cluster())
        except KafkaException as error:
            self.failure = f"{self.profile.group}: {error.args[0].str()}"
        except DrctlError as error:
            self.failure = f"{self.profile.group}: {error.message}"

    def _read_on(self, cluster: LabCluster) -> None:
        """Read from the cluster until the endpoint names the other cluster."""
        on_first = cluster.name == self._first
        consumer = self._consumer(cluster, _RESET[on_first])
        try:
            consumer.subscribe([self._topic])
            while self._should_stay(cluster) and not (on_first and self._is_done(consumer)):
                messages = _without_transient_errors(consumer.consume(_BATCH, timeout=_POLL_S))
                if messages:
                    self._take(consumer, cluster.name, messages)
                if on_first:
                    self._throttle(len(messages))
        finally:
            _close_consumer(consumer, wait=self._should_stay(cluster) or not on_first)
        while self._should_stay(cluster):
            self._stopping.wait(_POLL_S)

    def _consumer(self, cluster: LabCluster, reset: str) -> Consumer:
        settings: dict[str, Any] = {
            **_SETTINGS,
            **cluster.client_properties(USER),
            "group.id": self.profile.group,
            "auto.offset.reset": reset,
            "on_commit": partial(self._committed_callback, cluster.name),
        }
        return Consumer(settings, logger=LOGGER)

    def _should_stay(self, cluster: LabCluster) -> bool:
        return not self._stopping.is_set() and self._endpoint.cluster().name == cluster.name

    def _is_done(self, consumer: Consumer) -> bool:
        """Whether it has read and committed enough to go idle."""
        places, committed = consumer.assignment(), self._committed[self._first]
        read = self._values[self._first]
        if not 0 < self.profile.most <= len(read):
            return False
        # It still waits for a first record of each partition.
        known = {partition for partition, _ in read}
        consumer.pause([each for each in places if each.partition in known])
        return 0 < len(places) <= len(committed) and sum(committed.values()) >= len(read)

    def _take(self, consumer: Consumer, cluster: str, messages: Sequence[Message]) -> None:
        for message in messages:
            place = (message.partition() or 0, message.offset() or 0)
            self._values[cluster][place] = message.value() or b""
        following = {(m.partition() or 0): (m.offset() or 0) + 1 for m in messages}
        wanted = [TopicPartition(self._topic, p, offset) for p, offset in following.items()]
        # A synchronous commit can block forever if the cluster dies.
        consumer.commit(offsets=wanted, asynchronous=True)

    def _committed_callback(
        self, cluster: str, error: KafkaError | None, places: list[TopicPartition]
    ) -> None:
        """Store the offsets that the cluster acknowledged."""
        done = {each.partition: each.offset for each in places if each.error is None}
        if error is None:
            self._committed[cluster] = {**self._committed[cluster], **done}

    def _throttle(self, records: int) -> None:
        if self.profile.rate:
            self._stopping.wait(records / self.profile.rate)


def _close_consumer(consumer: Consumer, *, wait: bool) -> None:
    """Close the consumer; do not wait if its cluster may be dead, since that can block forever."""
    if wait:
        consumer.close()
    else:
        threading.Thread(target=consumer.close, name="leaving", daemon=True).start()


def _without_transient_errors(messages: Sequence[Message]) -> Sequence[Message]:
    """Drop transient errors.

    Raises:
        KafkaException: an error is fatal.
    """
    for message in messages:
        error = message.error()
        if error is not None and error.code() in _FATAL:
            raise KafkaException(error)
    return [message for message in messages if message.error() is None]


_LOOK_S = 0.1


class Writer:
    """A producing application; each record carries its creation time."""

    def __init__(self, lab: Lab, endpoint: EndpointFile, topic: str) -> None:
        self._lab = lab
        self._endpoint = endpoint
        self._topic = topic
        self._next = 0
        self._acknowledged: dict[str, int] = {}
        self._failed: dict[str, int] = {}
        self.failure = ""
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._rate = 0

    @property
    def next_row(self) -> int:
        """The first row that was not produced yet."""
        return self._next

    def acknowledged(self, cluster: str) -> int:
        """Number of acknowledged records; may be called while it writes."""
        return self._acknowledged.get(cluster, 0)

    def failed(self, cluster: str) -> int:
        """Number of records that were not acknowledged."""
        return self._failed.get(cluster, 0)

    def log(self, cluster: str) -> Path:
        """The folder with the log of acknowledged records."""
        return Loads(self._lab).folder(cluster)

    def write(
        self, count: int | None = None, rate: float = 0, until: Callable[[], bool] = lambda: False
    ) -> None:
        """Write until `count` rows are produced or `until` returns true.

        Raises:
            Stopped: the producer failed.
            Unreachable: the cluster does not answer.
        """
        cluster = self._endpoint.cluster()
        ensure_topic(cluster, self._topic)
        rows = _with_current_time(flights(self._next, count))
        try:
            with AckLog.opened(self.log(cluster.name)) as log:
                self._load(cluster.name, rows, log, rate, until)
        except KafkaException as error:
            raise Stopped(f"the application failed: {error.args[0].str()}") from error

    def start(self, rate: int) -> None:
        """Write in a thread until stopped; pause while the cluster refuses writes."""
        self._rate = rate
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Ask the thread to stop, without waiting for in-flight records."""
        self._stopping.set()

    def stop(self) -> None:
        """Stop the thread and wait for it.

        Raises:
            Stopped: it does not stop, or it failed.
        """
        self._stopping.set()
        thread = self._thread
        if thread is not None:
            thread.join(_END_S)
        if thread is not None and thread.is_alive():
            raise Stopped(f"the application did not stop within {_END_S} s")
        if self.failure:
            raise Stopped(self.failure)
        self._stopping.clear()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._write_to_active_cluster()
        except Stopped as error:
            self.failure = error.message

    def _write_to_active_cluster(self) -> None:
        """Write to one cluster until it refuses; then wait for the endpoint to change."""
        name = self._endpoint.cluster().name
        failed = self.failed(name)

        def endpoint_changed() -> bool:
            return self._endpoint.cluster().name != name

        def refused() -> bool:
            return self.failed(name) > failed

        self.write(rate=self._rate, until=lambda: refused() or endpoint_changed())
        while refused() and not (endpoint_changed() or self._stopping.is_set()):
            self._stopping.wait(_LOOK_S)

    def _load(
        self, cluster: str, rows: Iterator[Row], log: AckLog, rate: float, until: Callable[[], bool]
    ) -> None:
        def acknowledged(ack: Ack) -> None:
            log.acknowledged(ack)
            self._acknowledged[cluster] = self.acknowledged(cluster) + 1

        def failed(failure: Failure) -> None:
            log.failed(failure)
            self._failed[cluster] = self.failed(cluster) + 1

        properties = self._lab.cluster(cluster).client_properties(USER)
        stopping = self._stopping
        count = load(
            properties,
            self._topic,
            rows,
            acknowledged,
            failed,
            rate,
            lambda: stopping.is_set() or until(),
        )
        self._next = max(self._next, count.next_row)


def _with_current_time(rows: Iterator[Row]) -> Iterator[Row]:
    """Set the current time as timestamp, so that the age of lost records is realistic."""
    for row in rows:
        yield replace(row, timestamp_ms=int(time.time() * 1000))


ENDPOINT = "bootstrap"
RUNBOOKS = "runbooks"
_WAIT_S = 90


@dataclass(frozen=True, slots=True)
class Workload:
    """The amount of work in each phase.

    Attributes:
        before: records written at first.
        rate: records per second after that.
        while_stalled: records written while replication is suspended.
        after: records written to the secondary after the failover.
        on_primary: records written to the primary after the failback.
        profiles: how the groups read.
    """

    topic: str = "flights"
    before: int = 30_000
    rate: int = 2_000
    while_stalled: int = 6_000
    after: int = 3_000
    on_primary: int = 1_500
    profiles: tuple[ReaderProfile, ...] = (
        ReaderProfile("orders-app-billing"),
        ReaderProfile("orders-app-shipping", rate=1_500),
        ReaderProfile("orders-app-audit", most=12_000),
    )


@dataclass(frozen=True, slots=True)
class Applications:
    """The producer and the consumer groups of a scenario."""

    stage: Stage
    workload: Workload
    endpoint: EndpointFile
    writer: Writer
    readers: tuple[Reader, ...]

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait for a condition.

        Raises:
            Stopped: it timed out, or an application failed.
        """

        def met() -> bool:
            failures = (self.writer.failure, *(each.failure for each in self.readers))
            if any(failures):
                raise Stopped("; ".join(filter(None, failures)))
            return condition()

        if not Patience.of(_WAIT_S).wait_until(met):
            offsets = "; ".join(each.committed_offsets() for each in self.readers)
            raise Stopped(f"timed out after {_WAIT_S} s, waiting until {what}; {offsets}")

    def leave(self) -> None:
        """Stop the members of all groups.

        Raises:
            Stopped: a member does not stop.
        """
        for each in self.readers:
            each.ask_to_stop()
        for each in self.readers:
            if not each.stop():
                raise Stopped(f"the member of {each.profile.group} does not stop")


@contextmanager
def applications(stage: Stage, workload: Workload) -> Iterator[Applications]:
    """Write the configuration and create the applications; they are not started."""
    parts = stage.lab.parts
    groups = [profile.group for profile in workload.profiles]
    write_environment(parts, stage.config, (workload.topic,), groups, ENDPOINT, NAME)
    with stage.config.open("a", encoding="utf-8") as config:
        config.write(f"runbooks: {RUNBOOKS}\n")
    endpoint = EndpointFile(stage.folder / ENDPOINT, parts.clusters)
    endpoint.point_to("primary")
    writer = Writer(stage.lab, endpoint, workload.topic)
    readers = tuple(Reader(endpoint, workload.topic, profile) for profile in workload.profiles)
    try:
        yield Applications(stage, workload, endpoint, writer, readers)
    finally:
        writer.ask_to_stop()
        for each in readers:
            each.ask_to_stop()
