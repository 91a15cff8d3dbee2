"""Runbooks with the failback sequence."""

from dataclasses import replace

import pytest

from drctl import resources
from drctl.model.errors import ConfigError
from drctl.plans.failback import failback, is_failback, reverse_inputs
from drctl.plans.inputs import PlanInputs
from drctl.runbook.building import build
from drctl.runbook.reading import load
from drctl.runbook.rendering import render
from tests.runbook.links import FULL, LINKS, runbook

SHIPPED = load(resources.shipped("runbooks") / "failback.yaml")
FAILBACK = "sequence: {name: failback, policy: copy}"


@pytest.mark.parametrize("header", ["", "site"])
@pytest.mark.parametrize("inputs", LINKS.values(), ids=list(LINKS))
def test_the_built_in_runbook_has_every_step_of_drctl_failback(
    inputs: PlanInputs, header: str
) -> None:
    inputs = replace(inputs, origin_header=header)
    back = reverse_inputs(inputs, tuple(f"{name}-back" for name in inputs.connectors))
    plan = build(
        SHIPPED, {"policy": "copy", "conflicting": "quarantine"}, replace(inputs, failback=back)
    )
    assert (plan.source, plan.target) == (inputs.target, inputs.source)
    made = [step for step in plan.steps if step.id.startswith("failback.")]
    wanted = failback(replace(back, policy="copy", conflicting="quarantine")).steps
    for ours, theirs in zip(made, wanted, strict=True):
        settings = dict(theirs.settings)
        if "question" in settings:
            settings["question"] = ours.id
        assert ours == replace(theirs, id=f"failback.{theirs.id}", settings=settings)
    others = {step.kind for step in plan.steps if step not in made}
    assert others <= {"manual", "manual-check"}


def test_a_failback_is_known_before_any_cluster_is_contacted() -> None:
    assert SHIPPED.is_failback
    assert is_failback(build(SHIPPED, {"policy": "copy"}, FULL).steps)
    assert runbook("{id: go, sequence: failback}").is_failback
    assert not runbook("{id: go, sequence: failover-planned}").is_failback


def test_steps_in_the_configured_direction_are_rejected() -> None:
    book = runbook(f"{{id: go, {FAILBACK}}}", "{id: prove, gap: {scope: tail}}")
    with pytest.raises(ConfigError, match="prove uses the link in the opposite direction"):
        build(book, {}, FULL)


def test_the_name_of_the_sequence_is_a_literal() -> None:
    with pytest.raises(ConfigError, match="must be a literal, not a parameter"):
        runbook('{id: go, sequence: "${what}"}', parameters="{what: {type: string, about: x}}")


def test_only_a_failback_has_a_policy() -> None:
    book = runbook("{id: go, sequence: {name: failover-planned, policy: copy}}")
    with pytest.raises(ConfigError, match="failover-planned does not reconcile records"):
        build(book, {}, FULL)


def test_command_lines_on_the_page_fence_the_target() -> None:
    page = render(SHIPPED, FULL, {"policy": "copy"})
    fence = page[page.index("`failback.fence-producers`") : page.index("`failback.drain`")]
    assert '--bootstrap-server "$TARGET"' in fence
    assert '"$SOURCE"' not in fence
    back = page[page.index("`failback.order`") :]
    assert "drctl gap" not in back
    assert "drctl offsets apply" not in back
