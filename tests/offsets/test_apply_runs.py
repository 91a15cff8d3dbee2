"""Runs that commit offsets: what is written, what is reported, and what a crash leaves."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from drctl.app.link_writer import Committing
from drctl.app.offsets import Undoable, undo_of
from drctl.config.loading import read
from drctl.engine.executing import Execution
from drctl.engine.invariants import violations
from drctl.engine.kind import Outcome as Ending
from drctl.engine.kind import Status
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.engine.run_state import RunState, read_run
from drctl.model.errors import DamagedJournal, ExitCode
from drctl.model.groups import Committed, Group, GroupProtocol, GroupState
from drctl.model.plan import Plan
from drctl.model.topology import TopicPartition, Unavailable
from drctl.offsets.applying import Action, ApplyPlan, Bounds, Precheck, Wanted, build_plan, look
from drctl.offsets.results import ApplyResult, Outcome, Place, results_of
from drctl.plans.single_step import OFFSETS_APPLY, OFFSETS_UNDO, offsets_plan
from drctl.steps import apply_offsets
from drctl.steps.apply_offsets import outcomes_of
from drctl.steps.registry import KINDS
from drctl.views import run_markdown
from drctl.views.run_reading import report_data
from tests.engine.crashing import countdown
from tests.engine.toggles import FastClock, MemoryJournal, NoWatcher, World
from tests.fakes import Crash, FakeCluster, FakeLog, group

GROUPS = ("a", "b", "c")
PLACES = (TopicPartition("t", 0), TopicPartition("t", 1))
LOGS = {place: FakeLog(end=100, epoch=2) for place in PLACES}
EXACT = Bounds(0, 0)
WANTED = tuple(Wanted(name, place, Committed(50), EXACT) for name in GROUPS for place in PLACES)
START = datetime(2026, 3, 5, 14, 20, 7, tzinfo=UTC)
WHO = {"user": "ada", "host": "laptop"}
FILE = (
    "clusters: {p: {bootstrap: 'p:1'}, s: {bootstrap: 's:1'}}\n"
    "links: {main: {from: p, to: s, topics: [t]}}\n"
)
LINK = read(FILE, Path("x.yaml")).link()


@dataclass
class Site:
    """One process's view of the cluster; implements both ports of a step.

    Attributes:
        fall: called at each point of the journal.
    """

    standing: FakeCluster
    fall: Callable[[str], Any] = lambda _point: None
    responses: dict[Place, Unavailable | None] = field(default_factory=dict)
    writes: bool = False

    def cluster_reader(self, _name: str) -> FakeCluster:
        return self.standing

    def elections(self, _name: str) -> FakeCluster:
        return self.standing

    def groups(self, _name: str) -> Any:
        return Committing(self.standing, self.responses) if self.writes else self.standing

    def offset_answers(self) -> Mapping[Place, Unavailable | None]:
        return self.responses

    @property
    def writer(self) -> LinkWriter:
        return cast(LinkWriter, Site(self.standing, responses=self.responses, writes=True))


@dataclass
class Ran:
    """A run that ended."""

    ending: Ending
    state: RunState
    result: ApplyResult

    @property
    def code(self) -> ExitCode:
        return self.ending.exit_code

    @property
    def undone(self) -> Undoable:
        return undone(self.state.entries)


def undone(entries: Sequence[Mapping[str, Any]]) -> Undoable:
    return undo_of(read_run(json.loads(json.dumps(list(entries)))), LINK)


def cluster() -> FakeCluster:
    """Create groups: a without offsets, b with both partitions, c with one."""
    held = {
        "b": {PLACES[0]: Committed(10, 2, "mine"), PLACES[1]: Committed(20)},
        "c": {PLACES[1]: Committed(30)},
    }
    return FakeCluster(dict(LOGS), "target", {name: group(name) for name in held}, held)


def plan_of(standing: FakeCluster, wanted: Sequence[Wanted], *passed: Precheck) -> ApplyPlan:
    return build_plan(
        wanted,
        look(standing, standing, standing.ends_before, wanted),  # type: ignore[arg-type]
        cluster="s",
        cluster_id="id",
        origin="a test",
        made=START,
        overrides={precheck.value: "cause" for precheck in passed},
    )


def planned(found: ApplyPlan, wanted: Sequence[Wanted], name: str = OFFSETS_APPLY) -> Plan:
    plan = offsets_plan(name, LINK, found, wanted, unproven=False)
    assert violations(plan, KINDS) == ()
    return plan


def engine(site: Site, notes: MemoryJournal) -> Execution:
    reader = cast(LinkReader, site)
    return Execution(KINDS, reader, site.writer, notes, FastClock(), NoWatcher())


def execute(
    standing: FakeCluster,
    found: ApplyPlan,
    wanted: Sequence[Wanted] = WANTED,
    name: str = OFFSETS_APPLY,
    at: Callable[[str], Any] = lambda _point: None,
) -> Ran:
    site = Site(standing, at)
    state, ending = engine(site, notes_of(site)).start(planned(found, wanted, name), WHO)
    outcomes = outcomes_of(state, cast(LinkReader, site))
    results = results_of(found, outcomes, ending.message)
    return Ran(ending, state, ApplyResult(found, results, ending.status.value))


def notes_of(site: Site) -> MemoryJournal:
    return MemoryJournal(cast(World, site))


def undo(standing: FakeCluster, run: Undoable) -> Ran:
    return execute(standing, plan_of(standing, run.origin.wanted), run.origin.wanted, OFFSETS_UNDO)


@pytest.fixture(autouse=True, params=[1, 2000])
def batch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(apply_offsets, "BATCH", request.param)
    return int(request.param)


def test_a_complete_run() -> None:
    standing = cluster()
    ran = execute(standing, plan_of(standing, WANTED))
    assert (ran.code, ran.state.status) == (ExitCode.DONE, "done")
    assert ran.result.counts[Outcome.COMMITTED] == len(WANTED)
    assert set(standing.all_committed().values()) == {Committed(50)}
    assert (ran.undone.ended, ran.undone.cluster, ran.undone.cluster_id) == (True, "s", "id")
    assert len(ran.undone.origin.wanted) == len(WANTED)


def test_undo_restores_everything_and_can_be_undone() -> None:
    before, standing = cluster(), cluster()
    first = execute(standing, plan_of(standing, WANTED))
    second = undo(standing, first.undone)
    assert (second.code, second.state.plan.name) == (ExitCode.DONE, OFFSETS_UNDO)
    assert second.result.counts[Outcome.DELETED] == 3
    assert standing.all_committed() == before.all_committed()
    again = plan_of(standing, first.undone.origin.wanted)
    assert again.counts[Action.SAME] == len(WANTED)
    assert planned(again, first.undone.origin.wanted, OFFSETS_UNDO).steps == ()
    undo(standing, second.undone)
    assert set(standing.all_committed().values()) == {Committed(50)}


def test_nothing_is_committed_for_an_active_group() -> None:
    standing = cluster()
    standing.join("b")
    ran = execute(standing, plan_of(standing, WANTED))
    assert ran.code is ExitCode.STOPPED
    assert ran.state.status == "stopped", "the run did not end, so it blocks the link"
    assert {r.line.group for r in ran.result.not_done} == {"b"}
    assert {r.line.precheck for r in ran.result.not_done} == {Precheck.GROUP_ACTIVE}
    assert not any(name == "b" for name, _, _ in standing.effects)
    report = run_markdown.render(report_data(ran.state))
    assert "Ended at apply-offsets: part of the step was done, and is kept." in report
    assert "b t-0: group-active" in report
    assert "replication" not in report, "the report mentions replication"


def test_group_becomes_active_between_plan_and_commit() -> None:
    standing = cluster()
    found = plan_of(standing, WANTED)
    join(standing)
    ran = execute(standing, found)
    assert (ran.code, ran.state.status, standing.effects) == (ExitCode.REFUSED, "refused", [])
    assert {r.line.precheck for r in ran.result.results} == {Precheck.GROUP_ACTIVE}
    assert ran.undone.origin.wanted == ()


def test_group_becomes_active_after_the_final_read() -> None:
    standing = cluster()
    found = plan_of(standing, WANTED)

    def come(point: str) -> None:
        if point.startswith("after journal intend"):
            join(standing)

    ran = execute(standing, found, at=come)
    assert (ran.code, standing.effects) == (ExitCode.REFUSED, [])
    assert {r.line.precheck for r in ran.result.results} == {Precheck.GROUP_ACTIVE}


def join(standing: FakeCluster) -> None:
    for name in GROUPS:
        standing.join(name)


@pytest.mark.parametrize("at", [40, 50, 70])
def test_offset_changed_since_the_plan(at: int) -> None:
    """The approved plan was made from other offsets."""
    standing = cluster()
    found = plan_of(standing, WANTED)
    held = standing.positions["b"]
    held[PLACES[0]] = Committed(at)
    ran = execute(standing, found)
    assert held[PLACES[0]] == Committed(at)
    if at == 50:
        assert (ran.code, ran.result.counts[Outcome.SAME]) == (ExitCode.DONE, 1)
        return
    assert ran.code is ExitCode.STOPPED
    (left,) = ran.result.not_done
    assert (left.line.precheck, left.commit.now) == (Precheck.CHANGED_SINCE, Committed(at))


def test_a_write_that_was_never_answered() -> None:
    standing = cluster()
    standing.lost, standing.eaten = frozenset({"a"}), frozenset({"b"})
    ran = execute(standing, plan_of(standing, WANTED))
    # The offsets read back count, not the responses.
    assert {(r.line.group, r.commit.outcome) for r in ran.result.results} == {
        ("a", Outcome.COMMITTED),
        ("b", Outcome.UNKNOWN),
        ("c", Outcome.COMMITTED),
    }
    assert (ran.code, ran.state.status) == (ExitCode.UNKNOWN, ""), (
        "the run must stay open for `drctl resume`, which reads first"
    )
    assert all("no answer" in r.commit.reason for r in ran.result.not_done)
    assert len(standing.effects) == 4, "a request with an unknown result was sent again"


def test_a_group_whose_positions_cannot_be_read_back() -> None:
    standing = cluster()
    found = plan_of(standing, WANTED)
    standing.silent = lambda call: call == "committed" and bool(standing.effects)
    ran = execute(standing, found)
    assert ran.code is ExitCode.UNKNOWN
    assert {r.commit.outcome for r in ran.result.results} == {Outcome.UNKNOWN}
    assert all("did not answer" in r.commit.reason for r in ran.result.not_done)


def test_a_cluster_lost_before_any_request() -> None:
    standing = cluster()
    found = plan_of(standing, WANTED)
    standing.silent = lambda _call: True
    ran = execute(standing, found)
    assert (ran.code, standing.effects) == (ExitCode.UNKNOWN, [])
    assert {r.commit.outcome for r in ran.result.results} == {Outcome.FAILED}
    assert all("did not answer" in r.commit.reason for r in ran.result.not_done)


def test_a_refused_group_is_named() -> None:
    standing = cluster()
    standing.positions["b"] = Unavailable("not authorized for group b")
    ran = execute(standing, plan_of(standing, WANTED))
    assert ran.code is ExitCode.STOPPED
    assert [(r.line.group, r.commit.outcome, r.commit.reason) for r in ran.result.not_done] == [
        ("b", Outcome.REFUSED, "not authorized for group b")
    ] * 2


def test_a_plan_that_writes_nothing() -> None:
    standing = cluster()
    standing.groups_held |= {
        name: Group(name, GroupProtocol.SHARE, GroupState.UNKNOWN) for name in GROUPS
    }
    found = plan_of(standing, WANTED)
    assert planned(found, WANTED).steps == ()
    assert {r.commit.outcome for r in results_of(found, {}, "")} == {Outcome.REFUSED}


def crash_points() -> Iterator[Callable[[FakeCluster], Callable[[str], Any]]]:
    """Return the points before, inside and after each effect, and around each journal entry."""
    for number in range(len(WANTED)):

        def inside(standing: FakeCluster, number: int = number) -> Callable[[str], Any]:
            def crash(count: int) -> None:
                if count == number:
                    raise Crash

            standing.at_effect = crash
            return lambda _point: None

        yield inside
    for number in range(9):
        yield lambda _standing, number=number: countdown(number)


@pytest.mark.parametrize("point", list(crash_points()))
@pytest.mark.parametrize("resumes", [False, True], ids=["undone", "resumed"])
def test_a_crash_anywhere_can_be_undone_from_the_journal(
    point: Callable[[FakeCluster], Callable[[str], Any]], resumes: bool
) -> None:
    before, standing = cluster(), cluster()
    found = plan_of(standing, WANTED)
    site = Site(standing)
    notes = notes_of(site)
    site.fall = point(standing)
    try:
        engine(site, notes).start(planned(found, WANTED), WHO)
    except BaseException as crash:
        if type(crash).__name__ != "Crash":
            raise
    left = standing.copy()
    if not notes.entries:
        assert left.all_committed() == before.all_committed()
        return
    run = undone(notes.entries)
    changed = {
        key
        for key in left.all_committed()
        if left.all_committed()[key] != before.all_committed().get(key)
    }
    journaled = {(each.group, each.partition): each for each in run.origin.wanted}
    assert changed <= journaled.keys(), "a change is missing from the journal"
    for key, wanted in journaled.items():
        assert wanted.to == before.all_committed().get(key)
        assert left.all_committed().get(key) in (wanted.to, Committed(50))
    if resumes and not run.ended:
        other = Site(left)
        resumed = MemoryJournal(cast(World, other), entries=notes.entries)
        state = read_run(json.loads(json.dumps(notes.entries)))
        assert engine(other, resumed).resume(state, WHO).status is Status.DONE
        assert set(left.all_committed().values()) == {Committed(50)}
        run = undone(resumed.entries)
    found = plan_of(left, run.origin.wanted)
    if found.writes:
        assert execute(left, found, run.origin.wanted, OFFSETS_UNDO).code is ExitCode.DONE
    assert left.all_committed() == before.all_committed()


def test_resume_keeps_offsets_that_changed_meanwhile() -> None:
    standing = cluster()
    found = plan_of(standing, WANTED)
    site = Site(standing, countdown(4))
    notes = notes_of(site)
    with pytest.raises(BaseException, match="journal"):
        engine(site, notes).start(planned(found, WANTED), WHO)
    assert notes.entries[-1]["entry"] == "intend"
    held = standing.positions["b"]
    held[PLACES[0]] = Committed(70)
    other = Site(standing)
    state = read_run(json.loads(json.dumps(notes.entries)))
    ending = engine(other, MemoryJournal(cast(World, other), entries=notes.entries)).resume(
        state, WHO
    )
    assert (ending.status, ending.over) == (Status.STOPPED, True)
    assert held[PLACES[0]] == Committed(70)
    assert held[PLACES[1]] == Committed(50)


def test_undo_keeps_offsets_that_changed_since() -> None:
    standing = cluster()
    first = execute(standing, plan_of(standing, WANTED))
    held = standing.positions["a"]
    held[PLACES[0]] = Committed(60)
    standing.join("c")
    ran = undo(standing, first.undone)
    assert ran.code is ExitCode.STOPPED
    left = {(r.line.group, r.line.partition, r.line.precheck) for r in ran.result.not_done}
    assert left == {
        ("a", PLACES[0], Precheck.CHANGED_SINCE),
        ("c", PLACES[0], Precheck.GROUP_ACTIVE),
        ("c", PLACES[1], Precheck.GROUP_ACTIVE),
    }
    over = plan_of(
        standing, first.undone.origin.wanted, Precheck.CHANGED_SINCE, Precheck.GROUP_ACTIVE
    )
    assert [ln.action for ln in over.lines if ln.group == "a"] == [Action.DELETE, Action.SAME]
    assert {ln.action for ln in over.lines if ln.group == "c"} == {Action.REFUSED}


def test_a_failover_is_undone_from_its_journal_too() -> None:
    standing = cluster()
    ran = execute(standing, plan_of(standing, WANTED))
    entries = [dict(each) for each in json.loads(json.dumps(ran.state.entries))]
    entries[0]["plan"]["steps"][0]["kind"] = "commit-offsets"
    entries[1]["intent"] |= {"left_out": [], "same": 0, "rereads_at_most": None}
    assert undone(entries).origin.wanted == ran.undone.origin.wanted


def test_an_invalid_intent() -> None:
    standing = cluster()
    ran = execute(standing, plan_of(standing, WANTED))
    entries = json.loads(json.dumps(ran.state.entries))
    entries[1]["intent"]["lines"] = [["a", "t"]]
    with pytest.raises(DamagedJournal):
        undone(entries)
