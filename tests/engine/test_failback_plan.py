"""A failback: its plan follows all ordering rules, and its run can be interrupted anywhere."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import cast

import pytest

from drctl.engine.entries import What
from drctl.engine.executing import Execution
from drctl.engine.invariants import violations
from drctl.engine.kind import Kind, Outcome, Readback, State, Status, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.engine.run_state import read_run
from drctl.model.plan import Json, Plan
from drctl.plans.failback import failback, is_failback, is_rebuild, rebuild, reverse_inputs
from drctl.plans.inputs import FailbackInputs, FenceMethod, PlanInputs
from drctl.steps.registry import FAILBACK, KINDS
from tests.depth import some
from tests.engine.toggles import Crash, FastClock, Glance, MemoryJournal, NoWatcher, Switch, World

WHO = {"user": "ada", "host": "laptop"}
Prepare = Callable[[World], None]


def failback_inputs(
    connectors: tuple[str, ...] = ("mm2",),
    endpoints: tuple[str, ...] = ("file",),
    fence: FenceMethod = FenceMethod.ACL,
) -> FailbackInputs:
    old = PlanInputs(
        "main",
        "primary",
        "secondary",
        ("User:app",),
        connectors,
        endpoints,
        fence_method=fence,
        fence_command=("./fence", "on"),
        fence_verify=("./fence", "look"),
    )
    inputs = replace(
        old,
        source="secondary",
        target="primary",
        connectors=tuple(f"{name}-back" for name in connectors),
        fence_method=fence if fence is FenceMethod.ACL else FenceMethod.NONE,
    )
    seeded = (f"{connectors[0]}-back", connectors[0]) if connectors else ("", "")
    return FailbackInputs(inputs, old, *seeded, policy="copy")


def between_sites(inputs: FailbackInputs, header: str) -> FailbackInputs:
    """The same, where applications write to both clusters if there is a header."""
    return replace(inputs, forward=replace(inputs.forward, origin_header=header))


@pytest.mark.parametrize(
    ("connectors", "endpoints", "fence"),
    tuple(product(((), ("mm2", "checkpoint")), ((), ("dns", "file")), FenceMethod)),
)
@pytest.mark.parametrize("header", ["", "site"])
def test_the_ordering_rules_hold(
    connectors: tuple[str, ...], endpoints: tuple[str, ...], fence: FenceMethod, header: str
) -> None:
    inputs = failback_inputs(connectors, endpoints, fence)
    plan = failback(between_sites(inputs, header))
    assert violations(plan, KINDS) == ()
    assert len({step.id for step in plan.steps}) == len(plan.steps)
    assert Plan.from_json(plan.to_json()) == plan
    for step in plan.steps:
        description = KINDS[step.kind].describe(step.settings)
        assert description.title
        assert description.proof


@pytest.mark.parametrize(
    ("fence", "undo", "kind"),
    [
        (FenceMethod.ACL, (), ""),
        (FenceMethod.COMMAND, ("./fence", "off"), "command"),
        (FenceMethod.COMMAND, (), "manual"),
        (FenceMethod.NONE, (), "manual"),
    ],
)
def test_the_means_that_fenced_the_recovered_cluster_lifts_the_fence(
    fence: FenceMethod, undo: tuple[str, ...], kind: str
) -> None:
    """ACLs are removed when writes are enabled; a person lifts a manual fence."""
    way = failback_inputs(fence=fence)
    plan = failback(replace(way, forward=replace(way.forward, fence_undo=undo)))
    names = [step.id for step in plan.steps]
    assert ("lift-fence" in names) is bool(kind)
    if kind:
        step = plan.step("lift-fence")
        assert (step.kind, step.settings.get("argv", [])) == (kind, list(undo))
        assert names.index("enable-writes") + 1 == names.index("lift-fence")
        assert names.index("lift-fence") < names.index("switch-endpoint-1")


@pytest.mark.parametrize("fence", FenceMethod)
def test_a_manual_fence_of_the_surviving_cluster_needs_no_fence_in_the_link(
    fence: FenceMethod,
) -> None:
    """A user-supplied fence command is for the other cluster."""
    plan = failback(reverse_inputs(failback_inputs(fence=fence).forward, ("mm2-back",)))
    passed = plan.step("preflight").settings["overrides"]
    by_a_person = plan.step("fence-producers").kind == "manual-fence"
    assert ("fence-not-possible" in passed) is by_a_person is (fence is not FenceMethod.ACL)
    assert "replication-lag" in passed


@pytest.mark.parametrize("kind", ["confluent-replicator", "offset-preserving", "none"])
def test_unmanaged_replication_is_started_by_a_person_at_a_stated_offset(kind: str) -> None:
    old = replace(failback_inputs(("copy",)).forward, replicator=kind)
    plan = failback(replace(reverse_inputs(old, ("copy",)), policy="copy"))
    assert violations(plan, KINDS) == ()
    kinds_of = {step.id: step.kind for step in plan.steps}
    assert kinds_of["start-reverse-replication"] == "manual-start-replication"
    assert kinds_of["restart-forward-replication"] == "manual-restart-replication"
    assert (
        not {"exclude-reconciled-records", "set-start-offsets", "set-forward-start-offsets"}
        & kinds_of.keys()
    )
    assert kinds_of["find-missing"] == "find-missing"
    text = plan.step("start-reverse-replication").settings["text"]
    away = plan.step("verify-secondary").settings
    assert away.get("emptied", False) is (kind == "offset-preserving")
    if kind == "offset-preserving":
        assert "later records on primary are deleted" in text
        return
    assert "at the first record that was written to secondary after the loss" in text
    assert "not counting records that step reconcile copied" in text
    rules = (
        "src.consumer.group.id of the other direction",
        "provenance.header.enable=true in both",
    )
    assert all((rule in text) is (kind == "confluent-replicator") for rule in rules)


def test_a_reversed_link_has_no_command_of_the_forward_link() -> None:
    old = replace(
        failback_inputs(fence=FenceMethod.COMMAND).forward,
        replicator="mirrormaker2",
        stop_command=("stop",),
    )
    way = reverse_inputs(old, ("mm2-back",))
    assert (way.reverse.source, way.reverse.target) == ("secondary", "primary")
    assert (way.reverse.fence_method, way.reverse.stop_command) == (FenceMethod.NONE, ())
    assert (way.reverse_connector, way.forward_connector) == ("mm2-back", "mm2")
    assert reverse_inputs(old).reverse_connector == ""
    assert is_failback(failback(way).steps)


def without(plan: Plan, *ids: str) -> Plan:
    return replace(plan, steps=tuple(step for step in plan.steps if step.id not in ids))


def moved(plan: Plan, step: str, before: str) -> Plan:
    rest = [each for each in plan.steps if each.id != step]
    place = next(n for n, each in enumerate(rest) if each.id == before)
    return replace(plan, steps=(*rest[:place], plan.step(step), *rest[place:]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: without(p, "stop-forward-replication"), "both directions at once"),
        (lambda p: without(p, "stop-replication"), "append old records after new ones"),
        (
            lambda p: moved(p, "restart-forward-replication", "stop-replication"),
            "both directions at once",
        ),
        (lambda p: moved(p, "start-reverse-replication", "reconcile"), "append newer records"),
        (lambda p: without(p, "find-missing"), "records must be found"),
        (lambda p: moved(p, "drain", "fence-producers"), "never catches up"),
        (lambda p: without(p, "fence-producers"), "never catches up"),
        (lambda p: without(p, "order", "classify-records", "preflight"), "prechecks must pass"),
    ],
)
def test_a_plan_that_breaks_a_rule_is_named(change: Callable[[Plan], Plan], message: str) -> None:
    assert message in " ".join(violations(change(failback(failback_inputs())), KINDS))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: without(p, "fence-primary"), "lost when it is emptied"),
        (lambda p: without(p, "stop-forward-replication"), "source is emptied"),
        (lambda p: without(p, "reconcile"), "without a decision"),
        (lambda p: moved(p, "empty-primary", "reconcile"), "without a decision"),
        (lambda p: moved(p, "empty-primary", "stop-forward-replication"), "source is emptied"),
        (
            lambda p: moved(p, "start-reverse-replication", "empty-primary"),
            "duplicate the replicated",
        ),
        (lambda p: without(p, "find-missing"), "records must be found"),
    ],
)
def test_a_rebuild_that_breaks_a_rule_is_named(
    change: Callable[[Plan], Plan], message: str
) -> None:
    plan = rebuild(failback_inputs(), nothing_to_empty=False)
    assert violations(plan, KINDS) == ()
    assert message in " ".join(violations(change(plan), KINDS))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: without(p, "stop-reverse-replication"), "both directions at once"),
        (lambda p: without(p, "stop-forward-replication"), "both directions at once"),
        (lambda p: without(p, "find-missing-reverse"), "records must be found"),
        (lambda p: without(p, "fence-primary"), "clusters that both accept writes diverge"),
        (
            lambda p: moved(p, "start-reverse-replication", "reconcile-reverse"),
            "append newer records",
        ),
        (lambda p: moved(p, "switch-endpoint-1", "enable-writes"), "rejects their writes"),
    ],
)
def test_a_plan_between_two_sites_that_breaks_a_rule_is_named(
    change: Callable[[Plan], Plan], message: str
) -> None:
    plan = failback(between_sites(failback_inputs(), "site"))
    assert message in " ".join(violations(change(plan), KINDS))


@pytest.mark.parametrize("empty", [True, False])
@pytest.mark.parametrize(
    ("connectors", "fence"), tuple(product(((), ("mm2", "checkpoint")), FenceMethod))
)
def test_a_rebuild_keeps_the_rules(
    connectors: tuple[str, ...], fence: FenceMethod, empty: bool
) -> None:
    plan = rebuild(failback_inputs(connectors, ("dns",), fence), nothing_to_empty=empty)
    assert violations(plan, KINDS) == ()
    assert len({step.id for step in plan.steps}) == len(plan.steps)
    assert Plan.from_json(plan.to_json()) == plan
    assert is_rebuild(plan.steps)
    assert is_failback(plan.steps)
    assert not is_rebuild(failback(failback_inputs()).steps)
    assert ("question" in plan.step("empty-primary").settings) is not empty
    for step in plan.steps:
        description = KINDS[step.kind].describe(step.settings)
        assert description.title
        assert description.proof


def test_every_failback_step_kind_is_in_a_plan() -> None:
    plans = [
        failback(between_sites(failback_inputs(connectors, ("file",), fence), header))
        for connectors, fence, header in product(((), ("mm2",)), FenceMethod, ("", "site"))
    ]
    by_command = replace(failback_inputs(()).forward, stop_command=("./mirror", "stop"))
    plans.append(failback(replace(reverse_inputs(by_command), policy="copy")))
    with_sources = replace(failback_inputs().forward, source_connectors={"shop": "shop"})
    plans.append(failback(replace(reverse_inputs(with_sources), policy="copy")))
    plans.append(rebuild(failback_inputs(), nothing_to_empty=True))
    assert {step.kind for plan in plans for step in plan.steps} >= FAILBACK


@dataclass(frozen=True)
class Staying(Switch):
    """A switch that is not rolled back."""

    def undo(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        return ()

    def verify_undo(self, intent: Json, look: LinkReader) -> Readback:
        return Readback(State.DONE, f"{self.name} stays", leaves_changes=not intent["before"])


def kinds() -> dict[str, Kind]:
    """Return the plan's kinds with their traits, each acting on a switch."""
    return {step.kind: _kind(step.kind, KINDS[step.kind].traits) for step in PLAN.steps}


