"""What truncating or recreating the source would destroy, in numbers and text."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from drctl.cli.gap import appended
from drctl.gap.answer import truncation_of, with_truncation
from drctl.model.gap import Counts, Export, GapResult, NotCompared, OrderVerdict
from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition
from drctl.views.estimate_text import headline, kept, not_covered, procedures, truncation_table
from drctl.views.gap_page import render
from tests.cli.documents import check
from tests.reconcile.world import World, row
from tests.report import gaps


def lossy() -> GapResult:
    """Partitions with missing records in the middle and at the end, expired ones, and none."""
    tail = gaps.gap(
        0,
        100,
        3,
        counts=Counts(100, 97, 3, superseded=2),
        ranges=((40, 40), (98, 99)),
        ranges_total=2,
        other_bytes=50,
    )
    expired = gaps.gap(1, 80, counts=Counts(80, 70, expired=10), other_bytes=1_000)
    return with_truncation(gaps.result(gaps.topic("orders", tail, expired, gaps.gap(2, 9))))


def drawn(result: GapResult) -> str:
    out = StringIO()
    Console(file=out, width=140).print(truncation_table(result, result.truncation))
    return out.getvalue()


def test_a_truncation_starts_where_both_clusters_diverge() -> None:
    found = truncation_of(lossy())
    first, second = found.partitions
    assert (first.cut_from, first.end, first.offsets_cut) == (40, 100, 60)
    assert (first.records, first.bytes, first.others, first.other_bytes) == (3, 636, 2, 50)
    assert (second.cut_from, second.offsets_cut, second.others) == (None, 0, 10)
    assert found.totals == {
        "offsets_cut": 60,
        "records": 3,
        "bytes": 636,
        "others": 12,
        "other_bytes": 1_050,
    }


def test_a_rebuild_also_destroys_records_expired_on_the_target() -> None:
    result = lossy()
    cut, rebuilt = procedures(result, result.truncation)
    assert (cut.records, cut.bytes) == (3, 636)
    assert (rebuilt.records, rebuilt.bytes) == (15, 1_686)
    assert "60 offsets" in cut.meaning


def test_the_terminal_shows_the_loss_and_how_to_keep_records() -> None:
    text = drawn(lossy())
    assert "Up to 15 records (1.7 KB) in 2 partitions would be destroyed" in text
    assert "40-99" in text
    assert "--export DIR" in text


def test_export_is_reported() -> None:
    result = lossy()
    done = replace(result.truncation, export=Export("safe", 2, 1))
    text = kept(result, done)
    assert text.startswith("Exported: 2 records to safe (1 already deleted on the source)")
    assert "--include-superseded" in text
    both = replace(result.truncation, export=Export("safe", 2, 0, 11, 1))
    assert kept(result, both) == (
        "Exported: 2 records to safe; 11 superseded or expired records to safe/others"
        " (1 already deleted on the source)."
    )


def test_records_written_since_the_export_are_reported() -> None:
    result = lossy()
    grown = replace(result.truncation, export=Export("safe", 2, 0, 11, 1, appended=7))
    assert "7 offsets appended to the source since the" in kept(result, grown)
    check(replace(result, truncation=grown).to_json())

    place = TopicPartition("orders", 0)
    seen = World({place: [row(0), row(1)]}, {(place, 0): OrderVerdict.SAFE}, {place: [row(0)]})
    for ends, since in ((1, 0), (5, 4)):
        log = PartitionOffsets(log_start=0, last_stable=ends, end=ends)
        reader = seen.reader()
        moved = replace(reader, source=replace(reader.source, logs={place: log}))
        assert appended(seen.gap, moved) == since
    gone = replace(reader, source=replace(reader.source, logs={}))
    assert appended(seen.gap, gone) == 0


def test_how_to_keep_other_records_is_stated() -> None:
    expired = gaps.gap(0, 10, counts=Counts(10, 0, expired=10), other_bytes=90)
    result = with_truncation(gaps.result(gaps.topic("orders", expired)))
    assert kept(result, result.truncation) == (
        "Export them first:\ndrctl gap truncation --scope full --export DIR --include-superseded"
        " --link main"
    )
    alone = gaps.gap(0, 100, 3, ranges=((97, 99),))
    result = with_truncation(gaps.result(gaps.topic("orders", alone)))
    assert "--include-superseded" not in kept(result, result.truncation)


def test_nothing_to_lose() -> None:
    result = with_truncation(gaps.nothing_missing())
    assert (
        headline(result, result.truncation)
        == "Nothing would be destroyed: secondary holds all of it."
    )
    assert kept(result, result.truncation) == ""
    blind = replace(result, not_compared=(NotCompared("pay", 1, "no leader"),))
    assert "of what was compared" in headline(blind, result.truncation)
    assert len(not_covered(blind)) == 1


@pytest.mark.parametrize("name", ["nothing_missing", "tail_lost", "unknown_only"])
def test_the_document_and_the_page_have_it_only_on_request(name: str) -> None:
    plain = gaps.EVERY[name]()
    asked = with_truncation(plain)
    assert "truncation" not in plain.to_json()
    document = asked.to_json()
    assert document["truncation"]["records"] == plain.totals.unreplicated
    assert 'id="truncation"' not in render(plain)
    page = render(asked)
    assert 'id="truncation"' in page
    assert "<script>document" not in page


def test_the_document_matches_its_schema() -> None:
    result = lossy()
    done = replace(result, truncation=replace(result.truncation, export=Export("safe", 3, 0)))
    both = replace(result, truncation=replace(result.truncation, export=Export("safe", 3, 0, 12)))
    for each in (result, done, both):
        check(each.to_json())


def test_an_empty_range_is_not_cut() -> None:
    expired = gaps.gap(0, 0, counts=Counts(expired=1), source_range=OffsetRange(5, 5))
    (each,) = truncation_of(gaps.result(gaps.topic("orders", expired))).partitions
    assert (each.cut_from, each.offsets_cut) == (None, 0)
