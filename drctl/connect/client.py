"""A client of Connect's REST interface: several workers, one deadline, validated responses.

Each request ends by its deadline and reads a limited response, whatever the server does. A response
that is not from Connect raises an error; it is never interpreted, and never crashes drctl.
"""

import http.client
import io
import json
import ssl
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from socket import SOCK_STREAM, gaierror, getaddrinfo, socket
from threading import Thread
from typing import Any, NamedTuple, TypeVar, cast

from drctl.config.fields import WebAddress, web_address
from drctl.config.secret import hide_user_info, names_secret, remember, without_known
from drctl.connect.connectors import checked, member, read_config, read_connector
from drctl.host import connections
from drctl.model.document import as_json
from drctl.model.errors import ConfigError, DrctlError, Refused, Unknown, Unreachable, UsageError
from drctl.model.replication import Connector, Position
from drctl.model.strict_json import read_json
from drctl.model.text import segment
from drctl.views.text import sentence

T = TypeVar("T")
Read = Callable[[Any], T]
"""Parses a response; raises ValueError if it does not have the expected form."""

MOST_BYTES = 64 << 20
"""Size limit of a response: ten times one with thousands of connectors and long stack traces."""

# Returned during a rebalance, and for other reasons; only the message differs.
_PERHAPS_REBALANCING = (409, 500)
_FOR_A_MOMENT = (b"rebalanc", b"momentarily")
_PAUSE_S = 0.1
_LEAST_S = 0.1
_PIECE = 1 << 16
_SHOWN = 80
_LOOKED_AT = 4_000
_DENIED = (401, 403)
_OURS = ("content-length", "content-type", "transfer-encoding", "accept", "connection")
_ACCESS = "Check `connect_access` beside `connect` in drctl.yaml: user, password, headers, ca."


class ConnectRejected(Unknown):
    """The worker rejected the request."""


class NotConnect(Unreachable):
    """The response is not from Connect, or not a valid Connect response; nothing was changed."""


class NoSuchConnector(UsageError):
    """The worker has no connector of this name."""


@dataclass(frozen=True, slots=True)
class Access:
    """How a client authenticates, and which certificates it trusts.

    Attributes:
        user: user for basic authentication, if the URL has none.
        headers: sent with every request.
        ca: PEM file, or its content, with trusted certificates; default: those of the system.
        certificate: PEM file, or its content, of a client certificate with its chain.
        key: PEM file, or its content, of the key; default: the file of the certificate.
        places: file, line and path of settings that were read from drctl.yaml, by key; a header
            by its name.
    """

    user: str | None = None
    password: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    places: Mapping[str, str] = field(default_factory=dict, repr=False)

    def _at(self, key: str) -> str:
        """Where a setting is: file, line and path if it was read from drctl.yaml."""
        return self.places.get(key, f"connect_access.{key}")

    def headers_for(self, worker: WebAddress) -> dict[str, str]:
        """The headers for authentication; their secrets are masked in all output from now on.

        Raises:
            ConfigError: a header is invalid, or given twice.
        """
        for name, value in self.headers.items():
            if name.lower() in _OURS:
                raise ConfigError(f"{self._at(name)}: drctl sets this header: remove it")
            if not value.isprintable() or not value.isascii():
                raise ConfigError(f"{self._at(name)}: must be printable ASCII")
        remember(value for name, value in self.headers.items() if names_secret(name))
        found = dict(self.headers)
        user, password = worker.user, worker.password
        if user is not None and self.user is not None:
            raise ConfigError(f"{self._at('user')}: the URL of {worker} has a user too: remove one")
        if user is None:
            user, password = self.user, self.password
        if user is not None:
            if "authorization" in map(str.lower, found):
                raise ConfigError(
                    f"{self._at('user')}: the headers have an Authorization too: remove one"
                )
            if ":" in user:
                raise ConfigError(f"{self._at('user')}: must not contain a colon")
            try:
                both = f"{user}:{password}".encode("utf-8", "surrogateescape")
            except UnicodeEncodeError:
                raise ConfigError(f"{self._at('user')}: user and password must be text") from None
            credentials = b64encode(both).decode()
            remember((password, credentials))
            found["Authorization"] = f"Basic {credentials}"
        return found

    def context(self) -> ssl.SSLContext:
        """The TLS context.

        Raises:
            ConfigError: a certificate or key cannot be used.
        """
        try:
            context = ssl.create_default_context(
                cafile=None if _is_pem(self.ca) else self.ca or None,
                cadata=self.ca if _is_pem(self.ca) else None,
            )
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{self._at('ca')}: {_source(self.ca)} cannot be used: {_because(error)}",
                "Use a PEM file of trusted certificates.",
            ) from None
        if not self.certificate:
            return context
        with tempfile.TemporaryDirectory(prefix="drctl-tls-") as folder:
            try:
                files = [
                    _as_file(text, Path(folder) / name)
                    for name, text in (("certificate", self.certificate), ("key", self.key))
                ]
                # Without a function OpenSSL would ask on the terminal for an encrypted key.
                context.load_cert_chain(files[0] or "", files[1], lambda: self.key_password)
            except (OSError, ValueError) as error:
                raise ConfigError(
                    f"{self._at('certificate')}: {_source(self.certificate)} and its key cannot be"
                    f" used: {_because(error)}",
                    "Use the PEM files of one key pair; an encrypted key needs `key_password`.",
                ) from None
        return context


