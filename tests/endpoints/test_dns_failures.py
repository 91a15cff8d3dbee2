"""DNS servers that refuse, do not respond, or cannot be trusted."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.renderer
import dns.tsig
import pytest

from drctl.lab.waiting import Patience
from drctl.model.endpoints import EndpointRejected, EndpointState
from drctl.model.errors import ConfigError, ExitCode, Unknown, Unreachable
from tests.endpoints.bind_server import KEY, WEAK_KEY, Named
from tests.endpoints.configured_endpoints import endpoint
from tests.endpoints.test_dns import asked, opened, set_by_hand, settings


@pytest.mark.endpoints
@pytest.mark.parametrize(
    ("tsig", "message", "remedy"),
    [
        ({"name": "nobody"}, "does not know the TSIG key nobody.", "tsig.name"),
        ({"algorithm": "hmac-sha512"}, "does not know the TSIG key drctl-key.", "tsig.algorithm"),
        (
            {"secret": "d3Jvbmc="},
            "has a different secret for the TSIG key drctl-key.",
            "tsig.secret",
        ),
    ],
)
def test_a_wrong_key(server: Named, tsig: dict[str, str], message: str, remedy: str) -> None:
    given = settings(server)
    before = opened(server, given).seen()
    wrong = opened(server, {**given, "tsig": {**given["tsig"], **tsig}})
    for call in (wrong.reader.observe, lambda: wrong.writer.switch("primary", before)):
        with pytest.raises(EndpointRejected) as caught:
            call()
        assert message in caught.value.message
        assert remedy in caught.value.hint
        assert caught.value.exit_code is ExitCode.REFUSED
    assert asked(server, given["record"]) == []


@pytest.mark.endpoints
def test_clocks_that_differ(server: Named, monkeypatch: pytest.MonkeyPatch) -> None:
    class Late:
        @staticmethod
        def time() -> float:
            return 1_000_000_000.0

    record = opened(server, settings(server))
    monkeypatch.setattr(dns.renderer, "time", Late)
    monkeypatch.setattr(dns.message, "time", Late)
    with pytest.raises(EndpointRejected, match="clock differs") as caught:
        record.reader.observe()
    assert "5 minutes" in caught.value.hint


@pytest.mark.endpoints
def test_a_read_only_key(server: Named) -> None:
    given = settings(server, tsig={"name": WEAK_KEY, "secret": "${env:TSIG}"})
    record = opened(server, given)
    with pytest.raises(EndpointRejected, match="refuses to change") as caught:
        record.writer.switch("primary", record.seen())
    assert f"grant KEY name {given['record']} A" in caught.value.hint
    assert record.seen().evidence["records"] == []


@pytest.mark.endpoints
@pytest.mark.parametrize("zone", ["test.", "nowhere.invalid."])
def test_a_missing_zone(server: Named, zone: str) -> None:
    wrong = opened(server, settings(server, zone=zone, record=f"kafka.{zone}"))
    with pytest.raises(EndpointRejected, match="refuses to answer") as caught:
        wrong.reader.observe()
    assert f"check that it serves the zone {zone}" in caught.value.hint


@pytest.mark.endpoints
def test_a_name_that_is_not_a_zone(server: Named) -> None:
    given = settings(server)
    before = opened(server, given).seen()
    wrong = opened(server, {**given, "zone": given["record"]})
    with pytest.raises(EndpointRejected, match="has no zone"):
        wrong.reader.observe()
    with pytest.raises(EndpointRejected, match="does not accept updates of") as caught:
        wrong.writer.switch("primary", before)
    assert "primary server" in caught.value.hint


@pytest.mark.endpoints
def test_a_zone_that_only_the_key_may_read(server: Named) -> None:
    zone = f"closed.{server.zone}"
    given = settings(server, zone=zone, record=f"kafka.{zone}")
    assert opened(server, given).seen().cluster is None
    with pytest.raises(EndpointRejected, match="refuses to answer") as caught:
        opened(server, {**given, "tsig": None}).reader.observe()
    assert "allow-query" in caught.value.hint


@pytest.mark.endpoints
def test_a_resolver_is_no_primary_server(server: Named, resolver: Named) -> None:
    given = settings(server, port=resolver.port, tsig=None)
    with pytest.raises(EndpointRejected, match="has no zone") as caught:
        opened(server, given).reader.observe()
    assert "not a resolver" in caught.value.hint


@pytest.mark.endpoints
def test_no_answer_after_an_update_was_sent(server: Named) -> None:
    """The update may be applied later; repeating it changes nothing."""
    given = settings(server)
    set_by_hand(server, given, "A", 5, "10.0.0.1", "10.0.0.2")
    record, hasty = opened(server, given), opened(server, {**given, "timeout_s": 0.3})
    before = record.seen()
    with server.program.stalled():
        with pytest.raises(Unknown, match="did not confirm an update") as caught:
            hasty.writer.switch("secondary", before)
        assert not isinstance(caught.value, Unreachable)
        assert caught.value.exit_code is ExitCode.UNKNOWN
        with pytest.raises(Unreachable, match="did not answer: it took too long"):
            hasty.reader.observe()
    assert Patience.of(20).wait_until(lambda: record.seen().cluster == "secondary")
    record.writer.switch("secondary", before)
    assert record.seen().cluster == "secondary"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def alone(port: int, **more: Any) -> dict[str, Any]:
    return {
        "kind": "dns",
        "server": "127.0.0.1",
        "port": port,
        "zone": "x.test.",
        "record": "k.x.test.",
        "clusters": {"primary": "10.0.0.1", "secondary": "10.1.0.1"},
        **more,
    }


def test_no_server() -> None:
    both = endpoint(alone(free_port()), Path("x"))
    before = _state(both.writer.endpoint)
    for call in (both.reader.observe, lambda: both.writer.switch("primary", before)):
        with pytest.raises(Unreachable, match="cannot be reached: Connection refused") as caught:
            call()
        assert "TCP" in caught.value.hint


def test_an_unresolvable_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(Unreachable, match=r"ns\.nowhere\.invalid:53 cannot be reached"):
        endpoint(alone(53, server="ns.nowhere.invalid"), Path("x")).reader.observe()


Answer = Callable[[dns.message.Message], dns.message.Message | None]


@contextmanager
def answering(answer: Answer, key: dns.tsig.Key) -> Iterator[int]:
    """Run a server with behavior that BIND does not have; None ends the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)

        def serve() -> None:
            stream, _ = listener.accept()
            with stream:
                (length,) = struct.unpack("!H", stream.recv(2, socket.MSG_WAITALL))
                wire = stream.recv(length, socket.MSG_WAITALL)
                response = answer(dns.message.from_wire(wire, keyring=key))
                if response is not None:
                    data = response.to_wire()
                    stream.sendall(struct.pack("!H", len(data)) + data)

        thread = threading.Thread(target=serve)
        thread.start()
        yield int(listener.getsockname()[1])
        thread.join(10)
        assert not thread.is_alive()


