"""Each exit code, through the real command if possible."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from drctl.cli import main
from drctl.cli.main import run
from drctl.engine import entries
from drctl.host.connections import connect
from drctl.host.files import original_umask, private_files
from drctl.model.loss import Mode
from drctl.plans.failover import failover
from drctl.plans.inputs import PlanInputs
from drctl.stores.journal_files import RunFiles
from drctl.stores.parquet import ParquetRecords
from tests.cli.conftest import Run
from tests.cli.documents import check

FINE = """clusters:
  primary:
    bootstrap: 127.0.0.1:{port}
    properties: {{security.protocol: PLAINTEXT}}
  secondary: {{bootstrap: "127.0.0.1:1"}}
links:
  main: {{from: primary, to: secondary, topics: [orders]}}
"""


def free_port() -> int:
    """Return an unused port."""
    for port in range(19500, 19600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    raise AssertionError("19500 to 19599 are all taken")


@pytest.mark.slow
@pytest.mark.parametrize("output", ["text", "json"])
def test_2_configuration(drctl: Run, tmp_path: Path, output: str) -> None:
    (tmp_path / "drctl.yaml").write_text("clusters: {a: {bootstap: 'a:1'}}\npolcy: {}\n")
    ran = drctl("gap", "--output", output)
    lines = [
        "3 problems in drctl.yaml",
        "drctl.yaml:1:12: clusters.a.bootstrap: is required",
        "drctl.yaml:1:16: clusters.a.bootstap: is unknown; did you mean 'bootstrap'?",
        "drctl.yaml:2:1: polcy: is unknown; did you mean 'policy'?",
    ]
    message = ran.stderr.removeprefix("error: ")
    if output == "json":
        error = check(ran.document())["error"]
        assert (error["code"], error["kind"], ran.stderr) == (2, "ConfigError", "")
        message = error["message"]
    else:
        assert ran.stdout == ""
        assert ran.stderr.startswith("error: ")
    assert ran.code == 2
    assert all(a.startswith(b) for a, b in zip(message.splitlines(), lines, strict=True))


def test_2_no_configuration(called: Run, tmp_path: Path) -> None:
    ran = called("gap")
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"error: configuration not found: {tmp_path / 'drctl.yaml'}\n")
    assert "hint: create it: drctl init PRIMARY:9092 SECONDARY:9092; or name another" in ran.stderr
    (tmp_path / "a.yaml").write_text("a")
    (tmp_path / "b.yaml").write_text("b")
    ran = called("gap", environ={"DRCTL_CONFIG": "a.yaml"})
    assert (ran.code, ran.stderr.split(":")[1]) == (2, " a.yaml")
    ran = called("gap", "--config", "b.yaml", environ={"DRCTL_CONFIG": "a.yaml"})
    assert (ran.code, ran.stderr.split(":")[1]) == (2, " b.yaml")
    assert called("--config", "b.yaml", "gap").stderr == ran.stderr


def test_2_an_unknown_link(called: Run, tmp_path: Path) -> None:
    (tmp_path / "drctl.yaml").write_text(FINE.format(port=2))
    ran = called("gap", "--link", "mian")
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == ("error: drctl.yaml has no link 'mian'\nhint: did you mean 'main'?\n")


@pytest.mark.slow
def test_3_a_file_is_not_overwritten(drctl: Run, tmp_path: Path) -> None:
    (tmp_path / "drctl.yaml").write_text("precious")
    ran = drctl("init", "127.0.0.1:1", "127.0.0.1:2")
    assert (ran.code, ran.stdout) == (3, "")
    assert ran.stderr.startswith("error: drctl.yaml already exists; nothing was written\nhint: ")
    ran = drctl("init", "127.0.0.1:1", "127.0.0.1:2", "-o", "json")
    assert (ran.code, ran.stderr) == (3, "")
    assert check(ran.document())["error"]["kind"] == "Refused"
    assert (tmp_path / "drctl.yaml").read_text() == "precious"


@pytest.mark.parametrize("output", ["text", "json"])
def test_70_a_bug(
    output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In process: no known command line causes a bug."""
    path = tmp_path / "drctl.yaml"
    path.write_text(
        "clusters: {a: {bootstrap: 'a:1', properties: {sasl.password: planted}},"
        " b: {bootstrap: 'b:1'}}\nlinks: {main: {from: a, to: b, topics: [x]}}\n"
    )
    path.chmod(0o600)

    def broken(*_: object) -> None:
        raise KeyError("a planted word")

    monkeypatch.setattr("drctl.app.gap.GapRuns._analyse", broken)
    assert (
        run(["gap", "--config", str(path), "--output", output, "--out", str(tmp_path / "o")]) == 70
    )
    shown = capsys.readouterr()
    assert "planted" not in shown.out + shown.err
    assert "Traceback (most recent call last)" in shown.err
    assert "test_exit_codes.py" in shown.err
    if output == "json":
        error = check(json.loads(shown.out))["error"]
        assert (error["code"], error["kind"]) == (70, "Bug")
        assert error["message"] == "KeyError: 'a *** word'"
    else:
        assert shown.out == ""
        assert "error: KeyError: 'a *** word'" in shown.err


