"""Every trap on real brokers: `drctl gap` says what was worked out by hand, and the reference."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from drctl.model.gap import RecordClass
from tests.cluster import reference
from tests.cluster.logs import TopicLog
from tests.cluster.scenario import Analysed, numbers_of
from tests.cluster.traps import HOSTILE, TRAPS, Trap

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

SCHEMA = Path(__file__).parents[2] / "drctl" / "schemas" / "gap-1.json"


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


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
def test_a_trap_worked_out_by_hand(traps: Analysed, trap: Trap) -> None:
    agree_with_hand(traps, trap)


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
def test_a_trap_and_the_reference(traps: Analysed, trap: Trap) -> None:
    agree_with_reference(traps, trap)


def test_links_out_of_the_ordinary(linked: Analysed) -> None:
    assert linked.ended.code == 1
    for trap in linked.scenario.traps:
        agree_with_hand(linked, trap)
        agree_with_reference(linked, trap)


def test_the_whole_answer(traps: Analysed) -> None:
    document = traps.document
    assert traps.ended.code == 1
    assert document == traps.ended.gap()
    jsonschema.validate(document, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert document["complete"]
    assert document["not_compared"] == []
    assert document["totals"]["unreplicated"] == sum(t.expected.unreplicated for t in TRAPS)
    assert document["totals"]["superseded"] == sum(t.expected.superseded for t in TRAPS)
    assert document["order"]["unkeyed"] == sum(t.expected.unkeyed for t in TRAPS)
    assert sorted(p.name for p in traps.ended.out.iterdir()) == [
        *("gap.html", "gap.json", "others", "records")
    ]


def test_the_page_shows_hostile_keys_as_text(traps: Analysed) -> None:
    page = (traps.ended.out / "gap.html").read_text(encoding="utf-8")
    assert "hostile" in page
    for key, value in HOSTILE:
        for text in (key, value):
            if text.startswith((b"<", b"{{")):
                assert text.decode() not in page
    assert not [c for c in page if c < " " and c not in "\n\t"]
    assert "\u202e" not in page


@pytest.fixture(scope="module")
def parquet(traps: Analysed, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The rows of `records` and of `others`, read by another Spark."""
    folders = [traps.ended.out / name for name in ("records", "others")]
    log = tmp_path_factory.mktemp("parquet") / "spark.log"
    command = [sys.executable, "-m", "tests.cluster.parquet", str(log), *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    rows = json.loads(done.stdout)
    return {folder.name: rows[str(folder)] for folder in folders}


def test_the_records_as_parquet(traps: Analysed, parquet: dict[str, Any]) -> None:
    wanted: dict[str, list[dict[str, Any]]] = {"records": [], "others": []}
    same = reference.identity(traps.scenario.settings)
    for trap in TRAPS:
        topic = traps.scenario.topic(trap)
        for v in reference.verdicts(trap, same, True, *logs_of(traps, trap))[0]:
            folder = "records" if v.record_class is RecordClass.UNREPLICATED else "others"
            row = {
                "topic": topic,
                "partition": v.record.partition,
                "offset": v.record.offset,
                "timestamp": v.record.timestamp_ms,
                "key": None if v.record.key is None else v.record.key.hex(),
                "size": reference.size(v.record),
                "class": str(v.record_class),
                "order": str(v.order),
                "misplaced": v.misplaced,
            }
            wanted[folder].append(row)
    for folder, rows in wanted.items():
        assert sorted(parquet[folder], key=_place) == sorted(rows, key=_place)


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["topic"], row["partition"], row["offset"]
