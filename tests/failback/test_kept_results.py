"""Which results of `drctl gap` are found on this host, and which of their records are shown."""

import json
from datetime import UTC, datetime
from pathlib import Path

from drctl.app.reconcile_adapters import NEWEST, kept, named, with_id
from drctl.gap.summing import MissingRow
from drctl.model.gap import (
    Counts,
    GapResult,
    OrderCounts,
    OrderVerdict,
    PartitionGap,
    RecordClass,
    TopicGap,
)
from drctl.model.topology import OffsetRange
from drctl.stores.parquet import ParquetRecords

ORDERS = (*["safe"] * 3, *["conflicting"] * 4, *["unkeyed"] * 2)


def result(folder: Path, hour: int) -> Path:
    """Write a result with nine unreplicated records, as `drctl gap` does."""
    folder.mkdir(parents=True)
    part = PartitionGap(
        0,
        OffsetRange(0, 9),
        OffsetRange(0, 0),
        Counts(unreplicated=9),
        OrderCounts(3, 4, 2),
        ranges=((0, 8),),
        ranges_total=1,
    )
    ends = ("primary", "one", "secondary", "two")
    started = datetime(2026, 11, 22, hour, tzinfo=UTC)
    whole = GapResult(
        "main", "full", *ends, started, 1.0, str(folder), (TopicGap("t", "t", (part,)),)
    )
    ParquetRecords(folder).write(
        MissingRow(
            *("t", 0, offset, 1_700_000_000_000 + offset, None if order == "unkeyed" else b"k"),
            *(10, RecordClass.UNREPLICATED, OrderVerdict(order), False, False),
        )
        for offset, order in enumerate(ORDERS)
    )
    (folder / "gap.json").write_text(json.dumps(whole.to_json()), encoding="utf-8")
    return folder


def test_results_of_the_link_newest_first(tmp_path: Path) -> None:
    gap = tmp_path / "gap"
    result(gap / "main-20261122T010000.000000Z", 1)
    result(gap / "main-20261122T030000.000000Z", 3)
    result(gap / "main" / "20261122T020000.000000Z", 2)
    result(gap / "main-eu-20261122T040000.000000Z", 4)
    (gap / "main-20261122T050000.000000Z").mkdir()
    assert [each.started.hour for each in kept(tmp_path, "main")] == [3, 2, 1]
    assert [each.started.hour for each in kept(tmp_path, "main-eu")] == [4]
    assert kept(tmp_path / "nowhere", "main") == ()


def test_examples_show_conflicting_records_first(tmp_path: Path) -> None:
    found = named(result(tmp_path / "out", 1))
    assert [each.order for each in found.samples] == [*["conflicting"] * 4, "unkeyed"]
    assert (found.samples[0].offset, found.samples[0].timestamp_ms) == (3, 1_700_000_000_003)
    assert (found.samples[0].key, found.samples[4].key) == (b"k", None)
    assert found.id


def test_an_old_result_is_found_by_its_id(tmp_path: Path) -> None:
    gap = tmp_path / "gap"
    for hour in range(NEWEST + 2):
        result(gap / "main" / f"20261122T{hour:02}0000.000000Z", hour)
    oldest = named(gap / "main" / "20261122T000000.000000Z")
    assert oldest.id not in {each.id for each in kept(tmp_path, "main")}
    assert [each.id for each in with_id(tmp_path, "main", {oldest.id})] == [oldest.id]
    assert list(with_id(tmp_path, "other", {oldest.id})) == []
