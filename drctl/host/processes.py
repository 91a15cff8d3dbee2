"""Which processes a process id is one of, and whether one of them is gone."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drctl.model.journal import Holder

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")


def this_machine() -> str:
    """The kernel's boot and the namespace of process ids; empty where the system tells neither.

    A host's name does not tell containers that share it apart, nor one boot from the next.
    """
    try:
        return f"{_BOOT.read_text(encoding='ascii').strip()}/{_NAMESPACE.stat().st_ino}"
    except OSError:
        return ""


def gone(holder: Holder) -> bool:
    """Whether it is certain that the holder's process has ended; where in doubt it has not."""
    if not holder.machine or holder.machine != this_machine():
        return False
    try:
        os.kill(holder.pid, 0)
    except (OSError, OverflowError) as error:
        return isinstance(error, ProcessLookupError)
    return False


_MANY = 500_000
"""More objects than a piece of a log, the rows that it is held against, and all made of them."""


@contextmanager
def reduced_gc() -> Iterator[None]:
    """Let Python look for cycles once in half a million objects that stay, not in 700.

    Tuples of records hold no cycles: looking for them took a seventh of the processor's time.
    """
    before = gc.get_threshold()
    gc.set_threshold(_MANY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