def unsigned(query: dns.message.Message) -> dns.message.Message:
    """Return a response that a third party could have made."""
    response = dns.message.make_response(query)
    response.keyring, response.tsig = None, None
    response.flags |= dns.flags.AA
    return response


def signed_by_another(query: dns.message.Message) -> dns.message.Message:
    response = dns.message.make_response(query)
    response.use_tsig(dns.tsig.Key(KEY, b"another", "hmac-sha256"))
    response.request_mac = query.mac
    return response


def servfail(query: dns.message.Message) -> dns.message.Message:
    response = dns.message.make_response(query)
    response.set_rcode(dns.rcode.SERVFAIL)
    return response


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (unsigned, "did not confirm an update"),
        (signed_by_another, "did not confirm an update"),
        (lambda _: None, "it closed the connection"),
        (servfail, "answers SERVFAIL to the update"),
    ],
)
def test_useless_responses(answer: Answer, message: str) -> None:
    key = dns.tsig.Key(KEY, b"secret", "hmac-sha256")
    with answering(answer, key) as port:
        given = alone(port, tsig={"name": KEY, "secret": "c2VjcmV0"})
        writer = endpoint(given, Path("x")).writer
        with pytest.raises(Unknown, match=message) as caught:
            writer.switch("primary", _state(writer.endpoint))
        assert not isinstance(caught.value, Unreachable)


def test_a_server_that_reports_a_failure() -> None:
    key = dns.tsig.Key(KEY, b"secret", "hmac-sha256")
    with answering(servfail, key) as port:
        given = alone(port, tsig={"name": KEY, "secret": "c2VjcmV0"})
        with pytest.raises(Unknown, match=r"answers SERVFAIL for x\.test\."):
            endpoint(given, Path("x")).reader.observe()


def test_an_invalid_secret(tmp_path: Path) -> None:
    given = alone(53, tsig={"name": KEY, "secret": "${env:TSIG}"})
    for planted in ("planted secret", "====", "cGxhbnRl!ZA=="):
        with pytest.raises(ConfigError, match="is not the secret of a TSIG key") as caught:
            endpoint(given, tmp_path, {"TSIG": planted})
        assert planted not in caught.value.message
        assert "tsig.secret" in caught.value.message
    with pytest.raises(ConfigError, match="TSIG is not set"):
        endpoint(given, tmp_path, {})


def _state(name: str) -> EndpointState:
    return EndpointState(name, None, "", {"records": [], "ttl": 0})
