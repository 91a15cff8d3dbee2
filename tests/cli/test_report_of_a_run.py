"""`drctl report` and `journal` from this host's copy: no cluster is contacted."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from drctl.app import run_journal
from drctl.engine import entries
from drctl.model.gap import Counts, GapResult, PartitionGap, TopicGap
from drctl.model.loss import Mode
from drctl.model.topology import OffsetRange
from drctl.plans.failover import failover
from drctl.plans.inputs import PlanInputs
from drctl.stores.journal_files import RunFiles
from tests.cli.conftest import Run
from tests.cli.documents import check
from tests.report import runs

RUN = "20261122T010203.000000Z"
LATER = "20261122T020304.000000Z"
AT = datetime(2026, 11, 22, 1, 2, 3, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A drctl.yaml with unreachable clusters, and a refused run."""
    clusters = {name: {"bootstrap": f"127.0.0.1:{n}"} for n, name in enumerate(("a", "b"), 1)}
    links = {"main": {"from": "a", "to": "b", "topics": ["t"]}}
    document = yaml.safe_dump({"clusters": clusters, "links": links})
    (tmp_path / "drctl.yaml").write_text(document, encoding="utf-8")
    plan = failover(Mode.PLANNED, PlanInputs("main", "a", "b"))
    with RunFiles(tmp_path / ".drctl" / "runs").create(RUN) as file:
        file.append([entries.began(RUN, plan, {"user": "ada", "host": "h"}, AT)])
        file.append([entries.rolling_back("preflight", "a precheck fails", AT)])
        file.append([entries.ended("refused", AT)])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_unchanged_journal(folder: Path, called: Run) -> None:
    ran = called("report", "--local", "--verify", "-o", "json")
    assert ran.code == 0, ran.stderr
    assert check(ran.document())["schema"] == "drctl/report/1"
    assert not list(folder.glob("report-*")), "--verify has written"


def test_resume_names_the_report_of_the_newest_run_if_none_is_unfinished(
    folder: Path, called: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = RunFiles(folder / ".drctl" / "runs")
    monkeypatch.setattr(run_journal, "reading", lambda *_: copy)
    ran = called("resume", "--execute", "--yes")
    assert (ran.code, ran.stdout) == (2, "")
    assert "link main has no unfinished run" in ran.stderr
    assert f"`drctl report {RUN}`" in ran.stderr
    (folder / ".drctl" / "runs" / RUN / "journal.jsonl").unlink()
    assert "drctl report" not in called("resume").stderr


def test_a_changed_journal(folder: Path, called: Run) -> None:
    file = folder / ".drctl" / "runs" / RUN / "journal.jsonl"
    file.write_bytes(file.read_bytes().replace(b"a precheck fails", b"no precheck fails"))
    ran = called("report", "--local", "--verify")
    assert ran.code == 1, ran.stdout + ran.stderr
    assert "changed" in ran.stdout


@pytest.mark.parametrize(("form", "begins"), [("html", "<!"), ("md", "# "), ("junit", "<?xml")])
def test_each_format(folder: Path, called: Run, form: str, begins: str) -> None:
    ran = called("report", RUN, "--local", "--format", form, "--output-file", "report")
    assert ran.code == 0, ran.stderr
    assert (folder / "report").read_text(encoding="utf-8").lower().startswith(begins)
    assert (folder / "report").stat().st_mode & 0o777 == 0o600


def test_a_run_that_drctl_gap_completes(folder: Path, called: Run) -> None:
    failed_over = runs.Run(runs.unplanned(), name=LATER).play(
        {**runs.LOST, "measure-loss": runs.Part(facts={"records": 9}, intent={"topics": ["t"]})}
    )
    with RunFiles(folder / ".drctl" / "runs").create(LATER) as file:
        file.append(failed_over.entries)
    before = called("report", "--local", "--verify", "-o", "json").document()
    assert (before["run"], before["rpo"]["records"], before["rpo"]["exact"]) == (LATER, 9, False)
    topic = TopicGap("t", "t", (PartitionGap(0, OffsetRange(0, 9), None, Counts(unreplicated=7)),))
    ids = "kF2aPrimary", "zQ9bSec"
    ends = "primary", ids[0], "secondary", ids[1]
    found = GapResult("main", "full", *ends, datetime.now(UTC), 1.0, "", (topic,))
    place = folder / ".drctl" / "gap" / "main-1"
    place.mkdir(parents=True)
    (place / "gap.json").write_text(json.dumps(found.to_json()), encoding="utf-8")
    after = check(called("report", "--local", "--verify", "-o", "json").document())
    assert (after["rpo"]["records"], after["rpo"]["exact"]) == (7, True)
    assert str(place) in after["rpo"]["how"]


def test_the_journal_file(folder: Path, called: Run) -> None:
    document = check(called("journal", RUN, "--local", "-o", "json").document())
    recorded = document["runs"][0]["entries"]
    assert [entry["entry"] for entry in recorded] == ["began", "rolling-back", "ended"]
    assert json.loads(recorded[1]["line"])["why"] == "a precheck fails"


def test_an_unknown_run(folder: Path, called: Run) -> None:
    assert called("report", "other", "--local").code == 2
    assert called("journal", "other", "--local").code == 2
