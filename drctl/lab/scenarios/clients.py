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
"""What the applications log in as."""


@dataclass(frozen=True, slots=True)
class Signpost:
    """Applications look at it before they connect, and while they are at work.

    Attributes:
        file: holds the bootstrap address of one of the clusters.
    """

    file: Path
    clusters: tuple[LabCluster, ...]

    def point_to(self, name: str) -> None:
        """As it stands before the story begins."""
        bootstrap = next(each.bootstrap for each in self.clusters if each.name == name)
        self.file.write_text(f"{bootstrap}\n", encoding="utf-8")

    def cluster(self) -> LabCluster:
        """Where applications are sent.

        Raises:
            Stopped: to none of the lab's clusters.
        """
        said = self.file.read_text(encoding="utf-8").strip()
        for each in self.clusters:
            if each.bootstrap == said:
                return each
        raise Stopped(f"{self.file} names no cluster of the lab: {said}")


_BATCH = 500
_POLL_S = 0.2
_END_S = 60
# A group must find its position on a cluster that it is sent to: none is an error, not a reset.
_RESET = {True: "earliest", False: "error"}
# That a topic may not be read can be a fence, which passes.
_HOPELESS = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.GROUP_AUTHORIZATION_FAILED})
_SETTINGS: dict[str, str | int | float | bool] = {
    "enable.auto.commit": False,
    "session.timeout.ms": 6_000,
    "reconnect.backoff.max.ms": 500,
    # A little of every partition at a time: slow groups read in all of them, too.
    "max.partition.fetch.bytes": 32_768,
}


@dataclass(frozen=True, slots=True)
class Habit:
    """How a group reads on the cluster on which the story begins.

    Attributes:
        rate: records a second; 0 is as fast as they come.
        most: it leaves after about so many, and comes back elsewhere; 0 is never.
    """

    group: str
    rate: int = 0
    most: int = 0


@dataclass(frozen=True, slots=True)
class GroupReads:
    """What a group has read on one cluster.

    Attributes:
        values: by position.
        committed: the next position of each partition, as far as the cluster acknowledged it.
    """

    values: Mapping[Position, bytes]
    committed: Mapping[int, int]

    @property
    def finished(self) -> set[bytes]:
        """Values at offsets that the group has committed."""
        return {
            value
            for (partition, offset), value in self.values.items()
            if offset < self.committed.get(partition, 0)
        }