def test_a_command_line_leaves_no_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["gap", "--output", "json", "--quiet"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == 2
    assert run(["gap"]) == 2
    assert capsys.readouterr().out == ""


def test_130_when_python_hides_the_interrupt(called: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """As during the creation of a class in an import."""

    def hides(_words: object) -> int:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as interrupt:
            raise RuntimeError("Error calling __set_name__") from interrupt

    monkeypatch.setattr(main, "_called", hides)
    ran = called("gap")
    assert (ran.code, ran.stdout) == (130, "")
    assert ran.stderr.startswith("error: interrupted")


@pytest.mark.parametrize("signalled", [True, False])
def test_130_when_a_c_call_loses_the_interrupt(
    called: Run, monkeypatch: pytest.MonkeyPatch, signalled: bool
) -> None:
    """As in confluent-kafka if the signal arrives while it writes a log line."""

    def loses(_words: object) -> int:
        with contextlib.suppress(KeyboardInterrupt):
            if signalled:
                signal.raise_signal(signal.SIGINT)
        raise SystemError("<method 'poll'> returned NULL without setting an exception")

    monkeypatch.setattr(main, "_called", loses)
    ran = called("gap")
    assert ran.code == (130 if signalled else 70)
    assert ("interrupted" in ran.stderr) is signalled


LOSES = """
import logging, os, signal, threading
from confluent_kafka import Consumer
from drctl.cli import main
from drctl.kafka.connection import _Log

quiet = logging.getLogger("quiet")
quiet.addHandler(logging.NullHandler())
quiet = _Log(quiet)
nobody = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "debug": "all"}

def waits(_words):
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    Consumer(nobody, logger=quiet).poll(60)

main._called = waits
main.program()
"""


def test_130_while_a_kafka_client_logs() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LOSES], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "error: interrupted\n")


def test_70_an_error_after_an_interrupt(called: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(_words: object) -> int:
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("closing failed")

    monkeypatch.setattr(main, "_called", breaks)
    ran = called("gap")
    assert ran.code == 70
    assert "closing failed" in ran.stderr


THREAD_STILL_RUNNING = """
import threading, time
from drctl.cli import main

def run():
    threading.Thread(target=time.sleep, args=(600,)).start()
    print("printed")
    return 5

main.run = run
main.program()
"""


def test_a_thread_that_waits_for_a_cluster_does_not_block_exit() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", THREAD_STILL_RUNNING],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (5, "printed\n", "")


def test_a_terminal_with_a_small_character_set(drctl: Run, tmp_path: Path) -> None:
    """Characters outside Latin-1 or ASCII are escaped."""
    name = "\u6f22\u5b57"
    clusters = "clusters: {a: {bootstrap: 'h:1'}, b: {bootstrap: 'h:2'}}"
    links = "links: {main: {from: a, to: b, topics: [t]}}"
    (tmp_path / "drctl.yaml").write_text(f"{clusters}\n{links}\n", encoding="utf-8")
    plan = failover(Mode.PLANNED, PlanInputs("main", "a", "b"))
    at = datetime(2026, 11, 22, tzinfo=UTC)
    with RunFiles(tmp_path / ".drctl" / "runs").create("r1") as file:
        file.append([entries.began("r1", plan, {"user": name, "host": "h"}, at)])
    for encoding in ("latin-1", "ascii", "cp1252"):
        ran = drctl("journal", "--local", environ={"PYTHONIOENCODING": encoding})
        assert ran.code == 0, ran.stderr
        assert r"by \u6f22\u5b57 on h" in ran.stdout
    ran = drctl("journal", "--local", environ={"PYTHONIOENCODING": "utf-8"})
    assert f"by {name} on h" in ran.stdout


DEEP = {
    "mappings": "a: " + "{a: " * 350 + "1" + "}" * 350,
    "lists": "a: " + "[" * 350 + "]" * 350,
    "lines": "".join(" " * n + "a:\n" for n in range(350)),
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_2_a_deeply_nested_configuration(called: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "drctl.yaml").write_text(text, encoding="utf-8")
    ran = called("journal", "--local")
    assert ran.code == 2, ran.stderr
    assert "nested too deeply" in ran.stderr


@pytest.mark.parametrize("host", ["kafka..local", ".local", ".", "x" * 64, "\u00e4..de"])
def test_2_an_unresolvable_host(called: Run, tmp_path: Path, host: str) -> None:
    clusters = f"clusters: {{a: {{bootstrap: '{host}:9092'}}, b: {{bootstrap: 'h:2'}}}}"
    links = "links: {main: {from: a, to: b, topics: [t]}}"
    (tmp_path / "drctl.yaml").write_text(f"{clusters}\n{links}\n", encoding="utf-8")
    ran = called("journal", "--local")
    assert ran.code == 2, ran.stderr
    assert "must be HOST:PORT" in ran.stderr


def test_an_unresolvable_advertised_host() -> None:
    """A cluster may advertise any address without causing a bug."""
    for host in ("kafka..local", ".", "x" * 64, "\ud800", "a\x00b"):
        with pytest.raises(OSError, match=r"."):
            connect((host, 9092), 1)


def test_written_files_are_private(called: Run, tmp_path: Path) -> None:
    """Also with a permissive umask, and including created parent folders."""
    (tmp_path / "open").mkdir(mode=0o775)
    before = os.umask(0o002)
    try:
        out = tmp_path / "open" / "a" / "b" / "drctl.yaml"
        with private_files():
            out.parent.mkdir(mode=0o700, parents=True)
            ParquetRecords(tmp_path / "open").write([])
            (out.parent / "file").write_text("x")
        assert os.umask(0o002) == 0o002
    finally:
        os.umask(before)
    made = list((tmp_path / "open").rglob("*"))
    assert len(made) == 7
    for path in made:
        assert path.stat().st_mode & 0o077 == 0, path


def test_every_command_writes_private_files(
    called: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def look(_words: list[str]) -> int:
        seen.append(os.umask(0o077))
        os.umask(seen[-1])
        seen.append(original_umask())
        return 0

    monkeypatch.setattr("drctl.cli.main._called", look)
    before = os.umask(0o002)
    try:
        assert called("journal").code == 0
        assert os.umask(0o002) == 0o002
    finally:
        os.umask(before)
    assert seen == [0o077, 0o002]
