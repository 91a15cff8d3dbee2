"""Memory of a process and traffic over the loopback interface; Linux only."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

import psutil

_PAUSE_S = 0.05
_LOOPBACK = "lo"


@dataclass(slots=True)
class Peak:
    """Peak memory of a process.

    Attributes:
        bytes: 0 if it ended before the first reading.
    """

    pid: int
    bytes: int = 0

    @property
    def megabytes(self) -> float:
        """The same in megabytes."""
        return self.bytes / 2**20

    def look(self) -> None:
        """Read the current value."""
        self.bytes = max(self.bytes, high_water(self.pid))


def high_water(pid: int) -> int:
    """Peak memory (VmHWM) of a process, in bytes; 0 if it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        status = Path("/proc", str(pid), "status").read_text(encoding="utf-8", errors="replace")
        stated = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        return int(stated[1]) * 1024 if stated else 0
    return 0


@contextmanager
def watched(pid: int) -> Iterator[Peak]:
    """Poll a process until the block ends."""
    peak, over = Peak(pid), Event()

    def look() -> None:
        while not over.wait(_PAUSE_S):
            peak.look()

    peak.look()
    thread = Thread(target=look, name="watching", daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def traffic() -> int:
    """Bytes over the loopback interface since boot, of all processes."""
    return psutil.net_io_counters(pernic=True)[_LOOPBACK].bytes_sent
