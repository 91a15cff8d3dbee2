"""The state folder: journals and the history of drills, as files with one JSON entry per line.

Each line is synced to disk before anything else happens. Only the last line can be cut short by a
crash; what it announces has not begun.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from drctl.config.secret import masked_document
from drctl.engine import run_state
from drctl.engine.run_state import Head
from drctl.host.connections import Closing
from drctl.model.errors import ConfigError, Refused, Unknown, UsageError
from drctl.model.journal import Entry, Holder, folder_of, is_run
from drctl.model.text import quote

NAME = "journal.jsonl"

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
_KNOWN = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC


class LineFile(Closing):
    """Appends the lines of a run, each synced to disk; a context manager.

    Args:
        hint: hint of errors if it cannot be written.
    """

    def __init__(self, file: Path, run: str, hint: str) -> None:
        self._file = file
        self._run = run
        self._hint = hint
        self._handle: int | None = None
        self._failed = ""

    @property
    def run(self) -> str:
        """The name of the run."""
        return self._run

    @property
    def where(self) -> str:
        """The file."""
        return str(self._file)

    def create(self) -> None:
        """Create the file and its folder, accessible to the owner only.

        Raises:
            Unknown: it exists, or cannot be created.
        """
        folder = self._file.parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._handle = os.open(self._file, _NEW, 0o600)
            # The directory entries must survive a crash of the host, too.
            for place in (folder, folder.parent):
                sync_folder(place)
        except OSError as error:
            raise self._unwritable(error) from error

    def append_from(self, size: int) -> None:
        """Append after that many bytes; anything after them is truncated.

        Raises:
            Unknown: it cannot be written.
        """
        try:
            self._handle = os.open(self._file, _KNOWN)
            os.ftruncate(self._handle, size)
            os.fsync(self._handle)
        except OSError as error:
            raise self._unwritable(error) from error

    def write(self, lines: Sequence[bytes]) -> None:
        """Append lines and sync them to disk. After a failure, nothing more is accepted.

        Raises:
            Unknown: it cannot be written.
        """
        if self._failed:
            raise Unknown(self._failed, self._hint)
        assert self._handle is not None
        try:
            _write(self._handle, b"".join(line + b"\n" for line in lines))
            os.fsync(self._handle)
        except OSError as error:
            # There may be half a line: only a process that reads the file again can continue.
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> Unknown:
        self._failed = f"cannot write journal {self._file}: {error.strerror}"
        return Unknown(self._failed, self._hint)

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


class JournalFile(LineFile):
    """Implements `drctl.model.journal.RunJournal` for runs of a single command on this host."""

    def __init__(self, folder: Path, run: str, hint: str) -> None:
        super().__init__(folder_of(folder, run) / NAME, run, hint)

    def append(self, entries: Sequence[Entry]) -> None:
        """Append entries with secrets masked, and sync them to disk.

        Raises:
            Unknown: it cannot be written.
        """
        if self._handle is None:
            self.create()
        lines = (json.dumps(masked_document(entry), separators=(",", ":")) for entry in entries)
        self.write([line.encode() for line in lines])


def runs(folder: Path) -> Iterator[str]:
    """The names of all runs, newest first."""
    if folder.is_dir():
        names = (p.parent.name for p in folder.glob(f"*/{NAME}"))
        yield from sorted(filter(is_run, names), reverse=True)


def lines(folder: Path, run: str) -> list[bytes]:
    """The complete lines of a run's journal.

    Raises:
        UsageError: there is no such run.
        Unknown: the journal cannot be read.
    """
    file = folder / run / NAME
    if not is_run(run) or not file.is_file():
        known = list(runs(folder))[:3]
        hint = f"the newest: {', '.join(known)}" if known else f"{folder} has no runs"
        raise UsageError(f"there is no run {run!r}", hint)
    try:
        return file.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise Unknown(f"cannot read journal {file}: {error.strerror}") from None


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that its directory entries are on disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


_HINT = "free disk space or set state_dir, then continue with drctl resume"


class RunFile(LineFile):
    """Implements `drctl.model.journal.HeldJournal`; a context manager."""

    def __init__(self, file: Path, run: str) -> None:
        super().__init__(file, run, _HINT)
        self._head = run_state.first_head(run)

    @property
    def head(self) -> Head:
        """The head of its chain."""
        return self._head

    def append(self, entries: Sequence[Entry]) -> None:
        """Append entries and sync them to disk.

        Raises:
            Unknown: it cannot be written.
        """
        lines = run_state.seal(entries, self._head)
        self.write(lines)
        self._head = run_state.head_after(lines, self._head)

    def check(self) -> None:
        """Do nothing: a link is not held by a file."""

    def copy(self, lines: Sequence[bytes]) -> None:
        """Append lines that follow this head and were sealed elsewhere.

        Raises:
            Unknown: it cannot be written.
        """
        self.write(lines)
        self._head = run_state.head_after(lines, self._head)

    def continue_after(self, lines: Sequence[bytes]) -> None:
        """Continue after these lines, with which the file starts.

        Raises:
            Unknown: it cannot be written.
        """
        self.append_from(sum(len(line) + 1 for line in lines))
        self._head = run_state.head_of(lines[-1]) if lines else self._head


class RunFiles:
    """The runs in a folder; implements `drctl.model.journal.JournalReader`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def intact_lines(self, run: str) -> int:
        """Number of intact leading lines.

        Raises:
            UsageError: there is no such run.
            Unknown: its file cannot be read.
        """
        return run_state.verify(run, self.lines(run)).lines

    def is_abandoned(self, run: str) -> bool:
        """Always False: a file does not show whether its run was abandoned."""
        return False

    def runs(self) -> Sequence[str]:
        """All runs, newest first."""
        return tuple(runs(self._folder))

    def lines(self, run: str) -> Sequence[bytes]:
        """The sealed lines of a run, without an incomplete last line.

        Raises:
            UsageError: there is no such run.
            Unknown: its journal cannot be read.
        """
        held = lines(self._folder, run)
        return tuple(held[:-1] if held and _torn(held[-1]) else held)

    def entries(self, run: str) -> Sequence[Entry]:
        """The entries of a run.

        Raises:
            UsageError: there is no such run.
            Unknown: its journal cannot be read, or is damaged.
        """
        return run_state.entries_in(run, self.lines(run), str(self._file(run)))

    def create(self, run: str) -> RunFile:
        """Create the journal of a new run.

        Raises:
            Unknown: it exists, or cannot be written.
        """
        opened = RunFile(self._file(run), run)
        opened.create()
        return opened

    def reopen(self, run: str, known: Sequence[bytes] = ()) -> RunFile:
        """Open the journal of a run to continue it; created if it is missing.

        Args:
            known: the lines in the topic, which are authoritative. A file that differs is renamed
                and kept.

        Raises:
            UsageError: there is no such run here or in the topic.
            Unknown: it cannot be read or written, or is damaged and not in the topic.
        """
        if not known:
            held = self.lines(run)
            run_state.entries_in(run, held, str(self._file(run)))
        else:
            held = self._agreeing(run, known)
        opened = RunFile(self._file(run), run)
        if held or not known:
            opened.continue_after(held)
        else:
            opened.create()
        opened.copy(known[len(held) :])
        return opened

    def _agreeing(self, run: str, known: Sequence[bytes]) -> Sequence[bytes]:
        """The known lines that the file has already; empty if there is no file."""
        if not self._file(run).is_file():
            return ()
        held = self.lines(run)
        if held and list(held) == list(known[: len(held)]):
            return held
        self._set_aside(self._file(run))
        return ()

    def _set_aside(self, file: Path) -> None:
        number = 1
        while (aside := file.with_name(f"{NAME}.aside-{number}")).exists():
            number += 1
        try:
            file.rename(aside)
            sync_folder(file.parent)
        except OSError as error:
            raise Unknown(f"cannot write journal {file}: {error.strerror}", _HINT) from error

    def _file(self, run: str) -> Path:
        return folder_of(self._folder, run) / NAME


