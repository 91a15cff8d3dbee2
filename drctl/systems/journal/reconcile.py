"""The journal of a run of `drctl reconcile`, on this machine."""

import json
from collections.abc import Sequence
from pathlib import Path

from drctl.model.journal import Entry
from drctl.systems.journal.files import NAME, LineFile

_HINT = "free space, or set state_dir; run it again: the cluster itself knows what is done"


class ReconcileJournal(LineFile):
    """Implements `drctl.model.journal.RunJournal`."""

    def __init__(self, folder: Path, run: str) -> None:
        super().__init__(folder / run / NAME, _HINT)
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
        """Write them down; on disk when this returns.

        Raises:
            Unknown: that is not possible.
        """
        if self._handle is None:
            self.create()
        self.write([json.dumps(entry, separators=(",", ":")).encode() for entry in entries])
