"""Progress: a bar on a terminal, otherwise a line every few seconds."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from drctl.app.notices import SilentTask, Task
from drctl.cli import live_screen
from drctl.cli.options import GlobalOptions
from drctl.cli.terminal import is_terminal, one_line

_SECONDS_BETWEEN_LINES = 5.0


class LineTask:
    """Plain lines for logs of CI jobs, by default at most one every five seconds."""

    def __init__(
        self,
        description: str,
        total: float | None,
        write: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
        every_s: float = _SECONDS_BETWEEN_LINES,
    ) -> None:
        self._description = description
        self._total = total
        self._done = 0.0
        self._write = write
        self._clock = clock
        self._every_s = every_s
        self._started = self._printed = clock()

    def update(
        self, done: float | None = None, total: float | None = None, description: str | None = None
    ) -> None:
        """Store the progress, and print it if the last line is old enough."""
        self._done = self._done if done is None else done
        self._total = self._total if total is None else total
        self._description = description or self._description
        now = self._clock()
        if now - self._printed >= self._every_s:
            self._printed = now
            self._write(one_line(self._line(now - self._started)) + "\n")

    def _line(self, elapsed: float) -> str:
        if not self._total:
            return f"{self._description}: {elapsed:.0f} s"
        share = min(1.0, self._done / self._total)
        left = f", about {elapsed / share - elapsed:.0f} s left" if share else ""
        return f"{self._description}: {share:.0%} ({self._done:,.0f} of {self._total:,.0f}){left}"


@contextmanager
def task(description: str, total: float | None, options: GlobalOptions) -> Iterator[Task]:
    """Show progress while the block runs."""
    if (screen := live_screen.current()) is not None:
        yield LineTask(description, total, screen.note, every_s=0)
    elif options.quiet or sys.stderr is None:
        yield SilentTask()
    elif is_terminal(sys.stderr):
        from drctl.cli.drawing import bar

        with bar(one_line(description), total, options) as drawn:
            yield drawn
    else:
        yield LineTask(description, total, sys.stderr.write)
