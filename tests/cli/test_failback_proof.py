"""Records in flight during a comparison are no loss; older missing ones are."""

from dataclasses import replace

import pytest

from drctl.app.comparisons import _missing, _without_new
from drctl.app.failback_search import unreplicated_before
from drctl.engine.failback_state import Search
from drctl.engine.kind import State
from drctl.engine.ports import Missing
from drctl.model.gap import Counts
from drctl.model.typed_json import to_json
from tests.engine.test_failback_steps import ENDS, Around, check, verify
from tests.report.gaps import gap, result, topic


def test_only_copies_present_at_the_comparison_count() -> None:
    before = result(topic("orders", gap(0, 100), gap(1, 100)))
    later = result(topic("orders", gap(0, 105, missing=8), gap(1, 110, missing=4)))
    assert unreplicated_before(later, before) == 3
    assert unreplicated_before(later, result()) == 0, (
        "records of a topic created since may be in flight"
    )


def test_all_copies_count_if_ranges_are_incomplete() -> None:
    many = replace(gap(0, 110, missing=10), ranges_total=2)
    assert (
        unreplicated_before(result(topic("orders", many)), result(topic("orders", gap(0, 100))))
        == 10
    )


@pytest.mark.parametrize(
    ("records", "repeated", "of_them_before", "left"),
    [
        (7, 7, 7, 0),  # no record is new: all seven are known duplicates
        (10, 7, 7, 3),  # the three in flight may be the duplicates: three count as missing
        (10, 2, 7, 7),
        (10, 7, 0, 0),
    ],
)
def test_in_flight_records_hide_no_missing_record_beside_duplicates(
    records: int, repeated: int, of_them_before: int, left: int
) -> None:
    found = _without_new(Missing(records, repeated=repeated), of_them_before)
    assert found.records == of_them_before
    assert found.but_for(7) == left


def test_an_open_transaction_of_the_source_prevents_proof() -> None:
    """A fence denies writes; records written before may still be committed."""
    counts = Counts(97, 97, 0, undecided=3)
    found = _missing(result(topic("orders", gap(0, 100, counts=counts), gap(1, 100))))
    open_ = "orders-0: 3 offsets follow an open transaction: commit or abort it on the source"
    assert (found.records, found.not_compared, found.undecided) == (0, (), (open_,))
    world = Around(found=found)
    drain = check(
        "drain",
        {"target": "primary"},
        world,
        find_missing=to_json(Search("", 0, 0, 0, 0, {}, {}, duplicated=18)),
    )
    prove = check("verify-copies", {**ENDS, "forward": False}, world)
    for kind, intent in (("drain", drain), ("verify-copies", prove)):
        seen = verify(kind, intent, world)
        assert (seen.state, seen.items) == (State.WAITING, (open_,))
        assert open_ in seen.message
    gapped = verify("gap", {"scope": "full", "at_most": 5}, world)
    assert (gapped.state, gapped.items) == (State.UNKNOWN, (open_,))


def test_replication_lag_ignores_transaction_markers() -> None:
    """Applications continue to write; the drain waits for their open transactions."""
    world = Around(found=Missing(0, undecided=("orders-0: 3 offsets",)))
    seen = verify("wait-for-catch-up", {"scope": "tail", "at_most": 5}, world)
    assert seen.state is State.DONE