class ConnectReader:
    """Reads the connectors of a Connect cluster.

    Args:
        urls: URLs of its workers; if one does not answer, the next is asked. A user and password
            in a URL are sent as a header, and never printed.
        timeout_s: deadline of each call, including retries.

    Raises:
        ConfigError: the access cannot be used.
        ValueError: a URL is invalid.
    """

    def __init__(
        self, *urls: str | WebAddress, timeout_s: float = 10, access: Access | None = None
    ) -> None:
        workers = [web_address(url) if isinstance(url, str) else url for url in urls]
        self._access = access or Access()
        self._workers = [(worker, self._access.headers_for(worker)) for worker in workers]
        self._context: ssl.SSLContext | None = None
        self._looked, self._running_since = 0.0, dict[str, float]()
        self.timeout_s = timeout_s
        self._named = ", ".join(map(str, workers))
        self._peer = connections.peer(("connect", self._named), "Kafka Connect")

    def kafka_cluster_id(self) -> str:
        """The id of the workers' own Kafka cluster.

        Raises:
            NotConnect: the response does not contain it, for instance because of a proxy.
            Unreachable: no worker answered within the deadline.
        """
        return self._call("GET", "/", lambda reply: member(reply, "kafka_cluster_id", str))

    def connectors(self) -> tuple[str, ...]:
        """Names of all connectors, sorted.

        Raises:
            NotConnect: the response is not from Connect.
            Unreachable: no worker answered within the deadline.
        """

        def names(document: Any) -> tuple[str, ...]:
            return tuple(sorted(checked(name, str, "a name") for name in checked(document, list)))

        return self._call("GET", "/connectors", names)

    def all(self) -> Mapping[str, Connector]:
        """Every connector with its configuration and its tasks, by name.

        Raises:
            NotConnect: the response is not from Connect.
            Unreachable: no worker answered within the deadline.
        """

        def read(name: str, reply: Any) -> Connector:
            return read_connector(name, member(reply, "status", dict), member(reply, "info", dict))

        found = self._call("GET", "/connectors?expand=status&expand=info", each(read))
        now, before = time.monotonic(), self._running_since
        running = (name for name, one in found.items() if one.running)
        self._running_since = {name: before.get(name, now) for name in running}
        self._looked = now
        return found

    def running_for(self, names: Collection[str]) -> Mapping[str, float]:
        """Seconds for which each was RUNNING, as observed by `all`; 0 if not RUNNING at the end."""
        return {name: self._looked - self._running_since.get(name, self._looked) for name in names}

    def statuses(self) -> dict[str, Connector]:
        """The states of all connectors and their tasks.

        Raises:
            NotConnect: the response is not from Connect.
            Unreachable: no worker answered within the deadline.
        """
        read = each(lambda name, reply: read_connector(name, member(reply, "status", dict)))
        return self._call("GET", "/connectors?expand=status", read)

    def status(self, name: str) -> Connector:
        """The state of one connector and its tasks.

        Raises:
            NoSuchConnector: no connector has this name.
            ConnectRejected: it exists, but its state is not known yet.
            NotConnect: the response is not from Connect.
            Unreachable: no worker answered within the deadline.
        """
        try:
            read = lambda reply: read_connector(member(reply, "name", str), reply)  # noqa: E731
            return self._call("GET", f"{path_of(name)}/status", read)
        except NoSuchConnector:
            # A starting worker answers this for each connector until it has read its topics.
            if name not in self.connectors():
                raise
            raise ConnectRejected(
                f"Kafka Connect does not know the status of connector {name} yet",
                "See the worker's log.",
            ) from None

    def config(self, name: str) -> dict[str, str]:
        """A connector's configuration, as submitted.

        Raises:
            NoSuchConnector: no connector has this name.
            NotConnect: the response is not from Connect.
            Unreachable: no worker answered within the deadline.
        """
        return self._call("GET", f"{path_of(name)}/config", read_config)

    def task_count(self, name: str) -> int:
        """The number of configured tasks; 0 once Connect has stored that it is stopped.

        Raises:
            NoSuchConnector: no connector has this name.
            NotConnect: the response is not from Connect.
            Unreachable: no worker answered within the deadline.
        """
        return self._informed(name, lambda info: len(member(info, "tasks", list)))

    def known_config(self, name: str) -> dict[str, str]:
        """Its configuration as known to one worker; may be outdated, so do not use it for changes.

        Raises:
            NoSuchConnector: no connector has this name.
            NotConnect: the response is not from Connect.
            Unreachable: no worker answered within the deadline.
        """
        return self._informed(name, lambda info: read_config(member(info, "config", dict)))

    def _informed(self, name: str, read: Read[T]) -> T:
        # The connector's own path responds only after its stopping tasks have ended.
        infos = each(lambda _, reply: read(member(reply, "info", dict)))
        every = self._call("GET", "/connectors?expand=info", infos)
        if name not in every:
            raise NoSuchConnector(f"Kafka Connect has no connector {name}")
        return every[name]

    def positions(self, name: str) -> tuple[Position, ...]:
        """A connector's source or sink offsets."""
        return tuple(Position(at["partition"], at["offset"]) for at in self.offsets(name))

    def offsets(self, name: str) -> tuple[dict[str, Any], ...]:
        """A connector's source (or sink) offsets: `{"partition": {...}, "offset": {...}}` each.

        The offset may be None.

        Raises:
            NoSuchConnector: no connector has this name.
            NotConnect: the response is not from Connect.
            Unreachable: no worker answered within the deadline.
        """
        return self._call("GET", f"{path_of(name)}/offsets", _offsets)

    def plugin_defaults(self, plugin: str) -> Mapping[str, str]:
        """The default values of a plugin's settings, without settings that have none.

        Raises:
            NoSuchConnector: the workers are older than Kafka 3.2, or have no such plugin.
            NotConnect: the response is not from Connect.
            Unreachable: no worker answered within the deadline.
        """
        return self._call("GET", f"/connector-plugins/{segment(plugin)}/config", _defaults)

    def present(self) -> None:
        """Check whether a worker answers at all.

        Raises:
            Unreachable: no worker answered within a short time.
        """
        patience = min(connections.PROBE_TIMEOUT_S, self.timeout_s)
        self._answer("GET", "/connectors", None, time.monotonic() + patience, patience)

    def expect(self) -> None:
        """Require an answering worker; the result is remembered for this run.

        Raises:
            Unreachable: no worker answers.
        """
        if self._peer is not None:
            self._peer.require(self.present, self.present)

    def close(self) -> None:
        """Do nothing: no connection stays open between calls."""

    def _call(
        self, method: str, path: str, read: Read[T], body: Mapping[str, object] | None = None
    ) -> T:
        self.expect()
        until = time.monotonic() + self.timeout_s
        while True:
            answer = self._answer(method, path, body, until)
            suspect = answer.status in _PERHAPS_REBALANCING
            busy = suspect and any(word in answer.data.lower() for word in _FOR_A_MOMENT)
            if not busy or time.monotonic() + _PAUSE_S >= until:
                return self._value(answer, method, path, read)
            time.sleep(_PAUSE_S)

    def _answer(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None,
        until: float,
        within_s: float | None = None,
    ) -> "_Answer":
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        silence, sent = "no URL is configured", False
        for number, (worker, access) in enumerate(self._workers):
            share = (until - time.monotonic()) / (len(self._workers) - number)
            exchange = _Exchange(worker, time.monotonic() + max(_LEAST_S, share))
            try:
                context = self._tls() if worker.secure else None
                return exchange.answer(method, path, content, {**headers, **access}, context)
            except http.client.RemoteDisconnected:
                silence, sent = "it closed the connection", True
            except http.client.IncompleteRead:
                silence, sent = "its response was incomplete", True
            except http.client.HTTPException as odd:
                raise self._odd(worker, method, path, "it is not HTTP", str(odd).encode()) from None
            except OSError as error:
                silence, sent = _because(error), sent or exchange.sent
        because = f": {silence}" if silence else ""
        seconds = self.timeout_s if within_s is None else within_s
        silent = Unreachable(
            f"Kafka Connect ({self._named}) did not answer within {seconds:g} s{because}",
            "Check that the worker is running, and check `connect` of the replicator in"
            " drctl.yaml.",
        )
        if self._peer is not None:
            self._peer.failed(silent)
        raise self._no_answer(method, silent, sent)

    def _tls(self) -> ssl.SSLContext:
        self._context = self._context or self._access.context()
        return self._context

    def _no_answer(self, _method: str, silent: Unreachable, _sent: bool) -> DrctlError:
        """The error for a call without a response."""
        return silent

    def _value(self, answer: "_Answer", method: str, path: str, read: Read[T]) -> T:
        if answer.status < 300:
            if len(answer.data) > MOST_BYTES:
                why = f"it is longer than {MOST_BYTES >> 20} MB"
                raise self._odd(answer.worker, method, path, why, answer.data)
            try:
                return read(read_json(answer.data) if answer.data.strip() else None)
            except ValueError as wrong:
                why = "it is not JSON" if isinstance(wrong, _NO_JSON) else str(wrong)
                raise self._odd(answer.worker, method, path, why, answer.data) from None
        if answer.status < 400:
            why = f"it redirects to {hide_user_info(answer.elsewhere)}"
            raise self._odd(answer.worker, method, path, why, answer.data)
        message, own = _complaint(answer.data)
        # A starting worker answers every request with a generic 404 for some seconds.
        if answer.status == 404 and own and path.startswith("/connectors/"):
            raise NoSuchConnector(
                f"Kafka Connect: {message}", "Check `connectors` of the replicator in drctl.yaml."
            )
        raise ConnectRejected(
            f"Kafka Connect answered {answer.status} to {method} {path}: {message}",
            _ACCESS if answer.status in _DENIED else "See the worker's log.",
        )

    def _odd(self, worker: WebAddress, method: str, path: str, why: str, data: bytes) -> Unknown:
        message = (
            f"not a response of Kafka Connect: {method} {worker}{path}:"
            f" {_beginning(why.encode())}; it begins with {_beginning(data) or 'nothing'}"
        )
        hint = "Check that the URL is that of the worker itself, not of a proxy or a login page."
        if method == "GET":
            return NotConnect(message, hint)
        return Unknown(f"{message}; the request may have been executed", hint)


