"""Serves metrics over HTTP from a thread until it is closed."""

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from socket import AF_INET6
from threading import Thread
from types import TracebackType
from typing import Self

from drctl.config.fields import is_host
from drctl.model.errors import ConfigError, UsageError

PATH = "/metrics"
_TIMEOUT_S = 10


class MetricsServer:
    """Answers GET /metrics with the result of `page`; a context manager.

    Args:
        address: `HOST:PORT`; an IPv6 address in brackets.
        page: called in another thread.

    Raises:
        UsageError: the address is invalid.
        ConfigError: the address cannot be bound.
    """

    def __init__(self, address: str, page: Callable[[], str], content_type: str) -> None:
        self._address = address
        self._place = _parsed(address)
        self._page = page
        self._content_type = content_type

    @property
    def port(self) -> int:
        """The port in use; chosen by the system if 0 was requested."""
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        kind = _V6Server if ":" in self._place[0] else _Server
        try:
            self._server = kind(self._place, _handler(self._page, self._content_type))
        except OSError as error:
            raise ConfigError(
                f"--listen {self._address}: {error.strerror or error}",
                "use an address of this host and a free port",
            ) from None
        self._thread = Thread(
            target=self._server.serve_forever, args=(0.1,), name="drctl-metrics", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a client that never sends a request must not block drctl


class _V6Server(_Server):
    address_family = AF_INET6


def _handler(page: Callable[[], str], content_type: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "drctl", ""
        timeout = _TIMEOUT_S

        def do_GET(self) -> None:
            if self.path.split("?")[0] != PATH:
                self.send_error(404)
                return
            body = page().encode()
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Log nothing: stderr is for the engineer."""

    return Handler


def _parsed(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    wrong = not host or not (port.isascii() and port.isdigit() and int(port) < 1 << 16)
    if ":" in bare:
        try:
            wrong = wrong or host == bare or ip_address(bare).version != 6
        except ValueError:
            wrong = True
    else:
        wrong = wrong or not is_host(bare)
    if wrong:
        raise UsageError(
            f"--listen {address}: not an address",
            "use 127.0.0.1:9095, [::1]:9095 or a name with a port",
        )
    return bare, int(port)
