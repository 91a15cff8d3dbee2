"""Journals as files: a line of JSON an entry, each on disk before the next thing happens.

A line that a crash cut short is the last one; whatever it announced was not begun.
"""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from drctl.config.secret import masked_document
from drctl.model.errors import Unknown, UsageError
from drctl.model.journal import Entry
from drctl.model.runs import folder_of, is_run
from drctl.model.strict_json import read_json
from drctl.systems.closing import Closing

NAME = "journal.jsonl"

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
_KNOWN = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC


class LineFile(Closing):
    """Takes lines, and has them on disk when it returns; a context manager.

    Args:
        hint: what to do when it cannot be written.
    """

    def __init__(self, file: Path, hint: str) -> None:
        self._file = file
        self._hint = hint
        self._handle: int | None = None
        self._failed = ""

    def create(self) -> None:
        """Make the file, and its folder, for its owner alone.

        Raises:
            Unknown: there is one, or it cannot be made.
        """
        folder = self._file.parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._handle = os.open(self._file, _NEW, 0o600)
            # The names too must survive a crash of the machine.
            for place in (folder, folder.parent):
                sync_folder(place)
        except OSError as error:
            raise self._unwritable(error) from error

    def go_on(self, size: int) -> None:
        """Write on behind that many bytes; what stands there is cut off.

        Raises:
            Unknown: that is not possible.
        """
        try:
            self._handle = os.open(self._file, _KNOWN)
            os.ftruncate(self._handle, size)
            os.fsync(self._handle)
        except OSError as error:
            raise self._unwritable(error) from error

    def write(self, lines: Sequence[bytes]) -> None:
        """Append lines; on disk when this returns. After a failure nothing is taken any more.

        Raises:
            Unknown: that is not possible.
        """
        if self._failed:
            raise Unknown(self._failed, self._hint)
        assert self._handle is not None
        try:
            _write(self._handle, b"".join(line + b"\n" for line in lines))
            os.fsync(self._handle)
        except OSError as error:
            # Half a line may stand there: only who reads the file anew can go on behind it.
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> Unknown:
        self._failed = f"the journal {self._file} cannot be written: {error.strerror}"
        return Unknown(self._failed, self._hint)

    def close(self) -> None:
        """Let go of the file; may be called again."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


class JournalFile(LineFile):
    """Implements `drctl.model.journal.RunJournal` for runs of one command on this machine.

    Args:
        hint: what to do where it cannot be written.
    """

    def __init__(self, folder: Path, run: str, hint: str) -> None:
        super().__init__(folder_of(folder, run) / NAME, hint)
        self._run = run

    @property
    def run(self) -> str:
        """The name of the run."""
        return self._run

    @property
    def where(self) -> str:
        """The file."""
        return str(self._file)

    def append(self, entries: Sequence[Entry]) -> None:
        """Write them down, without secrets; on disk when this returns.

        Raises:
            Unknown: that is not possible.
        """
        if self._handle is None:
            self.create()
        told = (json.dumps(masked_document(entry), separators=(",", ":")) for entry in entries)
        self.write([line.encode() for line in told])


def runs(folder: Path) -> Iterator[str]:
    """The names of all runs, the newest first."""
    if folder.is_dir():
        names = (p.parent.name for p in folder.glob(f"*/{NAME}"))
        yield from sorted(filter(is_run, names), reverse=True)


def lines(folder: Path, run: str) -> list[bytes]:
    """The lines of a run's journal, without one that has no end.

    Raises:
        UsageError: there is no such run.
        Unknown: the journal cannot be read.
    """
    file = folder / run / NAME
    if not is_run(run) or not file.is_file():
        known = list(runs(folder))[:3]
        hint = f"the newest: {', '.join(known)}" if known else f"there is none in {folder}"
        raise UsageError(f"there is no run {run!r}", hint)
    try:
        return file.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise Unknown(f"the journal {file} cannot be read: {error.strerror}") from None


def entries(folder: Path, run: str) -> list[Any]:
    """What stands in the journal of a run that moved positions, without a torn last line.

    Raises:
        UsageError: there is no such run.
        Unknown: the journal cannot be read, or is damaged.
    """
    found: list[Any] = []
    held = lines(folder, run)
    for number, line in enumerate(held, 1):
        try:
            found.append(read_json(line))
        except ValueError:
            if number < len(held):
                raise Unknown(
                    f"{folder / run / NAME}:{number}: this line of the journal is damaged",
                    "restore the file, or put positions back with `drctl offsets apply --from` a"
                    " snapshot",
                ) from None
    return found


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]
