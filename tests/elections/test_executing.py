"""A run: the second look, the journal before the call, and what is seen then."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from drctl.elections.cluster_state import Declined, Kind, PartitionStates
from drctl.elections.executing import Execution
from drctl.elections.loss import Evidence
from drctl.elections.planning import ElectionPlan, Guard, unclean_plan
from drctl.elections.results import ElectionResult, Outcome
from drctl.model.errors import ExitCode, Unknown
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable
from tests.elections.seen import PLACE, partition, sight

BEHIND = sight(partition((2, 3), (3,)), alive=(1, 2), ends={2: 100})
LED = sight(partition((2, 3), (2,), leader=2, epoch=8), alive=(1, 2), ends={2: 100})


@dataclass
class World:
    """A cluster and a journal that keep one order of events.

    Attributes:
        looks: one after the other; the last one stays.
    """

    looks: list[PartitionStates]
    answer: Unavailable | None = None
    silent: bool = False
    cut: int | Unavailable = 100
    events: list[str] = field(default_factory=list)
    entries: list[Mapping[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    stopping: bool = False
    run: str = "R"
    where: str = "journal"

    def look(self, topics: Collection[str] | None, ends_of: object = None) -> PartitionStates:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def ends_before(
        self, epochs: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Unavailable]:
        assert epochs == {PLACE: 7}, "the epoch before the election"
        return {PLACE: self.cut}

    def elect(
        self, kind: Kind, places: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, Unavailable | None]:
        self.events.append("elect")
        if self.silent:
            raise Unknown("no answer")
        return dict.fromkeys(places, self.answer)

    def append(self, entries: Sequence[Mapping[str, Any]]) -> None:
        self.events += [str(each["entry"]) for each in entries]
        self.entries += entries

    def monotonic(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> None:
        self.seconds += seconds


def planned(seen: PartitionStates) -> ElectionPlan:
    evidence = [Evidence(PLACE, "group app has read up to 180", 180)]
    return unclean_plan("main", seen, [PLACE], evidence, {}, {Guard.UNCLEAN: "given up"})


def run(world: World, again: Callable[[], ElectionPlan] | None = None) -> ElectionResult:
    plan = planned(BEHIND)
    made = again or (lambda: plan)
    return Execution(world, world, world, world, lambda: datetime.now(UTC), made).run(plan)


def test_it_is_announced_then_done_then_seen() -> None:
    world = World([BEHIND, BEHIND, LED])
    result = run(world)
    assert world.events == ["began", "intent", "elect", "outcome", "ended"]
    (each,) = result.results
    assert (each.outcome, each.leader, each.cut) == (Outcome.ELECTED, 2, 100)
    assert (each.lost, each.as_stated) == (OffsetRange(100, 180), True)
    assert result.exit_code is ExitCode.DONE
    assert world.entries[0]["overrides"] == {"unclean": "given up"}
    assert world.entries[1]["loss"].startswith("at least 80 offsets")


def test_a_cut_elsewhere_than_was_said_is_told() -> None:
    (each,) = run(World([LED], cut=90)).results
    assert (each.lost, each.as_stated) == (OffsetRange(90, 180), False)


@pytest.mark.parametrize(
    "now", [LED, sight(partition((2, 3), (3,)), alive=(1, 2, 3), ends={2: 100, 3: 180})]
)
def test_what_has_changed_since_is_left_alone(now: PartitionStates) -> None:
    world = World([now])
    result = run(world, lambda: planned(now))
    assert world.events == []
    assert result.exit_code is ExitCode.REFUSED
    assert result.results[0].objections[0].guard is Guard.CHANGED


def test_the_controller_says_no() -> None:
    result = run(World([BEHIND], answer=Declined("it has no living replica")))
    assert (result.exit_code, result.results[0].outcome) == (ExitCode.REFUSED, Outcome.FAILED)
    assert result.results[0].reason == "it has no living replica"


def test_no_answer_and_nothing_to_be_seen_is_unknown() -> None:
    world = World([BEHIND], silent=True)
    result = run(world)
    assert (result.exit_code, result.results[0].outcome) == (ExitCode.UNKNOWN, Outcome.UNKNOWN)
    assert world.seconds >= 30, "it may still come"


def test_no_answer_and_yet_it_is_seen() -> None:
    result = run(World([BEHIND, LED], silent=True))
    assert result.results[0].outcome is Outcome.ELECTED


def test_elected_and_never_seen_is_unknown() -> None:
    world = World([BEHIND])
    result = run(world)
    assert result.results[0].outcome is Outcome.UNKNOWN
    assert result.exit_code is ExitCode.UNKNOWN