_ALONE = "alone"
"""A file in the folder of a run that exists only on this host; contains its link."""


class LocalRuns(RunFiles):
    """Runs inside one cluster whose journal exists only on this host, not on the cluster.

    Only one run executes at a time: its process holds a lock until it ends.

    Args:
        link: the link of the runs.
    """

    def __init__(self, folder: Path, link: str) -> None:
        super().__init__(folder)
        self._link = link
        self._lock = folder / f"{link.replace(':', '-')}.lock"

    @property
    def where(self) -> str:
        """The folder."""
        return f"{self._folder} (this host only)"

    def runs(self) -> Sequence[str]:
        """All runs, newest first; an unfinished one is the newest, even if the clock was wrong."""
        own = [run for run in super().runs() if self._is_own(run)]
        return tuple(sorted(own, key=lambda run: not self._is_unfinished(run)))

    def lines(self, run: str) -> Sequence[bytes]:
        """The sealed lines of a run.

        Raises:
            UsageError: there is no such run here.
            Unknown: its journal cannot be read.
        """
        if not is_run(run) or not self._is_own(run):
            raise UsageError(f"there is no run {run!r} of {self._link} in {self.where}")
        return super().lines(run)

    def must_be_signed(self, run: str) -> None:
        """Do nothing: only the owner of the folder writes to it."""

    @property
    def unfinished(self) -> str:
        """The newest run if it has not ended; else empty."""
        newest = next(iter(self.runs()), "")
        return newest if newest and not self._has_ended(newest) else ""

    @contextmanager
    def take(self, holder: Holder) -> Iterator[RunFile]:
        """Create the journal of a new run.

        Raises:
            Refused: another process of this host executes a run, or a run is unfinished.
            Unknown: it cannot be written.
        """
        with self._held(holder):
            if run := self.unfinished:
                raise Refused(
                    f"unfinished run {run}: resume or abandon it before a new run",
                    f"resume it: drctl resume {quote(run)}; or abandon it: add --abandon REASON",
                )
            with self.create(holder.run) as file:
                mark = self._folder / holder.run / _ALONE
                with LineFile(mark, holder.run, _HINT) as note:
                    note.create()
                    note.write([self._link.encode()])
                yield file

    @contextmanager
    def resume(self, holder: Holder) -> Iterator[RunFile]:
        """Open the journal of a run to continue it; damaged lines are set aside.

        Raises:
            UsageError: there is no such run.
            Refused: another process of this host executes a run.
            Unknown: it cannot be read or written.
        """
        with self._held(holder):
            held = self.lines(holder.run)
            intact = held[: self.intact_lines(holder.run)]
            if held and not intact:
                self._set_aside(self._file(holder.run))
                opened = self.create(holder.run)
            else:
                opened = self.reopen(holder.run, intact)
            with opened as file:
                yield file

    def _has_ended(self, run: str) -> bool:
        return run_state.verify(run, self.lines(run)).ended

    def _is_unfinished(self, run: str) -> bool:
        """Whether the journal is intact and has no end; a damaged one keeps its place by time."""
        try:
            verdict = run_state.verify(run, self.lines(run))
        except Unknown:  # whoever needs this run reads it again, and fails
            return False
        return verdict.damage is None and not verdict.ended

    def _is_own(self, run: str) -> bool:
        try:
            return (self._folder / run / _ALONE).read_text().strip() == self._link
        except OSError:
            return False

    @contextmanager
    def _held(self, holder: Holder) -> Iterator[None]:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Unknown(f"cannot write {self._lock}: {error.strerror}", _HINT) from error
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                other = os.pread(handle, 1000, 0).decode()
                raise Refused(
                    f"{self._link} is held by {other}", "wait for that run to finish"
                ) from None
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"run {holder.run}: {holder}".encode(), 0)
            yield
        finally:
            os.close(handle)


