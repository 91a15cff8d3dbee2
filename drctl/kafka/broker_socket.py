"""A connection to one broker, for requests that librdkafka does not support."""

import os
import secrets
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

from drctl.formats.primitives import Cursor, Undecodable
from drctl.host.connections import Closing, connect
from drctl.kafka import sasl
from drctl.kafka.deadline import Deadline
from drctl.kafka.java_properties import with_password
from drctl.kafka.oauth import TokenSource
from drctl.kafka.protocol import API_VERSIONS, Api, answer, read_versions, request
from drctl.kafka.sasl import SCRAM_HASHES
from drctl.model.errors import ConfigError, DrctlError, Unknown, Unreachable

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
MECHANISMS = (PLAIN, *SCRAM_HASHES, OAUTHBEARER)

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_TLS = frozenset(
    {
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.pem",
        "ssl.key.password",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.cipher.suites",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
    }
)
_FALSE = ("false", "0", "f")
_HINT = (
    "this affects requests that librdkafka lacks: committed offsets, fences, producer ids"
    " and the controller; record comparison still works"
)


@dataclass(frozen=True, slots=True)
class Login:
    """SASL credentials."""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class BrokerSecurity:
    """TLS and SASL settings of a connection.

    Attributes:
        tls: None for plaintext.
        login: None without SASL.
    """

    tls: ssl.SSLContext | None = None
    login: Login | TokenSource | None = None


def broker_security(properties: Mapping[str, str]) -> BrokerSecurity:
    """Translate librdkafka properties.

    Raises:
        ConfigError: a property is not supported, or a file that it names cannot be used.
    """
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise ConfigError(
            f"unknown security.protocol {protocol}", f"use one of {', '.join(_PROTOCOLS)}"
        )
    return BrokerSecurity(
        _tls(properties) if protocol.endswith("SSL") else None,
        _login(properties) if protocol.startswith("SASL_") else None,
    )


def _login(properties: Mapping[str, str]) -> Login | TokenSource:
    mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or "GSSAPI"
    if mechanism not in MECHANISMS:
        raise ConfigError(
            f"sasl.mechanism {mechanism} is not supported by drctl's own requests",
            f"give drctl a user with {', '.join(MECHANISMS)} or a certificate; {_HINT}",
        )
    if mechanism == OAUTHBEARER:
        return TokenSource.of(properties)
    given = [properties.get(f"sasl.{name}", "") for name in ("username", "password")]
    if not all(given):
        raise ConfigError(
            f"sasl.mechanism {mechanism} needs sasl.username and sasl.password",
            "set both in the cluster's properties",
        )
    return Login(mechanism, *given)


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    _refuse_unknown(properties)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ciphers := properties.get("ssl.cipher.suites"):
        _loaded("ssl.cipher.suites", lambda: context.set_ciphers(ciphers))
    context.check_hostname = _checks_names(properties)
    if properties.get("enable.ssl.certificate.verification", "true").lower() in _FALSE:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    _trust(context, properties)
    _present(context, properties)
    return context


def _checks_names(properties: Mapping[str, str]) -> bool:
    return properties.get("ssl.endpoint.identification.algorithm", "https").lower() != "none"


def _refuse_unknown(properties: Mapping[str, str]) -> None:
    for name in properties:
        if name.startswith("ssl.") and name not in _TLS:
            raise ConfigError(f"drctl's own requests do not support property {name}", _HINT)


