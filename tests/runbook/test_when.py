"""The condition language of `when:`."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drctl.runbook.when import (
    FACTS,
    AndOr,
    Compare,
    Expression,
    InvalidCondition,
    Not,
    Value,
    all_cases,
    observed,
    parse,
)
from tests.runbook.links import BARE, FULL

NOW = observed(FULL)
EMPTY: frozenset[Value] = frozenset()


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("source == reachable", True),
        ("source != reachable", False),
        ("replicator == mirrormaker2 and endpoints > 1", True),
        ("endpoints >= 3 or endpoints < 2", False),
        ("endpoints <= 2", True),
        ("not endpoints > 0", False),
        ("not not endpoints > 0", True),
        ("endpoints == 0 and source == reachable or target == reachable", True),
        ("endpoints == 0 and (source == reachable or target == reachable)", False),
        ("  ( ( fence==acl ) )", True),
        ("not fence == acl or connectors == 2", True),
        ("not (fence == acl or connectors == 2)", False),
    ],
)
def test_conditions(text: str, holds: bool) -> None:
    assert parse(text).holds(NOW) is holds


def test_facts_of_a_link() -> None:
    assert set(NOW) == set(FACTS)
    assert observed(BARE)["source"] == "unreachable"
    assert [observed(BARE)[name] for name in ("fence", "endpoints", "connectors")] == ["none", 0, 0]


def test_cases_have_every_value_and_the_neighbors_of_each_number() -> None:
    found = [
        observed(seen)
        for seen in all_cases(
            {
                "endpoints": frozenset({7}),
                **dict.fromkeys(("source", "target", "replicator"), EMPTY),
            }
        )
    ]
    for name, fact in FACTS.items():
        values = {facts[name] for facts in found}
        if fact.values:
            assert values == set(fact.values)
    assert {facts["endpoints"] for facts in found} == {0, 1, 2, 6, 7, 8}


def text_of(expression: Expression) -> str:
    if isinstance(expression, Compare):
        return f"{expression.fact} {expression.op} {expression.value}"
    if isinstance(expression, Not):
        return f"not ({text_of(expression.inner)})"
    word = " and " if expression.every else " or "
    return word.join(f"({text_of(part)})" for part in expression.parts)


words = st.sampled_from([(n, w) for n, f in FACTS.items() for w in f.values])
numbers = st.tuples(st.sampled_from(["endpoints", "connectors"]), st.integers(0, 100))
atoms = st.one_of(
    st.builds(lambda pair, op: Compare(pair[0], op, pair[1]), words, st.sampled_from(["==", "!="])),
    st.builds(
        lambda pair, op: Compare(pair[0], op, pair[1]),
        numbers,
        st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
    ),
)
expressions: st.SearchStrategy[Expression] = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(
            lambda every, parts: AndOr(every, tuple(parts)),
            st.booleans(),
            st.lists(inner, min_size=2, max_size=3),
        ),
    ),
    max_leaves=8,
)


@given(expressions)
def test_a_formatted_condition_parses_to_itself(expression: Expression) -> None:
    assert parse(text_of(expression)) == expression


def error_in(text: str) -> InvalidCondition | None:
    try:
        parse(text)
    except InvalidCondition as error:
        return error
    return None


@given(st.text(string.printable, max_size=40))
def test_errors_have_a_position(text: str) -> None:
    error = error_in(text)
    assert error is None or 0 <= error.at <= len(text)
    assert error is None or str(error).isprintable()


@pytest.mark.parametrize("text", ["not " * 50 + "endpoints > 0", "(" * 5000, "endpoints > 0 " * 3])
def test_depth_and_length_are_limited(text: str) -> None:
    with pytest.raises(InvalidCondition):
        parse(text)