class Reader:
    """The only member of a group, in a thread of its own."""

    def __init__(self, signpost: Signpost, topic: str, habit: Habit) -> None:
        self.habit = habit
        self.failure = ""
        self._signpost = signpost
        self._topic = topic
        self._home = signpost.cluster().name
        self._values: dict[str, dict[Position, bytes]] = {name: {} for name in CLUSTERS}
        self._committed: dict[str, dict[int, int]] = {name: {} for name in CLUSTERS}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=habit.group, daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> bool:
        """Leave the group; whether it has left in time."""
        self._stopping.set()
        self._thread.join(_END_S)
        return not self._thread.is_alive()

    def ask_to_stop(self) -> None:
        """Do not wait for it."""
        self._stopping.set()

    def committed(self, cluster: str) -> Mapping[int, int]:
        """The next position of each partition; may be asked while it reads."""
        return self._committed[cluster]

    def standing(self) -> str:
        """Where it stands, in words."""
        places = ", ".join(f"{name} {self._committed[name]}" for name in CLUSTERS)
        return f"{self.habit.group} has committed on {places}"

    def reads(self, cluster: str) -> GroupReads:
        """What it has read there; to be asked once it has stopped."""
        return GroupReads(self._values[cluster], self._committed[cluster])

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._read_on(self._signpost.cluster())
        except KafkaException as error:
            self.failure = f"{self.habit.group}: {error.args[0].str()}"
        except DrctlError as error:
            self.failure = f"{self.habit.group}: {error.message}"

    def _read_on(self, cluster: LabCluster) -> None:
        """Read until the signpost points elsewhere."""
        at_home = cluster.name == self._home
        consumer = self._consumer(cluster, _RESET[at_home])
        try:
            consumer.subscribe([self._topic])
            while self._stays(cluster) and not (at_home and self._has_enough(consumer)):
                messages = _sound(consumer.consume(_BATCH, timeout=_POLL_S))
                if messages:
                    self._take(consumer, cluster.name, messages)
                if at_home:
                    self._rest(len(messages))
        finally:
            _leave(consumer, waited_for=self._stays(cluster) or not at_home)
        while self._stays(cluster):
            self._stopping.wait(_POLL_S)

    def _consumer(self, cluster: LabCluster, reset: str) -> Consumer:
        settings: dict[str, Any] = {
            **_SETTINGS,
            **cluster.client_properties(USER),
            "group.id": self.habit.group,
            "auto.offset.reset": reset,
            "on_commit": partial(self._told, cluster.name),
        }
        return Consumer(settings, logger=LOGGER)

    def _stays(self, cluster: LabCluster) -> bool:
        return not self._stopping.is_set() and self._signpost.cluster().name == cluster.name

    def _has_enough(self, consumer: Consumer) -> bool:
        """Whether it may leave: what it has read is committed, too."""
        places, committed = consumer.assignment(), self._committed[self._home]
        read = self._values[self._home]
        if not 0 < self.habit.most <= len(read):
            return False
        # Of a partition of which it has read nothing it still waits for a first record.
        known = {partition for partition, _ in read}
        consumer.pause([each for each in places if each.partition in known])
        return 0 < len(places) <= len(committed) and sum(committed.values()) >= len(read)

    def _take(self, consumer: Consumer, cluster: str, messages: Sequence[Message]) -> None:
        for message in messages:
            place = (message.partition() or 0, message.offset() or 0)
            self._values[cluster][place] = message.value() or b""
        following = {(m.partition() or 0): (m.offset() or 0) + 1 for m in messages}
        wanted = [TopicPartition(self._topic, p, offset) for p, offset in following.items()]
        # A commit that is waited for can wait for ever where the cluster dies meanwhile.
        consumer.commit(offsets=wanted, asynchronous=True)

    def _told(self, cluster: str, error: KafkaError | None, places: list[TopicPartition]) -> None:
        """What became of a commit; what the cluster has not acknowledged is not so."""
        done = {each.partition: each.offset for each in places if each.error is None}
        if error is None:
            self._committed[cluster] = {**self._committed[cluster], **done}

    def _rest(self, records: int) -> None:
        if self.habit.rate:
            self._stopping.wait(records / self.habit.rate)


def _leave(consumer: Consumer, *, waited_for: bool) -> None:
    """Close it; one whose cluster may be dead is not waited for, for that can take for ever."""
    if waited_for:
        consumer.close()
    else:
        threading.Thread(target=consumer.close, name="leaving", daemon=True).start()


def _sound(messages: Sequence[Message]) -> Sequence[Message]:
    """Without errors that pass.

    Raises:
        KafkaException: one that does not.
    """
    for message in messages:
        error = message.error()
        if error is not None and error.code() in _HOPELESS:
            raise KafkaException(error)
    return [message for message in messages if message.error() is None]


_LOOK_S = 0.1