def _kind(name: str, traits: Trait) -> Kind:
    if Trait.CHANGES not in traits:
        return Glance(name, traits)
    return (Staying if Trait.IRREVERSIBLE in traits else Switch)(name, traits)


PLAN = failback(failback_inputs())


def execution(world: World, notes: MemoryJournal) -> Execution:
    look, writer = cast(LinkReader, world), cast(LinkWriter, world)
    return Execution(kinds(), look, writer, notes, FastClock(), NoWatcher())


def run(world: World, numbers: tuple[int, ...]) -> Outcome:
    """Start a run, and resume it after each crash."""
    notes = MemoryJournal(world)
    for number in (*numbers, None):
        world.fall = countdown(number)
        try:
            if not notes.entries:
                return execution(world, notes).start(PLAN, WHO)[1]
            state = read_run(notes.entries)
            if state.status:
                return Outcome(Status(state.status))
            return execution(world, notes).resume(state, WHO)
        except Crash:
            announced = {e["step"] for e in notes.entries if e["entry"] == What.INTEND}
            kinds_of = {step.kind for step in PLAN.steps if step.id in announced}
            assert {name for name, _ in world.applied} <= kinds_of
    raise AssertionError("the last attempt has no crash")


def countdown(number: int | None) -> Callable[[str], None]:
    left = [10**9 if number is None else number]

    def fall(point: str) -> None:
        left[0] -= 1
        if left[0] == -1:
            raise Crash

    return fall


