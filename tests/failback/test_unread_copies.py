"""A failback commits no offset after an original whose copy the group has not read."""

import pytest

from drctl.failback.observers import copies
from drctl.failback.unread_copies import (
    CommittedOffsets,
    CopiedRecords,
    Copy,
    find_copies,
    held_back,
    last_copies,
    unread_from,
)
from drctl.model.gap import OrderVerdict
from drctl.model.groups import Committed
from drctl.model.topology import TopicPartition, Unavailable
from drctl.offsets.applying import Bounds, Wanted
from drctl.reconcile.policy import Action
from drctl.reconcile.progress import Key, Progress, RecordSet, Segment
from tests.failback.observed import origin, reader, record

PLACE = TopicPartition("orders", 0)
COPIES = {PLACE: (Copy(20, 10), Copy(21, 11), Copy(25, 12))}
"""Source offsets 10 to 12 precede the new records on the primary; their copies follow these on the
secondary."""

BROUGHT = CopiedRecords({PLACE: 25}, COPIES)


def moved(at: int, to: int) -> Wanted:
    committed = {"app": {PLACE: Committed(at)}}
    wanted = Wanted("app", PLACE, Committed(to), Bounds(0, 0))
    (found,) = held_back([wanted], committed, BROUGHT)
    return found


@pytest.mark.parametrize(
    ("at", "to", "expected", "rereads"),
    [
        (5, 5, 5, 0),  # the group has read no new record
        (15, 18, 10, 8),  # the group has read some new records, and no copy
        (21, 30, 11, 19),  # the group has also read one copy
        (25, 30, 12, 18),
        (26, 30, 30, 0),  # the group has read all copies
    ],
)
def test_a_group_reads_again_rather_than_skip(
    at: int, to: int, expected: int, rereads: int
) -> None:
    found = moved(at, to)
    assert found.to == Committed(expected)
    assert found.bounds == Bounds(rereads, 0)


def test_a_group_that_lags_too_far_is_not_moved() -> None:
    wanted = Wanted("app", PLACE, Committed(3), Bounds(0, 0))
    committed = {"app": {PLACE: Committed(3)}}
    (found,) = held_back([wanted], committed, CopiedRecords({PLACE: 25}, {}, frozenset({PLACE})))
    assert "reconciled" in found.blocked


def test_offsets_without_a_translation_stay() -> None:
    rows = (Wanted("app", PLACE, None, blocked="no evidence"), Wanted("none", PLACE, Committed(30)))
    committed: CommittedOffsets = {"app": {PLACE: Committed(3)}, "none": {}}
    assert held_back(rows, committed, BROUGHT) == rows


def test_a_group_with_unknown_progress_is_not_moved() -> None:
    """It might skip the originals; without reconciled records there is nothing to skip."""
    other = TopicPartition("orders", 1)
    rows = [Wanted("dark", place, Committed(30), Bounds(0, 0)) for place in (PLACE, other)]
    committed: CommittedOffsets = {"dark": Unavailable("its coordinator is silent")}
    found, elsewhere = held_back(rows, committed, BROUGHT)
    assert found.blocked.endswith("reconciled records: its coordinator is silent")
    assert elsewhere == rows[1]
    assert held_back(rows[:1], {}, BROUGHT)[0].blocked


def test_only_copies_of_this_cluster_count() -> None:
    def kept(action: Action, to: str, last: int, link: str = "home") -> tuple[Key, Progress]:
        record_set = RecordSet(PLACE, OrderVerdict.SAFE)
        return Key(f"r{last}", link, record_set), Progress(
            "", "", (Segment(action, 9, 1, 1, 0, to, last),)
        )

    progress = dict(
        (
            kept(Action.COPY, "orders", 21),
            kept(Action.COPY, "orders", 20),
            kept(Action.QUARANTINE, "__drctl_quarantine.orders", 40),
            kept(Action.COPY, "orders", 50, "another"),
        )
    )
    assert last_copies(progress, "home") == {PLACE: 21}


def test_no_search_if_all_groups_have_read_all_copies() -> None:
    committed: CommittedOffsets = {
        "a": {PLACE: Committed(22)},
        "b": {PLACE: Committed(21)},
        "c": Unavailable("gone"),
    }
    assert unread_from({PLACE: 21}, committed) == {PLACE: 21}
    assert unread_from({PLACE: 20}, committed) == {}


@pytest.mark.parametrize("at_once", [1, 2, 50_000])
def test_copies_are_found_up_to_the_last_one(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(copies, "AT_ONCE", at_once)
    monkeypatch.setattr(copies, "_LEAST", 1)

    payments = TopicPartition("payments", 0)
    headers = {
        18: (),
        20: (origin("home", 10),),
        21: (origin("another", 11),),
        22: (origin("home", 12),),
        23: (),
        24: (origin("home", 3, payments),),
        25: (origin("home", 13),),
    }
    log = reader(*(record(offset, "k", 1, *each) for offset, each in headers.items()))
    assert find_copies(log, {PLACE: 18}, {PLACE: 22}, "home") == {
        PLACE: [Copy(20, 10), Copy(22, 12)]
    }
    processed = "what a stream processor made of a copy is none"
    assert find_copies(log, {PLACE: 23}, {PLACE: 25}, "home") == {PLACE: [Copy(25, 13)]}, processed
    there = TopicPartition("primary.orders", 0)
    named = find_copies(log, {there: 23}, {there: 25}, "home", lambda _name: "orders")
    assert named == {there: [Copy(25, 13)]}
