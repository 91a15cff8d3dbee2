"""Waiting for something to become true: with a deadline, and with a way to give up together."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from drctl.model.errors import Stopped

_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, shared by all that wait together.

    Attributes:
        until: on the monotonic clock.
        given_up: set when one of them failed, so that the others need not wait.
    """

    until: float
    given_up: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, seconds: float) -> "Patience":
        """That ends in so many seconds."""
        return cls(time.monotonic() + seconds)

    @property
    def remaining(self) -> float:
        """Seconds left; never negative."""
        return max(0.0, self.until - time.monotonic())

    def wait_until(self, condition: Callable[[], bool]) -> bool:
        """Ask again and again; False when the time is over first.

        Raises:
            Stopped: another part failed meanwhile.
        """
        while not condition():
            if self.given_up.wait(min(_PAUSE_S, self.remaining)):
                raise Stopped("waiting was given up because another part of the lab failed")
            if not self.remaining:
                return condition()
        return True


def together(patience: Patience, *actions: Callable[[], object]) -> None:
    """Run the actions side by side; the first failure ends the waiting of all.

    Raises:
        DrctlError: whatever the first action to fail raised.
    """
    with ThreadPoolExecutor(max_workers=max(1, len(actions))) as threads:
        futures: list[Future[object]] = [threads.submit(action) for action in actions]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        except BaseException:
            patience.given_up.set()
            raise
        failed = next((f for f in futures if f in done and f.exception()), None)
        if failed is not None:
            patience.given_up.set()
            failed.result()
