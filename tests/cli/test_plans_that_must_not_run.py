"""A plan that is not what was shown, or not what any drctl makes, is not carried out."""

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest

from drctl.cli.runs.plan_run import _refuse_if_changed
from drctl.cli.runs.resume_run import _must_be_of, _must_go_on
from drctl.config.link import Link
from drctl.engine.sequences.circumstances import Circumstances, Mode
from drctl.engine.sequences.failover import failover
from drctl.engine.story import Story
from drctl.model.errors import Refused
from drctl.model.plan import Plan

PLAN = failover(Mode.PLANNED, Circumstances("main", "a", "b", ("User:app",), ("mm2",)))
LINK = cast(Link, SimpleNamespace(name="main", source="a", target="b"))


def story(plan: Plan) -> Story:
    return Story("run-1", plan, {}, datetime.now(UTC))


def test_clusters_that_changed_while_the_name_was_typed() -> None:
    shown = replace(PLAN, basis={"topics of a": "3", "groups": "2"})
    _refuse_if_changed(shown, replace(shown))
    with pytest.raises(Refused, match=r"changed since the plan was made: topics of a: 3 -> 4$"):
        _refuse_if_changed(shown, replace(shown, basis={**shown.basis, "topics of a": "4"}))
    with pytest.raises(Refused, match="groups: 2 -> not there") as refused:
        _refuse_if_changed(shown, replace(shown, basis={"topics of a": "3"}))
    assert refused.value.hint == "make the plan anew"


def test_a_run_is_gone_on_with_between_its_own_clusters() -> None:
    _must_be_of(story(PLAN), LINK)
    with pytest.raises(Refused, match=r"to c, and link main of this drctl\.yaml from a to b"):
        _must_be_of(story(replace(PLAN, target="c")), LINK)


def test_steps_that_nobody_knows() -> None:
    strange = (replace(PLAN.steps[0], kind="paint-it-black"), *PLAN.steps[1:])
    with pytest.raises(Refused, match="does not know: paint-it-black"):
        _must_go_on(story(replace(PLAN, steps=strange)))


def test_a_journal_whose_plan_opens_before_it_fences() -> None:
    unfenced = tuple(step for step in PLAN.steps if step.kind != "fence-producers")
    with pytest.raises(Refused, match=r"plan of run run-1 breaks a rule: step \S+ needs one that"):
        _must_go_on(story(replace(PLAN, steps=unfenced)))
