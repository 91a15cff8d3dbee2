"""A runbook that leads home: the engine's own plan, between what people do."""

from dataclasses import replace

import pytest

from drctl import resources
from drctl.model.errors import ConfigError
from drctl.plans.failback import failback, is_failback, turned
from drctl.plans.inputs import Circumstances
from drctl.runbook.building import build
from drctl.runbook.reading import load
from drctl.runbook.rendering import render
from tests.runbook.links import FULL, LINKS, runbook

SHIPPED = load(resources.shipped("runbooks") / "failback.yaml")
HOME = "sequence: {name: failback, policy: copy}"


@pytest.mark.parametrize("seen", LINKS.values(), ids=list(LINKS))
def test_the_shipped_one_goes_the_whole_way_of_drctl_failback(seen: Circumstances) -> None:
    way = turned(seen, tuple(f"{name}-home" for name in seen.connectors))
    plan = build(
        SHIPPED, {"policy": "copy", "conflicting": "quarantine"}, replace(seen, failback=way)
    )
    assert (plan.source, plan.target) == (seen.target, seen.source)
    made = [step for step in plan.steps if step.id.startswith("failback.")]
    wanted = failback(replace(way, policy="copy", conflicting="quarantine")).steps
    for ours, theirs in zip(made, wanted, strict=True):
        settings = dict(theirs.settings)
        if "question" in settings:
            settings["question"] = ours.id
        assert ours == replace(theirs, id=f"failback.{theirs.id}", settings=settings)
    others = {step.kind for step in plan.steps if step not in made}
    assert others <= {"manual", "manual-check"}


def test_it_is_known_before_anybody_has_looked() -> None:
    assert SHIPPED.is_failback
    assert is_failback(build(SHIPPED, {"policy": "copy"}, FULL).steps)
    assert runbook("{id: go, sequence: failback}").is_failback
    assert not runbook("{id: go, sequence: failover-planned}").is_failback


def test_a_step_that_looks_along_the_link_does_not_stand_beside_it() -> None:
    book = runbook(f"{{id: go, {HOME}}}", "{id: prove, gap: {scope: tail}}")
    with pytest.raises(ConfigError, match="prove uses the link in the opposite direction"):
        build(book, {}, FULL)


def test_which_sequence_it_is_stands_in_the_file() -> None:
    with pytest.raises(ConfigError, match="must be a literal, not a parameter"):
        runbook('{id: go, sequence: "${what}"}', parameters="{what: {type: string, about: x}}")


def test_only_a_way_home_decides_on_records() -> None:
    book = runbook("{id: go, sequence: {name: failover-planned, policy: copy}}")
    with pytest.raises(ConfigError, match="failover-planned does not reconcile records"):
        build(book, {}, FULL)


def test_command_lines_on_its_page_are_for_the_cluster_that_is_left() -> None:
    page = render(SHIPPED, FULL, {"policy": "copy"})
    fence = page[page.index("`failback.fence-producers`") : page.index("`failback.drain`")]
    assert '--bootstrap-server "$TARGET"' in fence
    assert '"$SOURCE"' not in fence
    way = page[page.index("`failback.order`") :]
    assert "drctl gap" not in way
    assert "drctl offsets apply" not in way
