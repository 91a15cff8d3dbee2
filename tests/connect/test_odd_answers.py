"""Whatever responds in place of Connect, and however slowly: a declared error, in time."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from drctl.app.link_reader import Connectors
from drctl.app.replication_progress import ConnectorPositions, FirstAnswer
from drctl.connect import client as clients
from drctl.connect.client import ConnectRejected, ConnectWriter, NotConnect
from drctl.engine.executing import observed
from drctl.engine.kind import Readback, State
from drctl.gap.tail import Position as Reached
from drctl.model.errors import ExitCode, Unknown, Unreachable
from drctl.model.replication import Position
from drctl.model.topology import TopicPartition
from tests.connect.raw_server import answer, raw_server
from tests.connect.scripted_worker import scripted_worker

HTML = b"<!DOCTYPE html><html><title>Please log in\x1b[2J</title></html>"
DEEP = b"[" * 100_000 + b"]" * 100_000
READS: dict[str, Callable[[str], Any]] = {
    "id": lambda url: ConnectWriter(url).kafka_cluster_id(),
    "names": lambda url: ConnectWriter(url).connectors(),
    "statuses": lambda url: ConnectWriter(url).statuses(),
    "status": lambda url: ConnectWriter(url).status("a"),
    "config": lambda url: ConnectWriter(url).config("a"),
    "tasks": lambda url: ConnectWriter(url).task_count("a"),
    "offsets": lambda url: ConnectWriter(url).offsets("a"),
    "all": lambda url: ConnectWriter(url).all(),
    "positions": lambda url: ConnectWriter(url).positions("a"),
}
WRITES: dict[str, Callable[[str], Any]] = {
    "config": lambda url: ConnectWriter(url).put_config("a", {}),
    "create": lambda url: ConnectWriter(url).create_stopped("a", {}),
    "pause": lambda url: ConnectWriter(url).pause("a"),
    "stop": lambda url: ConnectWriter(url).stop("a"),
    "resume": lambda url: ConnectWriter(url).resume("a"),
    "restart": lambda url: ConnectWriter(url).restart("a"),
    "delete": lambda url: ConnectWriter(url).delete("a"),
    "alter": lambda url: ConnectWriter(url).alter_offsets("a", []),
    "put positions": lambda url: ConnectWriter(url).put_positions("a", [Position({}, None)]),
    "delete positions": lambda url: ConnectWriter(url).delete_positions("a"),
}
STATUS = {"name": "a", "connector": {"state": "RUNNING", "worker_id": "w"}, "tasks": []}
NEVER_CONNECTS = (HTML, b"null", b'"text"', b"17", b"true", DEEP, b"[" * 100_000, b"\xff\xfe", b"")
WRONG_SHAPES: dict[str, tuple[Any, ...]] = {
    "id": ({}, {"kafka_cluster_id": None}, {"kafka_cluster_id": 7}, []),
    "names": ({}, [1], ["a", None], [["a"]], {"a": 1}),
    "statuses": ([], {"a": None}, {"a": {}}, {"a": {"status": []}}, {"a": {"status": {}}}),
    "status": (
        {},
        {**STATUS, "connector": None},
        {**STATUS, "connector": {"state": None}},
        {**STATUS, "tasks": None},
        {**STATUS, "tasks": [None]},
        {**STATUS, "tasks": [{"id": "0", "state": "RUNNING"}]},
        {**STATUS, "tasks": [{"id": True, "state": "RUNNING"}]},
        {**STATUS, "name": 3},
    ),
    "config": ([], {"a": []}, {"a": {}}),
    "tasks": ([], {"a": {}}, {"a": {"info": {}}}, {"a": {"info": {"tasks": 2}}}),
    "offsets": (
        {},
        [],
        {"offsets": None},
        {"offsets": [1]},
        {"offsets": [{}]},
        {"offsets": [{"partition": "p", "offset": {}}]},
        {"offsets": [{"partition": {}, "offset": 5}]},
    ),
}
WRONG_SHAPES["all"] = WRONG_SHAPES["described"] = (
    [],
    {"a": {}},
    {"a": {"status": STATUS, "info": None}},
    {"a": {"status": STATUS, "info": {"config": None}}},
    {"a": {"status": {**STATUS, "tasks": 1}, "info": {"config": {}}}},
)
WRONG_SHAPES["positions"] = WRONG_SHAPES["offsets"]


@contextmanager
def saying(body: bytes, status: int = 200) -> Iterator[str]:
    with scripted_worker(lambda _path: (status, body)) as url:
        yield url


@pytest.mark.parametrize("what", READS)
def test_a_foreign_response_is_reported_with_its_beginning(what: str) -> None:
    for body in NEVER_CONNECTS:
        with saying(body) as url, pytest.raises(NotConnect) as caught:
            READS[what](url)
        message = caught.value.message
        assert message.startswith("not a response of Kafka Connect: GET http://")
        assert url in message
        assert message.isprintable()
        assert caught.value.exit_code is ExitCode.UNKNOWN
        assert len(message) < 400
    with saying(HTML) as url, pytest.raises(NotConnect, match=r"it begins with <!DOCTYPE html>"):
        READS[what](url)


@pytest.mark.parametrize("what", READS)
def test_a_response_of_another_type(what: str) -> None:
    for document in WRONG_SHAPES[what]:
        with saying(json.dumps(document).encode()) as url, pytest.raises(NotConnect) as caught:
            READS[what](url)
        assert caught.value.message.isprintable()


@pytest.mark.parametrize("what", WRITES)
def test_a_foreign_response_leaves_a_change_unknown(what: str) -> None:
    for body in (HTML, b"[]", b"7", DEEP):
        with saying(body) as url, pytest.raises(Unknown, match="may have been executed") as caught:
            WRITES[what](url)
        assert not isinstance(caught.value, Unreachable)
        assert "not a response of Kafka Connect" in caught.value.message


@pytest.mark.parametrize("status", [400, 404, 409, 500, 502, 503])
@pytest.mark.parametrize("body", [HTML, b"null", DEEP, b"\xff", b"", b'{"message":null}'])
def test_odd_error_bodies_are_errors(status: int, body: bytes) -> None:
    with saying(body, status) as url, pytest.raises(ConnectRejected, match=f"answered {status}"):
        ConnectWriter(url, timeout_s=0.5).connectors()


def test_a_redirect_is_not_followed() -> None:
    """The password would be sent to whatever server the redirect names."""

    def handle(sock: socket.socket, _request: bytes) -> None:
        sock.sendall(answer(b"", "302 Found", f"Location: http://u:other@{other.place}/login"))

    with (
        raw_server(lambda sock, _: sock.sendall(answer(b"[]"))) as other,
        raw_server(handle) as served,
        pytest.raises(NotConnect, match=r"it redirects to http://u:\*\*\*@") as caught,
    ):
        ConnectWriter(served.url("u:secret-word")).connectors()
    assert other.requests == []
    assert "other" not in caught.value.message


@pytest.mark.parametrize("body", [b"SSH-2.0-OpenSSH_9.2\r\n\r\n", b"\x00\x00\x00\x10garbage\n\n"])
def test_a_server_without_http(body: bytes) -> None:
    with (
        raw_server(lambda sock, _: sock.sendall(body)) as served,
        pytest.raises(NotConnect, match="it is not HTTP") as caught,
    ):
        ConnectWriter(served.url(), timeout_s=2).connectors()
    assert caught.value.message.isprintable()


def test_a_truncated_response_is_no_response() -> None:
    short = answer(b"x" * 50).replace(b"Content-Length: 50", b"Content-Length: 500")
    with raw_server(lambda sock, _: sock.sendall(short)) as served:
        client = ConnectWriter(served.url(), timeout_s=2)
        with pytest.raises(Unreachable, match="incomplete"):
            client.connectors()
        with pytest.raises(Unknown, match="the request may have been executed"):
            client.pause("a")


def dripping(data: bytes, every_s: float = 0.05) -> Callable[[socket.socket, bytes], None]:
    def handle(sock: socket.socket, _request: bytes) -> None:
        for byte in data:
            sock.sendall(bytes([byte]))
            time.sleep(every_s)

    return handle


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BODY = answer(b"[" + b" " * 400 + b"]")


@pytest.mark.parametrize(
    "handle",
    [
        dripping(BODY),
        lambda sock, request: [sock.sendall(BODY[:60]), dripping(BODY[60:])(sock, request)][0],
        dripping(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, 0.001),
        dripping(CHUNKED + b"1\r\n \r\n" * 900, 0.01),
        lambda sock, _: time.sleep(30),
    ],
    ids=["headers", "body", "continue", "chunks", "nothing"],
)  # fmt: skip
def test_a_slow_response_respects_the_deadline(
    handle: Callable[[socket.socket, bytes], None],
) -> None:
    with raw_server(handle) as served:
        client, began = ConnectWriter(served.url(), timeout_s=0.3), time.monotonic()
        with pytest.raises(Unreachable, match=r"did not answer within 0\.3 s$"):
            client.connectors()
        assert time.monotonic() - began < 2


def test_workers_share_one_deadline() -> None:
    with raw_server(dripping(BODY)) as slow, saying(b'["a"]') as url:
        began = time.monotonic()
        assert ConnectWriter(slow.url(), slow.url(), url, timeout_s=0.9).connectors() == ("a",)
        assert time.monotonic() - began < 0.9


def test_a_write_that_one_worker_may_have_accepted_is_unknown() -> None:
    with raw_server(lambda sock, _: time.sleep(5)) as silent:
        client = ConnectWriter(silent.url(), "http://127.0.0.1:1", timeout_s=0.4)
        with pytest.raises(Unknown, match="the request may have been executed") as caught:
            client.pause("a")
    assert not isinstance(caught.value, Unreachable)


def test_a_hanging_resolver_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(*_: Any, **__: Any) -> list[Any]:
        time.sleep(5)
        return []

    monkeypatch.setattr(clients, "getaddrinfo", hangs)
    began = time.monotonic()
    with pytest.raises(Unreachable, match=r"did not answer within 0\.3 s"):
        ConnectWriter("http://connect.example:8083", timeout_s=0.3).connectors()
    assert time.monotonic() - began < 2


def test_an_endless_response_is_cut() -> None:
    sent = 0

    def handle(sock: socket.socket, _request: bytes) -> None:
        nonlocal sent
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        piece = b"[" + b" " * (1 << 20)
        while sent < 1_000_000_000:
            sock.sendall(piece)
            sent += len(piece)

    with raw_server(handle) as served, pytest.raises(NotConnect, match="longer than 64 MB"):
        ConnectWriter(served.url(), timeout_s=30).connectors()
    assert sent < 2 * clients.MOST_BYTES


@pytest.mark.parametrize("body", [HTML, b"null", b"[[]]", DEEP])
def test_steps_after_a_fence_report_unknown(body: bytes) -> None:
    with saying(body) as url, closing(ConnectWriter(url)) as client:
        connectors = Connectors(client)
        for look in (
            connectors.names,
            connectors.kafka_cluster_id,
            lambda: connectors.state("a"),
            lambda: connectors.tasks("a"),
            lambda: connectors.offsets("a"),
            lambda: connectors.config("a"),
        ):
            seen = observed(lambda look=look: Readback(State.DONE, str(look())))  # type: ignore[misc]
            assert seen.state is State.UNKNOWN
            assert "not a response of Kafka Connect" in seen.message


@pytest.mark.parametrize(("body", "status"), [(HTML, 200), (b"null", 200), (HTML, 502)])
def test_other_evidence_replaces_malformed_responses(body: bytes, status: int) -> None:
    class Syncs:
        same_offsets = False

        def positions(self, topics: object) -> dict[TopicPartition, Reached]:
            return {TopicPartition("t", 0): Reached(5, "seen")}

    with saying(body, status) as url, closing(ConnectWriter(url)) as client:
        asked = ConnectorPositions(client, "a", next_offset=False)
        assert FirstAnswer([asked, Syncs()]).positions(["t"]) == Syncs().positions(())


@pytest.mark.parametrize("offset", [-1, 1 << 63, 1 << 100, True, "5", 1.5, None])
def test_an_invalid_offset_is_ignored(offset: object) -> None:
    kept = {"partition": {"topic": "t", "partition": 0}, "offset": {"offset": offset}}
    with saying(json.dumps({"offsets": [kept]}).encode()) as url:
        asked = ConnectorPositions(ConnectWriter(url), "a", next_offset=False)
        assert asked.positions(["t"]) == {}


def test_a_secret_in_an_odd_answer_is_masked_before_it_is_cut() -> None:
    def handle(sock: socket.socket, request: bytes) -> None:
        sock.sendall(answer(b"x" * 70 + b" hunter2-planted-word " + request))

    with raw_server(handle) as served, pytest.raises(NotConnect) as caught:
        ConnectWriter(served.url("u:hunter2-planted-word")).connectors()
    assert "hunter2" not in caught.value.message
    assert "***" in caught.value.message
