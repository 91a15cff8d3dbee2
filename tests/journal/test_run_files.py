"""Journals of runs on disk: sealed, private, and continued after the last complete line."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drctl.engine import run_state
from drctl.model.errors import Unknown, UsageError
from drctl.model.journal import Entry, JournalReader, RunJournal
from drctl.stores.journal_files import RunFile, RunFiles

RUN = "20260305T142011.512000Z"
ENTRIES: list[Entry] = [
    {"entry": "began", "who": "ä\n\x1b\ud800"},
    {"entry": "intend", "effect": 1, "intent": {"topics": ["a", "b"]}},
    {"entry": "done", "effect": 1},
]


@pytest.fixture
def folder(tmp_path: Path) -> RunFiles:
    return RunFiles(tmp_path / "runs")


def begun(folder: RunFiles, run: str = RUN) -> Path:
    with folder.create(run) as journal:
        journal.append(ENTRIES[:1])
        journal.append(ENTRIES[1:])
        return Path(journal.where)


def test_it_implements_the_port(folder: RunFiles) -> None:
    reader: JournalReader = folder
    with folder.create(RUN) as opened:
        journal: RunJournal = opened
        journal.append(ENTRIES)
        assert journal.run == RUN
    assert reader.entries(RUN) == tuple(ENTRIES)
    assert reader.lines(RUN) == run_state.seal(ENTRIES, run_state.first_head(RUN))
    assert reader.runs() == (RUN,)


def test_only_its_owner_may_read_it(folder: RunFiles) -> None:
    before = os.umask(0)
    try:
        file = begun(folder)
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_resume_continues_the_hash_chain(folder: RunFiles) -> None:
    begun(folder)
    with folder.reopen(RUN) as journal:
        journal.append([{"entry": "resumed"}])
        journal.append([{"entry": "ended", "status": "done"}])
    assert [entry["entry"] for entry in folder.entries(RUN)][3:] == ["resumed", "ended"]
    assert run_state.verify(RUN, folder.lines(RUN)).complete


@pytest.mark.slow
@given(st.data())
def test_a_torn_end_is_cut_off(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Wherever it is torn, and whether or not a line end reached the disk before the rest."""
    folder = RunFiles(tmp_path_factory.mktemp("torn"))
    file = begun(folder)
    whole = file.read_bytes()
    last = len(whole.split(b"\n")[-2])
    cut = data.draw(st.integers(1, last + 1))
    file.write_bytes(whole[:-cut] + data.draw(st.sampled_from([b"", b"\n", b"\0\0\n"])))
    kept = 3 if file.read_bytes() == whole else 2
    assert folder.entries(RUN) == tuple(ENTRIES[:kept])
    with folder.reopen(RUN) as journal:
        assert file.read_bytes() == b"".join(line + b"\n" for line in folder.lines(RUN))
        journal.append([{"entry": "ended"}])
    assert folder.entries(RUN) == (*ENTRIES[:kept], {"entry": "ended"})
    assert run_state.verify(RUN, folder.lines(RUN)).complete


def test_damage_is_reported_and_nothing_is_removed(folder: RunFiles) -> None:
    file = begun(folder)
    changed = file.read_bytes().replace(b'"effect":1', b'"effect":2', 1)
    file.write_bytes(changed)
    for call in (folder.entries, folder.reopen):
        with pytest.raises(Unknown, match=r"damaged .* line 2 was changed") as damaged:
            call(RUN)
        assert "its other copy" in damaged.value.hint
    assert file.read_bytes() == changed
    assert len(folder.lines(RUN)) == 3, "a damaged run cannot be read"


def sealed(*entries: Entry) -> tuple[bytes, ...]:
    return run_state.seal(entries, run_state.first_head(RUN))


@pytest.mark.parametrize("known", [2, 3])
def test_entries_of_the_topic_are_added(folder: RunFiles, known: int) -> None:
    """Someone resumed the run on another host."""
    with folder.create(RUN) as journal:
        journal.append(ENTRIES[:2])
    with folder.reopen(RUN, sealed(*ENTRIES[:known])) as journal:
        journal.append([{"entry": "resumed"}])
    assert folder.lines(RUN) == sealed(*ENTRIES[:known], {"entry": "resumed"})
    assert [file.name for file in Path(journal.where).parent.iterdir()] == ["journal.jsonl"]


