"""Identifies processes across machines and containers, and tunes garbage collection."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drctl.model.journal import Holder

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")


def this_machine() -> str:
    """The boot id of the kernel and the namespace of process ids; empty if either is not available.

    A host name is not enough: containers may share it, and it is the same after a reboot.
    """
    try:
        return f"{_BOOT.read_text(encoding='ascii').strip()}/{_NAMESPACE.stat().st_ino}"
    except OSError:
        return ""


def has_ended(holder: Holder) -> bool:
    """Whether the holder's process has certainly ended; False if that is unknown."""
    if not holder.machine or holder.machine != this_machine():
        return False
    try:
        os.kill(holder.pid, 0)
    except (OSError, OverflowError) as error:
        return isinstance(error, ProcessLookupError)
    return False


_ALLOCATIONS = 500_000
"""The comparison of one batch of records creates fewer objects than this."""


@contextmanager
def reduced_gc() -> Iterator[None]:
    """Collect garbage cycles after 500,000 allocations instead of 700.

    Records contain no cycles, and the search for them took a seventh of the CPU time.
    """
    before = gc.get_threshold()
    gc.set_threshold(_ALLOCATIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
