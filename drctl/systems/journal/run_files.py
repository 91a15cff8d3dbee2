"""The journals of runs over a link, on this machine: sealed lines, a folder a run.

The topic on the surviving cluster is written first and says what is so; this is the copy that is at
hand when no cluster answers.
"""

from collections.abc import Sequence
from pathlib import Path

from drctl.engine import chain
from drctl.engine.chain import Head
from drctl.model.errors import Unknown
from drctl.model.journal import Entry
from drctl.model.runs import folder_of
from drctl.systems.journal import files
from drctl.systems.journal.files import NAME, LineFile, sync_folder

_HINT = "free space, or set state_dir; `drctl resume` then goes on where the journal ends"


class RunFile(LineFile):
    """Implements `drctl.model.journal.HeldJournal`; a context manager."""

    def __init__(self, file: Path, run: str) -> None:
        super().__init__(file, _HINT)
        self._run = run
        self._head = chain.beginning(run)

    @property
    def run(self) -> str:
        """The name of the run."""
        return self._run

    @property
    def where(self) -> str:
        """The file."""
        return str(self._file)

    @property
    def head(self) -> Head:
        """Where its chain goes on."""
        return self._head

    def append(self, entries: Sequence[Entry]) -> None:
        """Write them down; on disk when this returns.

        Raises:
            Unknown: that is not possible.
        """
        lines = chain.seal(entries, self._head)
        self.write(lines)
        self._head = chain.behind(lines, self._head)

    def check(self) -> None:
        """Nothing: of a file nobody takes a link."""

    def copy(self, lines: Sequence[bytes]) -> None:
        """Write lines down that were sealed elsewhere.

        Raises:
            Unknown: that is not possible.
        """
        self.write(lines)
        self._head = chain.head_of(lines[-1]) if lines else self._head

    def behind(self, lines: Sequence[bytes]) -> None:
        """Go on behind these lines, with which the file begins.

        Raises:
            Unknown: that is not possible.
        """
        self.go_on(sum(len(line) + 1 for line in lines))
        self._head = chain.head_of(lines[-1]) if lines else self._head


class RunFiles:
    """The runs in a folder; implements `drctl.model.journal.JournalReader`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def sound(self, run: str) -> int:
        """How many of its lines are as they were written.

        Raises:
            UsageError: there is no such run.
            Unknown: its file cannot be read.
        """
        return chain.verify(run, self.lines(run)).lines

    def set_aside(self, run: str) -> bool:
        """Never: the topic tells that, and the run's own lines."""
        return False

    def runs(self) -> Sequence[str]:
        """All that are kept, the newest first."""
        return tuple(files.runs(self._folder))

    def lines(self, run: str) -> Sequence[bytes]:
        """The sealed lines of a run, without a torn last one.

        Raises:
            UsageError: there is no such run.
            Unknown: its journal cannot be read.
        """
        held = files.lines(self._folder, run)
        return tuple(held[:-1] if held and _torn(held[-1]) else held)

    def entries(self, run: str) -> Sequence[Entry]:
        """What a run wrote down.

        Raises:
            UsageError: there is no such run.
            Unknown: its journal cannot be read, or is damaged.
        """
        return chain.entries_in(run, self.lines(run), str(self._file(run)))

    def anew(self, run: str) -> RunFile:
        """The journal of a run that begins.

        Raises:
            Unknown: there is one of that name, or it cannot be written.
        """
        opened = RunFile(self._file(run), run)
        opened.create()
        return opened

    def go_on(self, run: str, known: Sequence[bytes] = ()) -> RunFile:
        """The journal of a run that goes on; made where there is none.

        Args:
            known: what stands in the topic, which is right. A file that says otherwise is kept
                beside the new one.

        Raises:
            UsageError: there is no such run, and nothing is known of it.
            Unknown: it cannot be read or written, or is damaged and nothing else is known.
        """
        if not known:
            held = self.lines(run)
            chain.entries_in(run, held, str(self._file(run)))
        else:
            held = self._agreeing(run, known)
        opened = RunFile(self._file(run), run)
        if held or not known:
            opened.behind(held)
        else:
            opened.create()
        opened.copy(known[len(held) :])
        return opened

    def _agreeing(self, run: str, known: Sequence[bytes]) -> Sequence[bytes]:
        """The lines that the file has of those that are known; none where there is no file."""
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
            raise Unknown(
                f"the journal {file} cannot be written: {error.strerror}", _HINT
            ) from error

    def _file(self, run: str) -> Path:
        return folder_of(self._folder, run) / NAME


def _torn(line: bytes) -> bool:
    try:
        chain.opened(line)
    except chain.Broken:
        return True
    return False
