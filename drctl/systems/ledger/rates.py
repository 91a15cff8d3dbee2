"""How fast this machine read records before: what the next run may be expected to take."""

import json
from pathlib import Path

from drctl.model.strict_json import read_json

ASSUMED = 300_000.0
"""Offsets a second, of both sides together, where nothing was measured yet."""

_ENOUGH = 200_000
"""Runs that read fewer offsets measure the start of Spark."""


class MeasuredRate:
    """Keeps the last run's rate in a file; a file that cannot be read measures nothing."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def offsets_a_second(self) -> float | None:
        """None where nothing was measured."""
        try:
            rate = read_json(self._file.read_text(encoding="utf-8"))["offsets_a_second"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return float(rate) if isinstance(rate, int | float) and rate > 0 else None

    def note(self, offsets: int, seconds: float) -> None:
        """Keep what a run took, if it was long enough to tell something.

        Raises:
            OSError: the file cannot be written.
        """
        if offsets < _ENOUGH or seconds <= 0:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        partial = self._file.with_suffix(".partial")
        partial.write_text(json.dumps({"offsets_a_second": round(offsets / seconds)}) + "\n")
        partial.replace(self._file)
