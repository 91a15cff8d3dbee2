"""A question that is asked in the background, with a deadline for its answer."""

from collections.abc import Callable
from threading import Event, Thread
from time import monotonic
from typing import Generic, TypeVar

from drctl.model.errors import DrctlError, Unreachable
from drctl.model.health import AuthenticationFailed, Locked, Silent
from drctl.model.topology import Unavailable

T = TypeVar("T")


class BoundedQuery(Generic[T]):
    """Asks in a thread of its own; nobody waits longer than the deadline.

    Args:
        question: is asked at once. It may wait for other queries.
        timeout_s: how long an answer is waited for.
    """

    def __init__(self, question: Callable[[], T], timeout_s: float) -> None:
        self._question = question
        self._patience_s = timeout_s
        self._until = monotonic() + timeout_s
        self._done = Event()
        self._value: list[T] = []
        self._error: BaseException | None = None
        # One that never answers must not keep the process from ending.
        Thread(target=self._ask, daemon=True).start()

    def value(self) -> T:
        """The answer.

        Raises:
            Unreachable: none came in time.
            DrctlError: why there is none.
        """
        if not self._done.wait(max(0.0, self._until - monotonic())):
            raise Unreachable(f"no answer came within {self._patience_s:g} s")
        if self._error is not None:
            raise self._error
        return self._value[0]

    def answer(self) -> T | Unavailable:
        """The answer, or why there is none."""
        try:
            return self.value()
        except AuthenticationFailed as error:
            return Locked(error.message)
        except Unreachable as error:
            return Silent(error.message)
        except DrctlError as error:
            return Unavailable(error.message)

    def _ask(self) -> None:
        try:
            self._value.append(self._question())
        except DrctlError as error:
            self._error = error
        except BaseException as bug:
            self._error = bug
            raise
        finally:
            self._done.set()
