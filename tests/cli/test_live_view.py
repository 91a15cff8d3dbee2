"""A run on a terminal: what is drawn fits, is true, and lets a person stop."""

import fcntl
import io
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, cast

import pytest
from rich.cells import cell_len

from drctl.app.run_timeline import LiveTimeline, ObservedJournal, Snapshot, counted
from drctl.cli import live_screen
from drctl.cli.drawing import SafeConsole
from drctl.cli.options import GlobalOptions, Output
from drctl.cli.progress import task
from drctl.cli.run_picture import Picture, window
from drctl.engine.executing import Execution
from drctl.engine.kind import State
from drctl.engine.ports import Missing
from drctl.engine.run_state import read_run
from drctl.lab.waiting import Patience
from drctl.steps.registry import KINDS
from drctl.views.run_data import StepStatus
from tests.cli.conftest import clean_environment
from tests.engine.test_read_only_steps import Two
from tests.engine.toggles import FastClock, MemoryJournal, NoWatcher, World, kinds, plan
from tests.report import runs

STOP = "Ctrl-C stops after the current operation and shows how to resume."


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("12,400 records are not replicated yet", 12_400),
        ("2 of 14 groups are active: a", 2),
        ("no record is missing", None),
        ("broker 2 does not have the rule", None),
        ("2026-11-22 is no count", None),
        ("7", None),
    ],
)
def test_remaining_work_comes_first_in_the_line(words: str, left: int | None) -> None:
    assert counted(words) == left


def test_remaining_work_comes_first_for_steps_that_count() -> None:
    seen = KINDS["drain"].verify({}, cast(Any, Two(missing_records=Missing(12_400))))
    assert (seen.state, counted(seen.message)) == (State.WAITING, 12_400)
    intent = {"target": "b", "groups": ["app", "other"]}
    seen = KINDS["verify-clients"].verify(intent, cast(Any, Two()))
    assert (seen.state, counted(seen.message)) == (State.WAITING, 2)


class Stage:
    """The executor with switches; each frame that could be drawn is recorded."""

    def __init__(self, world: World) -> None:
        self.world, self.clock, self.notes = world, FastClock(), MemoryJournal(world)
        self.seen: list[tuple[Snapshot, float]] = []

    def run(self, *, again: bool = False) -> Snapshot:
        held = [*self.notes.entries]
        timeline = LiveTimeline(plan(), kinds(), "r1", self.clock.monotonic, held)

        def keep() -> None:
            self.seen.append((timeline.snapshot, self.clock.monotonic()))

        class Watching(NoWatcher):
            def step(self, *values: Any) -> None:
                timeline.step(*values)
                keep()

            def waiting(self, *values: Any) -> None:
                timeline.waiting(*values)
                keep()

            def ended(self, *values: Any) -> None:
                timeline.ended(*values)
                keep()

        def appended(entries: Any) -> None:
            timeline.appended(entries)
            keep()

        journal = ObservedJournal(self.notes, appended)
        look: Any = self.world
        engine = Execution(kinds(), look, look, journal, self.clock, Watching())
        if again:
            engine.resume(read_run(held), {"user": "bob"})
        else:
            engine.start(plan(), {"user": "ada"})
        return timeline.snapshot

    def currents(self) -> list[str]:
        """Return the steps in progress, in order."""
        found = [seen.current for seen, _ in self.seen if seen.current]
        return [c for n, c in enumerate(found) if n == 0 or found[n - 1] != c]


def statuses(seen: Snapshot) -> dict[str, StepStatus]:
    return {line.id: line.status for line in seen.lines}


def test_a_completed_run() -> None:
    stage = Stage(World())
    last = stage.run()
    assert stage.currents() == [step.id for step in plan().steps]
    assert set(statuses(last).values()) == {StepStatus.DONE}
    assert (last.current, last.wait, last.rollback_reason) == ("", None, "")


