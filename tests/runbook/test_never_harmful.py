"""No runbook makes a plan that breaks a rule; lint reports it first."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import event, given, settings
from hypothesis import strategies as st

from drctl.engine.invariants import violations
from drctl.model.errors import ConfigError, UsageError
from drctl.model.plan import Plan
from drctl.plans.inputs import FenceMethod, PlanInputs
from drctl.runbook.allowlist import Allowlist
from drctl.runbook.building import broken_rules, build
from drctl.runbook.linting import plan_problems
from drctl.runbook.reading import Runbook, parse_runbook
from drctl.runbook.when import FACTS
from drctl.steps.registry import KINDS
from tests.depth import examples

SHORT: tuple[Mapping[str, Any], ...] = (
    {"step": "preflight"},
    {"step": "snapshot-state"},
    {"step": "fence-producers"},
    {"step": "abort-transactions"},
    {"step": "drain"},
    {"step": "quiesce-consumers"},
    {"step": "stop-replication"},
    {"step": "prepare-groups"},
    {"step": "commit-offsets"},
    {"step": "advance-producer-ids"},
    {"step": "enable-writes"},
    {"step": "switch-endpoint"},
    {"step": "switch-endpoint", "with": {"endpoint": 2}},
    {"step": "verify-clients"},
    {"step": "manual-fence", "with": {"text": "x", "undo": "y"}},
    {"step": "manual-start-replication", "with": {"text": "x"}},
    {"step": "manual-reconcile", "with": {"text": "x"}},
    {"step": "manual-check", "with": {"text": "x"}},
    {"command": {"argv": ["x"]}},
    {"check": ["mm2-topics"]},
    {"gap": {"scope": "tail"}},
    {"manual": "x"},
    {"sequence": "failover-planned"},
    {"sequence": "failover-unplanned"},
)
WHENS = (
    None,
    None,
    None,
    "source == reachable",
    "source == unreachable",
    "fence == acl",
    "endpoints > 1",
    "endpoints > 7 and endpoints < 9",
    "not replicator == none",
)
ORDERED = SHORT[:13]
MANY = len(ORDERED)

steps = st.lists(
    st.tuples(
        st.sampled_from(SHORT), st.sampled_from(WHENS), st.sampled_from([None, None, "optional"])
    ),
    min_size=1,
    max_size=10,
)
# Almost valid: most steps of a switchover, in order, with some errors.
nearly = st.tuples(
    st.lists(
        st.sampled_from((True, True, True, True, True, False)),
        min_size=len(ORDERED),
        max_size=len(ORDERED),
    ),
    st.lists(st.sampled_from((None,) * 15 + WHENS), min_size=MANY, max_size=MANY),
).map(
    lambda drawn: (
        [
            (step, when, None)
            for step, kept, when in zip(ORDERED, drawn[0], drawn[1], strict=True)
            if kept
        ]
        or [(SHORT[0], None, None)]
    )
)
circumstances = st.builds(
    lambda source, replicator, fence, connectors, endpoints: PlanInputs(
        "main",
        "primary",
        "secondary",
        ("User:a",),
        tuple(f"c{n}" for n in range(connectors)),
        ("dns",) * endpoints,
        replicator=replicator,
        fence_method=fence,
        fence_command=("f",),
        source_answers=source,
    ),
    st.booleans(),
    st.sampled_from(FACTS["replicator"].values),
    st.sampled_from(list(FenceMethod)),
    st.integers(0, 3),
    st.integers(0, 12),
)


def written(drawn: list[tuple[Mapping[str, Any], str | None, str | None]]) -> str:
    found = []
    for number, (step, when, duty) in enumerate(drawn):
        more = {"when": when} if when else {}
        more |= {"duty": duty} if duty and "sequence" not in step else {}
        found.append({"id": f"s{number}", **step, **more})
    return yaml.safe_dump({"name": "x", "about": "x", "steps": found}, sort_keys=False)


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(st.one_of(steps, nearly, nearly), st.lists(circumstances, min_size=1, max_size=4))
def test_every_broken_rule_is_reported_by_lint(
    drawn: list[tuple[Mapping[str, Any], str | None, str | None]], seen: list[PlanInputs]
) -> None:
    runbook, problems = parse_runbook(written(drawn), Path("x.yaml"))
    assert runbook is not None
    assert not problems
    found = list(plan_problems(runbook, Allowlist()))
    event("no lint errors" if not found else "lint errors")
    for each in seen:
        plan, refused = made(runbook, each)
        event("built" if plan else "not built" if refused else "nothing to do")
        assert not refused or found
        if plan is not None:
            assert violations(plan, KINDS) == ()
            assert broken_rules(plan) == ()


def made(runbook: Runbook, seen: PlanInputs) -> tuple[Plan | None, bool]:
    """Return the plan, or whether the runbook has errors."""
    try:
        return build(runbook, {}, seen), False
    except ConfigError:
        return None, True
    except UsageError:
        return None, False
