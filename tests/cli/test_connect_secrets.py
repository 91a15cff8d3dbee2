"""Commands that read Connect: malformed responses cause no bug, and no password is shown."""

import io
import json
import os
import re
import shlex
from base64 import b64encode
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any
from unittest import mock
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from drctl.cli.main import run
from drctl.model.errors import ExitCode
from drctl.plans import connectors as plans
from tests.cli.conftest import Run
from tests.connect.raw_server import Served, answer, raw_server
from tests.connect.scripted_worker import scripted_worker
from tests.connect.test_odd_answers import NEVER_CONNECTS
from tests.depth import examples, some

CONFIG = """clusters:
  primary: {{bootstrap: "127.0.0.1:1"}}
  secondary: {{bootstrap: "127.0.0.1:2"}}
links:
  main:
    from: primary
    to: secondary
    topics: [orders]
    replicator: {{kind: mirrormaker2, connect: "{url}", connectors: {{source: mm2}}}}
"""
COMMANDS = (
    ("connect", "status"),
    ("connect", "recover"),
    ("connect", "recover", "--connector", "a", "--execute", "--yes"),
    ("connect", "offsets", "export"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: "-".join(words[1:3]))
@pytest.mark.parametrize("output", [(), ("--output", "json")])
def test_commands_end_with_5_and_never_with_a_bug(
    called: Run, tmp_path: Path, words: tuple[str, ...], output: tuple[str, ...]
) -> None:
    for body in some((*NEVER_CONNECTS, b"[]", b'{"a":null}', b'{"a":{"status":{},"info":{}}}')):
        with scripted_worker(lambda _path, body=body: (200, body)) as url:  # type: ignore[misc]
            (tmp_path / "drctl.yaml").write_text(CONFIG.format(url=url))
            ran = called(*output, *words)
        assert ran.code == ExitCode.UNKNOWN, (body[:40], ran)
        assert "not a response of Kafka Connect" in ran.stdout + ran.stderr
        assert "\x1b" not in ran.stdout + ran.stderr


FAILED = "org.example.Failed: cannot log in as jane with {0} at http://jane:{0}@db/x\nat {0}"


def worker(password: str) -> Any:
    """Run a worker whose failed connector shows drctl's password in each of its forms."""
    stack_trace = " ".join(FAILED.format(each) for each in (password, quote(password, safe="")))
    part = {"state": "FAILED", "worker_id": "w:1", "trace": stack_trace}
    status = {"name": "a", "connector": part, "tasks": [{"id": 0, **part}], "type": "source"}
    config = {"name": "a", "connector.class": "org.example.Source", "database.password": password}
    known = {"a": {"status": status, "info": {"config": config, "type": "source"}}}
    offsets = {"offsets": [{"partition": {"p": 1}, "offset": {"o": 1}}]}
    return {"known": known, "status": status, "offsets": offsets}


class Echo:
    """The response of one server for all examples."""

    password = ""
    odd = False
    lock = Lock()

    def handle(self, sock: Any, request: bytes) -> None:
        path = request.split(b" ")[1].decode()
        answers = worker(self.password)
        if self.odd:
            text = f"<html>{self.password} {self.password}</html>".encode("utf-8", "replace")
            sock.sendall(answer(text + request))
        elif path.endswith("/restart?includeTasks=true&onlyFailed=true"):
            complaint = {"error_code": 500, "message": f"cannot: {self.password}"}
            sock.sendall(answer(json.dumps(complaint).encode(), "500 Error"))
        else:
            found = (
                {"kafka_cluster_id": "id"}
                if path == "/"
                else answers["offsets"]
                if path.endswith("/offsets")
                else answers["status"]
                if path.endswith("/status")
                else answers["known"]
                if "?" in path
                else ["a"]
            )
            sock.sendall(answer(json.dumps(found).encode()))


@pytest.fixture(scope="module")
def echo() -> Iterator[tuple[Echo, Served]]:
    fake_worker = Echo()
    with raw_server(fake_worker.handle) as served:
        yield fake_worker, served


def forms(secret: str) -> set[str]:
    """Return the forms in which a secret must not appear."""
    known = {
        secret,
        quote(secret, safe=""),
        json.dumps(secret)[1:-1],
        b64encode(f"jane:{secret}".encode("utf-8", "surrogateescape")).decode(),
    }
    return {each for each in known if len(each) >= 4}


def everything(folder: Path, words: tuple[str, ...]) -> tuple[int, str]:
    """Return all output and files of a command line, except drctl.yaml and its inputs."""
    out, err = io.StringIO(), io.StringIO()
    quickly = mock.patch.object(plans, "_LEAST_S", 0.01)
    with redirect_stdout(out), redirect_stderr(err), quickly:
        code = run(("--config", str(folder / "drctl.yaml"), *words))
    files = (each for each in folder.rglob("*") if each.is_file() and each.name != "drctl.yaml")
    left = "".join(each.read_text("utf-8", "replace") for each in sorted(files))
    return code, out.getvalue() + err.getvalue() + left


WAYS = ("url", "reference", "access", "typed", "typed reference")
RESTART = (
    "--initial-backoff",
    "0.01s",
    "--max-backoff",
    "0.01s",
    "--attempts",
    "1",
    "--min-uptime",
    "0s",
)
ASKED = (
    ("connect", "status"),
    ("connect", "recover"),
    ("connect", "recover", *RESTART, "--connector", "a", "--override", "cause=x"),
    ("connect", "recover", *RESTART, "--connector", "a", "--override", "cause=x",
     "--execute", "--yes"),
    ("connect", "recover", "--connector", "a", "--remedy", "reset", "--override", "cause=x"),
    ("connect", "offsets", "export"),
)  # fmt: skip
# The prefix and suffix occur nowhere in drctl; between them are characters with a meaning in URLs.
SECRETS = st.builds(
    "Zq9{}w7X".format,
    st.text(
        st.one_of(
            st.sampled_from("/#?[]@:;,%&='\"\\ $*+!(){}<>|~^`ä€"),
            st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]),
        ),
        max_size=12,
    ),
)