class Writer:
    """An application that writes; each of its records carries the time at which it was made."""

    def __init__(self, lab: Lab, signpost: Signpost, topic: str) -> None:
        self._lab = lab
        self._signpost = signpost
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
        """The first row that was not tried yet."""
        return self._next

    def acknowledged(self, cluster: str) -> int:
        """How many records the cluster said it has; may be asked while it writes."""
        return self._acknowledged.get(cluster, 0)

    def failed(self, cluster: str) -> int:
        """Of how many nobody knows."""
        return self._failed.get(cluster, 0)

    def log(self, cluster: str) -> Path:
        """The folder of the log of what was acknowledged there."""
        return Loads(self._lab).folder(cluster)

    def write(
        self, count: int | None = None, rate: float = 0, until: Callable[[], bool] = lambda: False
    ) -> None:
        """Write, until so many are through, or it is so.

        Raises:
            Stopped: the producer could not go on.
            Unreachable: the cluster does not answer.
        """
        cluster = self._signpost.cluster()
        ensure_topic(cluster, self._topic)
        rows = _made_now(flights(self._next, count))
        try:
            with AckLog.opened(self.log(cluster.name)) as log:
                self._load(cluster.name, rows, log, rate, until)
        except KafkaException as error:
            raise Stopped(f"the application ended: {error.args[0].str()}") from error

    def start(self, rate: int) -> None:
        """Go on writing in a thread, until told to stop; where it is refused, it waits."""
        self._rate = rate
        self._thread = threading.Thread(target=self._go_on, name="writer", daemon=True)
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Do not wait for it: what it has under way to a dead cluster takes its time."""
        self._stopping.set()

    def stop(self) -> None:
        """See it ended.

        Raises:
            Stopped: it does not end, or had failed.
        """
        self._stopping.set()
        thread = self._thread
        if thread is not None:
            thread.join(_END_S)
        if thread is not None and thread.is_alive():
            raise Stopped(f"the application did not end in {_END_S} s")
        if self.failure:
            raise Stopped(self.failure)
        self._stopping.clear()

    def _go_on(self) -> None:
        try:
            while not self._stopping.is_set():
                self._write_where_it_is_sent()
        except Stopped as error:
            self.failure = error.message

    def _write_where_it_is_sent(self) -> None:
        """Write to one cluster until it refuses; then wait until the signpost points elsewhere."""
        name = self._signpost.cluster().name
        failed = self.failed(name)

        def sent_elsewhere() -> bool:
            return self._signpost.cluster().name != name

        def refused() -> bool:
            return self.failed(name) > failed

        self.write(rate=self._rate, until=lambda: refused() or sent_elsewhere())
        while refused() and not (sent_elsewhere() or self._stopping.is_set()):
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


def _made_now(rows: Iterator[Row]) -> Iterator[Row]:
    """With the time at which they are sent: the age of what is lost is then a real one."""
    for row in rows:
        yield replace(row, timestamp_ms=int(time.time() * 1000))


ENDPOINT = "bootstrap"
RUNBOOKS = "runbooks"
_WAIT_S = 90


@dataclass(frozen=True, slots=True)
class Script:
    """How much happens, and to whom.

    Attributes:
        before: records that are written in peace.
        rate: at which the application then goes on, in records a second.
        behind: records that are written while replication hangs.
        after: records that are written on the secondary.
        home: records that are written at home in the end.
        habits: of the groups.
    """

    topic: str = "flights"
    before: int = 30_000
    rate: int = 2_000
    behind: int = 6_000
    after: int = 3_000
    home: int = 1_500
    habits: tuple[Habit, ...] = (
        Habit("orders-app-billing"),
        Habit("orders-app-shipping", rate=1_500),
        Habit("orders-app-audit", most=12_000),
    )


@dataclass(frozen=True, slots=True)
class Company:
    """Everybody, at work on a stage."""

    stage: Stage
    script: Script
    signpost: Signpost
    writer: Writer
    readers: tuple[Reader, ...]

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Until it is so.

        Raises:
            Stopped: not in time, or one of the company has failed.
        """

        def so() -> bool:
            failures = (self.writer.failure, *(each.failure for each in self.readers))
            if any(failures):
                raise Stopped("; ".join(filter(None, failures)))
            return condition()

        if not Patience.of(_WAIT_S).wait_until(so):
            stand = "; ".join(each.standing() for each in self.readers)
            raise Stopped(f"{what}: not in {_WAIT_S} s; {stand}")

    def leave(self) -> None:
        """See every group left.

        Raises:
            Stopped: one does not end.
        """
        for each in self.readers:
            each.ask_to_stop()
        for each in self.readers:
            if not each.stop():
                raise Stopped(f"the member of {each.habit.group} does not end")


@contextmanager
def company(stage: Stage, script: Script) -> Iterator[Company]:
    """Everybody, and the configuration; nobody has begun yet."""
    parts = stage.lab.parts
    groups = [habit.group for habit in script.habits]
    write_environment(parts, stage.config, (script.topic,), groups, ENDPOINT, NAME)
    with stage.config.open("a", encoding="utf-8") as config:
        config.write(f"runbooks: {RUNBOOKS}\n")
    signpost = Signpost(stage.folder / ENDPOINT, parts.clusters)
    signpost.point_to("primary")
    writer = Writer(stage.lab, signpost, script.topic)
    readers = tuple(Reader(signpost, script.topic, habit) for habit in script.habits)
    try:
        yield Company(stage, script, signpost, writer, readers)
    finally:
        writer.ask_to_stop()
        for each in readers:
            each.ask_to_stop()
