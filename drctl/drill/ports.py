"""What a drill needs from outside beside the engine: things of its own, made and deleted."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from drctl.drill.logs import Consumed, Written
from drctl.engine.ports import ConnectorsReader
from drctl.model.topology import Unavailable


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
        """Go on writing in a thread, so many a second, until it is stopped."""

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
