"""Invalid arguments are reported before any cluster is contacted."""

import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from drctl.cli.main import run

BAD = "soon"
SILENT_S = 8
"""Commands wait longer than this for a cluster that does not answer."""

TIMES = {
    "gap --timeout": ("gap", "--timeout"),
    "gap --stabilize": ("gap", "--stabilize"),
    "gap --every": ("gap", "--every"),
    "status --every": ("status", "--watch", "--every"),
    "failover --timeout": ("failover", "--timeout"),
    "failover --wait-for-consumers": ("failover", "--wait-for-consumers"),
    "failback --timeout": ("failback", "--timeout"),
    "failback --wait-for-consumers": ("failback", "--wait-for-consumers"),
    "drill --warm-up": ("drill", "--warm-up"),
    "drill --timeout": ("drill", "--timeout"),
    "drill --max-rto": ("drill", "--max-rto"),
    "elect wait --timeout": ("elect", "wait", "--cluster", "primary", "--timeout"),
    "offsets track --every": ("offsets", "track", "--execute", "--yes", "--every"),
    "connect recover --initial-backoff": ("connect", "recover", "--initial-backoff"),
    "connect recover --max-backoff": ("connect", "recover", "--max-backoff"),
    "connect recover --min-uptime": ("connect", "recover", "--min-uptime"),
}
LONGER_THAN_0 = [
    name
    for name in TIMES
    if name.endswith(
        ("--every", "failover --timeout", "failback --timeout", "drill --timeout", "-backoff")
    )
]
FILES = {
    "failover --expect-plan": ("failover", "--expect-plan", "{bad}"),
    "failback --expect-plan": ("failback", "--expect-plan", "{bad}"),
    "runbook run --expect-plan": ("runbook", "run", "unplanned-failover", "--expect-plan", "{bad}"),
    "failback --gap": ("failback", "--check-order", "--gap", "{bad}"),
    "reconcile": ("reconcile", "{bad}", "--policy", "copy"),
    "offsets apply --from": ("offsets", "apply", "--from", "{bad}"),
    "offsets apply --cluster --from": (
        "offsets",
        "apply",
        "--cluster",
        "primary",
        "--from",
        "{bad}",
    ),
    "connect offsets apply --from": (
        *("connect", "offsets", "apply", "--connect", "http://{at}", "--from", "{bad}"),
    ),
    "connect offsets translate --from": (
        *("connect", "offsets", "translate", "--connect", "http://{at}", "--from", "{bad}"),
    ),
    "runbook run": ("runbook", "run", "nothing"),
    "runbook run --set": ("runbook", "run", "unplanned-failover", "--set", "nothing=1"),
    "failover --answer": ("failover", "--answer", "soon"),
    "failback --answer": ("failback", "--answer", "soon"),
    "connect status --connect": ("connect", "status", "--connect", "notaurl"),
    "connect recover --connect": ("connect", "recover", "--connect", "notaurl"),
    "connect offsets export --connect": ("connect", "offsets", "export", "--connect", "host:8083"),
}


@dataclass(frozen=True, slots=True)
class Silent:
    """Clusters that accept connections and never respond.

    Attributes:
        at: address of one.
    """

    config: Path
    at: str
    listening: tuple[socket.socket, ...]

    def asked(self) -> bool:
        """Whether anything connected."""
        return any(map(_connected_to, self.listening))

    def run(self, *words: str) -> int:
        """Return the exit code of a command line."""
        return run(["--config", str(self.config), *words])


def _connected_to(listening: socket.socket) -> bool:
    try:
        listening.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[Silent]:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        both = (one, other)
        for each in both:
            each.setblocking(False)
        at, there = (f"127.0.0.1:{each.getsockname()[1]}" for each in both)
        replicator = {
            "kind": "mirrormaker2",
            "connect": f"http://{at}",
            "connectors": {"source": "one"},
        }
        link = {"from": "primary", "to": "secondary", "topics": [".*"], "replicator": replicator}
        document = {
            "clusters": {"primary": {"bootstrap": at}, "secondary": {"bootstrap": there}},
            "links": {"main": link},
            "state_dir": str(tmp_path / "state"),
        }
        config = tmp_path / "drctl.yaml"
        config.write_text(json.dumps(document), encoding="utf-8")  # JSON is YAML
        yield Silent(config, at, both)


