"""Something that is done again and again beside everything else, until it is to stop."""

from collections.abc import Callable
from threading import Event, Thread
from types import TracebackType
from typing import Self


class Beats:
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

    def stop(self, patience_s: float | None = None) -> bool:
        """Beat no more; whether the last one is over by then. May be called again."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(patience_s)
        return not self._thread.is_alive()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _work(self) -> None:
        while not self._stopping.wait(self._interval_s):
            self._beat()
