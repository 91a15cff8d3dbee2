"""A server in place of a Connect worker, for responses that a real one cannot be made to give."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import socket

from tests.connect.raw_server import answer, raw_server

Answer = Callable[[str], tuple[int, bytes]]
"""Returns status and body for a path."""


@contextmanager
def scripted_worker(respond: Answer) -> Iterator[str]:
    """Run the server; return its URL."""

    def handle(sock: socket, request: bytes) -> None:
        status, body = respond(request.split()[1].decode())
        sock.sendall(answer(body, f"{status} -"))

    with raw_server(handle) as served:
        yield served.url()
