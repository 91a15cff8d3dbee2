"""Traps written to both clusters, and `drctl gap` run over all of them at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.cluster.command import Ended
from tests.cluster.filling import Clock, fill
from tests.cluster.traps import Expected, Trap
from tests.lab.cluster_under_test import ClusterUnderTest


@dataclass(frozen=True)
class Scenario:
    """Traps on both clusters.

    Attributes:
        rename: what a topic is called on the target.
    """

    prefix: str
    traps: Sequence[Trap]
    rename: Callable[[str], str] = str

    @property
    def pattern(self) -> str:
        """Of the link's topics."""
        return self.prefix.replace(".", "[.]") + ".*"

    def topic(self, trap: Trap | str) -> str:
        """A trap's topic on the source."""
        return self.prefix + (trap if isinstance(trap, str) else trap.name)

    def target_topic(self, trap: Trap) -> str:
        """The same on the target."""
        return self.rename(self.topic(trap))

    def fill(self, primary: ClusterUnderTest, secondary: ClusterUnderTest, clock: Clock) -> None:
        """Write everything."""
        fill(primary, {self.topic(t): t.source for t in self.traps}, clock)
        targets = {self.target_topic(t): t.target for t in self.traps if t.target}
        fill(secondary, targets, clock)


def topic_of(document: dict[str, Any], topic: str) -> dict[str, Any]:
    """One topic of a gap document."""
    (found,) = (t for t in document["topics"] if t["topic"] == topic)
    assert isinstance(found, dict)
    return found


def numbers_of(topic: dict[str, Any]) -> Expected:
    """A topic of a gap document in the words of a trap, notes left out."""
    partitions = topic["partitions"]

    def total(name: str) -> int:
        return sum(p[name] for p in partitions)

    names = (
        *("safe", "conflicting", "unkeyed", "only_on_target", "duplicated_on_target"),
        *("superseded", "expired", "undecided", "misplaced"),
    )
    return Expected(
        (total("read_from_source"), total("read_from_target")),
        {p["partition"]: p["ranges"] for p in partitions if p["ranges"]},
        **{name: total(name) for name in names},
    )


@dataclass(frozen=True)
class Analysed:
    """A scenario and what drctl said about it."""

    scenario: Scenario
    ended: Ended
    document: dict[str, Any]

    def numbers(self, trap: Trap) -> Expected:
        """What drctl said of a trap, notes left out."""
        return numbers_of(topic_of(self.document, self.scenario.topic(trap)))