def _trust(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    place, text = properties.get("ssl.ca.location", ""), properties.get("ssl.ca.pem")
    if text:
        _loaded("ssl.ca.pem", lambda: context.load_verify_locations(cadata=text))
    elif place and place != "probe":
        where = {"capath" if Path(place).is_dir() else "cafile": place}
        _loaded(f"ssl.ca.location ({place})", lambda: context.load_verify_locations(**where))
    else:
        context.load_default_certs()


def _present(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    """Load the client certificate, if one is configured."""
    with ExitStack() as files:
        certificate = _file(files, properties, "ssl.certificate")
        key = _file(files, properties, "ssl.key")
        if keystore := properties.get("ssl.keystore.location"):
            password = properties.get("ssl.keystore.password", "")
            certificate = key = _in_memory(files, _opened(keystore, password), "ssl.keystore")
        if certificate is None and key is None:
            return
        if certificate is None:
            raise ConfigError(
                "ssl.certificate.location is missing", "set both the client certificate and its key"
            )
        # Without a password, OpenSSL would prompt on the terminal.
        password = properties.get("ssl.key.password", "")
        _loaded(
            "the client's certificate and key",
            lambda: context.load_cert_chain(certificate, key, password),
        )


def _file(files: ExitStack, properties: Mapping[str, str], prefix: str) -> str | None:
    text = properties.get(f"{prefix}.pem")
    if not text:
        return properties.get(f"{prefix}.location") or None
    return _in_memory(files, text, prefix)


def _in_memory(files: ExitStack, text: str, name: str) -> str:
    """Python only loads files; keep the key off the disk."""
    number = os.memfd_create(name)
    files.callback(os.close, number)
    os.write(number, text.encode())
    return f"/proc/self/fd/{number}"


def _opened(keystore: str, password: str) -> str:
    """Convert a PKCS#12 file to PEM, which Python can read."""
    command = ["pkcs12", "-in", keystore, "-nodes"]
    try:
        return with_password(command, "-passin", password)
    except OSError as cannot:
        raise ConfigError(
            f"cannot open ssl.keystore.location ({keystore}): {cannot}",
            "check ssl.keystore.password, and that openssl is installed; or convert to PEM (openssl"
            " pkcs12 -in FILE -out PEM) and set ssl.certificate.location and ssl.key.location",
        ) from None


def _loaded(what: str, load: Callable[[], object]) -> None:
    try:
        load()
    except OSError as error:
        reason = getattr(error, "reason", None) or error.strerror
        raise ConfigError(
            f"cannot load {what}: {reason or 'OpenSSL rejects it'}",
            "check the ssl.* properties of the cluster",
        ) from None


T = TypeVar("T")

_LENGTH = 4
_LONGEST = 100 << 20
_NONCE_BYTES = 24
_PIECE = 1 << 20


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
        """Send a request and read its answer.

        Raises:
            Unreachable: there is no answer.
            Unknown: the broker does not support the request.
        """
        self.send(api, body)
        return self.receive(api, read)

    def send(self, api: Api, body: bytes) -> None:
        """Send a request without waiting; brokers answer in request order.

        Raises:
            Unreachable: the connection is lost.
            Unknown: the broker does not support the request.
        """
        if api != API_VERSIONS and api not in self:
            raise Unknown(f"{self.address} does not support {api.name} (needs Kafka {api.since})")
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
            self._socket = connect(where, max(0.001, self._deadline.remaining))
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

    def _log_in(self, login: Login | TokenSource) -> None:
        error, offered = self.exchange(
            sasl.HANDSHAKE, sasl.handshake(login.mechanism), sasl.read_handshake
        )
        if error:
            raise ConfigError(
                f"{self.address} does not take sasl.mechanism {login.mechanism}, only"
                f" {', '.join(offered)}"
            )
        if isinstance(login, TokenSource):
            token = login.token(self._deadline)
            if refusal := self._step(sasl.bearer(token, login.extensions)):
                why = refusal.decode(errors="replace")
                raise ConfigError(f"{self.address}: authentication failed: {why}")
            return
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
        reply = self.exchange(sasl.AUTHENTICATE, sasl.authenticate(data), sasl.read_authenticate)
        if reply.error:
            raise ConfigError(f"{self.address}: authentication failed: {reply.text}")
        return reply.data

    def _bytes(self, length: int) -> bytes:
        taken = bytearray()
        while len(taken) < length:
            wanted = min(_PIECE, length - len(taken))
            part = self._guarded(partial(_received, wanted))
            if not part:
                raise Unreachable(f"{self.address} closed the connection")
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
