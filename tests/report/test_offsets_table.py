"""The output of `drctl offsets apply` and `snapshot` in a terminal."""

from datetime import UTC, datetime

from rich.console import RenderableType

from drctl.model.groups import Committed
from drctl.model.topology import Unavailable
from drctl.offsets.snapshot import Filters, GroupSnapshot, Snapshot
from drctl.views.offsets import plan_table, result_table, snapshot_table
from tests.fakes import group
from tests.offsets.test_apply_runs import PLACES, WANTED, cluster, execute, plan_of
from tests.report.test_gap_table import drawn

EXECUTE, UNDO = "drctl offsets apply --execute", "drctl offsets undo R1"


def lines(what: RenderableType) -> list[str]:
    return [" ".join(line.split()) for line in drawn(what, width=2_000).splitlines()]


def test_a_plan_lists_refusals_and_ends_with_the_command() -> None:
    standing = cluster()
    standing.join("b")
    shown = lines(plan_table(plan_of(standing, WANTED), EXECUTE))
    assert shown[:2] == [
        "Plan for cluster s: 4 to commit, 2 refused",
        "Source of the offsets: a test",
    ]
    assert "Group Topic Part. From To Re-reads Skips What" in shown
    refused, committed = "b t 1 20 50 0 0 refused (group-active)", "a t 0 - 50 0 0 commit"
    assert shown.index(refused) < shown.index(committed)
    assert [line for line in shown if line][-2:] == ["Nothing was written. To write:", EXECUTE]


def test_a_plan_without_a_change() -> None:
    standing = cluster()
    execute(standing, plan_of(standing, WANTED))
    shown = lines(plan_table(plan_of(standing, WANTED), EXECUTE))
    assert shown[0] == "Plan for cluster s: 6 already committed"
    assert [line for line in shown if line][-1] == "Nothing to write."
    assert EXECUTE not in shown


def test_a_result_lists_failures_first_and_the_undo_command() -> None:
    standing = cluster()
    standing.join("b")
    result = execute(standing, plan_of(standing, WANTED)).result
    shown = lines(result_table(result, UNDO))
    assert shown[:2] == [
        "Cluster s: 4 committed, 2 refused",
        "Source of the offsets: a test; took 0.0 s",
    ]
    refused, written = "b t 0 10 50 0 0 refused (group-active)", "a t 0 - 50 0 0 committed"
    assert shown.index(refused) < shown.index(written)
    assert [line for line in shown if line][-2:] == ["To roll back:", UNDO]
    assert UNDO not in lines(result_table(result, ""))


def test_a_snapshot_counts_groups_and_names_those_not_read() -> None:
    held = (GroupSnapshot(group("a"), {PLACES[0]: Committed(5), PLACES[1]: Committed(7)}),)
    taken = datetime(2026, 3, 5, 14, 20, 7, tzinfo=UTC)
    not_read = {"hidden": Unavailable("not authorized for group hidden").reason}
    shown = lines(snapshot_table(Snapshot("s", "id", taken, Filters(), held, not_read), "s.json"))
    assert shown[0] == "s: 1 group, 2 committed offsets"
    assert "hidden: not authorized for group hidden" in shown
    assert shown[-1] == "Saved: s.json"