def points(prepare: Prepare) -> int:
    """Count the points at which a whole run can end."""
    world, seen = World(), [0]
    prepare(world)

    def count(point: str) -> None:
        seen[0] += 1

    world.fall = count
    execution(world, MemoryJournal(world)).start(PLAN, WHO)
    return seen[0]


def nothing(world: World) -> None:
    """No fault."""


def undecided(world: World) -> None:
    """Nobody has decided on the unreplicated records."""
    world.refused.add("reconcile")


def stuck_positions(world: World) -> None:
    """Offset commits are refused: everything is rolled back except irreversible changes."""
    world.stuck.add("commit-offsets")


def stuck_endpoint(world: World) -> None:
    """The endpoint cannot be switched after writes are enabled."""
    world.stuck.add("switch-endpoint")


def silent_seed(world: World) -> None:
    """Connect does not respond after its start offsets were set."""
    world.silent.add("set-start-offsets")


CASES: tuple[Prepare, ...] = (nothing, undecided, stuck_positions, stuck_endpoint, silent_seed)


@pytest.mark.parametrize("prepare", CASES, ids=lambda each: each.__name__)
def test_the_end_is_the_same_wherever_the_process_ends(prepare: Prepare) -> None:
    whole = World()
    prepare(whole)
    wanted = run(whole, ())
    for number in some(range(points(prepare))):
        world = World()
        prepare(world)
        assert run(world, (number,)).status == wanted.status, number
        assert world.on == whole.on, number
        if prepare is nothing:
            assert len(world.applied) == len(set(world.applied)), number


