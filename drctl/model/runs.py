"""Names of runs: the one place that says what may be one, before it becomes part of a path."""

import re
from pathlib import Path

from drctl.model.errors import DamagedJournal

_NAME = re.compile(r"[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*")
_LONGEST = 100


def is_run(name: object) -> bool:
    """Whether a run can be called so: letters and digits, joined by single dots, `-` and `_`."""
    return isinstance(name, str) and len(name) <= _LONGEST and bool(_NAME.fullmatch(name))


def folder_of(folder: Path, run: str) -> Path:
    """The folder of a run.

    Raises:
        DamagedJournal: no run is called so: the name was read somewhere, and leads elsewhere.
    """
    if not is_run(run):
        raise DamagedJournal(
            f"no run is called {run!r}: drctl did not write what says so",
            "drctl journal lists all runs; see who else may write to topic __drctl_journal",
        )
    return folder / run
