"""Runbooks -> plans, for links of all kinds. DRCTL_REGENERATE=1 writes the expected ones."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from drctl.model.errors import ConfigError, UsageError
from drctl.model.loss import Mode
from drctl.model.plan import Plan
from drctl.plans.failover import failover
from drctl.plans.inputs import PlanInputs
from drctl.runbook.allowlist import Allowlist
from drctl.runbook.building import broken_rules, build
from drctl.runbook.reading import load
from drctl.runbook.specs import SPECS
from drctl.steps.registry import CONNECTORS, FAILBACK, FAILOVER, KINDS, LISTS, PROBE, REPAIRS
from tests.runbook.links import BARE, FULL, LINKS, runbook

FOLDER = Path(__file__).parent / "plans"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("name", NAMES)
def test_the_plan_is_as_expected(name: str, link: str) -> None:
    plan = build(load(FOLDER / f"{name}.yaml"), {}, LINKS[link])
    rendered = json.dumps(plan.to_json(), indent=1) + "\n"
    expected = FOLDER / f"{name}.{link}.json"
    if os.environ.get("DRCTL_REGENERATE"):
        expected.write_text(rendered, encoding="utf-8")
    assert rendered == expected.read_text(encoding="utf-8")
    assert broken_rules(plan) == ()
    assert Plan.from_json(json.loads(rendered)) == plan
    assert plan.fingerprint == build(load(FOLDER / f"{name}.yaml"), {}, LINKS[link]).fingerprint


def test_runbooks_can_use_every_kind_and_every_kind_is_tested() -> None:
    assert set(SPECS) == set(KINDS) - FAILOVER - FAILBACK - REPAIRS - LISTS - PROBE - CONNECTORS
    plans = [
        build(load(FOLDER / f"{name}.yaml"), {}, inputs)
        for name in NAMES
        for inputs in LINKS.values()
    ]
    assert {step.kind for plan in plans for step in plan.steps} - FAILOVER == set(SPECS)


def test_every_step_of_a_plan_can_be_described() -> None:
    for name in NAMES:
        for inputs in LINKS.values():
            for step in build(load(FOLDER / f"{name}.yaml"), {}, inputs).steps:
                described = KINDS[step.kind].describe(step.settings)
                assert described.title
                assert described.proof


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("inputs", LINKS.values(), ids=list(LINKS))
def test_a_sequence_has_the_steps_of_its_command(mode: Mode, inputs: PlanInputs) -> None:
    made = build(runbook(f"{{id: go, sequence: failover-{mode.value}}}"), {}, inputs).steps
    wanted = failover(mode, inputs).steps
    assert [step.id for step in made] == [f"go.{step.id}" for step in wanted]
    for ours, theirs in zip(made, wanted, strict=True):
        settings = dict(theirs.settings)
        if "question" in settings:
            settings["question"] = ours.id
        assert ours == replace(theirs, id=ours.id, settings=settings)


def test_values_replace_references_only_once() -> None:
    book = runbook(
        '{id: a, manual: "${one} and ${two} and $${one}"}',
        parameters="{one: {type: string, about: x}, two: {type: string, about: x}}",
    )
    plan = build(book, {"one": "${two}", "two": "{{7*7}} $(id)"}, FULL)
    assert plan.step("a").settings["text"] == "${two} and {{7*7}} $(id) and ${one}"


def test_values_in_an_environment_are_escaped() -> None:
    book = runbook(
        *("{id: j, step: preflight}", "{id: s, step: snapshot-state}"),
        '{id: a, command: {argv: [x], env: {A: "${one}", B: "${env:B} $${c}"}}}',
        parameters="{one: {type: string, about: x}}",
    )
    env = build(book, {"one": "${env:PASSWORD}"}, FULL).step("a").settings["env"]
    assert env == {"A": "$${env:PASSWORD}", "B": "${env:B} $${c}"}


def test_commands_are_checked_against_the_allowlist_with_their_values() -> None:
    book = runbook(
        *("{id: j, step: preflight}", "{id: s, step: snapshot-state}"),
        '{id: a, command: {argv: [systemctl, stop, "${unit}"]}}',
        parameters="{unit: {type: string, about: x}}",
    )
    allowlist = Allowlist((("systemctl", "stop", "*"),))
    assert build(book, {"unit": "mm2"}, FULL, allowlist).step("a").settings["argv"][2] == "mm2"
    for argv in ("--force", "-f"):
        with pytest.raises(ConfigError, match="not among the `commands`"):
            build(book, {"unit": argv}, FULL, allowlist)
    with pytest.raises(ConfigError, match="there are none"):
        build(book, {"unit": "mm2"}, FULL, Allowlist(()))


def test_a_plan_that_breaks_a_rule_is_not_built() -> None:
    book = runbook(
        "{id: a, step: preflight}", "{id: b, step: snapshot-state}", "{id: c, step: enable-writes}"
    )
    with pytest.raises(ConfigError) as caught:
        build(book, {}, FULL)
    assert caught.value.message.splitlines() == [
        "2 problems in x.yaml",
        "x.yaml:7:5: steps[2]: step c needs an earlier step that fences writes:"
        " clusters that both accept writes diverge",
        "x.yaml:7:5: steps[2]: step c needs an earlier step that stops replication:"
        " a running replicator would append old records after new ones",
    ]


def test_settings_that_do_not_fit_the_link_are_reported_with_their_position() -> None:
    book = runbook("{id: a, step: switch-endpoint, with: {endpoint: 3}}")
    with pytest.raises(ConfigError, match=r"x.yaml:5:53: .*is not the number of an endpoint"):
        build(book, {}, FULL)


def test_a_runbook_without_a_step_for_the_link_is_rejected() -> None:
    with pytest.raises(UsageError, match="no step of x applies to this link") as caught:
        build(runbook("{id: a, manual: x, when: source == reachable}"), {}, BARE)
    assert "source is unreachable" in caught.value.hint


def test_the_basis_of_the_plan_has_the_facts_that_conditions_use() -> None:
    book = runbook("{id: a, manual: x, when: source == reachable}", "{id: b, manual: x}")
    basis = build(book, {}, FULL).basis
    assert basis["fact source"] == "reachable"
    assert basis["runbook x"] == book.fingerprint
    assert basis["cluster primary"] == "P1"
    assert "fact target" not in basis
    assert build(book, {}, BARE).basis["fact source"] == "unreachable"
