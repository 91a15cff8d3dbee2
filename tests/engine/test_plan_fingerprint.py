"""A saved plan is recognized as the same plan, and any difference is named."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drctl.model.loss import Mode
from drctl.model.plan import Duty, Plan, Step, changes
from drctl.plans.failover import failover
from drctl.plans.inputs import PlanInputs

SECONDS = st.one_of(st.integers(0, 10**9), st.floats(0, 1e9), st.integers(0, 10**6).map(float))
TEXTS = st.text(max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | SECONDS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
STEPS = st.builds(
    Step, TEXTS, TEXTS, st.dictionaries(TEXTS, VALUES, max_size=3), SECONDS, st.sampled_from(Duty)
)
WORDS = st.dictionaries(TEXTS, TEXTS, max_size=3)
SEVERAL = st.lists(STEPS, max_size=4, unique_by=lambda step: step.id).map(tuple)
PLANS = st.builds(Plan, TEXTS, TEXTS, TEXTS, TEXTS, SEVERAL, WORDS, WORDS)
PLAN = failover(
    Mode.PLANNED, PlanInputs("main", "a", "b", ("User:app",), ("mm2",), basis={"topics": "3"})
)


@pytest.mark.slow
@given(PLANS)
def test_a_plan_keeps_its_fingerprint_in_a_file(plan: Plan) -> None:
    read = Plan.from_json(json.loads(json.dumps(plan.to_json())))
    assert read == plan
    assert read.fingerprint == plan.fingerprint
    assert changes(plan, read) == ()


@pytest.mark.slow
@given(PLANS, PLANS)
def test_plans_with_one_fingerprint_are_equal(one: Plan, other: Plan) -> None:
    written = [json.dumps(plan.to_json(), sort_keys=True) for plan in (one, other)]
    same = written[0] == written[1]
    assert same == (one.fingerprint == other.fingerprint)
    assert bool(changes(one, other)) == (not same)


@pytest.mark.parametrize("bad", [None, "60", True, [60]])
def test_a_timeout_that_is_not_a_number_is_refused(bad: Any) -> None:
    written = PLAN.to_json()
    written["steps"][0]["timeout_seconds"] = bad
    with pytest.raises(ValueError, match="is not a number"):
        Plan.from_json(written)


def with_steps(*steps: Step) -> Plan:
    return replace(PLAN, steps=steps)


def test_differences_are_named() -> None:
    first, second, *others = PLAN.steps
    assert changes(PLAN, replace(PLAN, basis={"topics": "4", "groups": "2"})) == (
        "groups: missing -> 2",
        "topics: 3 -> 4",
    )
    assert changes(PLAN, replace(PLAN, target="c", overrides={"lag": "a drill"})) == (
        "override lag: missing -> a drill",
        "to: b -> c",
    )
    assert changes(PLAN, with_steps(first, *others)) == ("step snapshot-state: there -> missing",)
    assert changes(with_steps(first, *others), PLAN) == ("step snapshot-state: missing -> there",)
    slow = replace(second, timeout_s=31, duty=Duty.OPTIONAL, settings={"clusters": ["a"]})
    assert changes(PLAN, with_steps(first, slow, *others)) == (
        'step snapshot-state, clusters: ["a", "b"] -> ["a"]',
        'step snapshot-state, connectors: ["mm2"] -> missing',
        'step snapshot-state, its duty: "required" -> "optional"',
        "step snapshot-state, its timeout: 30 -> 31",
    )
    (turned,) = changes(PLAN, with_steps(second, first, *others))
    assert turned.startswith("the order of its steps: preflight, snapshot-state, fence-producers, ")
    assert " -> snapshot-state, preflight, fence-producers, " in turned
