"""What a use case reports while it works, and asks a person; whoever runs it provides both."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Task(Protocol):
    """Something that takes a while."""

    def update(
        self, done: float | None = None, total: float | None = None, description: str | None = None
    ) -> None:
        """Report progress; what is not given stays as it was."""


class Notices(Protocol):
    """Takes what is reported beside a result."""

    @property
    def verbose(self) -> bool:
        """Whether details are wanted."""

    def progress(self, message: str) -> None:
        """What is going on."""

    def detail(self, message: str) -> None:
        """What only matters to whoever looks closely."""

    def note(self, message: str) -> None:
        """What is good to know."""

    def warn(self, message: str) -> None:
        """What should be looked at."""

    def task(self, description: str, total: float | None = None) -> AbstractContextManager[Task]:
        """Progress of something that takes a while."""


class People(Protocol):
    """Whoever can be asked."""

    def answer(self, question: str, text: str) -> bool | None:
        """What a person answers; None where nobody is there."""


class Nobody:
    """Nobody can be asked."""

    def answer(self, question: str, text: str) -> bool | None:
        """Nothing."""
        return None


class SilentTask:
    """Nobody follows it."""

    def update(
        self, done: float | None = None, total: float | None = None, description: str | None = None
    ) -> None:
        """Nothing."""


class Silent:
    """Nobody listens."""

    verbose = False

    def progress(self, message: str) -> None:
        """Nothing."""

    detail = note = warn = progress

    @contextmanager
    def task(self, description: str, total: float | None = None) -> Iterator[Task]:
        """Work that nobody follows."""
        yield SilentTask()


_provided: list[Callable[[], Notices]] = [Silent]


def notices() -> Notices:
    """Where to report to; ask in the thread that runs the use case."""
    return _provided[-1]()


def provide(find: Callable[[], Notices]) -> None:
    """Have reports go where `find` says; the command line does this once."""
    _provided[-1] = find


_stopping: list[Callable[[], bool]] = []


def wants_to_stop() -> bool:
    """Whether somebody wants to stop what is being done: asked between two parts of one effect."""
    return any(each() for each in _stopping)


@contextmanager
def stopped_by(asked: Callable[[], bool]) -> Iterator[None]:
    """Have `wants_to_stop` ask this meanwhile."""
    _stopping.append(asked)
    try:
        yield
    finally:
        _stopping.remove(asked)
