"""The connection to one cluster that all of its readers and writers share.

It has the admin client, opened on first use, what is remembered of errors, and rounds of requests.
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

# Without a handler Python itself would print warnings to stderr.
LOGGER = logging.getLogger("drctl.kafka")
LOGGER.addHandler(logging.NullHandler())

_SECRET = re.compile(r"password|secret|\.pem$|token|jaas|sasl\.oauthbearer\.config", re.IGNORECASE)
_NOISE = re.compile(r"^\[thrd:[^]]*\]: | \(after \d+ms in state .*\)$|error:[0-9A-F]{8}:")
_TLS_ALERT = re.compile(r"SSL alert|SSL handshake failed: .*verif")
_QUICK = {"reconnect.backoff.max.ms": "1000", "socket.connection.setup.timeout.ms": "5000"}
# Told once who the controller is, a client asks nobody else until this is over (default 5 minutes).
_FRESH = {"topic.metadata.refresh.interval.ms": "2000"}
_MECHANISM = re.compile(r"[Uu]nsupported|No provider|handshake failed")
_ADDRESS = re.compile(r"(\S+)/(?:bootstrap|\d+): ")
_AUTHENTICATION = "authentication"
_LOGIN = ("sasl.password", "sasl.username", "sasl.mechanism", "sasl.mechanisms")
_MECHANISMS = ("sasl.mechanism", "sasl.mechanisms", "security.protocol")
_TLS = ("ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "security.protocol")
_REFUSED = "Connection refused"
_REFUSED_S = 0.3
"""A machine refuses a connection at once, or somebody is there."""
_LATELY_S = 5.0
"""How long before a call an error may have come that explains why it fails."""

NO_TOPIC = "/"
"""None can be called that: asking for it tells of brokers, and makes no topic."""

_NOBODY = "the broker that answered knows none that is up"
_RETIRED = 4
"""Clients that were given up and may still answer what others asked through them."""

T = TypeVar("T")
C = TypeVar("C", bound=connections.Closing)


class Nodes(NamedTuple):
    """Who a cluster is made of.

    Attributes:
        brokers: by id; what has a `host` and a `port`.
    """

    cluster_id: str
    brokers: Mapping[int, Any]


def client_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """What every client of this room is opened with: the user's word comes before ours."""
    return {**_QUICK, **properties, "allow.auto.create.topics": "false"}


def refused(cluster: str, detail: str) -> ConfigError:
    """Properties that librdkafka does not take."""
    return ConfigError(
        f"cluster {cluster}: {detail}",
        f"Correct clusters.{cluster}.properties: librdkafka's names and values go there.",
    )


class _Log(logging.LoggerAdapter[logging.Logger]):
    """Passes on what librdkafka logs and keeps the last failure of a connection.

    That a broker hung up, as one does that expects TLS, is told nowhere else.
    """

    failure = ""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if len(args) == 3 and args[0] == "FAIL":
            self.failure = str(args[2])
        super().log(level, msg, *args, **kwargs)


