"""Responses that a real broker cannot be made to send."""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from time import monotonic

import pytest

from drctl.kafka.broker_security import BrokerSecurity
from drctl.kafka.brokers import Address, BrokerSocket
from drctl.kafka.deadline import Deadline
from drctl.kafka.producer_ids import INIT_PRODUCER_ID, init_producer_id, read_init
from drctl.model.errors import DrctlError, Unknown, Unreachable

VERSIONS = bytes.fromhex("000000000001001600000006")
GIVEN = bytes.fromhex("0000000000000000000000000007000000")


def framed(number: int, body: bytes, tags: bytes = b"") -> bytes:
    return struct.pack(">ii", 4 + len(tags) + len(body), number) + tags + body


@contextmanager
def broker(*answers: bytes) -> Iterator[Address]:
    """Sends these, one per request, and disconnects."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as opened:
                for each in answers:
                    length = struct.unpack(">i", opened.recv(4))[0]
                    opened.recv(length)
                    opened.sendall(each)

        thread = Thread(target=serve)
        thread.start()
        try:
            yield Address(5, *server.getsockname())
        finally:
            thread.join(10)


def ask(address: Address, seconds: float = 5) -> int:
    with BrokerSocket(address, BrokerSecurity(), Deadline.after(seconds)) as opened:
        return opened.exchange(INIT_PRODUCER_ID, init_producer_id(), read_init).producer_id


def test_an_answer() -> None:
    with broker(framed(0, VERSIONS), framed(1, GIVEN, b"\0")) as address:
        assert ask(address) == 7


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ((framed(0, VERSIONS), framed(9, GIVEN, b"\0")), "correlation id 9, not 1"),
        ((framed(0, VERSIONS), framed(1, GIVEN[:-1], b"\0")), "byte too few"),
        ((framed(0, VERSIONS), framed(1, GIVEN + b"x", b"\0")), "byte too many"),
        ((framed(0, VERSIONS), b""), "closed the connection"),
        ((b"HTTP/1.1 400 Bad Request\r\n\r\n",), "does not speak Kafka's protocol"),
        ((b"",), "closed the connection"),
    ],
)
def test_invalid_responses(answers: tuple[bytes, ...], message: str) -> None:
    with (
        broker(*answers) as address,
        pytest.raises(Unreachable, match=rf"broker 5 \(127.*{message}"),
    ):
        ask(address)


def test_a_broker_without_such_requests() -> None:
    older = bytes.fromhex("000000000001001600000003")
    with broker(framed(0, older)) as address, pytest.raises(Unknown) as caught:
        ask(address)
    assert "does not support InitProducerId (needs Kafka 2.7)" in str(caught.value)
    assert not isinstance(caught.value, Unreachable)


def test_a_silent_broker_times_out() -> None:
    began = monotonic()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = Address(5, *server.getsockname())
        with pytest.raises(DrctlError, match=r"did not answer within 0.3 s"):
            ask(address, 0.3)
    assert monotonic() - began < 5


def test_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = Address(5, *server.getsockname())
    with pytest.raises(Unreachable, match="Connection refused"):
        ask(address)
