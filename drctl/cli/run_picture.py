"""Draws a run in progress on the terminal; texts from clusters are never Rich markup."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from drctl.app.run_timeline import Line, Snapshot, Wait
from drctl.cli.terminal import one_line
from drctl.views.run_data import StepStatus
from drctl.views.run_words import STEP_STATUS
from drctl.views.text import length

_STEP_STYLES = {
    StepStatus.DONE: "green",
    StepStatus.SKIPPED: "dim",
    StepStatus.NOT_STARTED: "dim",
    StepStatus.ROLLED_BACK: "yellow",
    StepStatus.OUTSTANDING: "yellow",
}
_BAR = 20
_WIDE = 72
"""Minimum width to show each step with its result."""

_HINT = "Ctrl-C stops after the current operation and shows how to resume."
_STOPPING = "Stopping after the current operation. Ctrl-C again stops immediately."


class _Shown(NamedTuple):
    """A line of the list; `now` marks the current step."""

    row: Text
    now: bool = False


class Picture:
    """A Rich renderable.

    Args:
        now: on the monotonic clock of the snapshot.
        stopping: whether Ctrl-C was pressed.
    """

    def __init__(self, seen: Snapshot, now: float, *, stopping: bool) -> None:
        self._seen = seen
        self._now = now
        self._stopping = stopping
        self._longest = max((len(one_line(line.id)) for line in seen.lines), default=0)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines, truncated to the width."""
        width, height = options.max_width, options.size.height
        for line in self.lines(width, height):
            line.truncate(width, overflow="ellipsis")
            line.no_wrap = True
            yield line

    def lines(self, width: int, height: int) -> Sequence[Text]:
        """Return one line or more, but fewer than the terminal has, to avoid scrolling."""
        room = max(1, height - 1)
        last = Text(
            _STOPPING if self._stopping else _HINT, "bold yellow" if self._stopping else "dim"
        )
        current_step = list(self._now_lines(width))
        if room <= len(current_step) + 1:
            # The current step and the hint, if they fit.
            current = [self._row(line, width) for line in self._seen.lines if self._is_now(line)]
            return [*current, last][:room] if room > 1 else (current or [last])[:1]
        head = [self._head()] if room > len(current_step) + 2 else []
        steps = list(self._steps(width, room - len(current_step) - len(head) - 1))
        place = 1 + next((n for n, step in enumerate(steps) if step.now), len(steps) - 1)
        rows = [step.row for step in steps]
        return [*head, *rows[:place], *current_step, *rows[place:], last]

    def _is_now(self, line: Line) -> bool:
        return line.id == self._seen.current

    def _head(self) -> Text:
        plan, run = self._seen.plan, self._seen.run
        ends = f"{one_line(plan.source)} to {one_line(plan.target)}"
        passed = length(self._now - self._seen.began)
        back = ", rolling back" if self._seen.rollback_reason else ""
        return Text(f"{one_line(plan.name)}, {ends}, {passed}{back} (run {one_line(run)})", "bold")

    def _steps(self, width: int, room: int) -> Iterator[_Shown]:
        lines = self._seen.lines
        first, after = window(len(lines), self._place(), room)
        for line in lines[first:after]:
            yield _Shown(self._row(line, width), self._is_now(line))
        hidden = [f"{first} before"] * (first > 0) + [f"{len(lines) - after} after"] * (
            after < len(lines)
        )
        if hidden and room > 1:
            yield _Shown(Text(f"    {' and '.join(hidden)} not shown", "dim"))

    def _place(self) -> int:
        """Index of the current or the next step."""
        for number, line in enumerate(self._seen.lines):
            if self._is_now(line):
                return number
        through = (StepStatus.DONE, StepStatus.SKIPPED, StepStatus.OUTSTANDING)
        waiting = (n for n, line in enumerate(self._seen.lines) if line.status not in through)
        return next(waiting, max(0, len(self._seen.lines) - 1))

    def _row(self, line: Line, width: int) -> Text:
        now = self._is_now(line)
        running = "rolling back" if now and self._seen.rollback_reason else "now"
        state = (
            running
            if now
            else ""
            if line.status is StepStatus.NOT_STARTED
            else STEP_STATUS[line.status]
        )
        room = max(8, width - 32)
        name = one_line(line.id)[:room].ljust(min(self._longest, room))
        style = "bold cyan" if now else _STEP_STYLES.get(line.status, "bold red")
        row = Text(f"{line.number:>3} {name}  {state:<11} {self._seconds(line):>9}", style)
        message = line.title if now else line.message
        if width >= _WIDE and message:
            row.append(f"  {one_line(message)}", "" if now else "dim")
        return row

    def _seconds(self, line: Line) -> str:
        if line.spent is None:
            return ""
        return length(line.spent + (0 if line.since is None else self._now - line.since))

    def _now_lines(self, width: int) -> Iterator[Text]:
        """Progress and notes of the current step."""
        wait = self._seen.wait
        if wait is not None:
            yield Text(f"    {one_line(wait.message)}", "cyan")
            if wait.left is not None:
                yield Text(f"    {self._figure(wait, width)}", "cyan")
            given_up = max(0.0, wait.until - self._now)
            yield Text(f"    waiting; timeout in {length(given_up)}")
        if self._seen.note:
            yield Text(f"    {one_line(self._seen.note)}", "dim")

    def _figure(self, wait: Wait, width: int) -> str:
        left = wait.left or 0
        text = f"{left:,} left of {wait.most:,}"
        seconds = wait.seconds_left(self._now)
        text += f", about {length(seconds)} left at this rate" if seconds is not None else ""
        if width < _WIDE:
            return text
        full = round(_BAR * (wait.most - left) / wait.most) if wait.most else _BAR
        return f"[{'#' * full}{'.' * (_BAR - full)}] {text}"


def window(count: int, place: int, room: int) -> tuple[int, int]:
    """Return the start and end of the visible lines around a place.

    One line is reserved for the number of hidden lines, unless there is room for one line only.
    """
    if count <= room:
        return 0, count
    shown = max(1, room - 1)
    first = min(max(0, place - shown // 2), count - shown)
    return first, first + shown
