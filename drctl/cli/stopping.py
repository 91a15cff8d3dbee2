"""Ctrl-C while a plan is carried out: the first stops between two effects, the second at once."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from drctl.cli.console import console


class StoppableClock:
    """Implements `drctl.engine.ports.Clock`."""

    def __init__(self) -> None:
        self._wish = threading.Event()

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Return after this time, or as soon as somebody wants to stop."""
        self._wish.wait(seconds)

    @property
    def stopping(self) -> bool:
        """Whether somebody wants to stop."""
        return self._wish.is_set()

    def stop(self, number: int, frame: FrameType | None) -> None:
        """A signal came."""
        if self._wish.is_set():
            raise KeyboardInterrupt
        self._wish.set()
        console().warn("stopping after what is being done now; once more stops at once")


@contextmanager
def stoppable() -> Iterator[StoppableClock]:
    """A clock that Ctrl-C and SIGTERM stop, instead of the process."""
    clock = StoppableClock()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, clock.stop) for number in numbers}
    try:
        yield clock
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
