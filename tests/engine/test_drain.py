"""The drain is complete only if nothing is missing and everything was compared."""

from typing import cast

import pytest

from drctl.engine.kind import Readback, State
from drctl.engine.ports import LinkReader, Missing
from drctl.steps.registry import KINDS


class Tail:
    """The result of comparing the tail."""

    def __init__(self, found: Missing) -> None:
        self.found = found

    def missing(self) -> Missing:
        return self.found


def drained(found: Missing) -> Readback:
    return KINDS["drain"].verify({}, cast(LinkReader, Tail(found)))


def test_nothing_is_missing() -> None:
    seen = drained(Missing(0))
    assert (seen.state, seen.facts) == (State.DONE, {"missing": 0})


@pytest.mark.parametrize(
    ("found", "words", "items"),
    [
        (Missing(1200, (), ("t-0: 1,200 missing",)), "1,200 records", ("t-0: 1,200 missing",)),
        (
            Missing(0, ("t-1: on its way", "t-2: no leader")),
            "2 partitions are not verified yet",
            None,
        ),
        (Missing(7, ("t-1: on its way",), ("t-0: 7 missing",)), "t-1: on its way", None),
    ],
)
def test_missing_or_uncompared_records_are_awaited(
    found: Missing, words: str, items: tuple[str, ...] | None
) -> None:
    seen = drained(found)
    assert seen.state is State.WAITING
    assert words in seen.message
    assert seen.items == (found.not_compared if items is None else items)


def test_records_decided_earlier_are_reported_and_not_awaited() -> None:
    seen = drained(Missing(0, left_missing_before=6))
    assert (seen.state, seen.facts) == (State.DONE, {"missing": 0})
    assert "except 6 that were quarantined or discarded before" in seen.message
    other = drained(Missing(1, (), ("t-0: 1 missing",), left_missing_before=6))
    assert (other.state, other.items) == (State.WAITING, ("t-0: 1 missing",))
