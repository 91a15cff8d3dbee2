"""`drctl reconcile` as a run: its journal, and a resume that does each record once."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from drctl.app import notices
from drctl.engine.executing import Execution
from drctl.engine.invariants import violations
from drctl.engine.kind import Outcome, Status
from drctl.engine.run_state import RunState, read_run
from drctl.model.errors import ExitCode, Unknown
from drctl.model.gap import OrderVerdict
from drctl.plans.single_step import RECONCILE
from drctl.reconcile import executing
from drctl.reconcile.executing import Limits
from drctl.reconcile.policy import Action
from drctl.steps.records import discards
from drctl.steps.registry import KINDS
from tests.engine.toggles import FastClock, MemoryJournal, NoWatcher
from tests.engine.toggles import World as Switches
from tests.reconcile.runs import PLACE, Site, sites, world
from tests.reconcile.world import Killed

SAFE, CONFLICTING = OrderVerdict.SAFE, OrderVerdict.CONFLICTING
WHO = {"user": "ada", "host": "laptop"}
NewSite = Callable[..., Site]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NewSite]:
    begun = executing.Execution.__post_init__

    def small(execution: executing.Execution) -> None:
        execution.limits = Limits(records=2)
        begun(execution)

    monkeypatch.setattr(executing.Execution, "__post_init__", small)
    with sites(tmp_path) as make:
        yield make


class Quiet(Switches):
    """A process that only ends at writes."""

    def fall(self, point: str) -> None:
        """Do not end the process."""


def engine(at: Site, notes: MemoryJournal, clock: FastClock | None = None) -> tuple[Execution, Any]:
    reader, writer = at.process()
    return Execution(KINDS, reader, writer, notes, clock or FastClock(), NoWatcher()), reader


def execute(at: Site, clock: FastClock | None = None) -> tuple[RunState, Outcome, Any]:
    plan = at.plan()
    assert violations(plan, KINDS) == ()
    run, reader = engine(at, MemoryJournal(Quiet()), clock)
    return *run.start(plan, WHO), reader.result


def test_a_complete_run(site: NewSite) -> None:
    at = site(world(SAFE, SAFE, SAFE))
    assert (at.plan().name, at.plan().basis["records"]) == (RECONCILE, "copy orders: 3")
    state, outcome, result = execute(at)
    assert (outcome.status, state.status, result.exit_code) == (Status.DONE, "done", ExitCode.DONE)
    assert state.facts["reconcile-result"] == {"given_up": 0, "done": {"copy": 3}}
    assert at.world.target.offsets(PLACE) == [0, 1, 2]
    assert at.plan().steps == (), "a step is left after a complete run"


def test_refused_records_are_named_and_the_run_ends(site: NewSite) -> None:
    at = site(world(SAFE, CONFLICTING, SAFE))
    state, outcome, result = execute(at)
    assert (outcome.status, outcome.over, state.status) == (Status.STOPPED, True, "stopped")
    assert result.exit_code is ExitCode.STOPPED
    assert "1 conflicting record of orders-0" in str(state.entries[-3]["items"])
    assert at.world.target.offsets(PLACE) == [0, 2]


def test_a_failed_precheck_blocks_it(site: NewSite) -> None:
    at = site(world(SAFE))
    plan = at.plan()
    at.world.not_compared = ("orders-3: no leader",)
    run, reader = engine(at, MemoryJournal(Quiet()))
    state, outcome = run.start(plan, WHO)
    assert (outcome.exit_code, state.status) == (ExitCode.REFUSED, "refused")
    assert "orders-3: no leader" in outcome.message
    assert reader.result is None
    assert at.world.target.commits == 0


def test_an_unanswered_commit_is_read_back(site: NewSite) -> None:
    at = site(world(SAFE), steps=4, failing=Unknown("no answer"))
    notes = MemoryJournal(Quiet())
    run, _ = engine(at, notes)
    state, outcome = run.start(at.plan(), WHO)
    assert (outcome.exit_code, state.status) == (ExitCode.UNKNOWN, "")
    at.steps = None
    assert resumed(at, notes).status is Status.DONE
    assert at.world.target.offsets(PLACE) == [0]


def resumed(at: Site, notes: MemoryJournal) -> Outcome:
    run, _ = engine(at, notes)
    return run.resume(read_run(json.loads(json.dumps(notes.entries))), WHO)


@pytest.mark.parametrize("steps", range(16))
def test_killed_at_any_call_a_resume_does_each_record_once(site: NewSite, steps: int) -> None:
    at, notes = site(world(*[SAFE] * 4), steps=steps), MemoryJournal(Quiet())
    run, _ = engine(at, notes)
    try:
        run.start(at.plan(), WHO)
    except Killed:
        at.steps = None
        assert resumed(at, notes).status is Status.DONE
    assert at.world.target.offsets(PLACE) == [0, 1, 2, 3]


def test_ctrl_c_stops_after_a_commit_and_a_resume_continues(site: NewSite) -> None:
    at, notes, clock = site(world(*[SAFE] * 4)), MemoryJournal(Quiet()), FastClock()
    run, _ = engine(at, notes, clock)

    def wants() -> bool:
        clock.stop_after = 0
        return True

    with notices.stopped_by(wants):
        state, outcome = run.start(at.plan(), WHO)
    assert (outcome.status, state.status) == (Status.INTERRUPTED, "")
    assert at.world.target.offsets(PLACE) == [0, 1]
    assert resumed(at, notes).status is Status.DONE
    assert at.world.target.offsets(PLACE) == [0, 1, 2, 3]


def test_without_its_gap_result_nothing_is_done_and_the_run_stays_open(site: NewSite) -> None:
    at, notes = site(world(SAFE, SAFE, SAFE), steps=5), MemoryJournal(Quiet())
    run, _ = engine(at, notes)
    with pytest.raises(Killed):
        run.start(at.plan(), WHO)
    (at.folder / "gap.json").unlink()
    outcome = resumed(at, notes)
    assert (outcome.exit_code, outcome.over) == (ExitCode.UNKNOWN, False)
    assert "not on this host" in outcome.message


def test_a_resume_names_discarded_records(site: NewSite) -> None:
    at = site(world(SAFE))
    (step,) = at.plan().steps
    given = {**step.settings, "topics": ["orders=discard"], "policy": None}
    step = cast(Any, type(step))(step.id, step.kind, given, step.timeout_s)
    plan = cast(Any, type(at.plan()))("reconcile", "main", "a", "b", (step,))
    assert discards(plan) == "unreplicated records of orders"
    assert at.action is Action.COPY
