"""The ordering rules refuse harmful plans, whoever wrote them."""

from itertools import permutations

import pytest

from drctl.engine.invariants import RULES, violations
from drctl.engine.kind import Trait
from drctl.model.plan import Plan, Step
from tests.engine.toggles import kinds, plan


def arranged(*names: str) -> Plan:
    return Plan("test", "main", "a", "b", tuple(Step(name, name) for name in names))


def test_the_sequence_keeps_every_rule() -> None:
    assert violations(plan(), kinds()) == ()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("fence",), "step fence needs an earlier step that runs prechecks"),
        (("preflight", "fence", "stock"), "step fence must come after stock"),
        (("preflight", "stock", "drain"), "step drain needs an earlier step that fences writes"),
        (("preflight", "stock", "fence", "stop", "drain"), "step stop must come after drain"),
        (
            ("preflight", "stock", "fence", "open"),
            "step open needs an earlier step that stops replication",
        ),
        (
            ("preflight", "stock", "stop", "open"),
            "step open needs an earlier step that fences writes",
        ),
        (("preflight", "stock", "switch"), "step switch needs an earlier step that enables writes"),
        (
            ("preflight", "stock", "fence", "stop", "open", "offsets"),
            "step open must come after offsets",
        ),
        (
            ("preflight", "stock", "offsets", "prepare-groups"),
            "step offsets must come after prepare",
        ),
        (
            ("preflight", "stock", "advance-producer-ids", "fence"),
            "step advance-producer-ids must come after",
        ),
        (
            ("preflight", "stock", "fence", "stop", "open", "prepare-groups"),
            "step open must come after prepare-groups",
        ),
        (
            ("preflight", "stock", "fence", "stop", "open", "advance-producer-ids"),
            "step open must come after advance-producer-ids",
        ),
    ],
)
def test_a_plan_out_of_order_is_refused_with_its_reason(
    names: tuple[str, ...], message: str
) -> None:
    lines = violations(arranged(*names), kinds())
    assert any(line.startswith(message) and ": " in line for line in lines), lines


def test_exactly_one_order_of_the_effects_keeps_the_rules() -> None:
    names = ("fence", "drain", "stop", "offsets", "open", "switch")
    kept = [
        order
        for order in permutations(names)
        if not violations(arranged("preflight", "stock", *order), kinds())
    ]
    assert kept == [names]


def test_every_rule_states_its_reason() -> None:
    assert all(rule.why for rule in RULES)
    assert len({(rule.earlier, rule.later) for rule in RULES}) == len(RULES)
    assert all(isinstance(rule.earlier, Trait) for rule in RULES)
