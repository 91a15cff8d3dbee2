"""The connection to one cluster that all of its readers and writers share.

Holds the admin client (created on first use) and recent errors, and retries requests in rounds.
"""

import logging
import re
import socket
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from copy import copy
from itertools import chain, repeat
from threading import RLock
from time import monotonic
from typing import Any, NamedTuple, TypeVar
from weakref import WeakSet

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata  # type: ignore[attr-defined, unused-ignore]

from drctl.host import connections
from drctl.kafka.deadline import Deadline
from drctl.kafka.faults import Fault, fault_of
from drctl.model.errors import ConfigError, Unreachable
from drctl.model.health import AuthenticationFailed

# Without a handler, Python prints warnings to stderr.
LOGGER = logging.getLogger("drctl.kafka")
LOGGER.addHandler(logging.NullHandler())

_SECRET = re.compile(r"password|secret|\.pem$|token|jaas|sasl\.oauthbearer\.config", re.IGNORECASE)
_NOISE = re.compile(r"^\[thrd:[^]]*\]: | \(after \d+ms in state .*\)$|error:[0-9A-F]{8}:")
_NOT_CONNECTED = re.compile(r"^\S+: Connect to \S+ failed: ")
_TLS_ALERT = re.compile(r"SSL alert|SSL handshake failed: .*verif")
_QUICK = {"reconnect.backoff.max.ms": "1000", "socket.connection.setup.timeout.ms": "5000"}
# How long a client caches the controller (default 5 minutes).
_FRESH = {"topic.metadata.refresh.interval.ms": "2000"}
_MECHANISM = re.compile(r"[Uu]nsupported|No provider|handshake failed")
_ADDRESS = re.compile(r"(\S+)/(?:bootstrap|\d+): ")
_AUTHENTICATION = "authentication"
_LOGIN = ("sasl.password", "sasl.username", "sasl.mechanism", "sasl.mechanisms")
_MECHANISMS = ("sasl.mechanism", "sasl.mechanisms", "security.protocol")
_TLS = ("ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "security.protocol")
_REFUSED = "Connection refused"
_REFUSED_S = 0.3
"""A port on which nothing listens refuses connections within this time."""
_LATELY_S = 5.0
"""An error up to this long before a call may be the cause of the call's failure."""

NO_TOPIC = "/"
"""Not a valid topic name: asking for it returns the brokers and creates no topic."""

_NO_BROKER = "the broker that answered knows no live broker"
_RETIRED = 4
"""Abandoned clients are kept: other threads may still await their answers."""

T = TypeVar("T")
C = TypeVar("C", bound=connections.Closing)


class Nodes(NamedTuple):
    """A cluster's id and brokers.

    Attributes:
        brokers: by id; each has `host` and `port`.
    """

    cluster_id: str
    brokers: Mapping[int, Any]


def client_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Client properties: defaults, overridden by the user's properties."""
    return {**_QUICK, **properties, "allow.auto.create.topics": "false"}


def refused(cluster: str, detail: str) -> ConfigError:
    """The error for properties that librdkafka rejects."""
    return ConfigError(
        f"cluster {cluster}: {detail}",
        f"correct clusters.{cluster}.properties: use librdkafka's names and values",
    )


class _Log(logging.LoggerAdapter[logging.Logger]):
    """Forwards librdkafka's log and keeps the last connection failure.

    Only the log shows that a broker closed the connection, as a broker that expects TLS does.
    """

    failure = ""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if len(args) == 3 and args[0] == "FAIL":
            self.failure = str(args[2])
        super().log(level, msg, *args, **kwargs)


class _Shared:
    """State shared by all copies of a connection."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.client: AdminClient | None = None
        self.retired: deque[AdminClient] = deque(maxlen=_RETIRED)
        self.errors: deque[tuple[float, KafkaError]] = deque(maxlen=50)
        self.log = _Log(LOGGER)
        self.parts: dict[object, connections.Closing] = {}
        self.users: WeakSet[object] = WeakSet()
        self.coordinators: dict[str, int] = {}


class Connection(connections.Closing):
    """A thread-safe connection to the cluster `name` of drctl.yaml.

    Args:
        timeout_s: every call ends within about this time.
    """

    def __init__(self, name: str, properties: Mapping[str, str], timeout_s: float = 10) -> None:
        self.name = name
        self.properties = dict(properties)
        self.timeout_s = timeout_s
        self._shared = _Shared()
        self._identity = _identity(properties)
        self._origin: Connection | None = None

    def within(self, timeout_s: float) -> "Connection":
        """The same connection with another timeout."""
        other = copy(self)
        other.timeout_s = timeout_s
        other._origin = self
        return other

    def part(self, kind: "Callable[[Connection], C]") -> C:
        """The single shared instance of a kind; closed with the connection."""
        with self._shared.lock:
            if kind not in self._shared.parts:
                self._shared.parts[kind] = kind(self)
            found: Any = self._shared.parts[kind]
        return found  # type: ignore[no-any-return]

    def use(self, user: object) -> None:
        """Register a user, which keeps the connection open."""
        self._shared.users.add(user)

    def leave(self, user: object) -> None:
        """Unregister a user; close the connection after the last one. Idempotent."""
        self._shared.users.discard(user)
        if not self._shared.users:
            self.close()

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers."""
        return self.properties.get("bootstrap.servers", "")

    @property
    def coordinators(self) -> dict[str, int]:
        """The known coordinator of each group; a group whose coordinator moves is removed."""
        return self._shared.coordinators

    def deadline(self) -> Deadline:
        """The deadline of a call that starts now."""
        return Deadline.after(self.timeout_s)

    def admin(self) -> AdminClient:
        """The admin client; created on first use.

        Raises:
            ConfigError: librdkafka rejects the properties.
        """
        with self._shared.lock:
            if self._shared.client is None:
                self._shared.client = self._open()
            return self._shared.client

    def metadata(self, deadline: Deadline) -> ClusterMetadata:
        """All brokers and topics. Never names a topic, since that could create it.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return self._ask_peer(self._described, deadline)

    def nodes(self, deadline: Deadline) -> Nodes:
        """The cluster's id and brokers: a small answer, however many topics there are.

        Asks for the metadata of a topic that cannot exist: `describe_cluster` crashes the process
        if no broker is up (decision 0055).

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        found = self._ask_peer(lambda timeout: self._described(timeout, NO_TOPIC), deadline)
        return Nodes(str(found.cluster_id), found.brokers)

    def _described(self, timeout: float, topic: str | None = None) -> ClusterMetadata:
        found = self.admin().list_topics(topic, timeout=timeout)
        if not found.brokers:
            # A restarted broker reports no brokers until it has rejoined.
            raise KafkaException(KafkaError(KafkaError.BROKER_NOT_AVAILABLE, _NO_BROKER))
        return found

    def present(self) -> None:
        """Check that a broker answers.

        Raises:
            Unreachable: no broker answered within a short time.
            ConfigError: librdkafka rejects the properties.
        """
        deadline = Deadline.after(min(connections.PROBE_TIMEOUT_S, self.timeout_s))
        ask = lambda timeout: self._described(timeout, NO_TOPIC)  # noqa: E731
        self._ask_until_deadline(ask, deadline, permanent=self._all_refuse)

    def _recheck(self) -> None:
        other = Connection(self.name, self.properties, self.timeout_s)
        try:
            other.present()
        finally:
            other.close()

    def _ask_peer(self, ask: Callable[[float], T], deadline: Deadline) -> T:
        peer = connections.peer(self._identity, connections.cluster(self.name))
        if peer is None:
            return self._ask_until_deadline(ask, deadline)
        peer.require(self.present, self._recheck)
        try:
            return self._ask_until_deadline(ask, deadline)
        except Unreachable as silent:
            peer.failed(silent)
            raise

    def _ask_until_deadline(
        self,
        ask: Callable[[float], T],
        deadline: Deadline,
        permanent: Callable[[], bool] = lambda: False,
    ) -> T:
        failure: KafkaException | None = None
        since = monotonic()
        for timeout in deadline.attempts():
            asked = self.admin()
            try:
                return ask(timeout)
            except KafkaException as error:
                failure = error
                self.wait(min(0.1, deadline.remaining))
                if self._refused_by_all(since) or permanent():
                    deadline = Deadline(deadline.at, round(deadline.total - deadline.remaining, 1))
                    break
                # This client may keep asking a broker that hangs; a new one finds another broker.
                self._give_up(asked)
        raise self.unreachable(failure, deadline.total)

    def _give_up(self, client: AdminClient) -> None:
        with self._shared.lock:
            if self._shared.client is client:
                self._shared.retired.append(client)
                self._shared.client = None

    def _errors_since(self, since: float) -> list[KafkaError]:
        return [error for at, error in tuple(self._shared.errors) if at >= since]

    def _refused_by_all(self, since: float) -> bool:
        # With several addresses, a single one may be misconfigured.
        refusing = {_address(error) for error in self._errors_since(since) if _is_permanent(error)}
        return len(refusing) >= len(self.bootstrap.split(",")) or "" in refusing

    def _all_refuse(self) -> bool:
        """Whether all bootstrap servers refuse connections."""
        refused = _REFUSED in self._shared.log.failure
        return refused and all(map(_is_refused, self.bootstrap.split(",")))

    def wait(self, seconds: float) -> None:
        """Wait while the client delivers log lines and errors."""
        self.admin().poll(seconds)

    def unreachable(
        self, failure: KafkaException | None, waited_s: float | None = None
    ) -> Unreachable:
        """Build the error with the cluster, its addresses and the likeliest reason."""
        waited_s = self.timeout_s if waited_s is None else waited_s
        recent = self._errors_since(monotonic() - max(waited_s, self.timeout_s) - _LATELY_S)
        last = max(recent, key=_severity, default=None)
        text = last.str() if last and _severity(last) else self._shared.log.failure
        if not text:
            text = failure.args[0].str() if failure else "no answer"
        who = f"cluster {self.name} ({self.bootstrap})"
        cause, hint = _cause(last, self.name)
        reason = _NOISE.sub("", self.redacted(text))
        if cause:
            locked = AuthenticationFailed(f"{cause} failed: {who}: {reason}", hint)
            login = _MECHANISMS if _MECHANISM.search(reason) else _LOGIN
            locked.settings = self._settings(login if cause == _AUTHENTICATION else _TLS)
            return locked
        # "HOST:PORT/bootstrap: Connect to ipv4#HOST:PORT failed: ..." repeats the address.
        reason = _NOT_CONNECTED.sub("", reason)
        return Unreachable(f"{who} did not answer within {waited_s:g} s: {reason}", hint)

    def redacted(self, text: str) -> str:
        """Replace the values of secret properties."""
        for key, value in self.properties.items():
            if value and _SECRET.search(key):
                text = text.replace(value, "***")
        return text

    def close(self) -> None:
        """Close everything; the next call reconnects."""
        with self._shared.lock:
            parts, self._shared.parts = self._shared.parts, {}
            self._shared.client = None
            self._shared.retired.clear()
            self._shared.coordinators.clear()
        for part in parts.values():
            part.close()

    def _open(self) -> AdminClient:
        errors = self._shared.errors
        settings: dict[str, Any] = {
            **_FRESH,
            **client_properties(self.properties),
            "error_cb": lambda error: errors.append((monotonic(), error)),
        }
        try:
            return AdminClient(settings, logger=self._shared.log)
        except (KafkaException, ValueError, TypeError) as error:
            detail = error.args[0].str() if isinstance(error, KafkaException) else str(error)
            odd = refused(self.name, self.redacted(detail).strip())
            odd.settings = self._settings(self._named(detail))
            raise odd from None

    def _named(self, text: str) -> tuple[str, ...]:
        """The properties that a librdkafka error names."""
        found = sorted((name for name in self.properties if name in text), key=len, reverse=True)
        return (*found[:1], *(_MECHANISMS if _MECHANISM.search(text) else ()))

    def _settings(self, names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        own = "clusters", self.name
        given = tuple((*own, "properties", name) for name in names if name in self.properties)
        return given or ((*own, "properties"),)


def _identity(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The properties that identify a peer: addresses and credentials."""
    kept = ("bootstrap.", "security.", "sasl.", "ssl.")
    return tuple(sorted((k, str(v)) for k, v in properties.items() if k.startswith(kept)))


def _severity(error: KafkaError) -> int:
    if _is_permanent(error):
        return 2
    return 1 if error.code() in (KafkaError._RESOLVE, KafkaError._TRANSPORT) else 0


def _is_permanent(error: KafkaError) -> bool:
    # Waiting does not fix a wrong password or certificate.
    return error.code() == KafkaError._AUTHENTICATION or _is_tls(error)


def _is_refused(address: str) -> bool:
    host, _, port = address.strip().rpartition("://")[2].rpartition(":")
    if not (host and port.isdecimal()):
        return False
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REFUSED_S, all_errors=True).close()
    except ExceptionGroup as tried:
        return all(isinstance(error, ConnectionRefusedError) for error in tried.exceptions)
    except OSError:
        return False
    return False


def _address(error: KafkaError) -> str:
    """The address that an error names, or an empty string."""
    found = _ADDRESS.search(error.str())
    return found[1] if found else ""


def _is_tls(error: KafkaError) -> bool:
    return error.code() == KafkaError._SSL or bool(_TLS_ALERT.search(error.str()))


def _cause(error: KafkaError | None, name: str) -> tuple[str, str]:
    place = f"clusters.{name} in drctl.yaml"
    if error is not None and error.code() == KafkaError._AUTHENTICATION:
        hint = f"check sasl.mechanism, sasl.username and sasl.password of {place}"
        return _AUTHENTICATION, hint
    if error is not None and _is_tls(error):
        return "TLS", f"check security.protocol and the ssl.* properties of {place}"
    return "", (
        f"check that the brokers are running, and check bootstrap and security.protocol of {place}"
    )


K = TypeVar("K", bound=Hashable)
A = TypeVar("A")

Asked = Iterable[tuple[K, "Future[Any] | Fault"]]
"""One round of requests: a future per question, or a fault that is already known."""

_ELECTION_S = 1.0
_PAUSES_S = (0.05, 0.1, 0.2, 0.5)
GRACE_S = 1.0
"""How long after its timeout a request may take to report that it timed out."""


def gather(
    connection: Connection,
    questions: Collection[K],
    ask: Callable[[Collection[K], float, Deadline], Asked[K]],
    deadline: Deadline,
    also: Callable[[Fault], bool] = lambda _: False,
) -> Mapping[K, Any]:
    """Ask the questions in rounds; return each answer, or its final `Fault`.

    Args:
        ask: starts the requests of a round without waiting.
        also: further faults to retry.

    Raises:
        Unreachable: no broker answered in any round.
    """

    def attempt(pending: Collection[K], timeout: float) -> dict[K, Any]:
        asked = list(ask(pending, timeout, deadline))
        until = Deadline.after(timeout + GRACE_S)
        return {key: outcome(future, until.remaining) for key, future in asked}

    def unsettled(answer: Any) -> bool:
        return again(answer, settled) or (isinstance(answer, Fault) and also(answer))

    settled = election_deadline(deadline)
    return in_rounds(connection, questions, attempt, unsettled, deadline)


def in_rounds(
    connection: Connection,
    questions: Iterable[K],
    attempt: Callable[[Collection[K], float], Mapping[K, A]],
    again: Callable[[A], bool],
    deadline: Deadline,
    timeouts: Iterator[float] | None = None,
) -> dict[K, A]:
    """Ask the questions in rounds until all are settled or the deadline passes.

    Args:
        attempt: asks some of the questions, with a timeout in seconds.
        again: whether to ask again after this answer.
        timeouts: of the rounds; by default growing shares of the deadline.

    Raises:
        Unreachable: no broker answered in any round.
    """
    answers: dict[K, A] = {}
    pending: Collection[K] = tuple(dict.fromkeys(questions))
    waits = pauses()
    for timeout in timeouts or deadline.attempts():
        if not pending:
            break
        try:
            answers |= attempt(pending, timeout)
        except Unreachable:
            if not answers:
                raise
            break
        pending = [key for key in pending if again(answers[key])]
        connection.wait(min(next(waits), deadline.remaining) if pending else 0)
    return answers


def in_chunks(items: Collection[K], size: int) -> Iterable[list[K]]:
    """The items in lists of at most `size`."""
    held = list(items)
    return (held[at : at + size] for at in range(0, len(held), size))


def election_deadline(deadline: Deadline) -> Deadline:
    """The deadline for a leader election in progress."""
    return Deadline.after(min(_ELECTION_S, deadline.total / 2))


def pauses() -> Iterator[float]:
    """Growing pauses between rounds, in seconds."""
    return chain(_PAUSES_S, repeat(_PAUSES_S[-1]))


def outcome(future: "Future[Any] | Fault", timeout: float) -> Any:
    """The result of a future, or its `Fault`."""
    if isinstance(future, Fault):
        return future
    try:
        error = future.exception(timeout)
    except TimeoutError as late:
        return fault_of(late)
    return future.result() if error is None else fault_of(error)


def again(answer: Any, settled: Deadline) -> bool:
    """Whether to retry."""
    if not isinstance(answer, Fault):
        return False
    return answer.retried or (answer.settles and not settled.expired)
