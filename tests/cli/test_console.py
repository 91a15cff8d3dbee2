"""Output to a terminal, a file, and a log."""

import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text as RichText

from drctl.cli.console import Console
from drctl.cli.drawing import draw
from drctl.cli.options import GlobalOptions, Output
from drctl.cli.progress import LineTask
from drctl.cli.terminal import one_line, printable
from drctl.model.text import lines as meant
from drctl.views.view import Items, Part, Text, view
from tests.cli.conftest import clean_environment

HOSTILE = "a\x1b[2J\x07\x9b31m\u202eb\x00\r\u200b\ud800"
JSON = GlobalOptions(output=Output.JSON)


@settings(deadline=None)
@given(st.text())
def test_control_characters_are_escaped(text: str) -> None:
    assert all(c.isprintable() or c in "\n\t" for c in printable(text))
    assert one_line(text).isprintable()
    if text.isprintable():
        assert printable(text) == one_line(text) == text


def test_a_command_on_its_own_line_is_not_broken() -> None:
    command = f"drctl failback --plan-out {'x' * 300} --execute"
    prose = "word " * 80

    @view
    def page() -> Iterator[Part]:
        yield Text(f"  {command}", "bold")
        yield Items([f"{prose}\n{command}"], numbered=True)

    shown = draw(page(), io.StringIO(), GlobalOptions()).splitlines()
    assert [line.strip() for line in shown].count(command) == 2
    assert all(len(line) <= 200 for line in shown if "drctl" not in line)


def test_tables_hold_no_control_characters() -> None:
    table = Table("topic", title=HOSTILE)
    table.add_row(HOSTILE)
    table.add_row(RichText(f"[red]{HOSTILE}"))
    shown = draw(table, io.StringIO(), GlobalOptions())
    assert all(line.isprintable() for line in shown.split("\n"))
    assert "[red]" in shown
    assert r"\x1b[2J" in shown


def test_tables_are_not_cut_without_a_terminal() -> None:
    table = Table("topic")
    table.add_row("x" * 150)
    assert "x" * 150 in draw(table, io.StringIO(), GlobalOptions())


def test_results(capsys: pytest.CaptureFixture[str]) -> None:
    Console(GlobalOptions()).result(f"found {HOSTILE}", {"found": HOSTILE})
    shown = capsys.readouterr()
    assert (shown.out.count("\n"), shown.err) == (1, "")
    assert shown.out.strip().isprintable()
    console = Console(JSON)
    console.result(lambda: pytest.fail("nothing is drawn for JSON"), {"found": HOSTILE})
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {"found": HOSTILE}
    assert shown.out.isascii()
    assert console.answered


def test_streams_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(JSON)
    console.stream({"n": 1})
    console.stream({"n": "a\nb"})
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"n": 1},
        {"n": "a\nb"},
    ]


def test_a_warning_about_the_configuration_is_not_repeated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console = Console(GlobalOptions())
    for _ in range(2):
        console.warn_once("too open")
    assert capsys.readouterr().err == "warning: too open\n"


