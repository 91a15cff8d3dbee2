"""The clients of a drill and its ports.

A producer and a consumer work on the source, and move to the target during the run.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from drctl.engine.ports import ConnectorsReader, Watcher
from drctl.model.plan import Plan
from drctl.model.topology import Unavailable

SOURCE, TARGET = "s", "t"


@dataclass(slots=True)
class Written:
    """The writes to one cluster; updated by the writer.

    Attributes:
        acknowledged: acknowledgement time by record id, in order.
        refused_at: when an ACL first refused a record; None if never.
        refused: number of records not acknowledged; some may have been stored.
    """

    acknowledged: dict[str, float] = field(default_factory=dict)
    refused_at: float | None = None
    refused: int = 0

    @property
    def first_at(self) -> float | None:
        """When the first was acknowledged."""
        return next(iter(self.acknowledged.values()), None)

    @property
    def last_at(self) -> float | None:
        """When the last was acknowledged."""
        return max(self.acknowledged.values(), default=None)


@dataclass(slots=True)
class Consumed:
    """The reads on one cluster; updated by the reader.

    Attributes:
        read: time of the first read, by record id.
        finished: ids of committed records.
        times: number of reads, including repeated ones.
    """

    read: dict[str, float] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    times: int = 0

    @property
    def first_at(self) -> float | None:
        """When the first was read."""
        return next(iter(self.read.values()), None)


@dataclass(frozen=True, slots=True)
class Logs:
    """The logs of all clients.

    Attributes:
        held: how often each id is on the target, as read by a plain consumer.
    """

    source: Written
    target: Written
    before: Consumed
    after: Consumed
    held: Mapping[str, int]


def identity(side: str, number: int) -> str:
    """The id of a record, which is its value, too."""
    return f"{side}{number}"


class AllConnectors(ConnectorsReader, Protocol):
    """Lists all connectors of a Connect cluster."""

    def names(self) -> Sequence[str]:
        """The connectors.

        Raises:
            Unreachable: no worker answered within the deadline.
        """


class ScratchMaker(Protocol):
    """Creates and deletes a drill's topics and groups, identified by name."""

    def make_topic(self, name: str, partitions: int) -> None:
        """Create a topic and wait for its leaders.

        Raises:
            ConfigError: this user may not create it.
            Unreachable: the cluster did not answer.
        """

    def delete_topics(self, names: Collection[str]) -> Mapping[str, Unavailable | None]:
        """Delete these; for each name, return None or why it failed."""

    def delete_groups(self, names: Collection[str]) -> Mapping[str, Unavailable | None]:
        """Delete these; for each name, return None or why it failed."""


class Writer(Protocol):
    """A producer that logs acknowledged records."""

    @property
    def log(self) -> Written:
        """The log so far."""

    @property
    def failure(self) -> str:
        """Why it failed; empty if it did not."""

    def write(self, count: int) -> None:
        """Write this many records and wait for them.

        Raises:
            Unreachable: a record was not acknowledged.
        """

    def start(self, rate: float) -> None:
        """Write in a thread at this rate until stopped."""

    def expect_refusal(self) -> None:
        """A fence was set: stop once a record is refused, or shortly after."""

    def stop(self, *, wait: bool) -> None:
        """Stop; without `wait`, the outcome of in-flight records stays unknown."""


class Reader(Protocol):
    """The single member of a group; logs what it read."""

    @property
    def log(self) -> Consumed:
        """The log so far."""

    @property
    def failure(self) -> str:
        """Why it failed; empty if it did not."""

    def start(self) -> None:
        """Begin to read in a thread."""

    def leave(self, *, wait: bool) -> None:
        """Leave the group."""


_DRAIN, _QUIET, _OPEN = "drain", "quiesce-consumers", "enable-writes"

FIRST_ON_TARGET = 50
"""Number of records written to the target after writes are enabled."""


@dataclass(slots=True)
class Applications:
    """A writer and a reader on the source, and those that replace them on the target.

    Attributes:
        there: opens the writer and the reader on the target when they are needed.
    """

    writer: Writer
    reader: Reader
    there: Callable[[], tuple[Writer, Reader]]
    moved: tuple[Writer, Reader] | None = field(default=None, init=False)

    def fence_set(self) -> None:
        """The fence is set: the writer stops."""
        self.writer.expect_refusal()

    def stop_writing(self, *, wait: bool = True) -> None:
        """Stop writing to the source."""
        self.writer.stop(wait=wait)

    def stop_reading(self, *, wait: bool = True) -> None:
        """Leave the group on the source."""
        self.reader.leave(wait=wait)

    def move(self) -> None:
        """Start writing and reading on the target; only the first call has an effect."""
        if self.moved is None:
            self.moved = self.there()
            writer, reader = self.moved
            # The first acknowledged write ends the outage.
            writer.start(FIRST_ON_TARGET)
            reader.start()

    def end(self) -> None:
        """Stop all of them, without waiting for the source, which may be lost."""
        self.stop_writing(wait=False)
        self.stop_reading(wait=False)
        if self.moved is not None:
            self.moved[0].stop(wait=True)
            self.moved[1].leave(wait=True)


@dataclass(slots=True)
class Conducted:
    """A `Watcher` that moves the applications, and passes every event on to another watcher."""

    plan: Plan
    applications: Applications
    watcher: Watcher

    def step(self, identity: str, number: int, total: int) -> None:
        """A step begins."""
        self.watcher.step(identity, number, total)
        kind = self.plan.step(identity).kind
        if kind == _DRAIN:
            self.applications.stop_writing()
        elif kind == _QUIET:
            self.applications.stop_reading()

    def waiting(self, identity: str, message: str, left_s: float) -> None:
        """A step is not verified yet."""
        self.watcher.waiting(identity, message, left_s)

    def ended(self, identity: str, message: str, figures: Mapping[str, float]) -> None:
        """A step ended."""
        self.watcher.ended(identity, message, figures)
        if self.plan.step(identity).kind == _OPEN:
            self.applications.move()
