"""A backend of a real HAProxy: read, switched, restored, and observed by a client."""

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from drctl.lab.waiting import Patience
from drctl.model.endpoints import EndpointFailed, EndpointMoved, EndpointRejected
from drctl.model.errors import ExitCode, Unknown, Unreachable
from tests.endpoints.configured_endpoints import Endpoint, endpoint
from tests.endpoints.proxy import Proxy, client

pytestmark = pytest.mark.endpoints

SERVERS = {"primary": ["p1", "p2"], "secondary": ["s1", "s2"]}


def opened(haproxy: Proxy, **more: Any) -> Endpoint:
    given = {"kind": "haproxy", "socket": "admin", "backend": "kafka", "servers": SERVERS, **more}
    return endpoint({k: v for k, v in given.items() if v is not None}, haproxy.folder)


def run_by_hand(haproxy: Proxy, command: str) -> str:
    """Run a command by hand, as an engineer does."""
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(str(haproxy.folder / "admin"))
        stream.sendall(f"{command}\n".encode())
        return stream.makefile().read()


def states(both: Endpoint) -> dict[str, str]:
    servers = both.reader.observe().evidence["servers"]
    return {name: server["state"] for name, server in servers.items()}


def served_by(port: int) -> str:
    with client(port) as one:
        return one.served_by


def test_switch_and_restore(haproxy: Proxy) -> None:
    backend = opened(haproxy)
    with client(haproxy.clusters) as old:
        assert old.served_by in SERVERS["primary"]
        before = backend.seen()
        assert (before.cluster, before.unfinished) == ("primary", ())
        assert before.message.startswith("clients go to primary: p1 (127.0.0.1:")
        assert before.evidence["servers"][old.served_by]["sessions"] == 1
        backend.writer.switch("secondary", before)
        assert old.was_cut()
    assert states(backend) == {"p1": "maint", "p2": "maint", "s1": "ready", "s2": "ready"}
    with client(haproxy.clusters) as new:
        assert new.served_by in SERVERS["secondary"]
        assert backend.seen().cluster == "secondary"
        assert Patience.of(10).wait_until(lambda: not backend.seen().unfinished)
        backend.writer.restore(before)
        assert new.was_cut()
    assert states(backend) == {"p1": "ready", "p2": "ready", "s1": "maint", "s2": "maint"}
    assert served_by(haproxy.clusters) in SERVERS["primary"]


def test_clients_are_never_sent_to_two_clusters(haproxy: Proxy) -> None:
    """HAProxy logs changes of servers in order."""
    backend = opened(haproxy)
    before = backend.seen()

    def happened() -> list[str]:
        log = haproxy.program.log.read_text(errors="replace")
        return re.findall(r"Server kafka/(\w+) is (?:going DOWN|UP)", log)

    backend.writer.switch("secondary", before)
    assert Patience.of(10).wait_until(lambda: len(happened()) == 4)
    assert [name[0] for name in happened()] == ["p", "p", "s", "s"]
    backend.writer.restore(before)
    assert Patience.of(10).wait_until(lambda: len(happened()) == 8)
    assert [name[0] for name in happened()[4:]] == ["s", "s", "p", "p"]


def test_the_runtime_api_over_tcp(haproxy: Proxy) -> None:
    backend = opened(haproxy, socket=None, address=f"127.0.0.1:{haproxy.api}")
    assert backend.reader.endpoint == f"haproxy kafka at 127.0.0.1:{haproxy.api}"
    backend.writer.switch("secondary", backend.seen())
    assert served_by(haproxy.clusters) in SERVERS["secondary"]


def test_a_repeated_switch_changes_nothing(haproxy: Proxy) -> None:
    backend = opened(haproxy)
    before = backend.seen()
    for _ in range(2):
        backend.writer.switch("secondary", before)
        assert backend.seen().cluster == "secondary"
    with client(haproxy.clusters) as new:
        backend.writer.switch("secondary", before)
        assert not new.was_cut(within_s=0.2)
    for _ in range(2):
        backend.writer.restore(before)
        assert Patience.of(10).wait_until(lambda: backend.seen().evidence == before.evidence)


def test_a_disabled_server_stays_disabled(haproxy: Proxy) -> None:
    run_by_hand(haproxy, "set server kafka/p2 state maint")
    run_by_hand(haproxy, "set server kafka/s1 state drain")
    backend = opened(haproxy)
    before = backend.seen()
    assert before.cluster == "primary"
    assert any(
        "p2" in words and "is in state maint, not ready" in words for words in before.unfinished
    )
    backend.writer.switch("secondary", before)
    assert states(backend) == {"p1": "maint", "p2": "maint", "s1": "ready", "s2": "ready"}
    backend.writer.restore(before)
    assert states(backend) == {"p1": "ready", "p2": "maint", "s1": "drain", "s2": "maint"}


