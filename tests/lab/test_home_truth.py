"""What a homecoming is held against: one record lost, twice, skipped or out of order is seen."""

from drctl.lab.loading import Row
from drctl.lab.scenarios.clients import GroupReads
from drctl.lab.scenarios.lost_primary import Kept, kept_on, skipped

ROWS = tuple(Row(n, key, str(n).encode(), n) for n, key in enumerate((b"a", b"b", b"a", None)))
ALL = frozenset(range(4))
NOBODY: frozenset[bytes] = frozenset()


def held(*rows: int) -> dict[tuple[int, int], bytes]:
    return {(0, n): str(row).encode() for n, row in enumerate(rows)}


def test_a_cluster_that_has_everything_in_order_is_true() -> None:
    found = kept_on("primary", held(0, 3, 1, 2), ALL, ROWS, NOBODY)
    assert found == Kept("primary", 4, lost=0, twice=0, disordered=0)
    assert found.true


def test_what_is_lost_or_twice_or_out_of_order_is_counted() -> None:
    assert kept_on("p", held(0, 1, 2), ALL, ROWS, NOBODY).lost == 1
    assert kept_on("p", held(0, 1, 2), ALL, ROWS, frozenset({b"3"})).true
    assert kept_on("p", held(0, 1, 1, 2, 3), ALL, ROWS, NOBODY).twice == 1
    behind = kept_on("p", held(2, 0, 1, 3), ALL, ROWS, NOBODY)
    assert (behind.disordered, behind.true) == (1, False)


def test_what_was_not_acknowledged_may_be_anywhere() -> None:
    assert kept_on("p", held(0, 1, 2), ALL - {3}, ROWS, NOBODY).true


def test_a_group_has_read_what_it_read_anywhere() -> None:
    home = held(0, 1, 2, 3).values()
    assert skipped(home, NOBODY, ({b"0", b"1"}, {b"3"})) == 1
    assert skipped(home, {b"2"}, ({b"0", b"1"}, {b"3"})) == 0


def test_what_was_read_and_not_committed_is_not_finished() -> None:
    assert GroupReads(held(0, 1, 2), {0: 2}).finished == {b"0", b"1"}
    assert GroupReads(held(0, 1, 2), {}).finished == set()