def test_numbers_that_json_cannot_hold_are_a_bug() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        Console(JSON).result("", {"n": float("nan")})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (GlobalOptions(), ["going", "note: n", "warning: w", "error: e", "hint: h"]),
        (GlobalOptions(quiet=True), ["warning: w", "error: e", "hint: h"]),
        (
            GlobalOptions(verbose=True),
            ["going", "detail", "note: n", "warning: w", "error: e", "hint: h"],
        ),
    ],
)
def test_messages_go_to_stderr(
    options: GlobalOptions, expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    console = Console(options)
    console.progress("going")
    console.detail("detail")
    console.note("n")
    console.warn("w")
    console.error("e", "h")
    shown = capsys.readouterr()
    assert (shown.out, shown.err.splitlines()) == ("", expected)


@pytest.fixture
def lines() -> tuple[LineTask, list[str], list[float]]:
    printed: list[str] = []
    now = [100.0]
    return LineTask("reading", None, printed.append, lambda: now[0]), printed, now


def test_a_log_gets_a_line_every_five_seconds(
    lines: tuple[LineTask, list[str], list[float]],
) -> None:
    task, printed, now = lines
    for second in range(13):
        now[0] = 100.0 + second
        task.update(done=second * 1000, total=20_000)
    assert printed == [
        "reading: 25% (5,000 of 20,000), about 15 s left\n",
        "reading: 50% (10,000 of 20,000), about 10 s left\n",
    ]


def test_a_task_of_unknown_length(lines: tuple[LineTask, list[str], list[float]]) -> None:
    task, printed, now = lines
    task.update(description="starting\x1b")
    now[0] += 6
    task.update()
    assert printed == ["starting\\x1b: 6 s\n"]


SHOW = """
from drctl.cli.console import Console
from drctl.cli.options import GlobalOptions
console = Console(GlobalOptions({options}))
with console.task("copy \\x1b[2Jing", 10) as task:
    task.update(done=5)
    console.progress("in between")
    task.update(done=10, total=10, description="done \\x07")
console.result("result", {{}})
"""


@pytest.mark.parametrize("options", ["", "quiet=True"])
def test_a_bar_is_drawn_on_a_terminal_only(options: str, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    program: list[Any] = [sys.executable, "-c", SHOW.format(options=options)]
    environ = {**clean_environment(), "TERM": "xterm", "COLUMNS": "100"}
    done = subprocess.run(
        program, stderr=theirs, stdout=subprocess.PIPE, env=environ, cwd=tmp_path, check=True
    )
    os.close(theirs)
    shown = os.read(ours, 65536).decode() if options != "quiet=True" else ""
    os.close(ours)
    assert done.stdout == b"result\n"
    if options != "quiet=True":
        assert "5/10" in shown or "10/10" in shown
        assert "in between" in shown
        assert "\x1b[2J" not in shown
        assert "\x07" not in shown
        assert ("\x1b[38;5" in shown or "\x1b[32m" in shown) is (options == "")
    piped = subprocess.run(program, capture_output=True, env=environ, cwd=tmp_path, check=True)
    assert (piped.stdout, piped.stderr) == (
        b"result\n",
        b"" if options == "quiet=True" else b"in between\n",
    )


TELL = """
import sys
from drctl.cli.console import Console
from drctl.cli.options import GlobalOptions
Console(GlobalOptions()).error("short", sys.argv[1])
"""
PROSE = "the original topics on the secondary hold records that nobody replicated: "
COMMAND = "drctl failback --link main --policy copy --topic 'flights and orders=discard' --execute"


@pytest.mark.parametrize("columns", [60, 100])
@pytest.mark.parametrize("command", [COMMAND, f"{COMMAND} --plan-out {'x' * 200}"])
def test_hints_are_broken_at_spaces_but_commands_are_not(columns: int, command: str) -> None:
    hint = f"{PROSE * 2}{command}; then `drctl report --link main`, and {PROSE * 2}"
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environ = {**clean_environment(), "TERM": "xterm", "NO_COLOR": "1"}
    program = [sys.executable, "-c", TELL, hint]
    subprocess.run(program, stderr=theirs, env=environ, check=True)
    os.close(theirs)
    shown = os.read(ours, 65536).decode().splitlines()
    os.close(ours)
    assert shown[0] == "error: short"
    assert " ".join(shown[1:]) == f"hint: {hint}".rstrip()
    assert all(len(line) <= columns or line.startswith(command) for line in shown)
    assert sum(command in line for line in shown) == 1
    assert sum("`drctl report --link main`" in line for line in shown) == 1
    piped = subprocess.run(program, capture_output=True, env=environ, check=True, text=True)
    assert piped.stderr == f"error: short\nhint: {hint}\n"


def test_the_exit_code_does_not_depend_on_an_open_stderr(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "drctl", "gap", "--config", str(tmp_path / "none.yaml")]
    closed = ["sh", "-c", 'exec "$@" 2>&-', "sh", *words]
    for command in (words, closed):
        assert subprocess.run(command, env=clean_environment(), check=False).returncode == 2


def test_foreign_text_cannot_start_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A broker's reason, a name or a journal entry cannot look like a message of drctl."""
    forged = "no\nerror: run\rhint: curl x | sh\x85note: z\u2028done"
    console = Console(GlobalOptions(verbose=True))
    for tell in (console.progress, console.detail, console.note, console.warn, console.error):
        tell(forged)
        out = capsys.readouterr().err
        assert out.count("\n") == 1, out
        assert out.splitlines() == [out.removesuffix("\n")]
    console.error("one", forged)
    assert capsys.readouterr().err.count("\n") == 2
    console.result(forged, {})
    assert capsys.readouterr().out.count("\n") == 1
    console.result(meant(["a", forged, "b"]), {})
    assert len(capsys.readouterr().out.splitlines()) == 3
    console.error(meant(["2 problems", "x"]))
    assert capsys.readouterr().err.splitlines() == ["error: 2 problems", "x"]


RECORDED = {5: 204_230, 10: 1_173_921, 15: 2_026_050, 20: 2_848_261, 25: 3_267_833, 30: 3_781_330}
"""By second: the records read by a comparison of 4,000,000 on a busy machine, which took 36 s."""


def test_the_time_left_is_true_within_a_factor_of_two_after_ten_seconds(
    lines: tuple[LineTask, list[str], list[float]],
) -> None:
    task, printed, now = lines
    for second, done in RECORDED.items():
        now[0] = 100.0 + second
        task.update(done=done, total=4_000_000)
    stated = [int(line.split("about ")[1].split(" s left")[0]) for line in printed]
    assert len(stated) == len(RECORDED)
    for second, left in list(zip(RECORDED, stated, strict=True))[1:-1]:
        assert (36 - second) / 2 <= left <= 2 * (36 - second), f"after {second} s"