@pytest.mark.parametrize("name", TIMES)
def test_an_invalid_time_names_its_option(
    name: str, silent: Silent, capsys: pytest.CaptureFixture[str]
) -> None:
    words = TIMES[name]
    assert silent.run(*words, BAD) == 2
    assert f"{words[-1]}: '{BAD}' is not a duration" in capsys.readouterr().err
    assert not silent.asked()


@pytest.mark.parametrize(
    "words",
    [
        ("failover", "--override", "source-alive=REASON"),
        ("failback", "--policy", "copy", "--override", "step-order=REASON"),
        ("connect", "recover", "--override", "cause=REASON"),
        ("offsets", "apply", "--override", "moves-backwards=REASON"),
        ("resume", "--override", "source-alive=REASON"),
        ("resume", "--abandon", "REASON"),
        ("resume", "--abandon", " "),
    ],
)
def test_a_placeholder_is_not_a_reason(
    words: tuple[str, ...], silent: Silent, capsys: pytest.CaptureFixture[str]
) -> None:
    assert silent.run(*words, "--execute", "--yes") == 2
    shown = capsys.readouterr().err
    assert "needs a reason" in shown
    assert "hint: " in shown
    assert ("not the word REASON" in shown) is ("REASON" in words[-1])
    assert not silent.asked()


@pytest.mark.parametrize("name", LONGER_THAN_0)
def test_0_is_refused_where_it_has_no_meaning(
    name: str, silent: Silent, capsys: pytest.CaptureFixture[str]
) -> None:
    words = TIMES[name]
    assert silent.run(*words, "0") == 2
    assert f"{words[-1]} must be longer than 0" in capsys.readouterr().err
    assert not silent.asked()


@pytest.mark.parametrize("name", FILES)
def test_an_invalid_file_is_refused_before_clusters_are_contacted(
    name: str, silent: Silent, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad"
    bad.write_text("{", encoding="utf-8")
    began = time.monotonic()
    words = [word.format(bad=bad, at=silent.at) for word in FILES[name]]
    assert silent.run(*words) == 2
    assert time.monotonic() - began < SILENT_S
    assert not silent.asked()
    captured = capsys.readouterr()
    given = str(bad) if str(bad) in words else words[-1].partition("=")[0]
    assert given in captured.err
    assert "Warning" not in captured.err


def test_a_wait_for_leaders_ends_without_an_answer(silent: Silent) -> None:
    began = time.monotonic()
    assert silent.run("elect", "wait", "--cluster", "primary", "--timeout", "1") == 5
    # Up to 3 s more to tell whether the other cluster responds.
    assert time.monotonic() - began < 7


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("offsets explain g t x", "'PARTITION': must be a whole number\n"),
        ("offsets explain g t -- -1", "'PARTITION': must be 0 or more\n"),
        (
            "offsets translate --timestamp today",
            "'--timestamp': 'today' is not a UTC time such as 2026-11-24T18:30:00\n",
        ),
        ("lab load --rate fast", "'--rate': must be a number\n"),
        ("failover --mode fast", "'--mode': 'fast' is not one of 'planned', 'unplanned'.\n"),
    ],
)
def test_an_invalid_value_is_named_in_plain_words(
    words: str, message: str, silent: Silent, capsys: pytest.CaptureFixture[str]
) -> None:
    assert silent.run(*words.split()) == 2
    assert f"Invalid value for {message}" in capsys.readouterr().err


def test_no_other_cluster_is_suggested(silent: Silent, capsys: pytest.CaptureFixture[str]) -> None:
    assert silent.run("elect", "show", "--cluster", "tertiary") == 2
    assert "did you mean" not in capsys.readouterr().err
    assert silent.run("elect", "show", "--cluster", "primry") == 2
    assert "did you mean 'primary'?" in capsys.readouterr().err
