"""What a plan would elect, and what blocks it."""

import pytest

from drctl.elections.cluster_state import Kind, Partition, PartitionStates
from drctl.elections.loss import Evidence
from drctl.elections.planning import (
    Action,
    Aim,
    ElectionPlan,
    Precheck,
    plan_again,
    preferred_plan,
    unclean_plan,
)
from drctl.model.topology import TopicPartition, Unavailable
from tests.elections.cluster_states import PLACE, partition, reader

EVIDENCE = (Evidence(PLACE, "group app has read up to 180", 180),)
REASON = {Precheck.UNCLEAN: "the owner said so"}


def planned(seen: PartitionStates, overrides: dict[Precheck, str] | None = None) -> ElectionPlan:
    return unclean_plan("main", seen, [PLACE], EVIDENCE, {}, overrides or {})


def prechecks(plan: ElectionPlan) -> list[Precheck]:
    return [each.precheck for line in plan.lines for each in line.refused]


def behind(alive: tuple[int, ...] = (1, 2)) -> PartitionStates:
    return reader(partition((2, 3), (3,)), alive=alive, ends={2: 100, 3: 180})


def test_an_unclean_election_needs_a_reason() -> None:
    assert prechecks(planned(behind())) == [Precheck.UNCLEAN]
    plan = planned(behind(), REASON)
    assert prechecks(plan) == []
    (line,) = plan.elected
    assert (line.to, line.overridden[0].precheck) == (2, Precheck.UNCLEAN)
    assert "at least 80 offsets, 100 to 179" in line.overridden[0].reason


def test_a_shorter_replica_needs_a_reason_of_its_own() -> None:
    seen = reader(partition((2, 1, 3), (3,)), alive=(1, 2), ends={1: 140, 2: 100})
    assert prechecks(planned(seen, REASON)) == [Precheck.SHORTER]
    assert planned(seen, {**REASON, Precheck.SHORTER: "no time"}).elected


@pytest.mark.parametrize(
    ("seen", "precheck", "words"),
    [
        (reader(partition((2, 3), (2, 3), leader=2)), Precheck.HAS_LEADER, "broker 2 leads it"),
        (
            reader(partition((2, 3), (3,), leader=3), alive=(1, 2)),
            Precheck.HAS_LEADER,
            "broker 3, does not answer here",
        ),
        (behind(alive=(1,)), Precheck.NOBODY, "none of its replicas answers (brokers 2, 3)"),
        (reader(), Precheck.NOT_THERE, "the partition does not exist"),
    ],
)
def test_checks_that_cannot_be_overridden(
    seen: PartitionStates, precheck: Precheck, words: str
) -> None:
    plan = planned(seen, {**REASON, Precheck.SHORTER: "no time"})
    assert prechecks(plan) == [precheck]
    assert words in plan.lines[0].refused[0].reason


def test_without_a_controller_there_is_no_election() -> None:
    headless = Unavailable("no answer")
    seen = reader(partition((2, 3), (3,)), alive=(2,), ends={2: 100}, controller=headless)
    assert prechecks(planned(seen, REASON)) == [Precheck.NO_CONTROLLER]


def test_unreadable_groups_are_reported() -> None:
    kept = partition((3,), (3,), place=TopicPartition("__consumer_offsets", 4))
    seen = reader(partition((2, 3), (3,)), kept, alive=(1, 2), ends={2: 100})
    (note,) = planned(seen).notes
    assert note.startswith("partitions of __consumer_offsets without a leader: 1 of 1;")
    assert planned(behind()).notes == ()


def test_a_changed_state_differs_from_the_plan() -> None:
    aim = Aim.of(planned(behind(), REASON).lines[0])

    def is_still(now: PartitionStates) -> bool:
        return aim.is_still(plan_again(Kind.UNCLEAN, now, [PLACE], REASON).lines[0])

    assert is_still(behind())
    assert not is_still(reader(partition((2, 3), (3,)), alive=(1, 2), ends={2: 101}))
    assert not is_still(behind(alive=(2, 3)))
    assert not is_still(reader(partition((2, 3), (3,), epoch=8), alive=(1, 2), ends={2: 100}))


def of(number: int, *args: object, **settings: object) -> Partition:
    place = TopicPartition("orders", number)
    return partition(*args, **settings, place=place)  # type: ignore[arg-type, misc]


def test_preferred_leaders() -> None:
    seen = reader(
        of(0, (1, 2), (1, 2), leader=1),
        of(1, (1, 2), (1, 2), leader=2),
        of(2, (3, 2), (2,), leader=2),
        of(3, (4, 2), (2,), leader=2),
        alive=(1, 2, 3),
    )
    plan = preferred_plan("main", seen, None)
    decided = {line.place.partition: (line.action, line.to) for line in plan.lines}
    assert decided == {1: (Action.ELECT, 1), 2: (Action.REFUSE, 3), 3: (Action.REFUSE, 4)}
    assert prechecks(plan) == [Precheck.NOT_IN_SYNC, Precheck.DOWN]
