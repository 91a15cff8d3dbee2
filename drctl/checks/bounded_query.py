"""A query that runs in the background, with a deadline."""

from collections.abc import Callable
from threading import Event, Thread
from time import monotonic
from typing import Generic, TypeVar

from drctl.model.errors import DrctlError, Unreachable
from drctl.model.health import AuthenticationFailed, Locked, Silent
from drctl.model.topology import Unavailable

T = TypeVar("T")


class BoundedQuery(Generic[T]):
    """Runs a query in its own thread.

    Args:
        query: started immediately; may wait for other queries.
        timeout_s: time until the deadline.
    """

    def __init__(self, query: Callable[[], T], timeout_s: float) -> None:
        self._query = query
        self._timeout_s = timeout_s
        self._until = monotonic() + timeout_s
        self._done = Event()
        self._value: list[T] = []
        self._error: BaseException | None = None
        # A daemon, because a query that never returns must not keep the process from ending.
        Thread(target=self._ask, daemon=True).start()

    def value(self) -> T:
        """Wait for the result.

        Raises:
            Unreachable: the deadline has passed.
            DrctlError: the query failed.
        """
        if not self._done.wait(max(0.0, self._until - monotonic())):
            raise Unreachable(f"no answer within {self._timeout_s:g} s")
        if self._error is not None:
            raise self._error
        return self._value[0]

    def answer(self) -> T | Unavailable:
        """Wait for the result; return the error as a value."""
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
            self._value.append(self._query())
        except DrctlError as error:
            self._error = error
        except BaseException as bug:
            self._error = bug
            raise
        finally:
            self._done.set()
