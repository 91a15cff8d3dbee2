"""drctl's own connections to brokers, for requests that librdkafka does not support.

`BrokerSocket` connects to one broker, `Brokers` asks several in parallel, and `ClusterClient` is
the base of all readers and writers of one cluster.
"""

import socket
import ssl
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Thread
from typing import NamedTuple, Self, TypeVar

from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined, unused-ignore]

from drctl.formats.primitives import Cursor, Undecodable
from drctl.host.connections import Closing, connect
from drctl.kafka import sasl
from drctl.kafka.broker_security import BrokerSecurity, broker_security
from drctl.kafka.connection import GRACE_S, Connection, Nodes
from drctl.kafka.deadline import Deadline
from drctl.kafka.protocol import API_VERSIONS, Api, read_response, read_versions, write_request
from drctl.model.errors import ConfigError, DrctlError, Unknown, Unreachable
from drctl.model.topology import Unavailable

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_LENGTH_BYTES = 4
_MAX_RESPONSE_BYTES = 100 << 20
_RECEIVE_BYTES = 1 << 20
_MIN_TIMEOUT_S = 0.001


class Address(NamedTuple):
    """A broker's id and address."""

    node: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"broker {self.node} ({self.host}:{self.port})"


class BrokerSocket(Closing):
    """A connection to one broker; a context manager. All calls end at its deadline.

    Raises:
        Unreachable: the broker does not answer, or closes the connection.
        ConfigError: authentication or TLS failed.
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
        """Set the deadline of later calls."""
        self._deadline = deadline

    def exchange(self, api: Api, body: bytes, read: Callable[[Cursor], T]) -> T:
        """Send a request and read its response.

        Raises:
            Unreachable: there is no response.
            Unknown: the broker does not support the request.
        """
        self.send(api, body)
        return self.receive(api, read)

    def send(self, api: Api, body: bytes) -> None:
        """Send a request without waiting; brokers respond in the order of the requests.

        Raises:
            Unreachable: the connection is lost.
            Unknown: the broker does not support the request.
        """
        if api != API_VERSIONS and api not in self:
            raise Unknown(f"{self.address} does not support {api.name} (needs Kafka {api.since})")
        with self._connected() as opened:
            opened.sendall(write_request(api, self._sent, body))
        self._sent += 1

    def receive(self, api: Api, read: Callable[[Cursor], T]) -> T:
        """Read the response to the oldest request that is still unanswered.

        Raises:
            Unreachable: no valid response came.
        """
        length = int.from_bytes(self._read(_LENGTH_BYTES), "big")
        if length > _MAX_RESPONSE_BYTES:
            raise Unreachable(f"{self.address} does not speak Kafka's protocol here")
        try:
            number, cursor = read_response(api, self._read(length))
            if number != self._received:
                cursor.fail(f"correlation id {number}, not {self._received}")
            self._received += 1
            return read(cursor)
        except Undecodable as malformed:
            raise Unreachable(f"{self.address}: {malformed.reason}") from malformed

    def __contains__(self, api: Api) -> bool:
        oldest, newest = self._versions.get(api.key, (0, -1))
        return oldest <= api.version <= newest

    def close(self) -> None:
        """Disconnect; idempotent."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _open(self) -> None:
        where = (self.address.host, self.address.port)
        try:
            self._socket = connect(where, max(_MIN_TIMEOUT_S, self._deadline.remaining))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._security.tls is not None:
                self._socket = self._security.tls.wrap_socket(
                    self._socket, server_hostname=where[0]
                )
        except OSError as error:
            raise self._lost(error) from None
        self._versions = self.exchange(API_VERSIONS, b"", read_versions)
        if self._security.login is not None:
            sasl.log_in(self.exchange, self._security.login, str(self.address), self._deadline)

    def _read(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            with self._connected() as opened:
                part = opened.recv(min(_RECEIVE_BYTES, length - len(data)))
            if not part:
                raise Unreachable(f"{self.address} closed the connection")
            data += part
        return bytes(data)

    @contextmanager
    def _connected(self) -> Iterator[socket.socket]:
        """The open socket with its timeout; turns failures into errors of the broker."""
        if self._socket is None:
            raise Unreachable(f"{self.address}: the connection is closed")
        try:
            self._socket.settimeout(max(_MIN_TIMEOUT_S, self._deadline.remaining))
            yield self._socket
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


@dataclass(frozen=True, slots=True)
class NotRetriable(Unavailable):
    """A retry would fail in the same way."""


_ABSENT = Unavailable("the broker is not in the cluster")

Task = Callable[[BrokerSocket], T]


class Brokers:
    """Runs tasks on brokers, each over its own connection; a broker that hangs delays no other."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._security: BrokerSecurity | None = None

    def addresses(self, deadline: Deadline) -> dict[int, Address]:
        """Live brokers by id.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return addresses_in(self._connection.nodes(deadline))

    def ask(
        self,
        tasks: Mapping[K, Task[T]],
        addresses: Mapping[K, Address],
        deadline: Deadline,
        enough: Callable[[T], bool] = lambda _: False,
    ) -> dict[K, T | Unavailable]:
        """Run the tasks; return each result, or why there is none.

        Args:
            addresses: the broker of each task.
            enough: whether this answer suffices, so that the others are not awaited.

        Raises:
            ConfigError: drctl's own connections do not support the properties.
        """
        security = self._secured()
        queue: Queue[tuple[K, T | BaseException]] = Queue()

        def run(key: K) -> None:
            try:
                with BrokerSocket(addresses[key], security, deadline) as broker:
                    queue.put((key, tasks[key](broker)))
            except BaseException as error:
                queue.put((key, error))
                if not isinstance(error, DrctlError):
                    raise

        answers: dict[K, T | Unavailable] = dict.fromkeys(tasks, _ABSENT)
        asked = [key for key in tasks if key in addresses]
        for key in asked:
            silent = f"{addresses[key]} did not answer within {deadline.total:g} s"
            answers[key] = Unavailable(silent)
            # A thread that blocks forever (in DNS, for example) is abandoned.
            Thread(target=run, args=(key,), daemon=True).start()
        for _ in asked:
            try:
                key, answer = queue.get(timeout=deadline.remaining + GRACE_S)
            except Empty:
                break
            if isinstance(answer, DrctlError):
                answers[key] = self._redacted(answer)
                continue
            if isinstance(answer, BaseException):
                raise answer
            answers[key] = answer
            if enough(answer):
                break
        return answers

    def ask_all(
        self, task: Task[T], deadline: Deadline, enough: Callable[[T], bool] = lambda _: False
    ) -> dict[int, T | Unavailable]:
        """Run a task on all brokers; `enough` as for `ask`.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: drctl's own connections do not support the properties.
        """
        addresses = self.addresses(deadline)
        return self.ask(dict.fromkeys(addresses, task), addresses, deadline, enough)

    def first(self, task: "Task[T | Unavailable]", deadline: Deadline) -> T | Unavailable:
        """The first answer of any broker, or why there is none.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: drctl's own connections do not support the properties.
        """
        answers = self.ask_all(task, deadline, lambda answer: not isinstance(answer, Unavailable))
        known = (each for each in answers.values() if not isinstance(each, Unavailable))
        return next(known, first_reason(answers))

    def _secured(self) -> BrokerSecurity:
        if self._security is None:
            self._security = broker_security(self._connection.properties)
        return self._security

    def _redacted(self, error: DrctlError) -> Unavailable:
        text = self._connection.redacted(error.message)
        return Unavailable(text) if isinstance(error, Unreachable) else NotRetriable(text)


class ClusterClient(Closing):
    """Base of everything that talks to one cluster; connects on first use.

    Args:
        connection: may be shared; it is closed when its last user closes.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._brokers = Brokers(connection)
        connection.use(self)

    def __enter__(self) -> Self:
        self._connection.use(self)  # it may have been closed before
        return self

    def prepare(self) -> None:
        """Create the client without sending a request.

        Raises:
            ConfigError: librdkafka rejects the properties.
        """
        self._connection.admin()

    def close(self) -> None:
        """Release the connection unless others use it; idempotent."""
        self._connection.leave(self)


def addresses_in(known: ClusterMetadata | Nodes) -> dict[int, Address]:
    """Live brokers by id."""
    brokers = known.brokers.items()
    return {node: Address(node, str(each.host), int(each.port)) for node, each in brokers}


def first_reason(answers: Mapping[int, object]) -> Unavailable:
    """The reason that the first broker gave."""
    reasons = (each for each in answers.values() if isinstance(each, Unavailable))
    return next(reasons, Unavailable("the cluster has no brokers"))
