"""Time: one deadline a call, what no signal may interrupt, what is done at intervals."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread, current_thread, main_thread
from time import monotonic
from types import FrameType
from typing import Self

from drctl.host.connections import Closing

# A broker that just died may be the one asked first; a first try that waits for all of the
# deadline would leave nothing for its successor.
_SHARES = (0.2, 0.3, 0.5)
_LEAST_S = 0.5


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment of the monotonic clock.

    Attributes:
        total: how many seconds were given, for messages.
    """

    at: float
    total: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        """The deadline that many seconds from now."""
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
        """This one, or the one that many seconds from now, whichever comes first."""
        return Deadline(min(self.at, monotonic() + seconds), self.total)

    def attempts(self) -> Iterator[float]:
        """Timeouts for one try after another, growing, until the time is up."""
        shares = iter(_SHARES)
        while not self.expired:
            share = self.total * next(shares, 1.0)
            yield min(self.remaining, max(share, _LEAST_S))


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Handler = Callable[[int, FrameType | None], object]


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Signals that come inside have their effect at the end: keep it short."""
    if current_thread() is not main_thread():
        yield  # Python runs no handlers in other threads
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
    """Calls a function at intervals from a thread of its own; a context manager.

    Args:
        beat: raises nothing.
    """

    def __init__(self, interval_s: float, beat: Callable[[], None]) -> None:
        self._interval_s = interval_s
        self._beat = beat
        self._stopping = Event()
        self._thread = Thread(target=self._work, name="drctl-beats", daemon=True)

    def start(self) -> None:
        """Begin; the first beat comes after an interval."""
        self._thread.start()

    def close(self) -> None:
        """Beat no more, once the last one is over."""
        self.stop()

    def stop(self, timeout_s: float | None = None) -> bool:
        """Beat no more; whether the last one is over by then. May be called again."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def __enter__(self) -> Self:
        self.start()
        return self

    def _work(self) -> None:
        while not self._stopping.wait(self._interval_s):
            self._beat()
