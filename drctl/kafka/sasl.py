"""SASL authentication with a broker: PLAIN, SCRAM (RFC 5802) and OAUTHBEARER."""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from drctl.formats.primitives import Cursor, bytes32, string
from drctl.kafka.deadline import Deadline
from drctl.kafka.oauth import TokenSource
from drctl.kafka.protocol import Api
from drctl.model.errors import ConfigError

_HANDSHAKE = Api("SaslHandshake", 17, 1, False, "1.0")
_AUTHENTICATE = Api("SaslAuthenticate", 36, 1, False, "2.2")

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_LEAST_ITERATIONS, _MOST_ITERATIONS = 4096, 10_000_000
_NO_CHANNEL_BINDING = "n,,"
_NONCE_BYTES = 24

Exchange = Callable[[Api, bytes, Callable[[Cursor], Any]], Any]
"""Sends a request and returns its decoded response."""


class SaslError(ValueError):
    """The broker rejects the credentials, or does not prove that it knows them."""


@dataclass(frozen=True, slots=True)
class Login:
    """SASL credentials."""

    mechanism: str
    username: str
    password: str = field(repr=False)


def log_in(exchange: Exchange, login: Login | TokenSource, broker: str, deadline: Deadline) -> None:
    """Authenticate a connection.

    Args:
        broker: its name in error messages.

    Raises:
        ConfigError: the broker rejects the mechanism or the credentials.
        Unreachable: the broker or the token provider does not answer.
    """

    def step(data: bytes) -> bytes:
        error, text, answer = exchange(_AUTHENTICATE, bytes32(data), _read_step)
        if error:
            raise ConfigError(f"{broker}: authentication failed: {text}")
        return bytes(answer)

    error, offered = exchange(_HANDSHAKE, string(login.mechanism), _read_handshake)
    if error:
        raise ConfigError(
            f"{broker} does not support sasl.mechanism {login.mechanism}, only {', '.join(offered)}"
        )
    if isinstance(login, TokenSource):
        if refusal := step(bearer(login.token(deadline), login.extensions)):
            why = refusal.decode(errors="replace")
            raise ConfigError(f"{broker}: authentication failed: {why}")
        return
    if login.mechanism == PLAIN:
        step(plain(login.username, login.password))
        return
    nonce = secrets.token_urlsafe(_NONCE_BYTES)
    scram = Scram(login.mechanism, login.username, login.password, nonce)
    try:
        scram.check(step(scram.final(step(scram.first()))))
    except SaslError as refused:
        raise ConfigError(f"{broker}: authentication failed: {refused}") from None


def _read_handshake(cursor: Cursor) -> tuple[int, tuple[str, ...]]:
    return cursor.int16(), tuple(cursor.string() for _ in range(cursor.int32()))


def _read_step(cursor: Cursor) -> tuple[int, str, bytes]:
    error, text, data = cursor.int16(), cursor.nullable_string(), cursor.bytes32()
    cursor.int64()
    return error, text or "", data


def plain(username: str, password: str) -> bytes:
    """The only message of PLAIN (RFC 4616)."""
    return f"\0{username}\0{password}".encode()


def bearer(token: str, extensions: Mapping[str, str]) -> bytes:
    """The first message of OAUTHBEARER, and the only one if it is accepted (RFC 7628, KIP-342)."""
    more = "".join(f"{name}={value}\x01" for name, value in extensions.items())
    return f"{_NO_CHANNEL_BINDING}\x01auth=Bearer {token}\x01{more}\x01".encode()


class Scram:
    """One SCRAM exchange: send `first`, answer the challenge with `final`, `check` the result.

    Args:
        nonce: printable, without a comma, new for each exchange.
    """

    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        self._hash = SCRAM_HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={nonce}"
        self._expected = b""

    def first(self) -> bytes:
        """The client's first message."""
        return f"{_NO_CHANNEL_BINDING}{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """The client's final message, which proves that it knows the password.

        Raises:
            SaslError: the challenge is malformed, or belongs to another exchange.
        """
        text = _text(challenge)
        values = _values(text)
        salt, iterations = self._salt_and_iterations(values)
        salted = _salted(self._hash, self._password, salt, iterations)
        binding = b64encode(_NO_CHANNEL_BINDING.encode()).decode()
        unproven = f"c={binding},r={values['r']}"
        whole = f"{self._bare},{text},{unproven}".encode()
        key = self._mac(salted, b"Client Key")
        signature = self._mac(hashlib.new(self._hash, key).digest(), whole)
        self._expected = self._mac(self._mac(salted, b"Server Key"), whole)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        return f"{unproven},p={b64encode(proof).decode()}".encode()

    def check(self, verdict: bytes) -> None:
        """Verify that the broker knows the password, too.

        Raises:
            SaslError: it does not, or it rejects the client's proof.
        """
        values = _values(_text(verdict))
        if "e" in values:
            raise SaslError(f"the broker rejects the proof: {values['e']}")
        if not hmac.compare_digest(_decoded(values.get("v", "")), self._expected):
            raise SaslError("the broker failed to prove that it knows the password")

    def _salt_and_iterations(self, values: dict[str, str]) -> tuple[bytes, int]:
        if not values.get("r", "").startswith(self._nonce) or values["r"] == self._nonce:
            raise SaslError("the broker's answer belongs to another client")
        count = values.get("i", "")
        # Too many would keep drctl busy forever; too few would expose the password.
        if not count.isdecimal() or not _LEAST_ITERATIONS <= int(count) <= _MOST_ITERATIONS:
            raise SaslError(f"the broker asks for {count or 'no'} iterations")
        return _decoded(values.get("s", "")), int(count)

    def _mac(self, key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, self._hash).digest()


# A client may cache it (RFC 5802, section 3): computing it takes milliseconds per connection.
_salted = lru_cache(maxsize=32)(hashlib.pbkdf2_hmac)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise SaslError("the broker's answer is not text") from None


def _values(text: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in text.split(",") if part[1:2] == "="}


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise SaslError("the broker's answer is not Base64") from None
