"""librdkafka's security properties as what a socket of our own needs.

Nothing that matters for security is lost on the way: it is translated, or refused by name.
"""

import os
import ssl
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from drctl.model.errors import ConfigError
from drctl.wire.sasl import SCRAM_HASHES

PLAIN = "PLAIN"
MECHANISMS = (PLAIN, *SCRAM_HASHES)

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
        "ssl.cipher.suites",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
    }
)
_FALSE = ("false", "0", "f")
_CURE = (
    "Only what librdkafka has no requests for is affected: producer ids, the controller, and groups"
    " that are made ready."
)


@dataclass(frozen=True, slots=True)
class Login:
    """Who we are to a broker."""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class BrokerSecurity:
    """How to speak to a broker.

    Attributes:
        tls: None where the connection is in clear.
        login: None where a broker asks for none.
    """

    tls: ssl.SSLContext | None = None
    login: Login | None = None


def broker_security(properties: Mapping[str, str]) -> BrokerSecurity:
    """The same security as librdkafka's.

    Raises:
        ConfigError: a property cannot be translated, or a file that one names cannot be used.
    """
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise ConfigError(
            f"security.protocol {protocol} is none", f"Possible: {', '.join(_PROTOCOLS)}."
        )
    return BrokerSecurity(
        _tls(properties) if protocol.endswith("SSL") else None,
        _login(properties) if protocol.startswith("SASL_") else None,
    )


def _login(properties: Mapping[str, str]) -> Login:
    mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or "GSSAPI"
    if mechanism not in MECHANISMS:
        raise ConfigError(
            f"drctl's own requests cannot log in with sasl.mechanism {mechanism}",
            f"Give drctl a user with {', '.join(MECHANISMS)} or a certificate. {_CURE}",
        )
    given = [properties.get(f"sasl.{name}", "") for name in ("username", "password")]
    if not all(given):
        raise ConfigError(
            f"sasl.mechanism {mechanism} needs sasl.username and sasl.password",
            "Set both among the cluster's properties.",
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
        if name.startswith("ssl.keystore."):
            raise ConfigError(
                f"drctl's own requests cannot use {name}: Python reads no PKCS#12",
                "Put certificate and key into PEM files (openssl pkcs12 -in FILE -out PEM) and name"
                f" them in ssl.certificate.location and ssl.key.location. {_CURE}",
            )
        if name.startswith("ssl.") and name not in _TLS:
            raise ConfigError(f"drctl's own requests do not know {name}", _CURE)


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
    """Have a certificate of our own, where one is given."""
    with ExitStack() as files:
        certificate = _file(files, properties, "ssl.certificate")
        key = _file(files, properties, "ssl.key")
        if certificate is None and key is None:
            return
        if certificate is None:
            raise ConfigError(
                "ssl.certificate.location is missing",
                "A client certificate and its key go together: set both.",
            )
        # Without a password OpenSSL would ask the terminal for one.
        password = properties.get("ssl.key.password", "")
        _loaded(
            "the client's certificate and key",
            lambda: context.load_cert_chain(certificate, key, password),
        )


def _file(files: ExitStack, properties: Mapping[str, str], prefix: str) -> str | None:
    text = properties.get(f"{prefix}.pem")
    if not text:
        return properties.get(f"{prefix}.location") or None
    # Python takes files only; a key does not belong on a disk.
    number = os.memfd_create(prefix)
    files.callback(os.close, number)
    os.write(number, text.encode())
    return f"/proc/self/fd/{number}"


def _loaded(what: str, load: Callable[[], object]) -> None:
    try:
        load()
    except OSError as error:
        reason = getattr(error, "reason", None) or error.strerror
        raise ConfigError(
            f"{what} cannot be used: {reason or 'not what OpenSSL expects'}",
            "Check the ssl.* properties of the cluster.",
        ) from None
