"""Neither cluster responds: every command gives the same diagnosis, and none shows a plan."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from drctl.app import network
from drctl.config.loading import read
from drctl.host import connections
from drctl.kafka.connection import Connection
from drctl.model.errors import Unreachable
from drctl.model.health import CHECK_NETWORK, NEITHER_RESPONDS, NoClusterResponds
from tests.cli.conftest import Run
from tests.cli.documents import check

COMMANDS = [
    "gap",
    "gap --scope estimate",
    "failover",
    "failover --mode unplanned",
    "failover --mode unplanned --execute --yes",
    "failback --check-order",
    "resume",
    "report",
    "journal",
    "offsets translate",
    "offsets snapshot --cluster primary",
    "dump-consumer-timestamps",
    "elect preferred --cluster primary",
    "runbook run unplanned-failover",
    "drill",
]


@contextmanager
def closed_ports(count: int) -> Iterator[list[int]]:
    """Return unused ports."""
    with ExitStack() as open_:
        held = [open_.enter_context(socket.socket()) for _ in range(count)]
        for each in held:
            each.bind(("127.0.0.1", 0))
        yield [each.getsockname()[1] for each in held]


@pytest.fixture
def config(tmp_path: Path) -> Iterator[str]:
    with closed_ports(2) as (one, two):
        text = f"""clusters:
  primary: {{bootstrap: "127.0.0.1:{one}"}}
  secondary: {{bootstrap: "127.0.0.1:{two}"}}
links:
  main: {{from: primary, to: secondary, topics: [orders]}}
"""
        (tmp_path / "drctl.yaml").write_text(text, encoding="utf-8")
        yield text


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_gives_the_same_diagnosis(called: Run, config: str, command: str) -> None:
    ran = called(*command.split(), "--output", "json")
    assert ran.code == 5, ran.stderr
    error = check(ran.document())["error"]
    assert error["kind"] == NoClusterResponds.__name__
    started = "no run was started; " if "--execute" in command else ""
    assert error["hint"] == started + CHECK_NETWORK
    message = error["message"]
    assert message.startswith(f"{NEITHER_RESPONDS}: primary (127.0.0.1:")
    assert "; secondary (127.0.0.1:" in message
    assert "\n" not in message


@pytest.mark.slow
@pytest.mark.parametrize("command", ["failover", "failover --mode unplanned", "gap"])
def test_the_diagnosis_is_two_lines_without_a_plan(called: Run, config: str, command: str) -> None:
    ran = called(*command.split())
    assert (ran.code, ran.stdout) == (5, "")
    first, second = ran.stderr.splitlines()
    assert first.startswith(f"error: {NEITHER_RESPONDS}: ")
    assert second == f"hint: {CHECK_NETWORK}"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["status", "doctor"])
def test_checks_begin_with_the_diagnosis(called: Run, config: str, command: str) -> None:
    ran = called(command)
    assert ran.code == 5
    head = " ".join(ran.stdout.split())
    assert head.startswith(f"{NEITHER_RESPONDS}: primary (")
    assert f"Fix: {CHECK_NETWORK} " in head
    if command == "status":
        assert len(ran.stdout.splitlines()) < 10
    document = json.loads(called(command, "-o", "json").stdout)
    assert "no-cluster-answers" in json.dumps(document)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["failover", "doctor"])
def test_a_command_that_fails_leaves_no_connection_open(
    called: Run, config: str, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    opened: list[Connection] = []
    original = Connection._open

    def noted(connection: Connection) -> AdminClient:
        opened.append(connection)
        return original(connection)

    monkeypatch.setattr(Connection, "_open", noted)
    assert called(command).code == 5
    assert opened
    assert [each.name for each in opened if each._shared.client is not None] == []


@pytest.mark.slow
def test_init_does_not_refer_to_a_file_that_does_not_exist(called: Run, tmp_path: Path) -> None:
    with closed_ports(2) as (one, two):
        ran = called("init", f"127.0.0.1:{one}", f"127.0.0.1:{two}")
    assert (ran.code, ran.stdout) == (5, "")
    error, hint = ran.stderr.splitlines()
    assert error.startswith(f"error: {NEITHER_RESPONDS}: primary (127.0.0.1:{one}) did not answer")
    assert "--primary-property" in hint
    assert "drctl.yaml" not in error + hint
    assert not (tmp_path / "drctl.yaml").exists()


LINKS = """
clusters: {a: {bootstrap: "a:1"}, b: {bootstrap: "b:1"}, c: {bootstrap: "c:1"}}
links:
  one: {from: a, to: b, topics: [x]}
  two: {from: a, to: c, topics: [x]}
"""


class Reader:
    """A connection to a cluster; `answering` names those that respond."""

    def __init__(self, name: str, answering: str) -> None:
        self.name, self.topics, self.answering = name, self, answering

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def cluster_id(self) -> str:
        peer = connections.peer(self.name, connections.cluster(self.name))
        assert peer is not None
        peer.require(self.ask, self.ask)
        return "id"

    def ask(self) -> None:
        if self.name not in self.answering:
            raise Unreachable(f"cluster {self.name} ({self.name}:1) did not answer: x: timed out")


@pytest.fixture
def silent_except(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    def begin(answering: str) -> None:
        connections.begin()
        monkeypatch.setattr(network.adapters, "reader", lambda name, *_: Reader(name, answering))

    yield begin
    connections.end()


@pytest.mark.parametrize(("answering", "diagnosed"), [("", True), ("b", True), ("bc", False)])
def test_only_links_with_a_reachable_cluster_are_evaluated(
    silent_except: Callable[[str], None], answering: str, diagnosed: bool
) -> None:
    config = read(LINKS, Path("x.yaml"))
    silent_except(answering)
    assert network.neither_responds(config) is None, "nothing has been asked yet"
    with pytest.raises(Unreachable):
        Reader("a", answering).cluster_id()
    found = network.neither_responds(config)
    assert (found is not None) == diagnosed
    one = network.neither_responds(config, config.link("one"))
    assert (one is not None) == (answering == "")