def test_a_rolled_back_run_that_is_resumed() -> None:
    world = World(stuck={"offsets"})
    stage = Stage(world)
    last = stage.run()
    assert last.rollback_reason
    assert stage.currents()[-2:] == ["stop", "fence"]
    assert stage.currents().count("stop") == 2
    assert statuses(last)["fence"] is StepStatus.ROLLED_BACK
    waits = [seen.wait for seen, _ in stage.seen if seen.wait]
    assert waits[0].until == pytest.approx(stage.clock.seconds, abs=10)

    world = World(unseen={"drain"})
    stage = Stage(world)
    assert statuses(stage.run())["drain"] is StepStatus.UNKNOWN
    world.unseen.clear()
    stage.seen.clear()
    assert set(statuses(stage.run(again=True)).values()) == {StepStatus.DONE}
    assert stage.seen[0][0].lines[0].status is StepStatus.DONE
    assert stage.seen[0][0].lines[0].spent is None, "the time of another process was shown"


def test_a_falling_number_has_a_rate() -> None:
    clock = FastClock()
    timeline = LiveTimeline(runs.planned(), KINDS, "r1", clock.monotonic)
    timeline.step("drain", 4, 13)
    timeline.waiting("drain", "900 records are not replicated yet", 60)
    clock.wait(5)
    timeline.waiting("drain", "1,000 records are not replicated yet", 55)
    clock.wait(5)
    timeline.waiting("drain", "750 records are not replicated yet", 50)
    wait = timeline.snapshot.wait
    assert wait is not None
    assert (wait.left, wait.most) == (750, 1_000)
    assert wait.seconds_left(clock.seconds) == pytest.approx(15)
    shown = drawn(timeline.snapshot, clock.seconds + 2, 100, 40)
    assert "[#####...............] 750 left of 1,000, about 21.0 s left at this rate" in shown
    assert "timeout in 48.0 s" in shown


def drawn(seen: Snapshot, now: float, width: int, height: int, *, stopping: bool = False) -> str:
    file = io.StringIO()
    terminal = SafeConsole(file=file, width=width, height=height, markup=False, highlight=False)
    terminal.print(Picture(seen, now, stopping=stopping))
    return file.getvalue()


def hostile() -> tuple[Snapshot, float]:
    """Return the middle of a run with hostile text everywhere."""
    run, clock = runs.hostile(), FastClock()
    timeline = LiveTimeline(run.plan, KINDS, runs.ATTACK, clock.monotonic, run.entries)
    timeline.step("drain", 4, 13)
    timeline.waiting("drain", f"12,400 records {runs.CONTROLS * 9}", 60)
    timeline.progressed(runs.CONTROLS)
    return timeline.snapshot, clock.seconds + 3


@pytest.mark.parametrize("width", [1, 8, 20, 40, 71, 72, 200])
@pytest.mark.parametrize("height", [1, 2, 3, 4, 5, 6, 9, 12, 18, 19, 60])
def test_it_fits_every_terminal_and_is_escaped(width: int, height: int) -> None:
    shown = drawn(*hostile(), width, height).removesuffix("\n").split("\n")
    assert len(shown) <= max(1, height - 1)
    assert all(cell_len(line) <= width and line.isprintable() for line in shown)
    if width >= 72:
        assert any(re.match(r" +4 drain +now +0\.0 s|.* 4 drain ", line) for line in shown)
        assert height < 3 or shown[-1] == STOP
    stopping = drawn(*hostile(), width, height, stopping=True)
    assert width < 72 or height < 3 or "Ctrl-C again stops immediately" in stopping


