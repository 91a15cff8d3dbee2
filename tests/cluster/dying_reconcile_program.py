"""`drctl reconcile` that SIGKILL ends at one of its calls: `MOMENT CALL NUMBER ARGUMENT...`.

A signal from outside comes too late for a call that takes milliseconds. `before` nothing of the
call is done, `after` all of it is, and nobody has heard of it: nothing is closed, flushed or let go
of. A transaction holds two records, so that a handful makes several.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from drctl.cli.main import program
from drctl.kafka.reconcile_copier import TransactionalCopier
from drctl.reconcile.executing import Execution, Limits
from drctl.stores.journal_files import JournalFile
from drctl.views.exports import ExportFolder

CALLS: dict[str, tuple[type, str]] = {
    **{name: (TransactionalCopier, name) for name in ("begin", "append", "settle", "keep")},
    "commit": (TransactionalCopier, "commit"),
    "journal": (JournalFile, "append"),
    "add": (ExportFolder, "add"),
    "finish": (ExportFolder, "finish"),
}
"""By the name of a call, what makes it."""

_begun = Execution.__post_init__


def _small(execution: Execution) -> None:
    execution.limits = Limits(records=2)
    _begun(execution)


def dying(call: Callable[..., Any], moment: str, number: int) -> Callable[..., Any]:
    """The call, which the process does not live through at this number."""
    left = number

    def called(*arguments: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0 and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        done = call(*arguments)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    return called


def work(moment: str, call: str, number: int) -> None:
    of, name = CALLS[call]
    with (
        patch.object(Execution, "__post_init__", _small),
        patch.object(of, name, dying(getattr(of, name), moment, number)),
    ):
        program()


if __name__ == "__main__":
    moment, call, number = sys.argv[1:4]
    sys.argv = ["drctl", *sys.argv[4:]]
    work(moment, call, int(number))