def test_a_run_that_began_elsewhere(folder: RunFiles) -> None:
    lines = sealed(*ENTRIES)
    with folder.reopen(RUN, lines) as journal:
        assert folder.lines(RUN) == lines
        journal.append([{"entry": "resumed"}])
    assert folder.entries(RUN) == (*ENTRIES, {"entry": "resumed"})


@pytest.mark.parametrize(
    "here", [[{"entry": "other"}], [*ENTRIES, {"entry": "more"}]], ids=["other", "more"]
)
def test_the_topic_wins_and_the_local_file_is_kept(folder: RunFiles, here: list[Entry]) -> None:
    lines = sealed(*ENTRIES)
    for number in (1, 2):
        with folder.create(RUN) as journal:
            journal.append(here)
        file = Path(journal.where)
        before = file.read_bytes()
        folder.reopen(RUN, lines).close()
        assert folder.lines(RUN) == lines
        assert file.with_name(f"{file.name}.aside-{number}").read_bytes() == before
        file.unlink()


def test_an_incomplete_file_and_known_entries(folder: RunFiles) -> None:
    file = begun(folder)
    file.write_bytes(file.read_bytes()[:-5])
    folder.reopen(RUN, sealed(*ENTRIES)).close()
    assert folder.lines(RUN) == sealed(*ENTRIES)


def test_a_run_id_is_unique(folder: RunFiles) -> None:
    begun(folder)
    with pytest.raises(Unknown, match=r"cannot write journal .*: File exists") as refused:
        folder.create(RUN)
    assert "drctl resume" in refused.value.hint


@pytest.mark.parametrize("name", ["nothing", "../elsewhere", "", "."])
def test_a_missing_run(folder: RunFiles, name: str) -> None:
    begun(folder)
    for call in (folder.entries, folder.lines, folder.reopen):
        with pytest.raises(UsageError, match="there is no run") as refused:
            call(name)
        assert RUN in refused.value.hint


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A disk with space for ten bytes."""
    real = os.write
    left = [10]

    def write(handle: int, data: bytes) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = real(handle, data[: left[0]])
        left[0] -= taken
        return taken

    monkeypatch.setattr(os, "write", write)
    yield
    monkeypatch.undo()


def test_nothing_is_appended_after_an_incomplete_line(
    folder: RunFiles, full: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with folder.create(RUN) as journal:
        with pytest.raises(Unknown, match="No space left"):
            journal.append(ENTRIES[:1])
        monkeypatch.undo()
        with pytest.raises(Unknown, match="No space left") as again:
            journal.append(ENTRIES[:1])
        assert "drctl resume" in again.value.hint
    assert Path(journal.where).stat().st_size == 10
    assert folder.entries(RUN) == ()
    with folder.reopen(RUN) as journal:
        journal.append(ENTRIES)
    assert folder.entries(RUN) == tuple(ENTRIES)


WRITES = """
import sys
from pathlib import Path
from drctl.stores.journal_files import RunFiles
with RunFiles(Path(sys.argv[1])).create(sys.argv[2]) as journal:
    for number in range(1_000_000):
        journal.append([{"entry": "intend", "number": number}])
        print(number, flush=True)
"""


def test_appended_entries_survive_a_kill(tmp_path: Path, folder: RunFiles) -> None:
    writing = subprocess.Popen(
        [sys.executable, "-c", WRITES, str(tmp_path / "runs"), RUN], stdout=subprocess.PIPE
    )
    assert writing.stdout is not None
    written = -1
    while written < 20:
        written = int(writing.stdout.readline())
    writing.send_signal(signal.SIGKILL)
    rest = writing.stdout.read().split()
    writing.stdout.close()
    writing.wait(20)
    written = max([written, *map(int, rest)])
    with folder.reopen(RUN) as journal:
        journal.append([{"entry": "resumed"}])
    numbers = [entry.get("number") for entry in folder.entries(RUN)]
    assert numbers[: written + 1] == list(range(written + 1))
    assert numbers[-1] is None
    assert isinstance(journal, RunFile)
