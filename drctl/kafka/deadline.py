"""Deadlines, sections without signal interruption, and periodic tasks."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread, current_thread, main_thread
from time import monotonic
from types import FrameType
from typing import Self

from drctl.host.connections import Closing

# The first broker that is asked may be dead: leave time for further attempts.
_SHARES = (0.2, 0.3, 0.5)
_LEAST_S = 0.5


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point on the monotonic clock.

    Attributes:
        total: the full duration in seconds, for messages.
    """

    at: float
    total: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        """A deadline this many seconds from now."""
        return cls(monotonic() + seconds, seconds)

    @property
    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at - monotonic())

    @property
    def expired(self) -> bool:
        """Whether no time is left."""
        return self.remaining == 0.0

    def sooner(self, seconds: float) -> "Deadline":
        """The earlier of this deadline and one this many seconds from now."""
        return Deadline(min(self.at, monotonic() + seconds), self.total)

    def attempts(self) -> Iterator[float]:
        """Growing timeouts for successive attempts, until the deadline."""
        shares = iter(_SHARES)
        while not self.expired:
            share = self.total * next(shares, 1.0)
            yield min(self.remaining, max(share, _LEAST_S))


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Handler = Callable[[int, FrameType | None], object]


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay signals until the end of the block; keep it short."""
    if current_thread() is not main_thread():
        yield  # Python runs signal handlers in the main thread only
        return
    caught: list[tuple[int, FrameType | None]] = []
    before: dict[int, Handler] = {}
    try:
        for name in _SIGNALS:
            handler = signal.getsignal(name)
            if callable(handler):
                before[name] = handler
                signal.signal(name, lambda *what: caught.append(what))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for number, frame in caught:
        before[number](number, frame)


class PeriodicTask(Closing):
    """Calls a function at intervals in its own thread; a context manager.

    Args:
        task: must not raise.
    """

    def __init__(self, interval_s: float, task: Callable[[], None]) -> None:
        self._interval_s = interval_s
        self._task = task
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="drctl-periodic", daemon=True)

    def start(self) -> None:
        """Start; the first call comes after one interval."""
        self._thread.start()

    def close(self) -> None:
        """Stop after the call in progress."""
        self.stop()

    def stop(self, timeout_s: float | None = None) -> bool:
        """Stop; return whether the call in progress has finished in time. Idempotent."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def __enter__(self) -> Self:
        self.start()
        return self

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            self._task()
