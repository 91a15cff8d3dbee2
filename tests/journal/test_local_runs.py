"""Runs within one cluster that only this host knows: one at a time."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from drctl.app import adapters, run_journal
from drctl.config import loading
from drctl.config.configuration import Config
from drctl.model.errors import Refused, Unknown, UsageError
from drctl.model.journal import ENDED, Entry, Holder
from drctl.stores.journal_files import LocalRuns, RunFiles

RUN, LATER = "20260305T142011.512000Z", "20260305T152011.512000Z"
AFTER = "20260305T143011.512000Z"
BEGAN: Entry = {"entry": "began", "plan": {"link": "cluster:main"}}
OVER: Entry = {"entry": ENDED, "status": "done"}


def holder(run: str) -> Holder:
    return Holder(run, "ada", "laptop", 1, datetime(2026, 3, 5, tzinfo=UTC))


@pytest.fixture
def here(tmp_path: Path) -> LocalRuns:
    return LocalRuns(tmp_path / ".drctl" / "runs", "cluster:main")


def test_a_run_that_ended_is_followed_by_another(here: LocalRuns) -> None:
    for run in (RUN, LATER):
        with here.take(holder(run)) as file:
            file.append([BEGAN, OVER])
    assert here.runs() == (LATER, RUN)
    assert here.unfinished == ""
    assert here.entries(RUN) == (BEGAN, OVER)


def test_an_unfinished_run_must_be_resumed_first(here: LocalRuns) -> None:
    with here.take(holder(RUN)) as file:
        file.append([BEGAN])
    assert here.unfinished == RUN
    with pytest.raises(Refused, match="unfinished run") as refused, here.take(holder(LATER)):
        pass
    assert "drctl resume" in refused.value.hint
    with here.resume(holder(RUN)) as file:
        file.append([OVER])
    assert here.unfinished == ""


def test_an_unfinished_run_counts_even_if_the_clock_was_set_back_before_it(here: LocalRuns) -> None:
    with here.take(holder(LATER)) as file:
        file.append([BEGAN, OVER])
    with here.take(holder(RUN)) as file:
        file.append([BEGAN])
    assert here.unfinished == RUN
    assert here.runs() == (RUN, LATER)
    with pytest.raises(Refused, match=f"unfinished run {RUN}"), here.take(holder(AFTER)):
        pass
    with here.resume(holder(RUN)) as file:
        file.append([OVER])
    assert here.unfinished == ""


def ended_twice(here: LocalRuns) -> None:
    for run in (RUN, LATER):
        with here.take(holder(run)) as file:
            file.append([BEGAN, OVER])


def test_an_old_damaged_run_does_not_block_new_ones(here: LocalRuns, tmp_path: Path) -> None:
    ended_twice(here)
    (old,) = (path for path in tmp_path.rglob("journal*") if RUN in str(path))
    old.write_bytes(old.read_bytes().replace(b"began", b"begun", 1))
    assert here.runs() == (LATER, RUN)
    assert here.unfinished == ""


def test_an_old_unreadable_run_does_not_block_new_ones(
    here: LocalRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_twice(here)
    read = RunFiles.lines

    def unreadable(files: RunFiles, run: str) -> Sequence[bytes]:
        if run == RUN:
            raise Unknown("cannot read journal")
        return read(files, run)

    monkeypatch.setattr(RunFiles, "lines", unreadable)
    assert here.runs() == (LATER, RUN)
    assert here.unfinished == ""


def test_two_processes_cannot_run_at_once(here: LocalRuns) -> None:
    with (
        here.take(holder(RUN)),
        pytest.raises(Refused, match="cluster:main is held by run"),
        here.take(holder(LATER)),
    ):
        pass


def test_copies_and_runs_of_other_clusters_are_excluded(here: LocalRuns, tmp_path: Path) -> None:
    folder = tmp_path / ".drctl" / "runs"
    with RunFiles(folder).create(RUN) as copy:
        copy.append([BEGAN])
    with LocalRuns(folder, "cluster:other").take(holder(LATER)) as file:
        file.append([BEGAN])
    assert here.runs() == ()
    for run in (RUN, LATER):
        with pytest.raises(UsageError, match="there is no run"):
            here.lines(run)


def test_damaged_runs_are_kept_beside_valid_ones(here: LocalRuns) -> None:
    with here.take(holder(RUN)) as file:
        file.append([BEGAN])
        journal = Path(file.where)
    with journal.open("ab") as damaged:
        damaged.write(b"not a line\nnor this\n")
    with here.resume(holder(RUN)) as file:
        file.append([OVER])
    assert here.entries(RUN) == (BEGAN, OVER)
    assert list(journal.parent.glob("*.aside-*"))


SILENT = """
clusters:
  main: {bootstrap: "127.0.0.1:1"}
"""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    file = tmp_path / "drctl.yaml"
    file.write_text(SILENT)
    return loading.load(file)


def test_an_unresponsive_cluster_needs_a_local_journal(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(adapters, "TIMEOUT_S", 0.5)
    monkeypatch.setattr(run_journal, "notices", lambda: RecordedNotices(warnings))
    link = config.inside("main")
    with run_journal.begun(config, link, holder(RUN)) as journal:
        journal.append([BEGAN])
    (words,) = warnings
    assert "cannot store the journal" in words
    assert "only this host can resume the run" in words
    assert run_journal.scope(config, RUN, None, None) == link, "the host does not know its own run"
    with run_journal.resumed(config, link, holder(RUN)) as (journal, entries):
        journal.append([OVER])
        assert entries == (BEGAN,)


class RecordedNotices:
    """Records notices."""

    def __init__(self, warnings: list[str]) -> None:
        self.warn = warnings.append
