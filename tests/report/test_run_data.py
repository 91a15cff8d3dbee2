"""What is read from the journals of real runs."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from drctl.engine import entries as write
from drctl.engine.kind import Kind, State
from drctl.engine.ports import LinkReader
from drctl.engine.run_state import Damage, first_head, read_run, seal, verify
from drctl.model.errors import ExitCode, Refused, Unknown
from drctl.model.finding import Finding, Status
from drctl.model.plan import Duty, Plan, Step
from drctl.model.typed_json import to_json
from drctl.steps.commit_offsets import CommitIntent, CommitOffsets
from drctl.steps.prechecks import Preflight
from drctl.views import run_markdown, run_page
from drctl.views.run_data import (
    Doing,
    ReportData,
    RunStatus,
    StepReport,
    StepStatus,
    Warned,
    Writes,
)
from drctl.views.run_json import ReportDocument
from drctl.views.run_lines import figures, next_steps
from drctl.views.run_reading import readable_run, report_data
from drctl.views.run_words import writes_now
from tests.cli.documents import check
from tests.depth import some
from tests.engine.test_interruptions import CASES, Countdown, Prepare, points
from tests.engine.toggles import (
    Blind,
    Crash,
    FastClock,
    MemoryJournal,
    World,
    execution,
    kinds,
    plan,
)
from tests.report import runs
from tests.report.runs import GOOD, Part, Run

BLIND = cast(LinkReader, Blind())

ENDINGS = {
    "done": (RunStatus.DONE, 0, "", Writes.TARGET),
    "outstanding": (RunStatus.DONE, 1, "", Writes.TARGET),
    "refused": (RunStatus.REFUSED, 3, "preflight", Writes.AS_BEFORE),
    "rolled-back": (RunStatus.REFUSED, 3, "commit-offsets", Writes.AS_BEFORE),
    "partly-rolled-back": (RunStatus.STOPPED, 4, "fence-producers", Writes.UNKNOWN),
    "stopped": (RunStatus.STOPPED, 4, "switch-endpoint-1", Writes.TARGET),
    "unknown": (RunStatus.UNKNOWN, 5, "drain", Writes.NOWHERE),
    "interrupted": (RunStatus.INTERRUPTED, 130, "drain", Writes.NOWHERE),
    "lost": (RunStatus.NOT_ENDED, None, "stop-replication", Writes.NOWHERE),
    "resumed": (RunStatus.DONE, 0, "", Writes.TARGET),
    "abandoned": (RunStatus.STOPPED, 1, "stop-replication", Writes.NOWHERE),
    "late": (RunStatus.UNKNOWN, 5, "verify-clients", Writes.TARGET),
    "hostile": (RunStatus.UNKNOWN, 5, "verify-clients", Writes.TARGET),
}


@pytest.mark.parametrize("name", runs.EVERY)
def test_the_status_of_each_run(name: str) -> None:
    data = runs.EVERY[name]().data
    code = data.ending.exit_code
    found = (data.ending.status, code and int(code), data.ending.step, data.writes)
    assert found == ENDINGS[name]


def test_an_abandoned_source_does_not_count_as_writable() -> None:
    precheck = Refused("records are not on the target", "wait")
    data = Run(runs.unplanned()).play({**GOOD, "preflight": Part(refuses=precheck, looks=3)}).data
    assert data.writes is Writes.AS_BEFORE
    assert (
        writes_now(data)
        == "Writes to secondary are not enabled yet, and primary is treated as lost"
    )
    by_name = {figure.name: (figure.value, figure.how) for figure in figures(data)}
    assert by_name["Applications can write to"] == ("unknown", "primary is treated as lost")


def test_a_planned_run_reports_rto_and_rpo() -> None:
    data = runs.done().data
    fence, last = _step(data, "fence-producers"), _step(data, "switch-endpoint-2")
    assert fence.started is not None
    assert last.started is not None
    assert last.seconds is not None
    assert data.rto.start == fence.started + timedelta(seconds=0.2)
    assert data.rto.end == last.started + timedelta(seconds=last.seconds)
    assert data.rto.seconds == pytest.approx(57.8)
    assert "switch-endpoint-2" in data.rto.how
    assert (data.rpo.records, data.rpo.seconds, data.rpo.exact) == (0, 0.0, True)
    assert data.endpoints == (2, 2)


def test_without_endpoints_the_rto_ends_with_verified_writes() -> None:
    whole = runs.planned()
    steps = tuple(step for step in whole.steps if step.kind != "switch-endpoint")
    data = Run(replace(whole, steps=steps)).play(GOOD).data
    assert data.rto.seconds == pytest.approx(51.9)
    assert "writes were enabled and verified (step enable-writes)" in data.rto.how


def test_an_unplanned_run_reports_an_estimate_and_outstanding_actions() -> None:
    data = runs.outstanding().data
    assert (data.rpo.records, data.rpo.seconds, data.rpo.exact) == (1240, 4.5, False)
    assert data.rto.seconds is None
    assert "without a fence" in data.rto.how
    assert not data.fenced
    assert list(data.outstanding) == ["fence-producers"]
    assert _step(data, "fence-producers").status is StepStatus.OUTSTANDING
    assert data.not_checked[0] == "primary did not answer before the first change"


def test_an_unplanned_run_counts_its_recovery_time_from_the_command() -> None:
    began = datetime.fromtimestamp(runs.BEGAN, UTC) - timedelta(seconds=7)
    who = {**runs.ADA, "commanded": began.isoformat()}
    data = Run(runs.unplanned()).play(runs.LOST, who).data
    assert data.rto.since_command
    assert data.rto.start == began
    assert data.rto.end is not None
    assert data.rto.seconds == (data.rto.end - began).total_seconds()
    assert data.rto.how.startswith("from the command until")
    assert figures(data)[1].name == "RTO, since the command"


def test_an_effective_fence_of_an_unplanned_run_starts_the_measurement() -> None:
    script = {**runs.LOST, "fence-producers": Part("every broker (3) enforces the ACLs", takes=2)}
    data = Run(runs.unplanned()).play(script).data
    assert data.rto.seconds is not None
    assert data.rto.how.endswith("without the outage before the run")
    assert data.ending.exit_code is ExitCode.DONE


def test_a_completed_step_can_have_an_outstanding_action() -> None:
    offsets = replace(GOOD["commit-offsets"], outstanding="1 position was left out: a orders-0")
    data = Run(runs.planned()).play({**GOOD, "commit-offsets": offsets}).data
    step = _step(data, "commit-offsets")
    assert (step.status, step.outstanding) == (
        StepStatus.DONE,
        "1 position was left out: a orders-0",
    )
    assert data.ending.exit_code is ExitCode.FOUND


def test_a_rolled_back_run_has_no_outstanding_action_and_names_the_failure() -> None:
    data = runs.rolled_back().data
    taken = [step.id for step in data.with_status(StepStatus.ROLLED_BACK)]
    assert taken == ["fence-producers", "fence-consumers", "stop-replication"]
    failed = _step(data, "commit-offsets")
    assert (failed.status, failed.waited) == (StepStatus.FAILED, None)
    assert data.rollback_reason.startswith("offsets of 3 groups or partitions cannot be")
    assert (data.outstanding, data.committed_offsets, data.rto.seconds) == ({}, None, None)


def test_failed_rollbacks_are_named() -> None:
    data = runs.partly_rolled_back().data
    step = _step(data, "fence-producers")
    assert (step.status, step.items) == (StepStatus.NOT_ROLLED_BACK, ("broker 2",))
    assert step.rolled_back == "the rules are still on broker 2"
    assert data.rpo.records is None
    assert data.rpo.how == "not measured: writes were not enabled on the target"


def test_a_run_resumed_by_someone_else() -> None:
    data = runs.resumed().data
    assert [(a.who, a.host, a.ending) for a in data.attempts] == [
        ("ada", "laptop-7", "no further journal entry at stop-replication"),
        ("bob", "bastion-2", "completed"),
    ]
    away = [span for span in data.spans if span.doing is Doing.NOT_RUNNING]
    assert [span.seconds for span in away] == [pytest.approx(5400, abs=8)]
    assert "by the clocks of several hosts, including time between attempts" in (data.rto.how)
    worked = sum(span.seconds for span in data.spans if span.doing is not Doing.NOT_RUNNING)
    assert sum(step.seconds or 0 for step in data.steps) == pytest.approx(worked, abs=0.02)


def test_clock_skew_gives_no_rto_and_no_negative_time() -> None:
    dies = replace(GOOD["stop-replication"], takes=8, dies=True)
    run = Run(runs.planned()).play({**GOOD, "stop-replication": dies})
    data = run.rest(-3600).play(GOOD, runs.BOB).data
    assert data.rto.seconds is None
    assert "disagree" in data.rto.how
    assert min(span.seconds for span in data.spans) >= 0
    check(ReportDocument.of(data))


def test_errors_and_items_of_a_failed_step() -> None:
    step = _step(runs.stopped().data, "switch-endpoint-1")
    assert step.errors == ("ns2.example.net: refused the update (REFUSED)",)
    assert len(step.items) == 2
    assert step.seconds == pytest.approx(120.2)
    assert runs.stopped().data.endpoints == (0, 2)


def test_prechecks_overrides_ids_and_groups() -> None:
    data = runs.done().data
    assert [w.checked for w in data.warned] == [True, False, True]
    assert "endpoint-caches: dns: nobody can see how long clients keep an answer" in (
        data.not_checked
    )
    assert data.overrides == {"retention": "the tail is copied in minutes"}
    assert data.ids == {"primary": "kF2aPrimary", "secondary": "zQ9bSec"}
    assert data.mode == "planned"
    assert data.committed_offsets is not None
    groups = [(g.name, g.offsets, g.rereads_at_most) for g in data.committed_offsets.groups]
    assert groups == [("billing", 12, 38), ("shipping", 12, 2), ("fraud-scoring", 6, 0)]
    assert (data.committed_offsets.same, data.committed_offsets.rereads_at_most) == (4, 40)


def test_a_damaged_journal_is_reported() -> None:
    run = Run(runs.planned()).play(GOOD)
    name = str(run.entries[0]["run"])
    lines = list(seal(run.entries, first_head(name)))
    del lines[4]
    verdict = verify(name, lines)
    data = report_data(readable_run(name, lines, verdict), verdict)
    assert data.chain is not None
    assert data.chain.damage is Damage.REMOVED
    assert len(data.steps) == 13
    assert data.ending.status is RunStatus.NOT_ENDED
    assert check(ReportDocument.of(data))["journal"]["damage"] == "removed"
    assert next_steps(data)[0].what == "Do not rely on this report."
    with pytest.raises(Unknown, match="is damaged from its first line: "):
        readable_run(name, lines[1:], verify(name, lines[1:]))


def test_a_kind_that_this_drctl_does_not_know_is_still_reported() -> None:
    unknown = Plan("later", "main", "a", "b", (Step("magic", "magic", {"x": 1}),))
    at = runs.done().data.began
    state = read_run([write.began("r", unknown, {"who": "eve", "host": "h"}, at)])
    data = report_data(state)
    assert "does not know" in data.steps[0].title
    assert data.attempts[0].who == "eve"
    check(ReportDocument.of(data))


@pytest.mark.parametrize("at", [None, 7, "yesterday", "2026-03-05T14:20:07"])
def test_an_entry_without_a_usable_time_is_a_damaged_journal(at: object) -> None:
    recorded = list(Run(runs.planned()).play(GOOD).entries)
    recorded[3] = {**recorded[3], "at": at}
    with pytest.raises(Unknown, match="cannot be read"):
        report_data(read_run(recorded))


@pytest.mark.slow
@pytest.mark.parametrize("prepare", CASES, ids=lambda case: case.__name__)
def test_the_report_agrees_with_the_executor_after_every_crash(prepare: Prepare) -> None:
    for number in (*some(range(points(prepare))), 10**6):
        world = World()
        prepare(world)
        notes = MemoryJournal(world)
        world.fall = Countdown(number)
        try:
            execution(world, notes).start(plan(), runs.ADA)
        except Crash:
            if not notes.entries:
                continue
            report_data(read_run(notes.entries), kinds=kinds())
        world.fall = lambda point: None
        state = read_run(notes.entries)
        if not state.status:
            outcome = execution(world, notes).resume(state, runs.BOB)
            ending = report_data(read_run(notes.entries), kinds=kinds()).ending
            assert (ending.status.value, ending.exit_code) == (
                outcome.status.value,
                outcome.exit_code,
            )
            assert ending.step == outcome.step


@pytest.mark.parametrize(
    "name", ["done", "outstanding", "partly-rolled-back", "resumed", "stopped"]
)
def test_every_prefix_of_a_journal_makes_a_valid_document(name: str) -> None:
    whole = runs.EVERY[name]().entries
    for length in range(1, len(whole) + 1):
        data = report_data(read_run(whole[:length]))
        check(ReportDocument.of(data))
        if length < len(whole) and whole[length - 1]["entry"] in ("began", "intend", "resumed"):
            assert data.ending.status is RunStatus.NOT_ENDED


def test_interruption_and_unknown_agree_with_the_executor() -> None:
    stopped = World(stuck={"stop"}), FastClock(stop_after=1)
    for world, clock in (stopped, (World(unseen={"drain"}), FastClock())):
        notes = MemoryJournal(world)
        _, outcome = execution(world, notes, clock).start(plan(fence=Duty.BEST_EFFORT), runs.ADA)
        ending = report_data(read_run(notes.entries), kinds=kinds()).ending
        assert (ending.status.value, ending.step) == (outcome.status.value, outcome.step)
        assert ending.exit_code is outcome.exit_code


def test_the_read_facts_are_those_that_steps_write() -> None:
    seen = CommitOffsets().verify(CommitIntent("b", (), 3, ("x",), 9), BLIND)
    run = Run(runs.planned()).play({**GOOD, "commit-offsets": Part(facts=to_json(seen.facts))})
    found = run.data.committed_offsets
    assert found is not None
    assert (found.same, found.rereads_at_most, found.left_out) == (3, 9, ("x",))


def test_unreadable_prechecks_are_taken_from_the_preflight_step() -> None:
    class Findings:
        def findings(self, mode: str) -> tuple[Finding, ...]:
            return (
                Finding("some", Status.WARN, "a", "it is slow"),
                Finding("other", Status.NOT_CHECKED, "b", "nobody could see it"),
            )

    settings = {"mode": "planned", "overrides": {}}
    intent = Kind(Preflight()).check(settings, {}, cast(LinkReader, Findings()))
    facts = Kind(Preflight()).verify(intent, BLIND).facts
    data = Run(runs.planned()).play({**GOOD, "preflight": Part(facts=facts)}).data
    assert data.warned == (
        Warned("some: a: it is slow", True),
        Warned("other: b: nobody could see it", False),
    )


def _step(data: ReportData, identity: str) -> StepReport:
    return next(step for step in data.steps if step.id == identity)


def test_a_fence_lifted_after_writes_were_enabled_leaves_the_loss_unknown() -> None:
    switch, fence = GOOD["switch-endpoint-1"], GOOD["fence-producers"]
    killed = replace(switch, takes=10, dies=True)
    run = Run(runs.planned()).play({**GOOD, "switch-endpoint-1": killed})
    fell = replace(fence, message="none of 24 rules is on primary yet", end=State.WAITING)
    data = run.play({**GOOD, "fence-producers": fell}).data
    assert data.ending.exit_code == 1
    assert (data.rpo.records, data.rpo.exact) == (None, False)
    assert (
        "after the fence, primary may have accepted writes that secondary does not have"
        in data.rpo.how
    )
    assert list(data.outstanding) == ["fence-producers"]


def test_a_shared_cause_of_unreadable_prechecks_is_reported_once() -> None:
    why = "cluster primary (h:9092) did not answer within 3 s: Connection refused"
    unseen = {"what": "cluster primary does not answer", "why": why, "checks": ["a", "b"]}
    script = {
        **runs.LOST,
        "preflight": Part("all prechecks passed", {"warnings": [], "not_run": [unseen]}),
        "fence-producers": Part(refuses=Refused(f"deny WRITE: {why}", "")),
        "verify-clients": Part(f"not seen: {why}", {"unknown": f"who has stayed: {why}"}),
    }
    found = Run(runs.unplanned()).play(script).data
    (unread,) = found.unseen
    assert unread.message == f"2 checks could not run: {why} (a, b)"
    document = ReportDocument.of(found).to_json()
    check(document)
    for text in (json.dumps(document), run_markdown.render(found), run_page.render(found)):
        assert text.count("did not answer within 3 s") == 1
        assert text.count("cluster primary does not answer") > 1
