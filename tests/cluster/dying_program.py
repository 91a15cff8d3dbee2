"""drctl that SIGKILL ends at a point of its journal: `MOMENT STEP ARGUMENT...`.

A signal from outside comes too late for a step that takes milliseconds. `behind` is right behind
the announcement of the step: nothing of it is begun. `before` is right before its end is written
down: all of it is done, and nobody knows. Without a step it is the end of the run. drctl is told
nothing; nothing is closed, flushed or let go of.
"""

import os
import signal
import sys
from collections.abc import Sequence
from unittest.mock import patch

from drctl.app.run_journal import BothPlaces
from drctl.cli.main import program
from drctl.model.journal import Entry

_POINTS = {"behind": {"intend"}, "before": {"done", "owed", "passed", "ended"}}

_append = BothPlaces.append


def work(moment: str, step: str) -> None:
    def append(journal: BothPlaces, entries: Sequence[Entry]) -> None:
        there = any(
            each["entry"] in _POINTS[moment] and each.get("step", "") == step for each in entries
        )
        if there and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        _append(journal, entries)
        if there:
            os.kill(os.getpid(), signal.SIGKILL)

    with patch.object(BothPlaces, "append", append):
        program()


if __name__ == "__main__":
    point = sys.argv[1:3]
    sys.argv = ["drctl", *sys.argv[3:]]
    work(*point)
