"""A target is repaired step by step; failed repairs are rolled back if possible, and named."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from drctl.checks.repairs import Fixes
from drctl.engine.invariants import violations
from drctl.engine.kind import Outcome, State, Status
from drctl.engine.ports import LinkReader
from drctl.engine.run_state import read_run
from drctl.model.errors import ExitCode
from drctl.model.plan import Plan
from drctl.model.repairs import ShapeReader, ShapeWriter
from drctl.steps.registry import KINDS, REPAIRS
from tests.depth import some
from tests.engine.repairs import (
    ADA,
    FIXES,
    JOBS,
    RATE,
    SHARE,
    SIZE,
    SOMEBODY,
    TIME,
    WRITE,
    Lagging,
    execution,
    plan,
)
from tests.engine.test_interruptions import Countdown
from tests.engine.toggles import Crash, MemoryJournal

WHO = {"user": "ada", "host": "laptop"}
Prepare = Callable[[Lagging], None]


def run(world: Lagging, crashes: tuple[int, ...] = ()) -> Outcome:
    """Start a run, and resume it after each crash."""
    notes = MemoryJournal(world)
    for number in (*crashes, None):
        world.fall = (lambda point: None) if number is None else Countdown(number)
        try:
            if not notes.entries:
                return execution(world, notes).start(plan(), WHO)[1]
            state = read_run(notes.entries)
            if state.status:
                return Outcome(Status(state.status))
            return execution(world, notes).resume(state, WHO)
        except Crash:
            pass
    raise AssertionError("the last attempt has no crash")


def nothing(world: Lagging) -> None:
    """No fault."""


def a_rule_is_refused(world: Lagging) -> None:
    """The first change is refused."""
    world.declines.add("WRITE")


def a_setting_is_refused(world: Lagging) -> None:
    """Part of a step is refused."""
    world.declines.add(f"payments {TIME}")


def a_quota_is_refused(world: Lagging) -> None:
    """The other quota of the step is restored."""
    world.declines.add(SHARE)


def a_topic_is_refused(world: Lagging) -> None:
    """The last change is refused; partitions were added by then."""
    world.declines.add("invoices")


def a_precheck_fails(world: Lagging) -> None:
    """Nothing is changed."""
    world.against.add("target-no-controller")


CASES: tuple[Prepare, ...] = (
    *(nothing, a_rule_is_refused, a_quota_is_refused, a_setting_is_refused),
    *(a_topic_is_refused, a_precheck_fails),
)


def points(prepare: Prepare) -> int:
    """Count the points at which a whole run can end."""
    world = Lagging()
    prepare(world)
    world.fall = counted = Countdown(10**9)
    execution(world, MemoryJournal(world)).start(plan(), WHO)
    return 10**9 - counted.left


@pytest.mark.parametrize("prepare", CASES, ids=lambda v: v.__name__)
def test_the_end_is_the_same_after_a_crash(prepare: Prepare) -> None:
    whole = Lagging()
    prepare(whole)
    wanted = run(whole)
    for number in some(range(points(prepare))):
        world = Lagging()
        prepare(world)
        assert run(world, (number,)).status == wanted.status, number
        assert world.state == whole.state, number


def test_every_difference_is_repaired_and_verified() -> None:
    world = Lagging()
    outcome = run(world)
    assert (outcome.status, outcome.exit_code) == (Status.DONE, ExitCode.DONE)
    assert world.differences() == []
    assert world.partitions == {"orders": 4, "payments": 2, "invoices": 3}
    assert world.own == {("orders", SIZE): "5000", ("payments", TIME): "CreateTime"}
    assert world.limits == {(ADA, RATE): 50.0, (JOBS, SHARE): 5.0}
    assert SOMEBODY in world.rules
    assert world.kept == ["before.json"]


def test_existing_settings_are_not_rolled_back() -> None:
    world = Lagging()
    world.rules.add(WRITE)
    before = world.state
    world.declines.add(f"orders {SIZE}")
    outcome = run(world)
    assert outcome.status is Status.REFUSED
    assert world.state == before


def test_a_refusal_rolls_back_everything_and_names_what_was_refused() -> None:
    world = Lagging()
    a_setting_is_refused(world)
    before = world.state
    notes = MemoryJournal(world)
    _, outcome = execution(world, notes).start(plan(), WHO)
    assert (outcome.status, outcome.exit_code) == (Status.REFUSED, ExitCode.REFUSED)
    assert world.state == before
    difference = f"payments: {TIME} is LogAppendTime, not CreateTime"
    assert outcome.message.endswith(f"not as planned: 1 of 2 settings: {difference}")
    failed = next(each for each in notes.entries if each["entry"] == "failed")
    assert list(failed["items"]) == [difference]
    complaint = next(each for each in notes.entries if each["entry"] == "applied")
    assert "payments: Policy violation" in str(complaint)


def test_permanent_changes_are_named_one_by_one() -> None:
    world = Lagging()
    a_topic_is_refused(world)
    outcome = run(world)
    assert (outcome.status, outcome.exit_code) == (Status.STOPPED, ExitCode.STOPPED)
    assert outcome.over
    assert outcome.items == (
        "add-partitions: added partitions cannot be removed: orders has 3 more",
    )
    assert "invoices does not exist" in outcome.message
    assert world.partitions == {"orders": 4, "payments": 2}
    assert world.own == {("payments", TIME): "LogAppendTime"}
    assert world.rules == {SOMEBODY}


def test_a_failed_precheck_changes_nothing() -> None:
    world = Lagging()
    a_precheck_fails(world)
    before = world.state
    outcome = run(world)
    assert outcome.status is Status.REFUSED
    assert outcome.message == "target-no-controller: link main: as seen"
    assert world.state == before


def test_a_change_already_made_by_others_is_no_failure() -> None:
    world = Lagging()
    world.partitions |= {"orders": 6, "invoices": 3}
    assert run(world).status is Status.DONE
    assert world.partitions["orders"] == 6


def test_a_third_value_is_not_overwritten() -> None:
    world = Lagging()
    world.own["orders", SIZE] = "2000"
    outcome = run(world)
    assert outcome.status is Status.REFUSED
    assert (
        f"{SIZE} of topic orders of secondary is 2000, but was 1000 when the plan was made"
        in outcome.message
    )
    assert world.own["orders", SIZE] == "2000"


def test_a_quota_changed_by_others_is_not_overwritten() -> None:
    world = Lagging()
    world.limits[ADA, RATE] = 20.0
    before = world.state
    outcome = run(world)
    assert outcome.status is Status.REFUSED
    assert (
        f"{RATE} of user ada on secondary is 20, but was 10 when the plan was made"
        in outcome.message
    )
    assert world.state == before


def test_manual_actions_are_outstanding() -> None:
    world = Lagging(left=("SCRAM user app is not on b",))
    notes = MemoryJournal(world)
    state, outcome = execution(world, notes).start(plan(), WHO)
    assert (outcome.status, outcome.exit_code) == (Status.DONE, ExitCode.FOUND)
    assert list(state.outstanding) == ["final-precheck"]
    assert "SCRAM user app is not on b: for a person" in state.outstanding["final-precheck"]


def test_a_difference_that_recurs_is_outstanding_and_rolls_back_nothing() -> None:
    world = Lagging()

    def at_rollback(point: str) -> None:
        if point == "before journal intend final-precheck":
            world.own.pop(("orders", SIZE), None)

    world.fall = at_rollback
    state, outcome = execution(world, MemoryJournal(world)).start(plan(), WHO)
    assert (outcome.status, outcome.exit_code) == (Status.DONE, ExitCode.FOUND)
    assert f"topic orders: {SIZE}" in state.outstanding["final-precheck"]
    assert world.partitions["orders"] == 4


def test_reversible_changes_come_first() -> None:
    made = plan()
    assert violations(made, KINDS) == ()
    assert [step.kind for step in made.steps] == [
        *("check", "snapshot-state", "add-acls", "set-quotas", "configure-topics"),
        *("add-partitions", "create-topics", "final-precheck"),
    ]
    assert Plan.from_json(made.to_json()) == made
    for step in made.steps:
        description = KINDS[step.kind].describe(step.settings)
        assert description.title
        assert description.proof


@pytest.mark.parametrize("kind", ["rules", "quotas", "settings", "partitions", "topics"])
def test_a_plan_has_only_the_steps_that_it_needs(kind: str) -> None:
    only = replace(Fixes(), **{kind: getattr(FIXES, kind)})
    made = plan(only)
    assert len(made.steps) == 4
    assert violations(made, KINDS) == ()


class OnlyLooks(Lagging):
    """Topics and quotas that can only be read."""

    def quotas(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(quotas=self._quotas)

    def shapes(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(shapes=self._shapes)


def test_checks_need_no_writer() -> None:
    world = OnlyLooks()
    look, before = cast(LinkReader, world), world.state
    steps = [step for step in plan().steps if step.kind in REPAIRS]
    assert {step.kind for step in steps} == REPAIRS
    for step in steps:
        kind = KINDS[step.kind]
        intent = kind.check(step.settings, {}, look)
        assert kind.verify(intent, look).state is State.WAITING
        kind.verify_undo(intent, look)
    assert world.state == before


def test_a_topic_reader_exposes_no_writer() -> None:
    reads, writes = ({n for n in vars(p) if n[0] != "_"} for p in (ShapeReader, ShapeWriter))
    assert len(writes) == 3
    assert reads.isdisjoint(writes)


def test_without_changes_there_is_no_step() -> None:
    assert plan(Fixes()).steps == ()
