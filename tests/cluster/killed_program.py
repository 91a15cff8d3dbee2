"""drctl that SIGKILL ends at a point: `JOURNAL MOMENT PLACE ARGUMENT...`.

A signal from outside comes too late for actions of milliseconds. PLACE is a step in the journal of
a run or drill: with `after` the step is announced and not begun, with `before` it is done and its
end is not written; without a step it is the end of the run. Or PLACE is a call with its number
(`commit:2`), `before` or `after` it. drctl is not informed; nothing is closed, flushed or
released. With `reconcile` a transaction holds two records, so that a few records make several.
"""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from drctl.app.run_journal import BothPlaces
from drctl.cli.main import program
from drctl.drill.clients import Applications
from drctl.kafka.drill import KafkaScratch
from drctl.kafka.reconcile_copier import TransactionalCopier
from drctl.model.journal import Entry
from drctl.reconcile.executing import Execution, Limits
from drctl.stores.journal_files import JournalFile, RunFile
from drctl.views.exports import ExportFolder

JOURNALS: dict[str, Any] = {"run": BothPlaces, "drill": RunFile}
POINTS = {"after": {"intend"}, "before": {"done", "outstanding", "skipped", "ended"}}
CALLS: dict[str, tuple[Any, Sequence[str]]] = {
    **{n: (TransactionalCopier, [n]) for n in ("begin", "append", "settle", "keep", "commit")},
    **{name: (ExportFolder, [name]) for name in ("add", "finish")},
    "journal": (JournalFile, ["append"]),
    "made": (KafkaScratch, ["make_topic"]),
    "moved": (Applications, ["move"]),
    "deleted": (KafkaScratch, ["delete_groups", "delete_topics"]),
}
"""The class and the methods of each named call."""


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at_step(inner: Callable[..., None], moment: str, step: str) -> Callable[..., None]:
    def append(journal: Any, entries: Sequence[Entry]) -> None:
        there = any(
            each["entry"] in POINTS[moment] and each.get("step", "") == step for each in entries
        )
        if there and moment == "before":
            die()
        inner(journal, entries)
        if there:
            die()

    return append


def at_call(moment: str, of: Any, names: Sequence[str], number: int, opened: ExitStack) -> None:
    left = number
    for name in names:
        inner = getattr(of, name)

        def called(*arguments: Any, inner: Any = inner) -> Any:
            nonlocal left
            left -= 1
            if left == 0 and moment == "before":
                die()
            answer = inner(*arguments)
            if left == 0:
                die()
            return answer

        opened.enter_context(patch.object(of, name, called))


def small(execution: Execution, begun: Any = Execution.__post_init__) -> None:
    execution.limits = Limits(records=2)
    begun(execution)


def work(journal: str, moment: str, place: str) -> None:
    call, _, number = place.partition(":")
    with ExitStack() as opened:
        if journal == "reconcile":
            opened.enter_context(patch.object(Execution, "__post_init__", small))
        if number:
            at_call(moment, *CALLS[call], int(number), opened)
        else:
            of = JOURNALS[journal]
            dying = at_step(of.append, moment, place)
            opened.enter_context(patch.object(of, "append", dying))
        program()


if __name__ == "__main__":
    point = sys.argv[1:4]
    sys.argv = ["drctl", *sys.argv[4:]]
    work(*point)
