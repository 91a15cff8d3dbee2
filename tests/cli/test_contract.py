"""Exit code, stdout and stderr of the real command, for any command line."""

import errno
import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import DRCTL, Run, clean_environment
from tests.cli.documents import check


def test_help_names_the_commands_and_exit_codes(drctl: Run) -> None:
    for arguments in (("--help",), ("-h", "--quiet")):
        ran = drctl(*arguments)
        assert (ran.code, ran.stderr) == (0, "")
        assert ran.stdout.startswith("Usage: drctl [OPTIONS] COMMAND")
        for word in ("init", "lab", "gap", "schema", "completion", "--output", "interrupted"):
            assert word in ran.stdout
        assert "\x1b" not in ran.stdout


@pytest.mark.parametrize("words", [(), ("connect",), ("connect", "offsets")])
def test_a_group_alone_prints_its_help_and_is_a_usage_error(
    called: Run, words: tuple[str, ...]
) -> None:
    ran = called(*words)
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == called(*words, "--help").stdout
    error = check(called(*words, "--output", "json").document())["error"]
    assert (error["code"], error["message"]) == (2, "Missing command.")


def test_help_is_a_command(called: Run) -> None:
    for words in ((), ("gap",), ("gap", "truncation"), ("connect", "offsets", "apply")):
        ran = called("help", *words)
        assert (ran.code, ran.stderr) == (0, "")
        assert ran.stdout == called(*words, "--help").stdout


@pytest.mark.parametrize("words", [("failover",), ("drill", "clean"), ("offsets", "track")])
def test_a_dry_run_is_the_default_and_excludes_execute(called: Run, words: tuple[str, ...]) -> None:
    ran = called(*words, "--dry-run", "--execute")
    assert (ran.code, ran.stdout) == (2, "")
    assert "--dry-run and --execute cannot be combined" in ran.stderr
    assert called(*words, "--dry-run").stderr == called(*words).stderr


def test_help_is_one_document_in_json(drctl: Run) -> None:
    for arguments in (("--help", "-o", "json"), ("--output=json", "schema", "--help")):
        ran = drctl(*arguments)
        assert (ran.code, ran.stderr) == (0, "")
        assert check(ran.document())["text"].startswith("Usage: drctl ")


@pytest.mark.slow
def test_version(drctl: Run) -> None:
    ran = drctl("--version")
    assert (ran.code, ran.stdout, ran.stderr) == (0, "drctl 0.1.0\n", "")
    assert drctl("-V").stdout == ran.stdout
    assert check(drctl("--version", "-o", "json").document())["version"] == "0.1.0"
    assert drctl("schema", "gap", "--version").stdout == "drctl 0.1.0\n"


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("gpa",), "No such command 'gpa'. Did you mean 'gap'?", "see `drctl --help`"),
        (
            ("--outptu", "json"),
            "No such option: --outptu (Possible options: --output)",
            "see `drctl --help`",
        ),
        (
            ("schema", "gap", "x"),
            "Got unexpected extra argument(s) (x)",
            "see `drctl schema --help`",
        ),
        (("completion",), "Missing argument", "see `drctl completion --help`"),
        (("completion", "tcsh"), "Invalid value for", "see `drctl completion --help`"),
        (("--config",), "Option '--config' requires an argument.", "see `drctl --help`"),
        (
            ("resume", "--abandon"),
            "Option '--abandon' requires an argument.",
            "see `drctl resume --help`",
        ),
        (("schema", "gpa"), "unknown document 'gpa'; did you mean 'gap'?", "documents: "),
    ],
)
@pytest.mark.parametrize("json", [False, True])
def test_usage_errors(
    called: Run, arguments: tuple[str, ...], message: str, hint: str, json: bool
) -> None:
    ran = called(*arguments, *(("--output", "json") if json else ()))
    assert ran.code == 2
    if not json:
        assert ran.stdout == ""
        first, second, *rest = ran.stderr.splitlines()
        assert first.startswith("error: ")
        assert message in first
        assert second.startswith(f"hint: {hint}")
        assert rest == []
    elif "requires an argument" not in message:  # it would take --output as its argument
        error = check(ran.document())["error"]
        assert ran.stderr == ""
        assert message in error["message"]
        assert error["hint"].startswith(hint)
        assert (error["code"], error["kind"]) == (2, "UsageError")


@pytest.mark.slow
@pytest.mark.parametrize("output", ["text", "json"])
def test_a_usage_error_of_the_real_command(drctl: Run, output: str) -> None:
    ran = drctl("gap", "--lnk", "x", "--output", output)
    message = "No such option: --lnk (Possible options: --link)"
    assert ran.code == 2
    if output == "json":
        assert ran.stderr == ""
        assert check(ran.document())["error"]["message"] == message
    else:
        assert ran.stdout == ""
        assert ran.stderr == f"error: {message}\nhint: see `drctl gap --help`\n"


