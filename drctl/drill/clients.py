"""The applications of a drill, and what else it needs from outside beside the engine.

A writer and a reader work on the source, and are moved to the target as the engine's steps go by.
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
    """What one cluster was asked to take; grows while a writer is at work.

    Attributes:
        acknowledged: id to the time of the acknowledgement, in their order.
        refused_at: when the first record was refused by a rule; None where none was.
        refused: records that were not acknowledged; some of them may be there all the same.
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
    """What the drill's group read on one cluster; grows while a reader is at work.

    Attributes:
        read: id to the time when it was first read there.
        finished: ids of records after which an offset was committed.
        times: how often records were read there, those read twice counted twice.
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
    """All that was seen from outside the engine.

    Attributes:
        held: how often each id is on the target, as a plain consumer found it.
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
    """Looks at everything that some Connect workers run, whosever it is."""

    def names(self) -> Sequence[str]:
        """Of all connectors.

        Raises:
            Unreachable: no worker answered within the deadline.
        """


class ScratchMaker(Protocol):
    """Makes and deletes on one cluster what is called as drills call things; nothing else."""

    def make_topic(self, name: str, partitions: int) -> None:
        """Make it, and see that it is led.

        Raises:
            ConfigError: this user may not.
            Unreachable: the cluster did not answer.
        """

    def delete_topics(self, names: Collection[str]) -> Mapping[str, Unavailable | None]:
        """By name None where it is gone, or why it is not."""

    def delete_groups(self, names: Collection[str]) -> Mapping[str, Unavailable | None]:
        """By name None where it is gone, or why it is not."""


class Writer(Protocol):
    """An application that writes; keeps what was acknowledged."""

    @property
    def log(self) -> Written:
        """What it knows so far."""

    @property
    def failure(self) -> str:
        """Why it ended by itself; empty where it did not."""

    def write(self, count: int) -> None:
        """So many, and wait for them.

        Raises:
            Unreachable: some were not acknowledged.
        """

    def start(self, rate: float) -> None:
        """Write in a thread, so many a second, until it is stopped."""

    def expect_refusal(self) -> None:
        """A fence was set: stop when a record is refused, or in a moment where none is."""

    def stop(self, *, wait: bool) -> None:
        """End it; where it is not waited for, what is under way stays unknown."""


class Reader(Protocol):
    """The only member of a group; keeps what it read."""

    @property
    def log(self) -> Consumed:
        """What it knows so far."""

    @property
    def failure(self) -> str:
        """Why it ended by itself; empty where it did not."""

    def start(self) -> None:
        """Begin to read in a thread."""

    def leave(self, *, wait: bool) -> None:
        """Leave the group."""


_DRAIN, _QUIET, _OPEN = "drain", "quiesce-consumers", "enable-writes"

FIRST_ON_TARGET = 50
"""So many records are written on the target once it is open."""


@dataclass(slots=True)
class Applications:
    """A writer and a reader, and those that take their places on the target.

    Attributes:
        there: opens the ones on the target, when they are wanted.
    """

    writer: Writer
    reader: Reader
    there: Callable[[], tuple[Writer, Reader]]
    moved: tuple[Writer, Reader] | None = field(default=None, init=False)

    def fence_set(self) -> None:
        """Producers are denied now: the writer finds out, or stops by itself."""
        self.writer.expect_refusal()

    def stop_writing(self, *, wait: bool = True) -> None:
        """Nothing is written to the source any more."""
        self.writer.stop(wait=wait)

    def stop_reading(self, *, wait: bool = True) -> None:
        """The group is left on the source."""
        self.reader.leave(wait=wait)

    def move(self) -> None:
        """Write and read on the target; once."""
        if self.moved is None:
            self.moved = self.there()
            writer, reader = self.moved
            # The first accepted write is what the time without writes ends with.
            writer.start(FIRST_ON_TARGET)
            reader.start()

    def end(self) -> None:
        """Stop all of them; the source may be dead, and is not waited for."""
        self.stop_writing(wait=False)
        self.stop_reading(wait=False)
        if self.moved is not None:
            self.moved[0].stop(wait=True)
            self.moved[1].leave(wait=True)


@dataclass(slots=True)
class Conducted:
    """A `Watcher` that moves the applications, and passes everything on to another one."""

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

    def waiting(self, identity: str, words: str, left_s: float) -> None:
        """Its proof is not there yet."""
        self.watcher.waiting(identity, words, left_s)

    def ended(self, identity: str, words: str, figures: Mapping[str, float]) -> None:
        """It ended."""
        self.watcher.ended(identity, words, figures)
        if self.plan.step(identity).kind == _OPEN:
            self.applications.move()
