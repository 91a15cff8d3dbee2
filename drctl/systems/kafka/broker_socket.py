"""A connection to one chosen broker, for requests that librdkafka does not have."""

import secrets
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Self, TypeVar

from drctl.model.errors import ConfigError, DrctlError, Unknown, Unreachable
from drctl.systems.closing import Closing
from drctl.systems.kafka.broker_security import PLAIN, BrokerSecurity, Login
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.sockets import connected
from drctl.wire import sasl
from drctl.wire.broker_requests import API_VERSIONS, Api, answer, read_versions, request
from drctl.wire.cursor import Cursor
from drctl.wire.undecodable import Undecodable

T = TypeVar("T")

_LENGTH = 4
_LONGEST = 100 << 20
_NONCE_BYTES = 24
_PIECE = 1 << 20


class Address(NamedTuple):
    """A broker, and where it listens."""

    node: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"broker {self.node} ({self.host}:{self.port})"


class BrokerSocket(Closing):
    """Asks one broker; a context manager. Everything ends with its deadline.

    Raises:
        Unreachable: it does not answer, or hangs up.
        ConfigError: it does not let us in.
    """

    def __init__(self, address: Address, security: BrokerSecurity, deadline: Deadline) -> None:
        self.address = address
        self._security = security
        self._deadline = deadline
        self._socket: socket.socket | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        self._sent = self._received = 0

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def until(self, deadline: Deadline) -> None:
        """What follows ends with this deadline."""
        self._deadline = deadline

    def exchange(self, api: Api, body: bytes, read: Callable[[Cursor], T]) -> T:
        """Send a request and read its answer.

        Raises:
            Unreachable: there is none.
            Unknown: the broker does not know such requests.
        """
        self.send(api, body)
        return self.receive(api, read)

    def send(self, api: Api, body: bytes) -> None:
        """Send a request without waiting; brokers answer in the order of the requests.

        Raises:
            Unreachable: the connection is lost.
            Unknown: the broker does not know such requests.
        """
        if api != API_VERSIONS and api not in self:
            raise Unknown(f"{self.address} does not know {api.name}; Kafka {api.since} does")
        self._guarded(lambda s: s.sendall(request(api, self._sent, body)))
        self._sent += 1

    def receive(self, api: Api, read: Callable[[Cursor], T]) -> T:
        """The answer to the first request that has none yet.

        Raises:
            Unreachable: there is none.
        """
        length = int.from_bytes(self._bytes(_LENGTH), "big")
        if length > _LONGEST:
            raise Unreachable(f"{self.address} does not speak Kafka's protocol here")
        try:
            number, cursor = answer(api, self._bytes(length))
            if number != self._received:
                cursor.fail(f"number {number}, not {self._received}")
            self._received += 1
            return read(cursor)
        except Undecodable as odd:
            raise Unreachable(f"{self.address}: {odd.reason}") from odd

    def __contains__(self, api: Api) -> bool:
        oldest, newest = self._versions.get(api.key, (0, -1))
        return oldest <= api.version <= newest

    def close(self) -> None:
        """Hang up; may be called again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _open(self) -> None:
        where = (self.address.host, self.address.port)
        try:
            self._socket = connected(where, max(0.001, self._deadline.remaining))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._security.tls is not None:
                self._socket = self._security.tls.wrap_socket(
                    self._socket, server_hostname=where[0]
                )
        except OSError as error:
            raise self._lost(error) from None
        self._versions = self.exchange(API_VERSIONS, b"", read_versions)
        if self._security.login is not None:
            self._log_in(self._security.login)

    def _log_in(self, login: Login) -> None:
        error, offered = self.exchange(
            sasl.HANDSHAKE, sasl.handshake(login.mechanism), sasl.read_handshake
        )
        if error:
            raise ConfigError(
                f"{self.address} does not take sasl.mechanism {login.mechanism}, only"
                f" {', '.join(offered)}"
            )
        if login.mechanism == PLAIN:
            self._step(sasl.plain(login.username, login.password))
            return
        nonce = secrets.token_urlsafe(_NONCE_BYTES)
        scram = sasl.Scram(login.mechanism, login.username, login.password, nonce)
        try:
            proof = scram.final(self._step(scram.first()))
            scram.check(self._step(proof))
        except sasl.SaslError as refused:
            raise ConfigError(f"{self.address}: authentication failed: {refused}") from None

    def _step(self, data: bytes) -> bytes:
        said = self.exchange(sasl.AUTHENTICATE, sasl.authenticate(data), sasl.read_authenticate)
        if said.error:
            raise ConfigError(f"{self.address}: authentication failed: {said.text}")
        return said.data

    def _bytes(self, length: int) -> bytes:
        taken = bytearray()
        while len(taken) < length:
            wanted = min(_PIECE, length - len(taken))
            part = self._guarded(partial(_received, wanted))
            if not part:
                raise Unreachable(f"{self.address} hung up")
            taken += part
        return bytes(taken)

    def _guarded(self, act: Callable[[socket.socket], T]) -> T:
        if self._socket is None:
            raise Unreachable(f"{self.address}: the connection is closed")
        try:
            self._socket.settimeout(max(0.001, self._deadline.remaining))
            return act(self._socket)
        except OSError as error:
            raise self._lost(error) from None

    def _lost(self, error: OSError) -> DrctlError:
        if isinstance(error, TimeoutError):
            return Unreachable(f"{self.address} did not answer within {self._deadline.total:g} s")
        if isinstance(error, ssl.SSLCertVerificationError):
            return ConfigError(f"{self.address}: TLS failed: {error.verify_message}")
        if isinstance(error, ssl.SSLError):
            return ConfigError(f"{self.address}: TLS failed: {error.reason or error}")
        return Unreachable(f"{self.address}: {error.strerror or error}")


def _received(length: int, opened: socket.socket) -> bytes:
    return opened.recv(length)
