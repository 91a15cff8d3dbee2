"""Wait for conditions with a shared deadline and shared cancellation."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from drctl.model.errors import Stopped

_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Patience:
    """A deadline that several waiting threads share.

    Attributes:
        until: deadline on the monotonic clock.
        given_up: set when one thread fails, so that the others stop waiting.
    """

    until: float
    given_up: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, seconds: float) -> "Patience":
        """A deadline this many seconds from now."""
        return cls(time.monotonic() + seconds)

    @property
    def remaining(self) -> float:
        """Seconds left; never negative."""
        return max(0.0, self.until - time.monotonic())

    def wait_until(self, condition: Callable[[], bool]) -> bool:
        """Poll the condition; return False at the deadline.

        Raises:
            Stopped: another thread failed.
        """
        while not condition():
            if self.given_up.wait(min(_PAUSE_S, self.remaining)):
                raise Stopped("stopped waiting: another lab component failed")
            if not self.remaining:
                return condition()
        return True


def together(patience: Patience, *actions: Callable[[], object]) -> None:
    """Run the actions in parallel; the first failure cancels the others.

    Raises:
        DrctlError: raised by the first action that failed.
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
