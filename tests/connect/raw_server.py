"""A server over TCP or TLS whose responses a test controls byte by byte; it records requests."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field

Handle = Callable[[socket.socket, bytes], None]
"""Called with the connection and the complete request."""


@dataclass
class Served:
    """A running server.

    Attributes:
        requests: received requests, whole.
    """

    port: int
    requests: list[bytes] = field(default_factory=list, repr=False)

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, info: str = "", scheme: str = "http") -> str:
        """Return its URL for a user and password."""
        return f"{scheme}://{f'{info}@' if info else ''}{self.place}"


@contextmanager
def raw_server(handle: Handle, context: ssl.SSLContext | None = None) -> Iterator[Served]:
    """Run a server; its threads end with the process."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        served = Served(listening.getsockname()[1])

        def serve(plain: socket.socket) -> None:
            with suppress(OSError, ValueError), closing(plain):
                sock = context.wrap_socket(plain, server_side=True) if context else plain
                with closing(sock):
                    request = _request(sock)
                    served.requests.append(request)
                    handle(sock, request)

        def accept() -> None:
            while True:
                try:
                    plain, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(plain,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield served
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)


def answer(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """Return a complete HTTP response."""
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def _request(sock: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _more(sock)
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").lower().split("\r\n")
    length = next((int(x.split(":")[1]) for x in lines if x.startswith("content-length")), 0)
    while len(body) < length:
        body += _more(sock)
    return head + b"\r\n\r\n" + body


def _more(sock: socket.socket) -> bytes:
    piece = sock.recv(65536)
    if not piece:
        raise ValueError("the client has gone")
    return piece
