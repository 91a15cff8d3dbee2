"""Values of parameters that users type."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drctl.model.errors import UsageError
from drctl.runbook.schema import ParameterConfig, ParameterType
from drctl.runbook.values import Value, given_values, seconds, shown

DECLARED = {
    "count": ParameterConfig(type="integer", about="x", default=3),
    "side": ParameterConfig(type="choice", about="x", choices=("source", "target")),
    "words": ParameterConfig(type="list", about="x", default=("a", "b")),
}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", "a b ${c}", "a b ${c}"),
        ("string", "", ""),
        ("integer", "-12", -12),
        ("number", "1.50", 1.5),
        ("number", "7", 7.0),
        ("duration", "5m", "5m"),
        ("boolean", "true", True),
        ("boolean", "false", False),
        ("list", " a, b ,,c", ("a", "b", "c")),
        ("list", "", ()),
    ],
)
def test_values_by_type(kind: ParameterType, text: str, value: Value) -> None:
    found = given_values({"p": ParameterConfig(type=kind, about="x")}, {"p": text})
    assert found == {"p": value}
    assert type(found["p"]) is type(value)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("integer", "1.5", "must be a whole number ('1.5')"),
        ("integer", "1_000", "must be a whole number ('1_000')"),
        ("integer", "\u0663", "must be a whole number ('\u0663')"),
        ("number", "nan", "must be a number ('nan')"),
        ("number", "1e5", "must be a number ('1e5')"),
        ("duration", "soon", "must be a duration such as 90s, 5m, 2h or 1d ('soon')"),
        ("duration", "-5m", "must be a duration such as 90s, 5m, 2h or 1d ('-5m')"),
        ("boolean", "yes", "must be true or false ('yes')"),
        ("string", "a\x1b[2J", "must be printable ('a\\x1b[2J')"),
        ("string", "a\nb", "must be printable ('a\\nb')"),
    ],
)
def test_invalid_values_are_rejected(kind: ParameterType, text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        given_values({"p": ParameterConfig(type=kind, about="x")}, {"p": text})
    assert caught.value.message == f"p: {message}"


def test_all_errors_are_reported_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        given_values(DECLARED, {"count": "many", "sied": "source"})
    assert caught.value.message.splitlines() == [
        "sied is not a parameter of this runbook; did you mean 'side'?",
        "count: must be a whole number ('many')",
        "side has no value: use --set side=source|target",
    ]


def test_choices_and_defaults() -> None:
    assert given_values(DECLARED, {"side": "target"}) == {
        "count": 3,
        "side": "target",
        "words": ("a", "b"),
    }
    with pytest.raises(UsageError, match="did you mean 'target'"):
        given_values(DECLARED, {"side": "targt"})


@given(st.integers(0, 10**9 - 1), st.sampled_from(["s", "m", "h", "d", ""]))
def test_durations(number: int, unit: str) -> None:
    factor = {"s": 1, "m": 60, "h": 3600, "d": 86400, "": 1}[unit]
    assert seconds(f"{number}{unit}") == number * factor


@pytest.mark.parametrize("value", [True, None, (), "5 m", "m", "1.5.0", float("inf"), -1])
def test_invalid_durations(value: object) -> None:
    with pytest.raises(ValueError, match="duration"):
        seconds(value)


def test_values_are_shown_as_typed() -> None:
    assert [shown(v) for v in (("a", "b"), True, 1.5, "x")] == ["a,b", "true", "1.5", "x"]
