"""Journals on disk: private, complete up to the last line, never silently damaged."""

import errno
import json
import os
from pathlib import Path

import pytest

from drctl.model.errors import Unknown, UsageError
from drctl.stores.journal_files import JournalFile, lines, runs

HINT = "free space"
RUN = "20260305T142011.512000Z"


def written(folder: Path, run: str = RUN) -> Path:
    with JournalFile(folder, run, HINT) as journal:
        journal.append([{"entry": "began", "n": 1}])
        journal.append([{"entry": "intent", "group": "ä\n\x1b"}, {"entry": "outcome"}])
        return Path(journal.where)


def test_appended_entries_are_read_back(tmp_path: Path) -> None:
    written(tmp_path / "offsets")
    found = [json.loads(line) for line in lines(tmp_path / "offsets", RUN)]
    assert found == [
        {"entry": "began", "n": 1},
        {"entry": "intent", "group": "ä\n\x1b"},
        {"entry": "outcome"},
    ]


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        file = written(tmp_path / "offsets")
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_every_line_is_durable_before_the_next_action(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bytes] = []
    with JournalFile(tmp_path, RUN, HINT) as journal:
        real = os.fsync

        def fsync(handle: int) -> None:
            real(handle)
            if not Path(f"/proc/self/fd/{handle}").resolve().is_dir():
                synced.append(Path(journal.where).read_bytes())

        monkeypatch.setattr(os, "fsync", fsync)
        journal.append([{"n": 1}])
        journal.append([{"n": 2}])
    assert synced == [b'{"n":1}\n', b'{"n":1}\n{"n":2}\n']


def test_a_run_id_is_unique(tmp_path: Path) -> None:
    written(tmp_path)
    with (
        JournalFile(tmp_path, RUN, HINT) as second,
        pytest.raises(Unknown, match=r"cannot write journal .*: File exists"),
    ):
        second.append([{"entry": "began"}])


@pytest.mark.parametrize("cut", range(1, 13))
def test_an_incomplete_last_line_is_ignored(tmp_path: Path, cut: int) -> None:
    file = written(tmp_path)
    file.write_bytes(file.read_bytes()[:-cut])
    assert len(lines(tmp_path, RUN)) == 2


def test_runs_are_listed_newest_first(tmp_path: Path) -> None:
    assert list(runs(tmp_path / "nowhere")) == []
    for name in ("20260305T142011.512000Z", "20260306T142011.512000Z", "20260304T000000.000000Z"):
        written(tmp_path, name)
    (tmp_path / "secondary-20260305T142011.512000Z.json").touch()
    assert [name[:8] for name in runs(tmp_path)] == ["20260306", "20260305", "20260304"]


@pytest.mark.parametrize("name", ["nothing", "../elsewhere", "", "."])
def test_a_missing_run(tmp_path: Path, name: str) -> None:
    written(tmp_path)
    with pytest.raises(UsageError, match="there is no run") as refused:
        lines(tmp_path, name)
    assert RUN in refused.value.hint


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with JournalFile(tmp_path, RUN, HINT) as journal:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(Unknown, match="No space left") as failed:
            journal.append([{"entry": "began"}])
        assert failed.value.hint == HINT
        monkeypatch.undo()
