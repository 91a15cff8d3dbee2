"""Ground truth of a failback: a lost, duplicated, skipped or reordered record is detected."""

from drctl.lab.loading import Row
from drctl.lab.scenarios.clients import GroupReads
from drctl.lab.scenarios.lost_primary import ClusterCheck, check_cluster, skipped

ROWS = tuple(Row(n, key, str(n).encode(), n) for n, key in enumerate((b"a", b"b", b"a", None)))
ALL = frozenset(range(4))
NONE: frozenset[bytes] = frozenset()


def held(*rows: int) -> dict[tuple[int, int], bytes]:
    return {(0, n): str(row).encode() for n, row in enumerate(rows)}


def test_a_complete_ordered_cluster_is_correct() -> None:
    found = check_cluster("primary", held(0, 3, 1, 2), ALL, ROWS, NONE)
    assert found == ClusterCheck("primary", 4, lost=0, duplicated=0, out_of_order=0)
    assert found.correct


def test_lost_duplicated_and_out_of_order_records_are_counted() -> None:
    assert check_cluster("p", held(0, 1, 2), ALL, ROWS, NONE).lost == 1
    assert check_cluster("p", held(0, 1, 2), ALL, ROWS, frozenset({b"3"})).correct
    assert check_cluster("p", held(0, 1, 1, 2, 3), ALL, ROWS, NONE).duplicated == 1
    while_stalled = check_cluster("p", held(2, 0, 1, 3), ALL, ROWS, NONE)
    assert (while_stalled.out_of_order, while_stalled.correct) == (1, False)


def test_unacknowledged_records_may_be_missing() -> None:
    assert check_cluster("p", held(0, 1, 2), ALL - {3}, ROWS, NONE).correct


def test_a_record_read_on_any_cluster_is_not_skipped() -> None:
    on_primary = held(0, 1, 2, 3).values()
    assert skipped(on_primary, NONE, ({b"0", b"1"}, {b"3"})) == 1
    assert skipped(on_primary, {b"2"}, ({b"0", b"1"}, {b"3"})) == 0


def test_uncommitted_records_do_not_count_as_consumed() -> None:
    assert GroupReads(held(0, 1, 2), {0: 2}).finished == {b"0", b"1"}
    assert GroupReads(held(0, 1, 2), {}).finished == set()
