"""drctl that SIGKILL ends at a point of a drill: `MOMENT PLACE ARGUMENT...`.

`behind` and `before` are those of `dying_program`, of a step of the drill's own journal. `made` is
right behind the drill's topic was made, `moved` when its applications have begun on the target,
`deleted` right behind so many requests of its cleaning up. drctl is told nothing.
"""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from drctl.cli.main import program
from drctl.drill.clients import Applications
from drctl.kafka.drill import KafkaScratch
from drctl.model.journal import Entry
from drctl.stores.journal_files import RunFile

_POINTS = {"behind": {"intend"}, "before": {"done", "owed", "passed", "ended"}}

_append = RunFile.append


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at_step(moment: str, step: str) -> Callable[..., None]:
    def append(journal: RunFile, entries: Sequence[Entry]) -> None:
        there = any(
            each["entry"] in _POINTS[moment] and each.get("step", "") == step for each in entries
        )
        if there and moment == "before":
            die()
        _append(journal, entries)
        if there:
            die()

    return append


def behind(kind: Any, names: Sequence[str], times: int, opened: ExitStack) -> None:
    """Die behind so many calls of these."""
    called = 0
    for name in names:
        inner = getattr(kind, name)

        def call(*given: Any, inner: Any = inner) -> Any:
            nonlocal called
            answer = inner(*given)
            called += 1
            if called == times:
                die()
            return answer

        opened.enter_context(patch.object(kind, name, call))


def work(moment: str, place: str) -> None:
    with ExitStack() as opened:
        if moment == "made":
            behind(KafkaScratch, ["make_topic"], 1, opened)
        elif moment == "moved":
            behind(Applications, ["move"], 1, opened)
        elif moment == "deleted":
            behind(KafkaScratch, ["delete_groups", "delete_topics"], int(place), opened)
        else:
            opened.enter_context(patch.object(RunFile, "append", at_step(moment, place)))
        program()


if __name__ == "__main__":
    point = sys.argv[1:3]
    sys.argv = ["drctl", *sys.argv[3:]]
    work(*point)