class _Shared:
    """What everybody has in common who talks to a cluster through one connection."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.client: AdminClient | None = None
        self.retired: deque[AdminClient] = deque(maxlen=_RETIRED)
        self.errors: deque[tuple[float, KafkaError]] = deque(maxlen=50)
        self.log = _Log(LOGGER)
        self.parts: dict[object, connections.Closing] = {}
        self.users: WeakSet[object] = WeakSet()
        self.coordinators: dict[str, int] = {}


class Connection:
    """Talks to the cluster that drctl.yaml calls `name`; any number of threads may use it.

    Args:
        timeout_s: every call ends within it (and a moment).
    """

    def __init__(self, name: str, properties: Mapping[str, str], timeout_s: float = 10) -> None:
        self.name = name
        self.properties = dict(properties)
        self.timeout_s = timeout_s
        self._shared = _Shared()
        self._who = _who(properties)
        self._origin: Connection | None = None

    def within(self, timeout_s: float) -> "Connection":
        """The same connection, whose calls may take as long as this."""
        other = copy(self)
        other.timeout_s = timeout_s
        other._origin = self
        return other

    def part(self, kind: "Callable[[Connection], C]") -> C:
        """The only one of its kind, for all who use this connection; closed with it."""
        with self._shared.lock:
            if kind not in self._shared.parts:
                self._shared.parts[kind] = kind(self)
            found: Any = self._shared.parts[kind]
        return found  # type: ignore[no-any-return]

    def use(self, user: object) -> None:
        """Keep it open for somebody, until he leaves."""
        self._shared.users.add(user)

    def leave(self, user: object) -> None:
        """Close it, unless somebody else uses it; may be called again."""
        self._shared.users.discard(user)
        if not self._shared.users:
            self.close()

    @property
    def bootstrap(self) -> str:
        """The addresses it starts from."""
        return self.properties.get("bootstrap.servers", "")

    @property
    def coordinators(self) -> dict[str, int]:
        """Which broker coordinates a group, as far as that was told; one that moved is removed."""
        return self._shared.coordinators

    def deadline(self) -> Deadline:
        """The deadline of a call that starts now."""
        return Deadline.after(self.timeout_s)

    def admin(self) -> AdminClient:
        """The client; opened on first use.

        Raises:
            ConfigError: librdkafka does not take the properties.
        """
        with self._shared.lock:
            if self._shared.client is None:
                self._shared.client = self._open()
            return self._shared.client

    def metadata(self, deadline: Deadline) -> ClusterMetadata:
        """All brokers and topics; never asks for a topic by name, which would create it.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return self._tried(self._described, deadline)

    def nodes(self, deadline: Deadline) -> Nodes:
        """The cluster's id and brokers: a small answer, however many topics there are.

        As after `metadata`, the client knows whom to ask. It asks for the metadata of a topic that
        cannot exist: where no broker is up, `describe_cluster` ends the process (decision 0055).

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        told = self._tried(lambda timeout: self._described(timeout, NO_TOPIC), deadline)
        return Nodes(str(told.cluster_id), told.brokers)

    def _described(self, timeout: float, topic: str | None = None) -> ClusterMetadata:
        told = self.admin().list_topics(topic, timeout=timeout)
        if not told.brokers:
            # One that has just come back says so until it is let in again.
            raise KafkaException(KafkaError(KafkaError.BROKER_NOT_AVAILABLE, _NOBODY))
        return told

    def present(self) -> None:
        """See whether it is there, and nothing else.

        Raises:
            Unreachable: no broker answered within a short time.
            ConfigError: librdkafka does not take the properties.
        """
        deadline = Deadline.after(min(connections.PATIENCE_S, self.timeout_s))
        ask = lambda timeout: self._described(timeout, NO_TOPIC)  # noqa: E731
        self._asked(ask, deadline, hopeless=self._nobody_listens)

    def _anew(self) -> None:
        other = Connection(self.name, self.properties, self.timeout_s)
        try:
            other.present()
        finally:
            other.close()

    def _tried(self, ask: Callable[[float], T], deadline: Deadline) -> T:
        party = connections.party(self._who, connections.cluster(self.name))
        if party is None:
            return self._asked(ask, deadline)
        party.expect(self.present, self._anew)
        try:
            return self._asked(ask, deadline)
        except Unreachable as silent:
            party.silent(silent)
            raise

    def _asked(
        self,
        ask: Callable[[float], T],
        deadline: Deadline,
        hopeless: Callable[[], bool] = lambda: False,
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
                if self._refused_by_all(since) or hopeless():
                    deadline = Deadline(deadline.at, round(deadline.total - deadline.remaining, 1))
                    break
                # It may continue asking a broker that hangs; a new client finds one that answers.
                self._give_up(asked)
        raise self.unreachable(failure, deadline.total)

    def _give_up(self, client: AdminClient) -> None:
        with self._shared.lock:
            if self._shared.client is client:
                self._shared.retired.append(client)
                self._shared.client = None

    def _met(self, since: float) -> list[KafkaError]:
        return [error for at, error in tuple(self._shared.errors) if at >= since]

    def _refused_by_all(self, since: float) -> bool:
        # One address of several may be another cluster's, or a broker's that is set up wrongly.
        refusing = {_address(error) for error in self._met(since) if _hopeless(error)}
        return len(refusing) >= len(self.bootstrap.split(",")) or "" in refusing

    def _nobody_listens(self) -> bool:
        """Whether each address that it begins at, whatever it resolves to, refuses connections."""
        told = _REFUSED in self._shared.log.failure
        return told and all(map(_is_refused, self.bootstrap.split(",")))

    def wait(self, seconds: float) -> None:
        """Let the client hand over what it logged and which errors it met."""
        self.admin().poll(seconds)

    def unreachable(
        self, failure: KafkaException | None, waited_s: float | None = None
    ) -> Unreachable:
        """The error that names the cluster, its addresses and the likeliest reason."""
        waited_s = self.timeout_s if waited_s is None else waited_s
        recent = self._met(monotonic() - max(waited_s, self.timeout_s) - _LATELY_S)
        last = max(recent, key=_telling, default=None)
        text = last.str() if last and _telling(last) else self._shared.log.failure
        if not text:
            text = failure.args[0].str() if failure else "no answer"
        who = f"cluster {self.name} ({self.bootstrap})"
        cause, hint = _cause(last, self.name)
        reason = _NOISE.sub("", self.redacted(text))
        if cause:
            locked = AuthenticationFailed(f"no connection to {who}: {cause} failed: {reason}", hint)
            login = _MECHANISMS if _MECHANISM.search(reason) else _LOGIN
            locked.settings = self._settings(login if cause == _AUTHENTICATION else _TLS)
            return locked
        return Unreachable(f"{who} did not answer within {waited_s:g} s: {reason}", hint)

    def redacted(self, text: str) -> str:
        """The text without any value of a secret property."""
        for key, value in self.properties.items():
            if value and _SECRET.search(key):
                text = text.replace(value, "***")
        return text

    def close(self) -> None:
        """Let go of everything; the next call opens it anew."""
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
        """The properties that an error of librdkafka is about."""
        found = sorted((name for name in self.properties if name in text), key=len, reverse=True)
        return (*found[:1], *(_MECHANISMS if _MECHANISM.search(text) else ()))

    def _settings(self, names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        own = "clusters", self.name
        given = tuple((*own, "properties", name) for name in names if name in self.properties)
        return given or ((*own, "properties"),)


def _who(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What makes two clients those of one party: where they go, and as whom."""
    kept = ("bootstrap.", "security.", "sasl.", "ssl.")
    return tuple(sorted((k, str(v)) for k, v in properties.items() if k.startswith(kept)))


