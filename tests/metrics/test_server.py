"""Metrics over HTTP: one page for everyone until the server is closed."""

import socket
from http.client import HTTPConnection

import pytest

from drctl.model.errors import ConfigError, UsageError
from drctl.stores.metrics_server import MetricsServer

DEADLINE_S = 10


def v6() -> bool:
    """Whether this host has the address ::1."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def asked(host: str, port: int, method: str = "GET", path: str = "/metrics") -> tuple[int, str]:
    connection = HTTPConnection(host, port, timeout=DEADLINE_S)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:0", *(["[::1]:0"] if v6() else [])])
def test_the_page_is_rendered_per_request(address: str, capfd: pytest.CaptureFixture[str]) -> None:
    numbers = iter("12")
    host = address.rpartition(":")[0].strip("[]")
    with MetricsServer(address, lambda: f"n {next(numbers)} ä\n", "text/plain") as server:
        assert asked(host, server.port) == (200, "n 1 ä\n")
        assert asked(host, server.port, path="/metrics?x=1") == (200, "n 2 ä\n")
        assert asked(host, server.port, path="/")[0] == 404
        assert asked(host, server.port, method="POST")[0] == 501
        port = server.port
    with pytest.raises(ConnectionError):
        asked(host, port)
    assert capfd.readouterr() == ("", "")


def test_a_silent_client_does_not_block_others() -> None:
    with (
        MetricsServer("127.0.0.1:0", lambda: "", "text/plain") as server,
        socket.create_connection(("127.0.0.1", server.port), DEADLINE_S),
    ):
        assert asked("127.0.0.1", server.port)[0] == 200


def test_the_address_is_in_use() -> None:
    with (
        MetricsServer("127.0.0.1:0", lambda: "", "text/plain") as first,
        pytest.raises(ConfigError, match=r"--listen 127\.0\.0\.1:\d+: Address already in use"),
        MetricsServer(f"127.0.0.1:{first.port}", lambda: "", "text/plain"),
    ):
        pass


@pytest.mark.parametrize(
    "address", ["", "9095", ":9095", "host:", "host:x", "host:65536", "::1:9095", "[::g]:9095"]
)
def test_an_invalid_address(address: str) -> None:
    with pytest.raises(UsageError, match="not an address"):
        MetricsServer(address, lambda: "", "text/plain")