def test_global_options_before_and_after_the_command(called: Run) -> None:
    expected = check(called("--output", "json", "schema", "gap").document())
    for arguments in (
        ("schema", "gap", "--output", "json"),
        ("schema", "--output=json", "gap"),
        ("schema", "-o", "json", "gap", "--quiet", "--no-color", "--verbose"),
        ("-q", "schema", "-ojson", "--", "gap"),
        ("--output", "text", "schema", "gap", "--output", "json"),
    ):
        ran = called(*arguments)
        assert (ran.code, ran.stderr) == (0, "")
        assert ran.document() == expected


def test_values_are_never_taken_for_global_options(called: Run) -> None:
    ran = called("schema", "--", "--quiet")
    assert ran.code == 2
    assert "unknown document '--quiet'" in ran.stderr
    ran = called("schema", "--", "--output", "json")
    assert (ran.code, ran.stdout) == (2, "")
    assert "unexpected extra argument" in ran.stderr
    ran = called("--config", "--quiet", "schema", "gpa")
    assert (ran.code, ran.stdout) == (2, "")
    assert "unknown document 'gpa'" in ran.stderr


def test_hostile_arguments_cannot_act_on_the_terminal(called: Run) -> None:
    hostile = "\x1b[2J\x1b]0;owned\x07\u202egap"
    for arguments in ((hostile,), ("schema", hostile), (f"--{hostile}",)):
        ran = called(*arguments)
        assert (ran.code, ran.stdout) == (2, "")
        assert all(line.isprintable() for line in ran.stderr.splitlines())
        assert called(*arguments, "-o", "json").stdout.isascii()


def test_arguments_that_are_not_text(tmp_path: Path) -> None:
    done = subprocess.run(
        [os.fsencode(DRCTL), b"schema", b"\xff\xfe"], capture_output=True, cwd=tmp_path, check=False
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"Traceback" not in done.stderr


def test_a_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [DRCTL, "schema", "gap"], stdout=write, stderr=subprocess.PIPE, cwd=tmp_path, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_result_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [DRCTL, "schema", "gap"], stdout=full, stderr=subprocess.PIPE, cwd=tmp_path, check=False
        )
    assert done.returncode == 5
    assert done.stderr == (
        b"error: the result cannot be written to stdout: No space left on device\n"
    )


def test_a_closed_stdout_is_an_error(tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", '"$0" schema gap >&-', DRCTL],
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 5
    assert b"cannot be written to stdout" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "environ", "colored"),
    [
        (("--help",), {}, True),
        (("--help",), {"NO_COLOR": "1"}, False),
        (("--help",), {"TERM": "dumb"}, False),
        (("--no-color", "--help"), {}, False),
        (("gpa",), {}, True),
        (("gpa", "--no-color"), {}, False),
    ],
)
def test_colour_on_a_terminal(
    tmp_path: Path, arguments: tuple[str, ...], environ: dict[str, str], colored: bool
) -> None:
    assert ("\x1b[" in on_a_terminal(tmp_path, arguments, environ)) is colored


def on_a_terminal(folder: Path, arguments: tuple[str, ...], environ: dict[str, str]) -> str:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [DRCTL, *arguments],
        cwd=folder,
        env={**clean_environment(), "TERM": "xterm", **environ},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    try:
        while block := os.read(ours, 65536):
            shown += block
    except OSError:  # Linux: the other side is closed
        shown += b""
    os.close(ours)
    process.wait(timeout=60)
    return shown.decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "json"), [(signal.SIGINT, False), (signal.SIGTERM, True), (signal.SIGHUP, False)]
)
def test_sigterm_is_an_interruption(tmp_path: Path, number: signal.Signals, json: bool) -> None:
    """A configuration that is a FIFO makes the command wait as long as the test needs."""
    fifo = tmp_path / "waits"
    os.mkfifo(fifo)
    process = subprocess.Popen(
        [DRCTL, "gap", "--config", fifo, *(["-o", "json"] if json else [])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    with writer_of(fifo, process):
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    if json:
        assert stderr == b""
        assert b'"kind": "Interrupted"' in stdout
    else:
        assert (stdout, stderr) == (b"", b"error: interrupted\n")


def is_reading(pid: int) -> bool:
    """Whether a process that has opened a FIFO waits in a read."""
    proc = Path(f"/proc/{pid}")
    state = proc.joinpath("stat").read_text("utf-8").rpartition(") ")[2][0]
    return state == "S" and proc.joinpath("wchan").read_text("ascii") != "wait_for_partner"


@contextmanager
def writer_of(fifo: Path, process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Open the writing end of a FIFO once the process has opened the reading end."""
    until = time.monotonic() + 60
    while True:
        assert process.poll() is None, "the command did not wait for its configuration"
        assert time.monotonic() < until
        try:
            side = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
            break
        except OSError as error:
            if error.errno != errno.ENXIO:  # nobody reads yet
                raise
            time.sleep(0.01)
    # Python handles a signal that comes just before a blocking read only after the read.
    while not is_reading(process.pid):
        assert time.monotonic() < until
        time.sleep(0.01)
    try:
        yield
    finally:
        os.close(side)