def _telling(error: KafkaError) -> int:
    if _hopeless(error):
        return 2
    return 1 if error.code() in (KafkaError._RESOLVE, KafkaError._TRANSPORT) else 0


def _hopeless(error: KafkaError) -> bool:
    # Neither a password nor a certificate gets better by waiting.
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
    """The address that an error came from; empty where it does not say."""
    found = _ADDRESS.search(error.str())
    return found[1] if found else ""


def _is_tls(error: KafkaError) -> bool:
    return error.code() == KafkaError._SSL or bool(_TLS_ALERT.search(error.str()))


def _cause(error: KafkaError | None, name: str) -> tuple[str, str]:
    place = f"clusters.{name} in drctl.yaml"
    if error is not None and error.code() == KafkaError._AUTHENTICATION:
        hint = f"Check sasl.mechanism, sasl.username and sasl.password of {place}."
        return _AUTHENTICATION, hint
    if error is not None and _is_tls(error):
        return "TLS", f"Check security.protocol and the ssl.* properties of {place}."
    return "", f"Check that the brokers run, and bootstrap and security.protocol of {place}."


K = TypeVar("K", bound=Hashable)
A = TypeVar("A")

Asked = Iterable[tuple[K, "Future[Any] | Fault"]]
"""What one round of requests is: a future for each question, or what is known already."""

_SETTLE_S = 1.0
_PAUSES_S = (0.05, 0.1, 0.2, 0.5)
GRACE_S = 1.0
"""How much longer than its timeout a request may take to say that it timed out."""


def gather(
    connection: Connection,
    questions: Collection[K],
    ask: Callable[[Collection[K], float, Deadline], Asked[K]],
    deadline: Deadline,
    also: Callable[[Fault], bool] = lambda _: False,
) -> Mapping[K, Any]:
    """Each question's answer, or the `Fault` that it ended with.

    `ask` starts all requests of a round with the given timeout and returns without waiting;
    `also` says which faults are asked again whatever they are.

    Raises:
        Unreachable: no broker answered, and nothing had been answered before.
    """

    def attempt(pending: Collection[K], timeout: float) -> dict[K, Any]:
        asked = list(ask(pending, timeout, deadline))
        until = Deadline.after(timeout + GRACE_S)
        return {key: outcome(future, until.remaining) for key, future in asked}

    def unsettled(answer: Any) -> bool:
        return again(answer, settled) or (isinstance(answer, Fault) and also(answer))

    settled = settled_by(deadline)
    return in_rounds(connection, questions, attempt, unsettled, deadline)


def in_rounds(
    connection: Connection,
    questions: Iterable[K],
    attempt: Callable[[Collection[K], float], Mapping[K, A]],
    again: Callable[[A], bool],
    deadline: Deadline,
    timeouts: Iterator[float] | None = None,
) -> dict[K, A]:
    """Each question's answer, after as many rounds as it takes or the deadline allows.

    Args:
        attempt: asks some of the questions, for so many seconds.
        again: whether an answer is no reason to stop asking.
        timeouts: of the rounds; growing shares of the deadline where none are given.

    Raises:
        Unreachable: no broker answered, and nothing had been answered before.
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


def settled_by(deadline: Deadline) -> Deadline:
    """Until when to hope that an election ends."""
    return Deadline.after(min(_SETTLE_S, deadline.total / 2))


def pauses() -> Iterator[float]:
    """Seconds between a round of requests and the next, growing."""
    return chain(_PAUSES_S, repeat(_PAUSES_S[-1]))


def outcome(future: "Future[Any] | Fault", timeout: float) -> Any:
    """The value of a future, or the `Fault` that it ended with."""
    if isinstance(future, Fault):
        return future
    try:
        error = future.exception(timeout)
    except TimeoutError as late:
        return fault_of(late)
    return future.result() if error is None else fault_of(error)


def again(answer: Any, settled: Deadline) -> bool:
    """Whether to ask again."""
    if not isinstance(answer, Fault):
        return False
    return answer.retried or (answer.settles and not settled.expired)
