"""The invariants, judged from the logs of the applications: nothing here asks drctl."""

from drctl.engine.kind import Outcome, Status
from drctl.engine.run_state import RunState
from drctl.model.fencing import Denied
from drctl.plans.failback import is_failback
from drctl.steps.first_records import is_copy
from drctl.views.run_data import Writes
from drctl.views.run_reading import report_data
from tests.engine.pair import APP, OF_A_PERSON, ORDERS, PRIMARY, SECONDARY
from tests.simulation.faults import Violation
from tests.simulation.world import PLACES, World, keys


def judge(world: World, run: RunState, outcome: Outcome) -> None:
    """Let the world come to rest, and judge it.

    Raises:
        Violation: an invariant does not hold.
    """
    world.settle()
    active, plan = world.endpoints[0].cluster, run.plan
    if outcome.status is Status.DONE and active != plan.target:
        raise Violation(f"the run is done, and clients use {active}")
    if outcome.status is Status.REFUSED and active != plan.source:
        raise Violation(f"everything was rolled back, and clients use {active}")
    if run.plan.target == SECONDARY and OF_A_PERSON not in world.sites[PRIMARY].rules.rules:
        raise Violation("a user's own ACL is gone")
    _report_is_true(world, run)
    _note_declared(world, run, outcome)
    _nothing_lost(world, active)
    _nothing_skipped(world, active, run)
    _in_order(world, active)


def _report_is_true(world: World, run: RunState) -> None:
    """The report says where applications can write."""
    stated = report_data(run).writes
    cluster = {Writes.AS_BEFORE: run.plan.source, Writes.TARGET: run.plan.target}.get(stated)
    if cluster and world.sites[cluster].rules.denies(Denied.WRITE, APP, ORDERS.topic):
        raise Violation(f"the report says {stated}, but {cluster} denies writes")


def _note_declared(world: World, run: RunState, outcome: Outcome) -> None:
    """Keep which records are missing with notice: those of an abandoned or unfenced source."""
    if outcome.status is Status.DONE and is_failback(run.plan.steps):
        world.lost.clear()
        world.unfenced = ""
    if (
        run.abandoned or "fence-producers" in run.outstanding
    ):  # It could not be set, or did not hold.
        world.unfenced = run.plan.source
    if world.unfenced:
        world.lost |= {key for key, where in world.acked if where == world.unfenced}


def _nothing_lost(world: World, active: str) -> None:
    there = set(world.sites[active].logs.all_keys())
    missing = [key for key, _ in world.acked if key not in there and key not in world.lost]
    if missing:
        raise Violation(f"{active} does not have acknowledged records: {missing}")


def _nothing_skipped(world: World, active: str, run: RunState) -> None:
    site, acked = world.sites[active], {key for key, _ in world.acked}
    facts = run.facts.get("commit-offsets", {})
    world.left_out |= {row.partition(" ")[0].rstrip(":") for row in facts.get("left_out", ())}
    # A record that was lost with notice may have the key of an aborted one, which was copied.
    source = world.sites[world.other(active)].logs
    hidden = (source.logs[place][at] for place in PLACES for at in source.hidden.get(place, ()))
    acked -= world.lost & set(keys(hidden))
    for consumer in world.consumers:
        if consumer.group in world.left_out:
            continue
        for place, at in site.positions.positions.get(consumer.group, {}).items():
            passed = acked & set(keys(site.logs.committed(place, 0, at.offset)))
            if skipped := passed - consumer.has_read:
                raise Violation(
                    f"group {consumer.group} is at {at.offset} of {place} on {active} and has"
                    f" never read {sorted(skipped)}"
                )


def _in_order(world: World, active: str) -> None:
    """No record follows a newer one of its key for the first time, except those drctl copied."""
    for place in PLACES:
        newest: dict[str, int] = {}
        seen: set[str] = set()
        for each in world.sites[active].logs.committed(place):
            (name,) = keys([each])
            key, number = name.split(":")
            if int(number) < newest.get(key, -1) and name not in seen and not is_copy(each):
                raise Violation(f"{name} follows {key}:{newest[key]} in {place} of {active}")
            newest[key] = max(newest.get(key, -1), int(number))
            seen.add(name)
