"""Every trap on real brokers: `drctl gap` agrees with the expected result and the reference."""

from dataclasses import replace
from typing import Any

import pytest

from drctl.model.gap import RecordClass
from tests.cli.documents import check
from tests.cluster import reference
from tests.cluster.lab_link import WAYS
from tests.cluster.logs import TopicLog
from tests.cluster.scenario import Analysed, numbers_of
from tests.cluster.traps import HOSTILE, TRAPS, Trap
from tests.parquet.reading import rows_of

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]


def agree_with_hand(analysed: Analysed, trap: Trap) -> None:
    assert numbers_of(analysed.topic(trap)) == replace(trap.expected, notes=())
    notes = analysed.topic(trap)["notes"]
    assert len(notes) == len(trap.expected.notes), notes
    for words, note in zip(trap.expected.notes, notes, strict=True):
        assert words in note


def logs_of(analysed: Analysed, trap: Trap) -> tuple[TopicLog, TopicLog]:
    there = analysed.target.get(analysed.scenario.target_topic(trap), reference.NOWHERE)
    return analysed.source[analysed.scenario.topic(trap)], there


def agree_with_reference(analysed: Analysed, trap: Trap) -> None:
    scenario = analysed.scenario
    same = reference.identity(scenario.settings)
    _, wanted = reference.verdicts(trap, same, scenario.by_partition, *logs_of(analysed, trap))
    assert reference.in_words_of_reference(analysed.topic(trap)) == wanted


@pytest.fixture(scope="module", params=WAYS)
def each(request: pytest.FixtureRequest) -> Analysed:
    """The traps, compared by Spark and without it."""
    found = request.getfixturevalue({"direct": "traps", "spark": "sparks_traps"}[request.param])
    assert isinstance(found, Analysed)
    return found


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
def test_each_trap_has_its_expected_result(each: Analysed, trap: Trap) -> None:
    agree_with_hand(each, trap)


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
def test_each_trap_matches_the_reference(each: Analysed, trap: Trap) -> None:
    agree_with_reference(each, trap)


def test_unusual_links(linked: Analysed) -> None:
    assert linked.ended.code == 1
    for trap in linked.scenario.traps:
        agree_with_hand(linked, trap)
        agree_with_reference(linked, trap)


def test_results_with_and_without_spark_are_equal(traps: Analysed, sparks_traps: Analysed) -> None:
    ours, sparks = traps.document, sparks_traps.document
    assert (ours["engine"], sparks["engine"]) == ("direct", "spark")
    for name in ours.keys() - {"started", "seconds", "out", "engine"}:
        assert ours[name] == sparks[name], name


def test_the_complete_result(each: Analysed) -> None:
    document = each.document
    assert each.ended.code == 1
    assert document == each.ended.gap()
    check(document)
    assert document["complete"]
    assert document["not_compared"] == []
    assert document["totals"]["unreplicated"] == sum(t.expected.unreplicated for t in TRAPS)
    assert document["totals"]["superseded"] == sum(t.expected.superseded for t in TRAPS)
    assert document["order"]["unkeyed"] == sum(t.expected.unkeyed for t in TRAPS)
    assert sorted(p.name for p in each.ended.out.iterdir()) == [
        *("gap.html", "gap.json", "others", "records")
    ]


def test_the_page_shows_hostile_keys_as_text(each: Analysed) -> None:
    page = (each.ended.out / "gap.html").read_text(encoding="utf-8")
    assert "hostile" in page
    for key, value in HOSTILE:
        for text in (key, value):
            if text.startswith((b"<", b"{{")):
                assert text.decode() not in page
    assert not [c for c in page if c < " " and c not in "\n\t"]
    assert "\u202e" not in page


def test_the_records_as_parquet(each: Analysed) -> None:
    wanted: dict[str, list[dict[str, Any]]] = {"records": [], "others": []}
    same = reference.identity(each.scenario.settings)
    for trap in TRAPS:
        topic = each.scenario.topic(trap)
        for v in reference.verdicts(trap, same, True, *logs_of(each, trap))[0]:
            folder = "records" if v.record_class is RecordClass.UNREPLICATED else "others"
            row = {
                "topic": topic,
                "partition": v.record.partition,
                "offset": v.record.offset,
                "timestamp_ms": v.record.timestamp_ms,
                "timestamp": v.record.timestamp_ms,
                "key": v.record.key,
                "size": reference.size(v.record),
                "class": str(v.record_class),
                "order": str(v.order),
                "misplaced": v.misplaced,
                "repeated": v.repeated,
            }
            wanted[folder].append(row)
    for folder, rows in wanted.items():
        found = rows_of(each.ended.out / folder)
        assert sorted(found, key=_place) == sorted(rows, key=_place)


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["topic"], row["partition"], row["offset"]
