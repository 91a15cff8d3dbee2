"""PEM files as Java's Kafka client wants them: inline, and private keys in bare PKCS#8 only."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from drctl.model.errors import ConfigError

_BLOCK = re.compile(r"-----BEGIN (?P<label>[A-Z0-9 ]+)-----.+?-----END (?P=label)-----", re.DOTALL)
_CERTIFICATE = "CERTIFICATE"
_PKCS8 = "PRIVATE KEY"
_CURE = (
    "Before Java 19 its Kafka client reads PKCS#8 without password only; drctl converts others "
    "if there is an openssl command. By hand: openssl pkcs8 -topk8 -nocrypt -in OLD -out NEW; or "
    "put certificate and key into a PKCS#12 file and name that in ssl.keystore.location."
)


def truststore(properties: Mapping[str, str]) -> dict[str, str]:
    """Whom to trust; empty where the system's own certificates decide.

    Raises:
        ConfigError: the file cannot be read or holds no certificate.
    """
    if properties.get("ssl.ca.location") == "probe":
        return {}
    source = _source(properties, "ssl.ca")
    if source is None:
        return {}
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _certificates(*source)}


def keystore(properties: Mapping[str, str]) -> dict[str, str]:
    """The client's own certificate and key; empty where it has none.

    Raises:
        ConfigError: a file cannot be read, or Java cannot use the key.
    """
    if "ssl.keystore.location" in properties:
        return _pkcs12(properties)
    certificate, key = _source(properties, "ssl.certificate"), _source(properties, "ssl.key")
    if certificate is None and key is None:
        return {}
    if certificate is None or key is None:
        absent = "ssl.certificate.location" if certificate is None else "ssl.key.location"
        raise ConfigError(
            f"{absent} is missing", "A client certificate and its key go together: set both."
        )
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": _certificates(*certificate),
        "ssl.keystore.key": _key(*key, properties.get("ssl.key.password", "")),
    }


def _pkcs12(properties: Mapping[str, str]) -> dict[str, str]:
    password = properties.get("ssl.keystore.password", "")
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": properties["ssl.keystore.location"],
        "ssl.keystore.password": password,
        "ssl.key.password": password,
    }


def _source(properties: Mapping[str, str], prefix: str) -> tuple[str, str] | None:
    """Where the PEM comes from (to name it in errors), and its text."""
    inline = properties.get(f"{prefix}.pem")
    if inline:
        return f"{prefix}.pem", inline
    path = properties.get(f"{prefix}.location")
    if not path:
        return None
    try:
        return f"{prefix}.location ({path})", Path(path).read_text(
            encoding="ascii", errors="ignore"
        )
    except OSError as error:
        raise ConfigError(
            f"{prefix}.location: {path} cannot be read: {error.strerror}",
            "It must name a PEM file that this user may read.",
        ) from None


def _certificates(where: str, text: str) -> str:
    found = [m.group() for m in _BLOCK.finditer(text) if m["label"] == _CERTIFICATE]
    if not found:
        raise ConfigError(
            f"{where} holds no certificate",
            "It must be PEM: a block that starts with -----BEGIN CERTIFICATE-----.",
        )
    return "\n".join(found) + "\n"


def _key(where: str, text: str, password: str) -> str:
    keys = [match for match in _BLOCK.finditer(text) if match["label"].endswith(_PKCS8)]
    if not keys:
        raise ConfigError(
            f"{where} holds no private key",
            "It must be PEM: a block that starts with -----BEGIN PRIVATE KEY-----.",
        )
    key = keys[0].group() + "\n"
    if "ENCRYPTED" in key and not password:
        raise ConfigError(
            f"{where} holds an encrypted private key and ssl.key.password is missing",
            "Set ssl.key.password, for example to ${env:KEY_PASSWORD}.",
        )
    return key if keys[0]["label"] == _PKCS8 else _converted(where, key, password)


def _converted(where: str, key: str, password: str) -> str:
    openssl = shutil.which("openssl")
    if openssl is None:
        raise ConfigError(f"{where}: Java cannot read this kind of private key", _CURE)
    # Through a pipe: a command line is for everybody to see.
    reading, writing = os.pipe()
    try:
        os.write(writing, f"{password}\n".encode())
        os.close(writing)
        done = subprocess.run(
            [openssl, "pkcs8", "-topk8", "-nocrypt", "-passin", f"fd:{reading}"],
            input=key,
            capture_output=True,
            text=True,
            pass_fds=(reading,),
            check=False,
        )
    finally:
        os.close(reading)
    if done.returncode:
        raise ConfigError(
            f"{where}: openssl cannot read the private key",
            f"Check ssl.key.password. {_CURE}",
        )
    return done.stdout