def _torn(line: bytes) -> bool:
    try:
        run_state.parse_line(line)
    except run_state.DamagedLine:
        return True
    return False


class DrillHistory:
    """A file of lines; a line that a crash cut short is ignored."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @property
    def where(self) -> str:
        """The file."""
        return str(self._file)

    def lines(self) -> Sequence[bytes]:
        """All complete lines, oldest first; empty if there is no file.

        Raises:
            Unknown: it cannot be read.
        """
        try:
            return self._file.read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise Unknown(f"cannot read {self._file}: {error.strerror}") from error

    def append(self, line: bytes) -> None:
        """Append a line and sync it to disk.

        Raises:
            Unknown: it cannot be written.
        """
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            handle = os.open(self._file, flags, 0o600)
            try:
                # After half a line from a crash, start a new line.
                torn = b"" if _ended(handle) else b"\n"
                _write(handle, torn + line + b"\n")
                os.fsync(handle)
            finally:
                os.close(handle)
            sync_folder(self._file.parent)
        except OSError as error:
            raise Unknown(
                f"cannot write {self._file}: {error.strerror}", "free disk space or set state_dir"
            ) from error


def _ended(handle: int) -> bool:
    size = os.fstat(handle).st_size
    return size == 0 or os.pread(handle, 1, size - 1) == b"\n"


class StateFolder:
    """Implements `drctl.model.journal.JournalPlace`; creates nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def where(self) -> str:
        """The folder."""
        return str(self._folder)

    def check(self) -> None:
        """Check whether a run could write here, or create the folder if it is missing.

        Raises:
            ConfigError: it is not writable.
        """
        place = self._folder
        while not place.exists() and place != place.parent:
            place = place.parent
        if not place.is_dir():
            raise ConfigError(f"{place} is not a directory", "set state_dir in drctl.yaml")
        if not os.access(place, os.W_OK | os.X_OK):
            raise ConfigError(
                f"this user may not write to {place}",
                "set state_dir in drctl.yaml to another directory",
            )
