"""Only `apply` and `undo` of a kind are handed what can write."""

from inspect import signature
from typing import get_type_hints

import pytest

from drctl.engine.ports import CommandEnded, Hands, Look
from drctl.engine.registry import KINDS

WRITES = ("apply", "undo")
LOOKS = ("describe", "check", "verify", "undone")


@pytest.mark.parametrize("name", sorted(KINDS))
def test_each_kind_can_write_where_it_may_and_nowhere_else(name: str) -> None:
    kind = KINDS[name]
    for method in WRITES:
        assert get_type_hints(getattr(kind, method))["hands"] is Hands
    for method in LOOKS:
        asked = getattr(kind, method)
        assert Hands not in get_type_hints(asked).values()
        assert "hands" not in signature(asked).parameters


def test_what_looks_hands_out_nothing_that_writes() -> None:
    # How a command ended is a value, and nothing that writes.
    assert given_by(Hands) & given_by(Look) <= {CommandEnded}


def given_by(port: type) -> set[object]:
    """What its methods return."""
    methods = (each for name, each in vars(port).items() if not name.startswith("_"))
    found = {get_type_hints(method)["return"] for method in methods if callable(method)}
    return found - {type(None)}