@pytest.mark.parametrize("prepare", CASES, ids=lambda each: each.__name__)
def test_the_end_is_the_same_after_two_crashes(prepare: Prepare) -> None:
    whole = World()
    prepare(whole)
    wanted, total = run(whole, ()), points(prepare)
    for first in some(range(0, total, 23)):
        for second in some(range(0, total, 29)):
            world = World()
            prepare(world)
            assert run(world, (first, second)).status == wanted.status
            assert world.on == whole.on


def test_permanent_changes_stay_after_a_rollback() -> None:
    world = World()
    stuck_positions(world)
    outcome = run(world, ())
    assert (outcome.status, outcome.over) == (Status.STOPPED, True)
    on = {name for name, is_on in world.on.items() if is_on}
    settled = {"reconcile", "exclude-reconciled-records", "set-start-offsets"}
    assert on == {"fence-recovered", "keep-stopped", *settled}
    items = " ".join(outcome.items)
    assert "fence-primary: fence-recovered stays" in items


def test_a_run_that_changed_nothing_is_refused() -> None:
    world = World()
    world.refused.add("fence-recovered")
    assert run(world, ()).status is Status.REFUSED


def test_after_writes_are_enabled_nothing_is_rolled_back() -> None:
    world = World()
    stuck_endpoint(world)
    outcome = run(world, ())
    assert (outcome.status, outcome.over) == (Status.STOPPED, False)
    assert world.on["enable-writes"]
    assert world.on["set-start-offsets-latest"]
