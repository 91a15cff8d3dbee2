"""SASL between a client and a broker: Kafka's messages, and SCRAM's inside of them (RFC 5802)."""

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from drctl.formats.primitives import Cursor, bytes32, string
from drctl.kafka.protocol import Api

HANDSHAKE = Api("SaslHandshake", 17, 1, False, "1.0")
AUTHENTICATE = Api("SaslAuthenticate", 36, 1, False, "2.2")

SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_LEAST_ITERATIONS, _MOST_ITERATIONS = 4096, 10_000_000
_NO_CHANNEL_BINDING = "n,,"


class SaslError(ValueError):
    """The other side does not know the credentials, or does not prove that it does."""


class Said(NamedTuple):
    """What a broker answered to a step.

    Attributes:
        error: Kafka's number; 0 where there is none.
        text: why, for a person.
        data: of the mechanism.
    """

    error: int
    text: str
    data: bytes


def handshake(mechanism: str) -> bytes:
    """Ask for a mechanism."""
    return string(mechanism)


def read_handshake(cursor: Cursor) -> tuple[int, tuple[str, ...]]:
    """Kafka's error number, and the mechanisms that the broker has."""
    return cursor.int16(), tuple(cursor.string() for _ in range(cursor.int32()))


def authenticate(data: bytes) -> bytes:
    """A step of the mechanism."""
    return bytes32(data)


def read_authenticate(cursor: Cursor) -> Said:
    """What was answered to a step."""
    error, text, data = cursor.int16(), cursor.nullable_string(), cursor.bytes32()
    cursor.int64()
    return Said(error, text or "", data)


def plain(username: str, password: str) -> bytes:
    """The only step of PLAIN (RFC 4616)."""
    return f"\0{username}\0{password}".encode()


def bearer(token: str, extensions: Mapping[str, str]) -> bytes:
    """The only step of OAUTHBEARER, unless it is refused (RFC 7628, KIP-342)."""
    more = "".join(f"{name}={value}\x01" for name, value in extensions.items())
    return f"{_NO_CHANNEL_BINDING}\x01auth=Bearer {token}\x01{more}\x01".encode()


class Scram:
    """One exchange: `first`, then `final` with what came, then `check` with what came.

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
        """What the client says first."""
        return f"{_NO_CHANNEL_BINDING}{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """The proof that the client knows the password.

        Raises:
            SaslError: the challenge is none for this exchange.
        """
        text = _text(challenge)
        values = _values(text)
        salt, iterations = self._demanded(values)
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
        """See that the broker knows the password, too.

        Raises:
            SaslError: it does not, or refuses the client's proof.
        """
        values = _values(_text(verdict))
        if "e" in values:
            raise SaslError(f"the broker rejects the proof: {values['e']}")
        if not hmac.compare_digest(_decoded(values.get("v", "")), self._expected):
            raise SaslError("the broker failed to prove that it knows the password")

    def _demanded(self, values: dict[str, str]) -> tuple[bytes, int]:
        if not values.get("r", "").startswith(self._nonce) or values["r"] == self._nonce:
            raise SaslError("the broker's answer belongs to another client")
        count = values.get("i", "")
        # Many would keep us busy forever; few would give the password away.
        if not count.isdecimal() or not _LEAST_ITERATIONS <= int(count) <= _MOST_ITERATIONS:
            raise SaslError(f"the broker asks for {count or 'no'} iterations")
        return _decoded(values.get("s", "")), int(count)

    def _mac(self, key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, self._hash).digest()


# A client may keep it (RFC 5802, section 3): made anew it costs milliseconds for each connection.
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
