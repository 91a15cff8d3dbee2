"""Journals as files: a line of JSON an entry, each on disk before the next thing happens.

A line that a crash cut short is the last one; whatever it announced was not begun.
"""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from drctl.model.errors import Unknown, UsageError
from drctl.offsets.journal import Entry

NAME = "journal.jsonl"


class JournalFile:
    """Implements `drctl.offsets.journal.RunJournal`; a context manager."""

    def __init__(self, folder: Path, run: str) -> None:
        self._file = folder / run / NAME
        self._run = run
        self._handle: int | None = None

    @property
    def run(self) -> str:
        """The name of the run."""
        return self._run

    @property
    def where(self) -> str:
        """The file."""
        return str(self._file)

    def append(self, entries: Sequence[Entry]) -> None:
        """Write them down; on disk when this returns.

        Raises:
            Unknown: that is not possible.
        """
        lines = [json.dumps(entry, separators=(",", ":")) + "\n" for entry in entries]
        try:
            if self._handle is None:
                self._handle = self._open()
            _write(self._handle, "".join(lines).encode())
            os.fsync(self._handle)
        except OSError as error:
            raise Unknown(
                f"the journal {self._file} cannot be written: {error.strerror}",
                "nothing that is not in the journal was sent; free space, or set state_dir, and"
                " look with `drctl offsets undo` what was written",
            ) from error

    def _open(self) -> int:
        folder = self._file.parent
        folder.mkdir(mode=0o700, parents=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        handle = os.open(self._file, flags, 0o600)
        # The names too must survive a crash of the machine.
        for place in (folder, folder.parent):
            _sync_folder(place)
        return handle

    def close(self) -> None:
        """Let go of the file; may be called again."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def runs(folder: Path) -> Iterator[str]:
    """The names of all runs, the newest first."""
    if folder.is_dir():
        yield from sorted((p.parent.name for p in folder.glob(f"*/{NAME}")), reverse=True)


def entries(folder: Path, run: str) -> list[Any]:
    """What stands in a run's journal, without a last line that was cut short.

    Raises:
        UsageError: there is no such run.
        Unknown: the journal cannot be read, or is damaged.
    """
    file = folder / run / NAME
    if run != Path(run).name or not file.is_file():
        known = list(runs(folder))[:3]
        hint = f"the newest: {', '.join(known)}" if known else f"there is none in {folder}"
        raise UsageError(f"there is no run {run!r}", hint)
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError as error:
        raise Unknown(f"the journal {file} cannot be read: {error.strerror}") from None
    found = []
    for number, line in enumerate(lines[:-1], 1):
        try:
            found.append(json.loads(line))
        except ValueError:
            if number < len(lines) - 1:
                raise Unknown(
                    f"{file}:{number}: this line of the journal is damaged",
                    "restore the file, or put positions back with `drctl offsets apply --from` a"
                    " snapshot",
                ) from None
    return found


def _write(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