def written(folder: Path, way: str, secret: str, place: str) -> tuple[str, ...]:
    """Write drctl.yaml with this password; return additional arguments."""
    url, access, typed = f"http://{place}", "", ()
    if way == "url":
        url = f"http://jane:{secret.replace('${', '$${')}@{place}"
    elif way == "reference":
        url = f"http://jane:${{env:PLANTED}}@{place}"
    elif way == "access":
        access = "connect_access: {user: jane, password: '${env:PLANTED}'}, "
    elif way == "typed":
        typed = ("--connect", f"http://jane:{secret.replace('${', '$${')}@{place}")
    else:
        typed = ("--connect", f"http://jane:${{env:PLANTED}}@{place}")
    text = CONFIG.format(url="URL")
    text = text.replace(
        'connect: "URL", ', f"connect: {json.dumps(url, ensure_ascii=False)}, {access}"
    )
    (folder / "drctl.yaml").write_text(text, encoding="utf-8")
    return typed


@settings(
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@example("Zq9/#?[w7X", "url", ASKED[0], "text", False)
@example("Zq9/#?[w7X", "typed", ASKED[2], "text", False)
@example("Zq9@,http://w7X", "typed", ASKED[3], "json", True)
@example("Zq9'\"\\w7X", "access", ASKED[3], "json", False)
@given(
    SECRETS, st.sampled_from(WAYS), st.sampled_from(ASKED), st.sampled_from(["text", "json"]),
    st.booleans(),
)  # fmt: skip
def test_no_password_shows_in_any_output_or_journal(
    echo: tuple[Echo, Served], secret: str, way: str, words: tuple[str, ...], form: str, odd: bool
) -> None:
    fake_worker, served = echo
    with fake_worker.lock, TemporaryDirectory() as folder:
        fake_worker.password, fake_worker.odd = secret, odd
        typed = written(Path(folder), way, secret, served.place)
        with mock.patch.dict(os.environ, {"PLANTED": secret}):
            code, text = everything(Path(folder), ("--output", form, "--verbose", *words, *typed))
    assert code != ExitCode.BUG, text
    for each in forms(secret):
        assert each not in text, (each, text)


def test_printed_commands_refer_to_the_password(echo: tuple[Echo, Served], tmp_path: Path) -> None:
    fake_worker, served = echo
    fake_worker.password, fake_worker.odd = "sec/ret#word", False
    typed = written(tmp_path, "typed", fake_worker.password, served.place)
    _, text = everything(tmp_path, ("connect", "recover", *typed))
    line = next(line for line in text.splitlines() if "--execute" in line)
    found = shlex.split(line)
    assert found[found.index("--connect") + 1] == (
        f"http://jane:${{env:CONNECT_PASSWORD}}@{served.place}"
    )
    assert "visible to other users" in text
    assert "plain http" in text
    before = len(served.requests)
    with mock.patch.dict(os.environ, {"CONNECT_PASSWORD": fake_worker.password}):
        code, text = everything(tmp_path, ("connect", "status", *found[-3:-1]))
    assert code == ExitCode.FOUND, text
    sent = [re.search(rb"Authorization: Basic (\S+)", each) for each in served.requests[before:]]
    assert sent
    assert all(each and each[1] == b64encode(b"jane:sec/ret#word") for each in sent)


def test_a_given_url_uses_credentials_of_the_same_worker_only(
    echo: tuple[Echo, Served], tmp_path: Path
) -> None:
    fake_worker, served = echo
    fake_worker.password, fake_worker.odd = "", False
    written(tmp_path, "access", "x", served.place)
    with mock.patch.dict(os.environ, {"PLANTED": "a-password"}):
        before = len(served.requests)
        everything(tmp_path, ("connect", "status", "--connect", served.url()))
        assert all(b"Authorization: Basic" in each for each in served.requests[before:])
        before = len(served.requests)
        elsewhere = f"http://localhost:{served.port}"
        everything(tmp_path, ("connect", "status", "--connect", elsewhere))
        assert len(served.requests) > before
        assert not any(b"Authorization" in each for each in served.requests[before:])


@pytest.mark.parametrize(
    "url",
    ["u:planted@h:1", "ftp://u:planted@h:1", "http://u:planted@h:x", "http://u:planted@",
     "http://u:${planted@h", "http://u:${env:PLANTED}@h:1"],
)  # fmt: skip
def test_an_invalid_url_is_not_repeated_since_it_may_hold_a_password(
    called: Run, tmp_path: Path, url: str
) -> None:
    (tmp_path / "drctl.yaml").write_text(CONFIG.format(url="http://c:1"))
    for words in (("status",), ("recover",), ("offsets", "export")):
        ran = called("connect", *words, "--connect", url)
        assert ran.code == ExitCode.USAGE, ran
        assert "planted" not in ran.stdout + ran.stderr
