"""Moments at which nothing may be interrupted."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

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
