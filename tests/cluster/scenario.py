"""Traps written to both clusters, and the result of `drctl gap` on all of them at once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.cluster.command import Ended
from tests.cluster.filling import Clock, fill
from tests.cluster.lab_link import link_over
from tests.cluster.logs import TopicLog, read_logs
from tests.cluster.traps import Expected, Trap
from tests.lab.cluster_under_test import ClusterUnderTest


@dataclass(frozen=True)
class Scenario:
    """Traps on both clusters.

    Attributes:
        settings: the link's section of drctl.yaml.
        rename: the target name of a topic.
        by_partition: whether replication keeps partitions.
    """

    prefix: str
    traps: Sequence[Trap]
    settings: Mapping[str, Any] = field(default_factory=dict)
    rename: Callable[[str], str] = str
    by_partition: bool = True

    @property
    def link(self) -> dict[str, Any]:
        """Return the section of drctl.yaml."""
        pattern = self.prefix.replace(".", "[.]") + ".*"
        return link_over(pattern, **self.settings)

    def topic(self, trap: Trap | str) -> str:
        """Return a trap's topic on the source."""
        return self.prefix + (trap if isinstance(trap, str) else trap.name)

    def target_topic(self, trap: Trap) -> str:
        """Return a trap's topic on the target."""
        return self.rename(self.topic(trap))

    def fill(self, primary: ClusterUnderTest, secondary: ClusterUnderTest, clock: Clock) -> None:
        """Write everything."""
        fill(primary, {self.topic(t): t.source for t in self.traps}, clock)
        targets = {self.target_topic(t): t.target for t in self.traps if t.target}
        fill(secondary, targets, clock)

    def read(
        self, primary: ClusterUnderTest, secondary: ClusterUnderTest
    ) -> tuple[dict[str, TopicLog], dict[str, TopicLog]]:
        """Read all of it with a plain consumer, by source and target topic."""
        return (
            read_logs(primary, [self.topic(t) for t in self.traps]),
            read_logs(secondary, [self.target_topic(t) for t in self.traps if t.target]),
        )


@dataclass(frozen=True)
class Filled:
    """A scenario, and its records as a plain consumer reads them, by source and target topic."""

    scenario: Scenario
    source: Mapping[str, TopicLog]
    target: Mapping[str, TopicLog]


@dataclass(frozen=True)
class Analysed:
    """A scenario, drctl's result, and its records as a plain consumer reads them."""

    scenario: Scenario
    ended: Ended
    document: dict[str, Any]
    source: Mapping[str, TopicLog]
    target: Mapping[str, TopicLog]

    def topic(self, trap: Trap | str) -> dict[str, Any]:
        """Return drctl's result for a trap."""
        name = self.scenario.topic(trap)
        (found,) = (t for t in self.document["topics"] if t["topic"] == name)
        assert isinstance(found, dict)
        return found


def partitions_of(document: Mapping[str, Any], topic: str) -> list[dict[str, Any]]:
    """Return the partitions of one topic in a gap document."""
    (found,) = (t["partitions"] for t in document["topics"] if t["topic"] == topic)
    return list(found)


def numbers_of(topic: Mapping[str, Any]) -> Expected:
    """Return a topic of a gap document in the form of a trap, without notes."""
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
