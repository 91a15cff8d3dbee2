"""Ctrl-C during a run: the first stops after the current operation, the second immediately.

A signal may arrive while the thread that handles it holds a lock. Therefore the handler takes no
lock, neither that of an event nor that of the terminal.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event
from types import FrameType
from typing import NoReturn

from drctl.app.notices import stopped_by
from drctl.cli import live_screen

_POLL_EVERY_S = 0.1
_STOPPING = b"warning: stopping after the current operation; Ctrl-C again stops immediately\n"


class StoppableClock:
    """Implements `drctl.engine.ports.Clock`."""

    def __init__(self) -> None:
        self._stopping = False

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds of a clock that never goes backwards."""
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Return after this time, or when a stop is requested."""
        until = time.monotonic() + seconds
        while not self._stopping and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _POLL_EVERY_S))

    @property
    def stopping(self) -> bool:
        """Whether a stop is requested."""
        return self._stopping

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        if self._stopping:
            raise KeyboardInterrupt
        self._stopping = True
        if live_screen.current() is None:
            with suppress(OSError, ValueError, AttributeError):
                os.write(sys.stderr.fileno(), _STOPPING)


def repeat_every(once: Callable[[], object], interval_s: float) -> NoReturn:
    """Call a function at this interval until interrupted."""
    while True:
        began = time.monotonic()
        once()
        Event().wait(max(0.0, interval_s - (time.monotonic() - began)))


@contextmanager
def stoppable() -> Iterator[StoppableClock]:
    """Yield a clock; during the block, Ctrl-C and SIGTERM stop it instead of the process."""
    clock = StoppableClock()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, clock.stop) for number in numbers}
    try:
        with stopped_by(lambda: clock.stopping):
            yield clock
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