class ConnectWriter(ConnectReader):
    """Reads and changes the connectors of a Connect cluster."""

    def put_config(self, name: str, config: Mapping[str, str]) -> None:
        """Create the connector, or give it this configuration.

        Raises:
            ConnectRejected: the worker rejected the configuration.
            Unknown: no answer; the change may have been applied.
        """
        self._call("PUT", f"{path_of(name)}/config", _named(name), config)

    def pause(self, name: str) -> None:
        """Pause the connector; its tasks keep their resources.

        Raises:
            NoSuchConnector: no connector has this name.
        """
        self._call("PUT", f"{path_of(name)}/pause", acknowledged)

    def stop(self, name: str) -> None:
        """Stop its tasks; its configuration and offsets are kept.

        Raises:
            NoSuchConnector: no connector has this name.
        """
        self._call("PUT", f"{path_of(name)}/stop", acknowledged)

    def resume(self, name: str) -> None:
        """Resume it after `pause` or `stop`.

        Raises:
            NoSuchConnector: no connector has this name.
        """
        self._call("PUT", f"{path_of(name)}/resume", acknowledged)

    def restart(self, name: str) -> None:
        """Restart the connector and its failed tasks.

        Raises:
            NoSuchConnector: no connector has this name.
        """
        self._call(
            "POST", f"{path_of(name)}/restart?includeTasks=true&onlyFailed=true", acknowledged
        )

    def restart_task(self, name: str, number: int) -> None:
        """Restart one task, whatever its state.

        Raises:
            NoSuchConnector: no connector has this name, or it has no such task.
        """
        self._call("POST", f"{path_of(name)}/tasks/{number}/restart", acknowledged)

    def create_stopped(self, name: str, config: Mapping[str, str]) -> None:
        """Create the connector in state STOPPED (Kafka 3.7 and later).

        Raises:
            ConnectRejected: the name exists, or the configuration was rejected.
            Unknown: no answer; the change may have been applied.
        """
        body = {"name": name, "config": dict(config), "initial_state": "STOPPED"}
        self._call("POST", "/connectors", _named(name), body)

    def configure(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Change keys of its configuration; None removes a key. All others are unchanged.

        Raises:
            NoSuchConnector: no connector has this name.
            ConnectRejected: the worker rejected the configuration.
            Unknown: no answer; the change may have been applied.
        """
        config: dict[str, str | None] = {**self.config(name), **changes}
        self.put_config(name, {key: value for key, value in config.items() if value is not None})

    def alter_offsets(self, name: str, offsets: Sequence[Mapping[str, Any]]) -> None:
        """Set its offsets for these partitions; a null offset removes the stored one (KIP-875).

        Raises:
            NoSuchConnector: no connector has this name.
            ConnectRejected: it is not stopped, or rejected the offsets.
            Unknown: no answer; the offsets may have been set.
        """
        body = {"offsets": list(offsets)}
        self._call("PATCH", f"{path_of(name)}/offsets", acknowledged, body)

    def put_positions(self, name: str, positions: Sequence[Position]) -> None:
        """Set the source positions of a stopped connector; None removes a position.

        Raises:
            NoSuchConnector: no connector has this name.
            Refused: it is not stopped, or the positions are invalid.
            Unknown: no answer; the offsets may have been set.
        """
        try:
            self.alter_offsets(name, as_json(positions))
        except ConnectRejected as no:
            raise Refused(no.message, no.hint) from no

    def delete_positions(self, name: str) -> None:
        """Delete all offsets of a stopped connector.

        Raises:
            NoSuchConnector: no connector has this name.
            ConnectRejected: it is not stopped.
            Unknown: no answer; they may have been deleted.
        """
        self._call("DELETE", f"{path_of(name)}/offsets", acknowledged)

    def copy(self, name: str, to: str) -> None:
        """Create another connector with the same configuration.

        Raises:
            NoSuchConnector: no connector has this name.
            ConnectRejected: the worker rejected the configuration.
            Unknown: no answer; it may have been created.
        """
        self.put_config(to, {**self.config(name), "name": to})

    def delete(self, name: str) -> None:
        """Remove the connector.

        Raises:
            NoSuchConnector: no connector has this name.
        """
        self._call("DELETE", path_of(name), acknowledged)

    def _no_answer(self, method: str, silent: Unreachable, sent: bool) -> DrctlError:
        if method == "GET" or not sent:
            return silent
        return Unknown(f"{silent.message}; the request may have been executed", silent.hint)


def path_of(connector: str) -> str:
    """The URL path of a connector."""
    return f"/connectors/{segment(connector)}"


def each(read: Callable[[str, Any], T]) -> Read[dict[str, T]]:
    """Parse an object with an entry for each connector; sorted by name."""

    def all_of(document: Any) -> dict[str, T]:
        return {name: read(name, reply) for name, reply in sorted(checked(document, dict).items())}

    return all_of


def acknowledged(document: Any) -> None:
    """Parse the response to a change: empty, or an object that is ignored.

    Raises:
        ValueError: it is something else.
    """
    if document is not None:
        checked(document, dict)


def _named(name: str) -> Read[None]:
    def read(document: Any) -> None:
        if member(document, "name", str) != name:
            raise ValueError("it is about another connector")

    return read


def _offsets(document: Any) -> tuple[dict[str, Any], ...]:
    found = []
    for reply in member(document, "offsets", list):
        offset = checked(reply, dict, "an entry").get("offset")
        checked({} if offset is None else offset, dict, "`offset`")
        found.append({"partition": member(reply, "partition", dict), "offset": offset})
    return tuple(found)


def _defaults(document: Any) -> dict[str, str]:
    rows = (checked(row, dict, "a setting") for row in checked(document, list))
    values = ((member(row, "name", str), row.get("default_value")) for row in rows)
    return {name: value for name, value in values if isinstance(value, str)}


def _complaint(data: bytes) -> tuple[str, bool]:
    """The error message of a response, and whether it has the form of a Connect error."""
    try:
        found = checked(read_json(data[:MOST_BYTES]), dict)
        return member(found, "message", str), "error_code" in found
    except ValueError:
        return _beginning(data, 300), False


def _beginning(data: bytes, most: int = _SHOWN) -> str:
    """The beginning of a response as printable text; secrets are masked before it is cut."""
    text = without_known(data[:_LOOKED_AT].decode(errors="replace"))
    return sentence(text if len(text) <= most else f"{text[:most]}...")


_NO_JSON = (json.JSONDecodeError, UnicodeDecodeError)


def _because(error: Exception) -> str:
    """Why there was no response, as text; empty after a timeout."""
    if isinstance(error, TimeoutError):
        return ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, gaierror):
        return "unknown host name"
    if isinstance(error, ssl.SSLError):
        return (error.reason or "TLS fails").replace("_", " ").lower()
    if isinstance(error, OSError) and error.strerror:
        named = f": {error.filename}" if error.filename else ""
        return f"{error.strerror.lower()}{named}"
    return "it has the wrong format"


def _source(text: str) -> str:
    """The file that a setting names; its content is not shown."""
    return "the PEM text" if _is_pem(text) else text


def _is_pem(text: str) -> bool:
    return "-----BEGIN" in text


def _as_file(text: str, file: Path) -> str | None:
    if not _is_pem(text):
        return text or None
    file.touch(mode=0o600)
    file.write_text(text, encoding="utf-8")
    return str(file)


class _Answer(NamedTuple):
    """A response, read up to one byte more than the limit."""

    worker: WebAddress
    status: int
    data: bytes
    elsewhere: str


class _Exchange:
    """One request and its response, over its own connection, with a deadline.

    Attributes:
        sent: whether the worker may have received part of the request.
    """

    def __init__(self, worker: WebAddress, until: float) -> None:
        self._worker = worker
        self._until = until
        self.sent = False

    def answer(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        context: ssl.SSLContext | None,
    ) -> _Answer:
        """Return the response; redirects are not followed, because that would send the password.

        Raises:
            OSError: no complete response in time.
            http.client.HTTPException: it is not HTTP, or is incomplete.
        """
        with self._connected() as plain:
            if context is None:
                return self._over(plain, method, path, body, headers)
            plain.settimeout(self.left())
            with context.wrap_socket(plain, server_hostname=self._worker.host) as secure:
                return self._over(secure, method, path, body, headers)

    def left(self) -> float:
        """Seconds until the deadline.

        Raises:
            TimeoutError: the deadline has passed.
        """
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _over(
        self, sock: socket, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> _Answer:
        connection = http.client.HTTPConnection(self._worker.host, self._worker.port)
        connection.sock = cast(socket, _Timed(sock, self))
        named = {"Connection": "close", **headers}
        connection.request(method, self._worker.path + path, body, named)
        response = connection.getresponse()
        pieces, length = [], 0
        while length <= MOST_BYTES and (piece := response.read(_PIECE)):
            pieces.append(piece)
            length += len(piece)
        if response.length and length <= MOST_BYTES:
            raise http.client.IncompleteRead(b"", response.length)
        data, elsewhere = b"".join(pieces)[: MOST_BYTES + 1], response.getheader("Location", "")
        return _Answer(self._worker, response.status, data, elsewhere)

    def _connected(self) -> socket:
        last: OSError = TimeoutError()
        found = self._found()
        for number, (family, kind, protocol, _, place) in enumerate(found):
            sock = socket(family, kind, protocol)
            try:
                sock.settimeout(self.left() / (len(found) - number))
                sock.connect(place)
            except OSError as error:
                sock.close()
                last = error
            else:
                return sock
        raise last

    def _found(self) -> Sequence[Any]:
        """Look up the addresses of the host, in a thread because a lookup has no deadline."""
        results: SimpleQueue[Sequence[Any] | OSError] = SimpleQueue()

        def ask() -> None:
            try:
                results.put(getaddrinfo(self._worker.host, self._worker.port, type=SOCK_STREAM))
            except OSError as error:
                results.put(error)
            except (UnicodeError, OverflowError):
                results.put(gaierror())

        Thread(target=ask, daemon=True).start()
        try:
            found = results.get(timeout=self.left())
        except Empty:
            raise TimeoutError from None
        if isinstance(found, OSError):
            raise found
        return found


class _Timed:
    """A socket for `http.client` whose reads and writes end by the deadline."""

    def __init__(self, sock: socket, exchange: _Exchange) -> None:
        self._sock = sock
        self._exchange = exchange

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(self._exchange.left())
        self._exchange.sent = True
        self._sock.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Incoming(self._sock, self._exchange))

    def close(self) -> None:
        """Do nothing: the owner of the socket closes it."""


class _Incoming(io.RawIOBase):
    def __init__(self, sock: socket, exchange: _Exchange) -> None:
        self._sock = sock
        self._exchange = exchange

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self._exchange.left())
        return self._sock.recv_into(buffer)