def test_a_partial_switch_is_completed_or_restored(haproxy: Proxy) -> None:
    backend = opened(haproxy)
    before = backend.seen()
    run_by_hand(haproxy, "set server kafka/p1 state maint; set server kafka/s2 state ready")
    assert backend.seen().cluster is None
    assert "no cluster, or several" in backend.seen().message
    backend.writer.restore(before)
    assert backend.seen().evidence == before.evidence
    run_by_hand(haproxy, "set server kafka/p1 state maint; set server kafka/p2 state maint")
    assert backend.seen().cluster is None
    backend.writer.switch("secondary", before)
    assert (backend.seen().cluster, backend.seen().unfinished) == ("secondary", ())


def test_changes_by_others_are_kept(haproxy: Proxy) -> None:
    backend = opened(haproxy)
    before = backend.seen()
    run_by_hand(haproxy, "set server kafka/p2 state drain")
    now = states(backend)
    switch = partial(backend.writer.switch, "secondary")
    for call in (switch, backend.writer.restore):
        with pytest.raises(EndpointMoved, match=r"p2 \(.*\) is in state drain") as caught:
            call(before)
        assert caught.value.hint
    assert states(backend) == now


def test_sessions_can_be_kept(haproxy: Proxy) -> None:
    backend = opened(haproxy, cut_sessions=False)
    with client(haproxy.clusters) as old:
        backend.writer.switch("secondary", backend.seen())
        assert not old.was_cut(within_s=0.2)
        after = backend.seen()
        assert after.cluster == "secondary"
        assert after.unfinished == (f"{old.served_by} still has 1 open session",)
    assert Patience.of(10).wait_until(lambda: not backend.seen().unfinished)


def test_addresses(haproxy: Proxy) -> None:
    ports = haproxy.brokers.ports
    here = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    addresses = {
        "primary": {"one": here["p1"], "two": here["p2"]},
        "secondary": {"one": here["s1"], "two": here["s2"]},
    }
    backend = opened(haproxy, backend="slot", servers=None, addresses=addresses)
    with client(haproxy.slot) as old:
        before = backend.seen()
        assert before.cluster == "primary"
        backend.writer.switch("secondary", before)
        assert old.was_cut()
    assert backend.seen().cluster == "secondary"
    assert served_by(haproxy.slot) in ("s1", "s2")
    backend.writer.switch("secondary", before)
    backend.writer.restore(before)
    assert backend.seen().evidence == before.evidence
    assert served_by(haproxy.slot) in ("p1", "p2")


def test_a_server_whose_health_check_fails(haproxy: Proxy) -> None:
    servers = {"primary": "p1", "secondary": "s1"}
    backend = opened(haproxy, backend="checked", servers=servers)
    backend.writer.switch("secondary", backend.seen())
    ill = ("s1 accepts no clients: its health check fails",)
    assert Patience.of(20).wait_until(lambda: backend.seen().unfinished == ill)


@pytest.mark.parametrize(
    ("wrong", "message", "remedy"),
    [
        ({"backend": "kafak"}, "has no backend 'kafak'", "`backend`"),
        (
            {"servers": {"primary": "p1", "secondary": "s3"}},
            "has no server s3",
            "it has p1, p2, s1",
        ),
    ],
)
def test_unknown_backends_and_servers(
    haproxy: Proxy, wrong: dict[str, Any], message: str, remedy: str
) -> None:
    backend = opened(haproxy, **wrong)
    with pytest.raises(EndpointRejected) as caught:
        backend.reader.observe()
    assert message in caught.value.message
    assert remedy in caught.value.hint


def test_a_read_only_socket(haproxy: Proxy) -> None:
    backend = opened(haproxy, socket="operator")
    before = backend.seen()
    with pytest.raises(EndpointRejected, match="Permission denied") as caught:
        backend.writer.switch("secondary", before)
    assert caught.value.hint == "set `level admin` on the `stats socket` in haproxy.cfg"
    assert states(backend) == {n: s["state"] for n, s in before.evidence["servers"].items()}


def test_an_address_that_haproxy_refuses(haproxy: Proxy) -> None:
    """drctl.yaml rejects ports above 65535; this one comes from a journal."""
    here = f"127.0.0.1:{haproxy.brokers.ports['p1']}"
    addresses = {
        "primary": {"one": here, "two": here},
        "secondary": {"one": "10.1.0.1:1", "two": "10.1.0.2:2"},
    }
    backend = opened(haproxy, backend="slot", servers=None, addresses=addresses)
    seen = backend.seen()
    backend.writer.switch("secondary", seen)
    servers = seen.evidence["servers"]
    bad = {**seen.evidence, "servers": {**servers, "two": {**servers["two"], "address": "nowhere"}}}
    broken = type(seen)(seen.endpoint, None, "", bad)
    with pytest.raises(EndpointFailed, match="Invalid addr 'nowhere'") as caught:
        backend.writer.restore(broken)
    assert caught.value.exit_code is ExitCode.STOPPED


