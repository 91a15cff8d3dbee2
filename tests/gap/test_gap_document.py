"""One reader reads `gap.json`, also of earlier versions."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from drctl.model.gap import (
    Counts,
    DiscardedDigests,
    Engine,
    GapResult,
    Inversion,
    LedgerUse,
    NotCompared,
    OrderCounts,
    OrderScope,
    PartitionGap,
    TopicGap,
    Window,
)
from drctl.model.gap_document import read_document
from drctl.model.topology import OffsetRange
from drctl.reconcile.gap_result import read_gap
from drctl.views.run_completion import gap_results
from tests.cli.documents import check

ADDED_SINCE = ("topic_id", "target_topic_id", "inversions", "repeated", "truncation")
"""Fields that are missing in documents of earlier versions."""


def whole() -> GapResult:
    """Return a result that uses every field of the document."""
    part = PartitionGap(
        partition=3,
        source_range=OffsetRange(10, 100),
        target_range=OffsetRange(4, 97),
        counts=Counts(90, 93, 3, 4, 5, 6, 7, 8),
        order=OrderCounts(1, 1, 1, inversions=2),
        bytes=412,
        ranges=((97, 97), (99, 99)),
        ranges_total=7,
        misplaced=1,
        oldest_timestamp=1_700_000_000_000,
        newest_timestamp=1_700_000_000_900,
        repeated=1,
        window=Window("orders", 3, 10, 4, 95, "Connect says so", 85, whole=False),
    )
    missing = PartitionGap(4, OffsetRange(0, 2), None, Counts(2, 0, 2), OrderCounts(2, 0, 0, 0))
    ledger = LedgerUse(
        "here", 5, 6, False, (DiscardedDigests("orders", "source", 3, "cut"),), "full"
    )
    return GapResult(
        link="main",
        scope="tail",
        source="primary",
        source_id="one",
        target="secondary",
        target_id="two",
        started=datetime(2026, 11, 22, 4, tzinfo=UTC),
        seconds=1.5,
        out="out",
        topics=(
            TopicGap("orders", "p.orders", (part, missing), ("a note",), "id-one", "id-two"),
            TopicGap("none", "p.none", ()),
        ),
        not_compared=(NotCompared("pay", None, "no answer"), NotCompared("pay", 1, "no leader")),
        ledger=ledger,
        within=OrderScope.PARTITION,
        inversions=(Inversion("orders", 3, 20, 3, 14, 19, 15),),
        engine=Engine.SPARK,
    )


def before(document: dict[str, Any]) -> dict[str, Any]:
    """Return it as earlier versions wrote it."""
    old: dict[str, Any] = json.loads(json.dumps(document))
    for topic in old["topics"]:
        for each in (topic, *topic["partitions"]):
            for name in ADDED_SINCE:
                each.pop(name, None)
    old.pop("inversions")
    old["order"].pop("within")
    old["order"]["inversions"] = None
    return old


def test_a_result_survives_a_round_trip() -> None:
    document = json.loads(json.dumps(whole().to_json()))
    check(document)
    assert read_document(document).result == whole()
    assert json.loads(json.dumps(read_document(document).result.to_json())) == document


def test_the_result_of_a_reverse_direction_names_its_link() -> None:
    back = replace(whole(), link="main-back", reverse_of="main")
    document = json.loads(json.dumps(back.to_json()))
    check(document)
    assert (document["link"], document["reverse_of"]) == ("main-back", "main")
    assert read_document(document).result == back
    assert "reverse_of" not in whole().to_json()


def test_results_of_earlier_versions_are_read() -> None:
    old = before(whole().to_json())
    check(old)
    found = read_document(old).result
    assert {topic.topic_id for topic in found.topics} == {""}
    assert (found.order.inversions, found.inversions) == (None, None)
    assert found.totals == whole().totals
    assert found.topics[0].partitions[0].window == whole().topics[0].partitions[0].window


def test_the_id_does_not_depend_on_the_place_or_the_version_that_reads() -> None:
    """`drctl reconcile` finds its earlier work by it; ids of earlier versions remain."""
    old = before(whole().to_json())
    first = read_document(old).id
    assert first == "ee8f41288b5d623b"
    assert read_document({**old, "out": "elsewhere", "seconds": 9.0}).id == first
    assert read_document({**old, "scope": "full"}).id != first


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ([], "it is damaged"),
        ({}, "it is damaged: KeyError"),
        ({"schema": "drctl/gap-estimate/1"}, "its schema is 'drctl/gap-estimate/1'"),
        ({**whole().to_json(), "started": "2026-11-22T04:00:00"}, "time zone"),
        ({**whole().to_json(), "topics": 3}, "it is damaged"),
    ],
)
def test_documents_that_are_not_results(document: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_document(document)


def test_its_readers_agree(tmp_path: Path) -> None:
    file = tmp_path / "gap" / "main" / "gap.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(whole().to_json()), encoding="utf-8")
    (found,) = gap_results(tmp_path)
    acted_on = read_gap(file.read_text(encoding="utf-8"), "main")
    assert acted_on.id == read_document(whole().to_json()).id
    assert {p.place: p.source_range.end for p in acted_on.partitions} == found.ends
    assert sum(p.unreplicated for p in acted_on.partitions) == found.result.totals.unreplicated == 5
    assert [p.source_topic_id for p in acted_on.partitions] == ["id-one", "id-one"]
    assert acted_on.not_compared[:2] == ("pay: no answer", "pay-1: no leader")
