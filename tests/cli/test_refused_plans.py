"""A plan that differs from the shown one, or that drctl does not make, is not executed."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from drctl.app.plan_files import require_plan, write_plan
from drctl.cli.resume import _must_be_known, _must_be_of
from drctl.cli.running import _refuse_if_changed
from drctl.config.link import Link
from drctl.engine.run_state import RunState
from drctl.model.errors import ConfigError, ExitCode, Refused, UsageError
from drctl.model.loss import Mode
from drctl.model.plan import Plan
from drctl.plans.failover import failover
from drctl.plans.inputs import PlanInputs
from drctl.views.plan_text import plan_document

PLAN = failover(Mode.PLANNED, PlanInputs("main", "a", "b", ("User:app",), ("mm2",)))
LINK = cast(Link, SimpleNamespace(name="main", source="a", target="b"))


def state(plan: Plan) -> RunState:
    return RunState("run-1", plan, {}, datetime.now(UTC))


def test_clusters_that_changed_during_the_prompt() -> None:
    shown = replace(PLAN, basis={"topics of a": "3", "groups": "2"})
    _refuse_if_changed(shown, replace(shown))
    with pytest.raises(Refused, match=r"changed since the plan was made: topics of a: 3 -> 4$"):
        _refuse_if_changed(shown, replace(shown, basis={**shown.basis, "topics of a": "4"}))
    with pytest.raises(Refused, match="groups: 2 -> missing") as refused:
        _refuse_if_changed(shown, replace(shown, basis={"topics of a": "3"}))
    assert refused.value.hint == "run the command again"


def test_steps_that_changed_without_a_change_of_their_inputs() -> None:
    steps = tuple(replace(s, timeout_s=s.timeout_s + 1) for s in PLAN.steps)
    with pytest.raises(Refused, match=r"plan was made: step preflight, its timeout: 30 -> 31;"):
        _refuse_if_changed(PLAN, replace(PLAN, steps=steps))


def written(file: Path, plan: Plan = PLAN, **more: object) -> Path:
    """Write it as --plan-out does."""
    document = plan_document(plan, (), (), "drctl failover --execute")
    write_plan({**document.to_json(), **more}, file)
    return file


def test_an_approved_plan_is_resumed(tmp_path: Path) -> None:
    require_plan(PLAN, written(tmp_path / "plan.json"))
    over = replace(PLAN, overrides={"lag": "a drill"})
    require_plan(over, written(tmp_path / "plan.json", over))


def test_a_plan_other_than_the_approved_one_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "plan.json", replace(PLAN, basis={"topics of a": "3"}))
    now = replace(PLAN, basis={"topics of a": "4"})
    with pytest.raises(Refused, match=r"not the one in .*: topics of a: 3 -> 4$") as refused:
        require_plan(now, file)
    assert refused.value.exit_code is ExitCode.REFUSED
    over = replace(now, basis={"topics of a": "3"}, overrides={"lag": "a drill"})
    with pytest.raises(Refused, match=r": override lag: missing -> a drill$"):
        require_plan(over, file)
    with pytest.raises(Refused, match=r": only its fingerprint differs$"):
        require_plan(PLAN, written(file, fingerprint="0" * 16))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting property name"),
        ("[]", "is not a plan of drctl"),
        ('{"schema": "drctl/run/1"}', "is not a plan of drctl"),
        ('{"schema": "drctl/plan/1"}', "damaged plan: 'overrides'"),
        ('{"schema": "drctl/plan/1", "overrides": 7}', "damaged"),
    ],
)
def test_a_file_that_is_not_a_plan(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        require_plan(PLAN, file)


def test_unusable_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*nowhere: No such file"):
        require_plan(PLAN, tmp_path / "nowhere")
    with pytest.raises(UsageError, match="cannot write "):
        written(tmp_path)


def test_a_run_is_resumed_between_its_own_clusters() -> None:
    _must_be_of(state(PLAN), LINK)
    with pytest.raises(Refused, match=r"to c, but link main in drctl\.yaml is from a to b"):
        _must_be_of(state(replace(PLAN, target="c")), LINK)


def test_unknown_steps() -> None:
    strange = (replace(PLAN.steps[0], kind="paint-it-black"), *PLAN.steps[1:])
    with pytest.raises(Refused, match="does not support: paint-it-black"):
        _must_be_known(state(replace(PLAN, steps=strange)))


def test_a_journal_whose_plan_enables_writes_before_the_fence() -> None:
    unfenced = tuple(step for step in PLAN.steps if step.kind != "fence-producers")
    with pytest.raises(
        Refused, match=r"plan of run run-1 is invalid: step \S+ needs an earlier step that"
    ):
        _must_be_known(state(replace(PLAN, steps=unfenced)))
