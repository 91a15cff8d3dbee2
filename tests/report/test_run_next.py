"""The next actions in a report, for unusual plans and results."""

import re
import shlex
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from drctl.engine.entries import outstanding
from drctl.engine.source_fence import CHANGED_AFTER_FENCE
from drctl.model.errors import Refused
from drctl.plans.failback import failback, rebuild
from drctl.views.run_data import StepStatus
from drctl.views.run_lines import known, next_steps
from drctl.views.run_words import verdict
from tests.docs.pages import ROOT
from tests.docs.test_command_lines import parse
from tests.engine.test_failback_plan import failback_inputs
from tests.report import runs
from tests.report.runs import Part, Run

PLANS = {
    "failback": failback(failback_inputs()),
    "rebuild": rebuild(failback_inputs(), nothing_to_empty=True),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_completed_failback_leaves_reverse_replication_stopped(name: str) -> None:
    """It does not repeat a failover's suggestions: the cluster that clients left is not lost."""
    at_once = {step.id: Part(takes=0) for step in PLANS[name].steps}
    data = Run(PLANS[name]).play(at_once).data
    (step,) = next_steps(data)
    assert step.what.startswith(f"Keep the replication from {data.plan.source} to")


def test_unreplicated_records_are_in_the_answer_and_the_actions() -> None:
    done = {"copy": 984, "quarantine": 610, "discard": 1}
    at_once = {step.id: Part(takes=0) for step in PLANS["failback"].steps}
    data = Run(PLANS["failback"]).play({**at_once, "reconcile": Part(facts={"done": done})}).data
    primary, secondary = data.plan.target, data.plan.source
    assert f"Of the records only on {primary}, 610 are in quarantine, 1 is discarded." in verdict(
        data
    )
    *_, decide = next_steps(data)
    assert decide.what == "Decide on the 610 records in quarantine."
    assert f"on {secondary} have copies; the originals are only on {primary}." in decide.why
    assert decide.command == f"drctl gap --link {data.plan.link} --scope full"
    parse(shlex.split(decide.command)[1:])
    gone = {step.id: Part(takes=0) for step in PLANS["rebuild"].steps}
    rebuilt = Run(PLANS["rebuild"]).play({**gone, "reconcile": Part(facts={"done": done})}).data
    *_, decide = next_steps(rebuilt)
    assert "no other copy exists" in decide.why
    assert decide.command is None
    page = (ROOT / "docs/howto/failback.md").read_text(encoding="utf-8")
    named = [f"'{title}'" for title in re.findall(r"^#+ (.+)$", page, re.MULTILINE)]
    assert [each for each in named if each in decide.why] == ["'Fail back'", "'After the failback'"]
    nothing = Run(PLANS["failback"]).play(at_once).data
    assert "Of the records only on" not in verdict(nothing)


@pytest.mark.parametrize(
    ("name", "command"), [("failback", " --policy copy"), ("rebuild", " --rebuild --policy copy")]
)
def test_an_abandoned_failback_is_planned_again_unchanged(name: str, command: str) -> None:
    plan = PLANS[name]
    dies = Part(takes=20, dies=True)
    run = Run(plan).play({plan.steps[2].id: dies}).leave("nobody can copy it")
    assert next_steps(run.data)[-1].command == f"drctl failback --link {plan.link}{command}"


def test_a_rebuild_for_order_is_planned_again_with_its_reason() -> None:
    plan, reason = PLANS["rebuild"], "the old replicator ran, it's known"
    at_once = {step.id: Part(takes=0) for step in plan.steps}
    statement = f"{plan.target} now has the records in the order of {plan.source}"
    done = Run(plan).play(at_once).data
    assert not any(each.startswith(statement) for each in known(done))
    passed = replace(done, overrides={"source-intact": reason})
    assert any(each.startswith(statement) for each in known(passed))
    dies = Run(plan).play({plan.steps[2].id: Part(takes=20, dies=True)}).leave("it stays").data
    (*_, again) = next_steps(replace(dies, overrides={"source-intact": reason}))
    words = shlex.split(again.command)
    assert words[words.index("--override") + 1] == f"source-intact={reason}"


def test_a_reason_for_another_failback_replaces_the_same_plan() -> None:
    turned = replace(
        runs.rolled_back().data, rollback_reason="no: drctl failback --link main --rebuild"
    )
    assert next_steps(turned)[-1].command is None
    assert next_steps(runs.rolled_back().data)[-1].command


def test_an_outstanding_action_is_not_hidden_by_remaining_changes() -> None:
    run = runs.lost()
    through = "primary may have taken records: it was not compared"
    at = datetime.fromtimestamp(run.clock.now(), UTC)
    run.notes.append([outstanding("fence-producers", through, at)])
    action = run.leave("scrapped").data.outstanding["fence-producers"]
    assert action.startswith(f"{through}; in effect: fence producers on primary")


def test_a_drain_that_stops_a_partly_enabled_run_can_be_overridden() -> None:
    data = runs.stopped().data
    stuck = {"status": StepStatus.FAILED, "message": "1 record is not replicated yet"}
    steps = tuple(replace(s, **stuck) if s.id == "drain" else s for s in data.steps)
    moved = replace(data, steps=steps, ending=replace(data.ending, step="drain"))
    commands = [step.command for step in next_steps(moved)]
    assert f"drctl resume {data.run} --override {CHANGED_AFTER_FENCE}=REASON" in commands
    back = replace(moved, rollback_reason="it was refused")
    assert not [
        c for c in (s.command for s in next_steps(back)) if CHANGED_AFTER_FENCE in (c or "")
    ]


def test_a_rolled_back_failback_is_planned_again_with_its_decisions() -> None:
    plan = PLANS["failback"]
    decided = {"policy": "copy", "topics": ["flights-orders=discard"], "conflicting": "quarantine"}
    steps = tuple(
        replace(s, settings={**s.settings, **decided}) if s.kind == "reconcile" else s
        for s in plan.steps
    )
    refuses = Part(refuses=Refused("not today", "tomorrow"))
    data = Run(replace(plan, steps=steps)).play({plan.steps[0].id: refuses}).data
    assert next_steps(data)[-1].command == (
        f"drctl failback --link {plan.link} --policy copy --topic flights-orders=discard"
        " --conflicting quarantine"
    )
