"""A HAProxy for tests, and servers behind it that send their names."""

import socket
import socketserver
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.endpoints.programs import Program, found, start

_CONFIG = """
global
  stats socket {folder}/admin mode 600 level admin
  stats socket {folder}/operator mode 600 level operator
  stats socket fd@{api} level admin
defaults
  mode tcp
  timeout connect 2s
  timeout client 1m
  timeout server 1m
frontend clusters
  bind fd@{clusters}
  default_backend kafka
frontend slot
  bind fd@{slot}
  default_backend slot
backend kafka
  server p1 127.0.0.1:{p1}
  server p2 127.0.0.1:{p2}
  server s1 127.0.0.1:{s1} disabled
  server s2 127.0.0.1:{s2} disabled
backend slot
  server one 127.0.0.1:{p1}
  server two 127.0.0.1:{p2}
backend checked
  server p1 127.0.0.1:{p1}
  server s1 127.0.0.1:1 disabled check inter 100ms
"""


@dataclass(frozen=True)
class Brokers:
    """Servers in place of brokers: each sends its name and keeps the connection open.

    Attributes:
        ports: ports by name.
    """

    ports: Mapping[str, int]


@dataclass(frozen=True)
class Proxy:
    """A running HAProxy.

    Attributes:
        folder: folder of its sockets `admin` and `operator`.
        api: port of its runtime API.
        clusters: port of the backend `kafka`.
        slot: port of the backend `slot`.
        brokers: the servers behind it.
    """

    program: Program
    folder: Path
    api: int
    clusters: int
    slot: int
    brokers: Brokers


@dataclass(frozen=True)
class Client:
    """A client's connection through the proxy.

    Attributes:
        served_by: the name that it received.
    """

    stream: socket.socket
    served_by: str

    def was_cut(self, within_s: float = 5) -> bool:
        """Whether the connection ends in this time."""
        self.stream.settimeout(within_s)
        try:
            return self.stream.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False


@contextmanager
def client(port: int) -> Iterator[Client]:
    """Connect as a client; no server may respond."""
    with socket.create_connection(("127.0.0.1", port), 5) as stream:
        try:
            name = stream.recv(2)
        except ConnectionError:
            name = b""
        yield Client(stream, name.decode())


class _Broker(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 50


@contextmanager
def brokers(*names: str) -> Iterator[Brokers]:
    """Start all servers."""
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(_Broker(("127.0.0.1", 0), _of(name))) for name in names
        }
        for server in servers.values():
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            stack.callback(server.shutdown)
        yield Brokers({name: server.server_address[1] for name, server in servers.items()})


def _of(name: str) -> type[socketserver.BaseRequestHandler]:
    class Session(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            try:
                self.request.sendall(name.encode())
                while self.request.recv(100):
                    pass
            except ConnectionError:
                pass

    return Session


def proxy(log: Path, behind: Brokers) -> Proxy:
    """Start it with listeners opened here, so that no other process takes their ports."""
    folder = Path(tempfile.mkdtemp(prefix="drctl-haproxy-"))  # short: a socket's path must be
    listeners = {
        name: socket.create_server(("127.0.0.1", 0)) for name in ("api", "clusters", "slot")
    }
    files = {name: listener.fileno() for name, listener in listeners.items()}
    config = folder / "haproxy.cfg"
    config.write_text(_CONFIG.format(folder=folder, **files, **behind.ports))
    argv = [found("haproxy"), "-f", str(config)]
    sockets = folder / "operator"
    program = start(
        argv, log / "haproxy.log", lambda: _answers(sockets), pass_fds=[*files.values()]
    )
    ports = {name: listener.getsockname()[1] for name, listener in listeners.items()}
    for listener in listeners.values():
        listener.close()
    return Proxy(program, folder, **ports, brokers=behind)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(1)
        try:
            stream.connect(str(path))
            stream.sendall(b"show info\n")
            return b"HAProxy" in stream.recv(100)
        except OSError:
            return False
