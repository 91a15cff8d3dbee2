"""Ctrl-C while a plan is carried out: the first stops between two effects, the second at once.

A signal may come while any lock is held, by the very thread that handles it: what handles it takes
none, neither an event's nor that of what draws on the terminal.
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

_LOOK_EVERY_S = 0.1
_STOPPING = b"warning: stopping after what is being done now; once more stops at once\n"


class StoppableClock:
    """Implements `drctl.engine.ports.Clock`."""

    def __init__(self) -> None:
        self._stopping = False

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Return after this time, or as soon as somebody wants to stop."""
        until = time.monotonic() + seconds
        while not self._stopping and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_EVERY_S))

    @property
    def stopping(self) -> bool:
        """Whether somebody wants to stop."""
        return self._stopping

    def stop(self, number: int, frame: FrameType | None) -> None:
        """A signal came."""
        if self._stopping:
            raise KeyboardInterrupt
        self._stopping = True
        if live_screen.current() is None:
            with suppress(OSError, ValueError, AttributeError):
                os.write(sys.stderr.fileno(), _STOPPING)


def again_and_again(once: Callable[[], object], interval_s: float) -> NoReturn:
    """From one beginning to the next this long, until interrupted."""
    while True:
        began = time.monotonic()
        once()
        Event().wait(max(0.0, interval_s - (time.monotonic() - began)))


@contextmanager
def stoppable() -> Iterator[StoppableClock]:
    """A clock that Ctrl-C and SIGTERM stop, instead of the process."""
    clock = StoppableClock()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, clock.stop) for number in numbers}
    try:
        with stopped_by(lambda: clock.stopping):
            yield clock
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
