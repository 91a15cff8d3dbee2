"""A real consumer of a group: reads, commits what it has read, goes where the signpost says."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from drctl.lab.cluster import LOGGER, LabCluster
from drctl.lab.reading import Position
from drctl.lab.scenarios.signpost import USER, Signpost
from drctl.lab.settings import CLUSTERS
from drctl.model.errors import DrctlError

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
