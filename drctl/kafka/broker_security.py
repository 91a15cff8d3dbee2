"""TLS and SASL settings for drctl's own connections, from librdkafka properties."""

import os
import ssl
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from drctl.kafka.java_properties import with_password
from drctl.kafka.oauth import TokenSource
from drctl.kafka.sasl import OAUTHBEARER, PLAIN, SCRAM_HASHES, Login
from drctl.model.errors import ConfigError

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
    "this affects requests that librdkafka does not support: committed offsets, fences, producer"
    " ids and the controller; record comparison still works"
)


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
    for name in properties:
        if name.startswith("ssl.") and name not in _TLS:
            raise ConfigError(f"drctl's own requests do not support property {name}", _HINT)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ciphers := properties.get("ssl.cipher.suites"):
        _load("ssl.cipher.suites", lambda: context.set_ciphers(ciphers))
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https")
    context.check_hostname = algorithm.lower() != "none"
    if properties.get("enable.ssl.certificate.verification", "true").lower() in _FALSE:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    _load_authorities(context, properties)
    _load_client_certificate(context, properties)
    return context


def _load_authorities(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    location, text = properties.get("ssl.ca.location", ""), properties.get("ssl.ca.pem")
    if text:
        _load("ssl.ca.pem", lambda: context.load_verify_locations(cadata=text))
    elif location and location != "probe":
        where = {"capath" if Path(location).is_dir() else "cafile": location}
        _load(f"ssl.ca.location ({location})", lambda: context.load_verify_locations(**where))
    else:
        context.load_default_certs()


def _load_client_certificate(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    with ExitStack() as files:
        certificate = _file(files, properties, "ssl.certificate")
        key = _file(files, properties, "ssl.key")
        if keystore := properties.get("ssl.keystore.location"):
            password = properties.get("ssl.keystore.password", "")
            certificate = key = _in_memory(files, _pem(keystore, password), "ssl.keystore")
        if certificate is None and key is None:
            return
        if certificate is None:
            raise ConfigError(
                "ssl.certificate.location is missing", "set both the client certificate and its key"
            )
        # Without a password, OpenSSL would prompt on the terminal.
        password = properties.get("ssl.key.password", "")
        _load(
            "the client's certificate and key",
            lambda: context.load_cert_chain(certificate, key, password),
        )


def _file(files: ExitStack, properties: Mapping[str, str], prefix: str) -> str | None:
    text = properties.get(f"{prefix}.pem")
    if not text:
        return properties.get(f"{prefix}.location") or None
    return _in_memory(files, text, prefix)


def _in_memory(files: ExitStack, text: str, name: str) -> str:
    """Return a path to the text in memory: Python loads only files; keep keys off the disk."""
    number = os.memfd_create(name)
    files.callback(os.close, number)
    os.write(number, text.encode())
    return f"/proc/self/fd/{number}"


def _pem(keystore: str, password: str) -> str:
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


def _load(what: str, load: Callable[[], object]) -> None:
    try:
        load()
    except OSError as error:
        reason = getattr(error, "reason", None) or error.strerror
        raise ConfigError(
            f"cannot load {what}: {reason or 'OpenSSL rejects it'}",
            "check the ssl.* properties of the cluster",
        ) from None
