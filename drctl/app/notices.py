"""How use cases report progress and ask the user; the command line provides both."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Task(Protocol):
    """A task with progress."""

    def update(
        self, done: float | None = None, total: float | None = None, description: str | None = None
    ) -> None:
        """Report progress; values that are None do not change."""


class Notices(Protocol):
    """Receives messages other than the result."""

    @property
    def verbose(self) -> bool:
        """Whether details are shown."""

    def progress(self, message: str) -> None:
        """Report what drctl is doing."""

    def detail(self, message: str) -> None:
        """Report a detail, for verbose output."""

    def note(self, message: str) -> None:
        """Report something useful to know."""

    def warn(self, message: str) -> None:
        """Report something that needs attention."""

    def task(self, description: str, total: float | None = None) -> AbstractContextManager[Task]:
        """Show the progress of a task."""


class Prompts(Protocol):
    """Asks the user."""

    def answer(self, question: str, text: str) -> bool | None:
        """The user's answer; None without a terminal."""


class NoPrompts:
    """Prompts without a terminal: no question gets an answer."""

    def answer(self, question: str, text: str) -> bool | None:
        """Return None."""
        return None


class SilentTask:
    """A task whose progress is not shown."""

    def update(
        self, done: float | None = None, total: float | None = None, description: str | None = None
    ) -> None:
        """Do nothing."""


class Silent:
    """Discards all messages."""

    verbose = False

    def progress(self, message: str) -> None:
        """Do nothing."""

    detail = note = warn = progress

    @contextmanager
    def task(self, description: str, total: float | None = None) -> Iterator[Task]:
        """A task whose progress is not shown."""
        yield SilentTask()


_provider: list[Callable[[], Notices]] = [Silent]


def notices() -> Notices:
    """The receiver of messages; call it in the thread that runs the use case."""
    return _provider[-1]()


def provide(find: Callable[[], Notices]) -> None:
    """Set the function that `notices` calls; the command line does this once."""
    _provider[-1] = find


_stop_requests: list[Callable[[], bool]] = []


def wants_to_stop() -> bool:
    """Whether the user requested a stop; long effects check this between two parts."""
    return any(each() for each in _stop_requests)


@contextmanager
def stopped_by(requested: Callable[[], bool]) -> Iterator[None]:
    """Have `wants_to_stop` also call this function."""
    _stop_requests.append(requested)
    try:
        yield
    finally:
        _stop_requests.remove(requested)
