"""The first complete comparison after a run completes its report."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from drctl.model.gap import Counts, GapResult, NotCompared, PartitionGap, TopicGap
from drctl.model.topology import OffsetRange
from drctl.views import run_markdown, run_page
from drctl.views.run_completion import completed, gap_results
from drctl.views.run_data import ReportData
from drctl.views.run_json import ReportDocument, RunDocument
from drctl.views.run_lines import figures, known, next_steps, unknown
from drctl.views.run_words import verdict
from tests.cli.documents import check
from tests.report import runs
from tests.report.runs import LOST, Part, Run

TOPICS = ("orders", "payments")
EVIDENCE = ["replication was alive 4.5 s ago: a heartbeat", "not known: Connect: no answer"]
LOSS = Part(
    "about 1,240 records of the last 4.5 s are probably not replicated",
    {"records": 1240, "at_least": 12, "at_most": 3100, "seconds": 4.5, "evidence": EVIDENCE},
    {"topics": list(TOPICS)},
)


@pytest.fixture(scope="module")
def ran() -> ReportData:
    """Return an unplanned failover."""
    return Run(runs.unplanned()).play({**LOST, "measure-loss": LOSS}).data


def result(ran: ReportData, after_s: float, missing: int, **changed: Any) -> GapResult:
    """Return a gap result this many seconds after the run."""
    topics = changed.pop("topics", TOPICS)
    counts = changed.pop("counts", Counts(unreplicated=missing))
    first = PartitionGap(0, OffsetRange(0, 90), OffsetRange(0, 80), counts)
    if missing:
        first = replace(first, oldest_timestamp=1_000, newest_timestamp=4_500)
    rest = PartitionGap(0, OffsetRange(0, 9), OffsetRange(0, 9), Counts())
    found = GapResult(
        link="main",
        scope="full",
        source="primary",
        source_id="kF2aPrimary",
        target="secondary",
        target_id="zQ9bSec",
        started=ran.until + timedelta(seconds=after_s),
        seconds=3,
        out="",
        topics=tuple(TopicGap(t, t, (rest if n else first,)) for n, t in enumerate(topics)),
    )
    return replace(found, **changed)


def keep(folder: Path, *results: GapResult) -> None:
    """Store results as `drctl gap` does, the later ones as `--every` does."""
    for number, each in enumerate(results):
        place = f"main-{number}" if not number else f"main/{number}"
        file = folder / "gap" / place / "gap.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(each.to_json()), encoding="utf-8")
        at = each.started.timestamp() + each.seconds
        os.utime(file, (at, at))


def with_gap_results(ran: ReportData, folder: Path) -> ReportData:
    return completed(ran, gap_results(folder, ran.until))


def test_before_that_the_loss_is_an_estimate_with_evidence(ran: ReportData, tmp_path: Path) -> None:
    assert with_gap_results(ran, tmp_path) is ran
    assert (ran.rpo.lost.numbers, ran.rpo.exact) == ((12, 1240, 3100), False)
    assert ran.topics == TOPICS
    document = check(ReportDocument.of(ran))
    assert document["rpo"]["evidence"] == EVIDENCE
    for shown in (run_page.render(ran), run_markdown.render(ran)):
        assert "a heartbeat" in shown
        assert "What the loss estimate is based on" in shown


def test_the_first_complete_comparison_makes_it_exact(ran: ReportData, tmp_path: Path) -> None:
    keep(tmp_path, result(ran, 9000, 0), result(ran, 600, 1204), result(ran, 700, 1300))
    data = with_gap_results(ran, tmp_path)
    assert (data.rpo.records, data.rpo.seconds, data.rpo.exact) == (1204, 3.5, True)
    assert check(RunDocument.of(data))["rpo"] == {
        "records": 1204,
        "at_least": 1204,
        "at_most": 1204,
        "seconds": 3.5,
        "exact": True,
    }
    assert check(ReportDocument.of(data))["rpo"]["evidence"] == []
    assert "1,204 records were not replicated" in verdict(data)
    assert figures(data)[2].value == "1,204 records"
    assert figures(data)[2].how == "proven by content"
    assert any("compared everything by content" in each for each in known(data))
    assert any(
        "had estimated about 1,240 records (at least 12, at most 3,100)" in each
        for each in known(data)
    )
    assert "record timestamps 1970-01-01 00:00:01 .. 00:00:04 UTC" in data.rpo.how
    assert not any("left behind" in each for each in unknown(data))
    steps = [step.what for step in next_steps(data)]
    assert "Decide on the 1,204 records that were not replicated." in steps
    assert not any("find what was left behind" in step for step in steps)
    for shown in (run_page.render(data), run_markdown.render(data)):
        assert "1,204 records" in shown
        assert "rests on" not in shown


def test_without_one_timestamp_there_is_no_duration(ran: ReportData, tmp_path: Path) -> None:
    found = result(ran, 600, 12)
    first, rest = found.topics
    timeless = replace(rest.partitions[0], counts=Counts(unreplicated=1))
    topics = (first, replace(rest, partitions=(timeless,)))
    keep(tmp_path, replace(found, topics=topics))
    data = with_gap_results(ran, tmp_path)
    assert (data.rpo.records, data.rpo.seconds, data.rpo.exact) == (13, None, True)
    assert "by their own timestamps" not in data.rpo.how


def test_no_loss_is_proven_too(ran: ReportData, tmp_path: Path) -> None:
    keep(tmp_path, result(ran, 600, 0))
    data = with_gap_results(ran, tmp_path)
    assert (data.rpo.records, data.rpo.seconds, data.rpo.exact) == (0, 0.0, True)
    assert "Every record was replicated" in verdict(data)
    assert not any("left behind" in step.what for step in next_steps(data))


def test_superseded_records_prevent_an_exact_number(ran: ReportData, tmp_path: Path) -> None:
    counts = Counts(unreplicated=1204, superseded=3, expired=1)
    keep(tmp_path, result(ran, 600, 1204, counts=counts))
    data = with_gap_results(ran, tmp_path)
    assert (data.rpo.records, data.rpo.exact) == (1204, False)
    assert figures(data)[2].value == "about 1,204 records"
    assert figures(data)[2].how.startswith("at least 1,204, at most 1,208; ")
    between = "About 1,204 records (at least 1,204, at most 1,208)"
    assert f"{between} may not have been replicated" in verdict(data)
    assert any("4 more records may not have been replicated" in each for each in unknown(data))


NOT_FITTING: Mapping[str, Mapping[str, Any]] = {
    "before the run ended": {"after_s": -1},
    "another link": {"link": "other"},
    "the other direction": {"source": "secondary", "target": "primary"},
    "another cluster of that name": {"source_id": "rebuilt"},
    "another target": {"target_id": "rebuilt"},
    "some topics only": {"topics": TOPICS[:1]},
    "not complete": {"not_compared": (NotCompared("orders", 1, "no leader"),)},
    "undecided": {"counts": Counts(unreplicated=7, undecided=1)},
}


@pytest.mark.parametrize("case", NOT_FITTING)
def test_unrelated_results_do_not_count(case: str, ran: ReportData, tmp_path: Path) -> None:
    ran = replace(ran, ids={"primary": "kF2aPrimary", "secondary": "zQ9bSec"})
    changed = {"after_s": 600, **NOT_FITTING[case]}
    keep(tmp_path, result(ran, missing=7, **changed))
    # The file may be newer than the comparison in it.
    assert completed(ran, gap_results(tmp_path)) is ran


def test_a_run_without_topics_stays_unchanged(ran: ReportData, tmp_path: Path) -> None:
    keep(tmp_path, result(ran, 600, 7))
    assert with_gap_results(replace(ran, topics=()), tmp_path).rpo.exact is False


def test_runs_that_need_no_completion(tmp_path: Path) -> None:
    for name in ("done", "rolled-back", "interrupted"):
        data = runs.EVERY[name]().data
        keep(tmp_path / name, result(replace(data, topics=TOPICS), 600, 7))
        assert with_gap_results(data, tmp_path / name) is data


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": "drctl/gap/2"}', '{"schema": "drctl/gap/1", "topics": 3}']
)
def test_documents_that_are_not_results_are_ignored(text: str, tmp_path: Path) -> None:
    file = tmp_path / "gap" / "x" / "gap.json"
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    assert list(gap_results(tmp_path)) == []
    assert list(gap_results(tmp_path / "nowhere")) == []


def test_only_recent_results_are_opened(ran: ReportData, tmp_path: Path) -> None:
    keep(tmp_path, result(ran, 600, 7), result(ran, 700, 8), result(ran, 5, 9))
    since = ran.until + timedelta(seconds=650)
    assert [each.result.totals.unreplicated for each in gap_results(tmp_path, since)] == [8]
    assert [each.result.totals.unreplicated for each in gap_results(tmp_path)] == [8, 7, 9]
    assert next(gap_results(tmp_path)).result.started.astimezone(UTC) > datetime(
        2026, 1, 1, tzinfo=UTC
    )