@pytest.mark.parametrize("count", range(8))
def test_the_window_keeps_the_current_step(count: int) -> None:
    for room in range(1, 9):
        for place in range(count):
            first, after = window(count, place, room)
            assert 0 <= first <= place < after <= count
            assert after - first + (after - first < count and room > 1) <= room


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("options", "environ", "terminal", "drawn"),
    [
        (GlobalOptions(), {"TERM": "xterm"}, True, True),
        (GlobalOptions(), {"TERM": "xterm"}, False, False),
        (GlobalOptions(), {"TERM": "dumb"}, True, False),
        (GlobalOptions(), {"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        (GlobalOptions(no_color=True), {"TERM": "xterm"}, True, False),
        (GlobalOptions(quiet=True), {"TERM": "xterm"}, True, False),
        (GlobalOptions(output=Output.JSON), {"TERM": "xterm"}, True, False),
    ],
)
def test_it_is_drawn_on_a_terminal_only(
    options: GlobalOptions,
    environ: Mapping[str, str],
    terminal: bool,
    drawn: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(live_screen, "options", lambda: options)
    monkeypatch.setattr(sys, "stderr", Tty() if terminal else io.StringIO())
    assert live_screen.wanted() is drawn


def test_progress_becomes_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    monkeypatch.setattr(sys, "stderr", Tty())
    with live_screen.shown(lambda: "picture", notes.append):
        with task("comparing", 10, GlobalOptions()) as comparing:
            comparing.update(done=5)
        shown = live_screen.current()
        with live_screen.paused():
            assert live_screen.current() is None
        assert live_screen.current() is shown
    assert live_screen.current() is None
    assert [note.split(",")[0] for note in notes] == ["comparing: 50% (5 of 10)"]


class Terminal:
    """A terminal with a program."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        self.drawn = bytearray()
        self.resize(24, 100)
        self.process: subprocess.Popen[bytes] | None = None

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def run(self, *arguments: str, environ: Mapping[str, str]) -> None:
        program = [sys.executable, "-m", "tests.cli.live_run", *arguments]
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *program],
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
            env={**clean_environment(), "TERM": "xterm", **environ},
        )
        threading.Thread(target=self._read, args=(os.dup(self.ours),), daemon=True).start()

    def press(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def text(self) -> str:
        """Return everything that was drawn, without control sequences."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.drawn.decode(errors="replace"))

    def await_text(self, words: str) -> None:
        assert Patience.of(40).wait_until(lambda: words in self.text()), self.text()[-3000:]

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(40)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        os.close(self.theirs)
        os.close(self.ours)

    def _read(self, terminal: int) -> None:
        with os.fdopen(terminal, "rb", buffering=0) as drawn, suppress(OSError):
            while data := drawn.read(4096):
                self.drawn += data


@contextmanager
def terminal(*arguments: str, **environ: str) -> Iterator[Terminal]:
    opened = Terminal()
    try:
        opened.run(*arguments, environ=environ)
        yield opened
    finally:
        opened.close()


@pytest.mark.slow
def test_a_run_on_a_resized_terminal() -> None:
    with terminal("3", "ask") as shown:
        shown.await_text("4 drain               now")
        shown.await_text("left of 12,400")
        for lines, columns in ((5, 20), (1, 1), (12, 60), (24, 100)):
            shown.resize(lines, columns)
        shown.await_text("Type yes to confirm, otherwise no:")
        shown.press(b"yes\n")
        shown.await_text("ended: done")
        assert shown.wait() == 0
        screen = shown.drawn.decode()
    assert "\x1b[2J" not in screen, "text from a cluster cleared the screen"
    assert "\u202e" not in screen
    assert "\x07" not in screen
    assert screen.count("\x1b[?25l") == screen.count("\x1b[?25h") == 2, (
        "the cursor was not restored"
    )


@pytest.mark.slow
@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c(presses: int) -> None:
    with terminal("1") as shown:
        shown.await_text("4 drain               now")
        shown.press(b"\x03")
        if presses == 1:
            shown.await_text("ended: interrupted drain")
            assert shown.wait() == 130
            shown.await_text("Stopping after the current operation")
        else:
            shown.press(b"\x03")
            assert shown.wait() in (-signal.SIGINT, 1, 130)
        cursor = lambda: shown.drawn.count(b"\x1b[?25h") == 1  # noqa: E731
        assert Patience.of(10).wait_until(cursor), "the cursor stays hidden"


@pytest.mark.slow
def test_a_log_gets_plain_lines() -> None:
    with terminal("40", TERM="dumb") as shown:
        assert shown.wait() == 0
        shown.await_text("ended: done")
        screen = shown.drawn.decode()
    assert "\x1b" not in screen
    assert "[13/13] verify that clients use secondary" in screen