def test_no_response_to_the_switch_request(haproxy: Proxy) -> None:
    """The switch is done; repeating it changes nothing."""
    backend = opened(haproxy)
    before = backend.seen()
    with losing_the_second_answer(haproxy.folder / "admin") as path:
        with pytest.raises(Unknown, match="did not confirm the switch") as caught:
            opened(haproxy, socket=str(path)).writer.switch(
                "secondary", replace(before, endpoint=f"haproxy kafka at {path}")
            )
        assert not isinstance(caught.value, Unreachable)
    assert Patience.of(10).wait_until(lambda: backend.seen().cluster == "secondary")
    backend.writer.switch("secondary", before)
    assert backend.seen().unfinished == ()


def test_a_haproxy_that_stalls_before_the_request(haproxy: Proxy) -> None:
    backend, hasty = opened(haproxy), opened(haproxy, timeout_s=0.3)
    before = backend.seen()
    with haproxy.program.stalled():
        for call in (hasty.reader.observe, lambda: hasty.writer.switch("secondary", before)):
            with pytest.raises(Unreachable, match="did not answer"):
                call()
    assert backend.seen().evidence == before.evidence


@contextmanager
def losing_the_second_answer(real: Path) -> Iterator[Path]:
    """Run a socket in front of HAProxy's that loses the second response."""
    path = real.with_name("lossy")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(10)

        def serve() -> None:
            for lost in (False, True):
                near, _ = listener.accept()
                with near, socket.socket(socket.AF_UNIX) as far:
                    far.connect(str(real))
                    far.sendall(near.recv(1 << 16))
                    answer = b"".join(iter(lambda: far.recv(1 << 16), b""))
                    near.sendall(answer[: len(answer) // 2] if lost else answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield path
        thread.join(10)
        assert not thread.is_alive()


def _absent(folder: Path) -> dict[str, Any]:
    return {"socket": str(folder / "absent")}


def _closed(folder: Path) -> dict[str, Any]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return {"address": f"127.0.0.1:{probe.getsockname()[1]}"}


@pytest.mark.parametrize("place", [_absent, _closed])
def test_no_server(tmp_path: Path, place: Callable[[Path], dict[str, Any]]) -> None:
    given = {"kind": "haproxy", "backend": "kafka", "servers": SERVERS, **place(tmp_path)}
    both = endpoint(given, tmp_path)
    with pytest.raises(Unreachable, match=r"cannot be reached: (No such file|Connection refused)"):
        both.reader.observe()


@contextmanager
def saying(pieces: Iterator[bytes]) -> Iterator[str]:
    """Run a server that sends this in place of HAProxy; return its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            near, _ = listener.accept()
            with near, suppress(OSError):
                near.recv(1 << 16)
                for piece in pieces:
                    near.sendall(piece)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(10)
        assert not thread.is_alive()


def drips() -> Iterator[bytes]:
    while True:
        time.sleep(0.005)
        yield b"x"


@pytest.mark.parametrize(
    ("pieces", "why"),
    [
        (drips(), "did not answer"),
        (repeat(b"x" * (1 << 20)), "did not answer"),
        (
            iter([b"1\n# srv_name\nx\n\n", b'# pxname,svname\n"' + b"x" * 200_000 + b"\n\n"]),
            "did not return a list",
        ),
    ],
    ids=["drips", "never ends", "one vast field"],
)
def test_malformed_responses(tmp_path: Path, pieces: Iterator[bytes], why: str) -> None:
    with saying(pieces) as address:
        given = {"kind": "haproxy", "backend": "kafka", "servers": SERVERS, "address": address}
        began = time.monotonic()
        with pytest.raises(Unknown, match=why):
            endpoint({**given, "timeout_s": 1}, tmp_path).reader.observe()
        assert time.monotonic() - began < 3


def test_a_server_that_is_not_haproxy(haproxy: Proxy, tmp_path: Path) -> None:
    address = f"127.0.0.1:{haproxy.brokers.ports['p1']}"
    given = {"kind": "haproxy", "backend": "kafka", "servers": SERVERS, "address": address}
    with pytest.raises(Unreachable, match="did not answer"):
        endpoint({**given, "timeout_s": 0.5}, tmp_path).reader.observe()
