"""Translate librdkafka properties to those of the Java Kafka client, which Spark uses.

Every property that matters for security is translated, or rejected by name.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from drctl.model.errors import ConfigError

_SECURITY = "org.apache.kafka.common.security"
_PASSWORD_MODULES = {
    "PLAIN": f"{_SECURITY}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_SECURITY}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_SECURITY}.scram.ScramLoginModule",
}
_OAUTH = "sasl.oauthbearer."
# In Java, a line break ends a quoted string.
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\0": "\\000"})


def sasl_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Java properties for the mechanism and its credentials.

    Raises:
        ConfigError: a credential is missing, or the mechanism has no counterpart.
    """
    mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or "GSSAPI"
    if mechanism in _PASSWORD_MODULES:
        translated = _password(mechanism, properties)
    elif mechanism == "OAUTHBEARER":
        translated = _oauthbearer(properties)
    elif mechanism == "GSSAPI":
        translated = _kerberos(properties)
    else:
        raise ConfigError(
            f"sasl.mechanism {mechanism} is not supported by the Java Kafka client",
            f"use one of {', '.join([*_PASSWORD_MODULES, 'OAUTHBEARER', 'GSSAPI'])}",
        )
    return {"sasl.mechanism": mechanism, **translated}


def _password(mechanism: str, properties: Mapping[str, str]) -> dict[str, str]:
    options = {
        "username": _required(properties, "sasl.username"),
        "password": _required(properties, "sasl.password"),
    }
    return {"sasl.jaas.config": _login(_PASSWORD_MODULES[mechanism], options)}


def _oauthbearer(properties: Mapping[str, str]) -> dict[str, str]:
    if properties.get(f"{_OAUTH}method", "default").lower() != "oidc":
        raise ConfigError(
            f"{_OAUTH}method must be oidc: Java does not support client-made tokens",
            f"set {_OAUTH}method to oidc, with {_OAUTH}token.endpoint.url, client.id and "
            "client.secret",
        )
    options = {
        "clientId": _required(properties, f"{_OAUTH}client.id"),
        "clientSecret": _required(properties, f"{_OAUTH}client.secret"),
    }
    if properties.get(f"{_OAUTH}scope"):
        options["scope"] = properties[f"{_OAUTH}scope"]
    for pair in filter(None, properties.get(f"{_OAUTH}extensions", "").split(",")):
        key, _, value = pair.partition("=")
        options[f"extension_{key.strip()}"] = value.strip()
    return {
        "sasl.jaas.config": _login(f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule", options),
        "sasl.login.callback.handler.class": (
            f"{_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler"
        ),
        f"{_OAUTH}token.endpoint.url": _required(properties, f"{_OAUTH}token.endpoint.url"),
    }


def _kerberos(properties: Mapping[str, str]) -> dict[str, str]:
    options = {"useTicketCache": "true"}
    if properties.get("sasl.kerberos.keytab"):
        options = {
            "useKeyTab": "true",
            "storeKey": "true",
            "keyTab": properties["sasl.kerberos.keytab"],
            "principal": _required(properties, "sasl.kerberos.principal"),
        }
    elif properties.get("sasl.kerberos.principal"):
        options["principal"] = properties["sasl.kerberos.principal"]
    return {
        "sasl.jaas.config": _login("com.sun.security.auth.module.Krb5LoginModule", options),
        "sasl.kerberos.service.name": properties.get("sasl.kerberos.service.name", "kafka"),
    }


def _login(module: str, options: Mapping[str, str]) -> str:
    given = " ".join(f'{key}="{value.translate(_ESCAPES)}"' for key, value in options.items())
    return f"{module} required {given};"


def _required(properties: Mapping[str, str], key: str) -> str:
    value = properties.get(key)
    if not value:
        raise ConfigError(f"{key} is missing", f"set {key} in the cluster's properties")
    return value


_BLOCK = re.compile(r"-----BEGIN (?P<label>[A-Z0-9 ]+)-----.+?-----END (?P=label)-----", re.DOTALL)
_CERTIFICATE = "CERTIFICATE"
_PKCS8 = "PRIVATE KEY"
_HINT = (
    "before Java 19, the Kafka client reads unencrypted PKCS#8 keys only; drctl converts other keys"
    " if openssl is installed. Manually: openssl pkcs8 -topk8 -nocrypt -in OLD -out NEW; or use a"
    " PKCS#12 file in ssl.keystore.location"
)


def truststore(properties: Mapping[str, str]) -> dict[str, str]:
    """The trusted certificates; empty to use those of the system.

    Raises:
        ConfigError: the file cannot be read or contains no certificate.
    """
    if properties.get("ssl.ca.location") == "probe":
        return {}
    source = _source(properties, "ssl.ca")
    if source is None:
        return {}
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _certificates(*source)}


def keystore(properties: Mapping[str, str]) -> dict[str, str]:
    """The client's certificate and key; empty if there is none.

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
        raise ConfigError(f"{absent} is missing", "set both the client certificate and its key")
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
    """The source of the PEM, for error messages, and its text."""
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
            f"cannot read {prefix}.location ({path}): {error.strerror}",
            "it must name a PEM file that this user may read",
        ) from None


def _certificates(where: str, text: str) -> str:
    found = [m.group() for m in _BLOCK.finditer(text) if m["label"] == _CERTIFICATE]
    if not found:
        raise ConfigError(
            f"{where} contains no certificate",
            "it must be PEM: a block that starts with -----BEGIN CERTIFICATE-----",
        )
    return "\n".join(found) + "\n"


def _key(where: str, text: str, password: str) -> str:
    keys = [match for match in _BLOCK.finditer(text) if match["label"].endswith(_PKCS8)]
    if not keys:
        raise ConfigError(
            f"{where} contains no private key",
            "it must be PEM: a block that starts with -----BEGIN PRIVATE KEY-----",
        )
    key = keys[0].group() + "\n"
    if "ENCRYPTED" in key and not password:
        raise ConfigError(
            f"{where} contains an encrypted private key and ssl.key.password is missing",
            "set ssl.key.password, for example to ${env:KEY_PASSWORD}",
        )
    return key if keys[0]["label"] == _PKCS8 else _converted(where, key, password)


def _converted(where: str, key: str, password: str) -> str:
    try:
        return with_password(["pkcs8", "-topk8", "-nocrypt"], "-passin", password, key)
    except FileNotFoundError:
        raise ConfigError(f"{where}: Java cannot read this kind of private key", _HINT) from None
    except OSError:
        raise ConfigError(
            f"{where}: openssl cannot read the private key", f"check ssl.key.password; {_HINT}"
        ) from None


def with_password(command: Sequence[str], option: str, password: str, given: str = "") -> str:
    """Run an openssl command that needs a password; return its output.

    Raises:
        FileNotFoundError: openssl is not installed.
        OSError: the command failed.
    """
    openssl = shutil.which("openssl")
    if openssl is None:
        raise FileNotFoundError("openssl is not installed")
    # Pass it through a pipe: command lines are visible to all users.
    reading, writing = os.pipe()
    try:
        os.write(writing, f"{password}\n".encode())
        os.close(writing)
        done = subprocess.run(
            [openssl, *command, option, f"fd:{reading}"],
            input=given,
            capture_output=True,
            text=True,
            pass_fds=(reading,),
            check=False,
        )
    finally:
        os.close(reading)
    if done.returncode:
        raise OSError("openssl cannot read it")
    return done.stdout


_SAME = (
    "client.id",
    "client.rack",
    "client.dns.lookup",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
    "retry.backoff.ms",
    "retry.backoff.max.ms",
    "metadata.max.age.ms",
    "metadata.recovery.strategy",
    "metadata.recovery.rebootstrap.trigger.ms",
    "socket.connection.setup.timeout.ms",
    "fetch.min.bytes",
    "fetch.max.bytes",
    "max.partition.fetch.bytes",
    "check.crcs",
    "enable.metrics.push",
)
_RENAMED = {
    "socket.timeout.ms": "request.timeout.ms",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
}
# For librdkafka, 0 means "system default" or "never"; for Java, -1.
_RENAMED_NO_ZERO = {
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "connections.max.idle.ms": "connections.max.idle.ms",
}
_TLS = (
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "ssl.key.password",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.endpoint.identification.algorithm",
    "enable.ssl.certificate.verification",
)
_SASL = (
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "sasl.kerberos.service.name",
    "sasl.kerberos.principal",
    "sasl.kerberos.keytab",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.token.endpoint.url",
)
_FALSE = ("false", "0", "f")


def java_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Translate connection properties for the Java Kafka client 3.9 or later.

    Omits properties that drctl sets in the Spark job (groups, isolation level, start offsets), and
    properties that only librdkafka has (queues, logging, statistics).

    Args:
        properties: librdkafka properties with resolved secrets and `bootstrap.servers`.

    Raises:
        ConfigError: a property that matters for security cannot be translated, or a file that
            one names cannot be used.
    """
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    translated = {**_plain(properties), "security.protocol": protocol}
    if protocol.endswith("SSL"):
        _refuse_unknown(properties, ("ssl.", "enable.ssl"), _TLS)
        translated |= _tls(properties)
    if protocol.startswith("SASL_"):
        _refuse_unknown(properties, ("sasl.", "https.", "enable.sasl"), _SASL)
        translated |= sasl_properties(properties)
    return translated


def _plain(properties: Mapping[str, str]) -> dict[str, str]:
    bootstrap = properties.get("bootstrap.servers") or properties.get("metadata.broker.list", "")
    renamed = {key: properties[key] for key in _SAME if key in properties}
    renamed |= {java: properties[key] for key, java in _RENAMED.items() if key in properties}
    for key, java in _RENAMED_NO_ZERO.items():
        if key in properties:
            renamed[java] = "-1" if properties[key] == "0" else properties[key]
    return {"bootstrap.servers": bootstrap, **renamed}


def _tls(properties: Mapping[str, str]) -> dict[str, str]:
    if properties.get("enable.ssl.certificate.verification", "true").lower() in _FALSE:
        raise ConfigError(
            "enable.ssl.certificate.verification=false is not supported by the Java Kafka client",
            "set ssl.ca.location to the CA of the brokers' certificates instead; to skip only host "
            "name checks, set ssl.endpoint.identification.algorithm: none",
        )
    translated = {**truststore(properties), **keystore(properties)}
    algorithm = properties.get("ssl.endpoint.identification.algorithm")
    if algorithm is not None:
        checked = "" if algorithm.lower() == "none" else algorithm.lower()
        translated["ssl.endpoint.identification.algorithm"] = checked
    return translated


def _refuse_unknown(
    properties: Mapping[str, str], prefixes: tuple[str, ...], known: tuple[str, ...]
) -> None:
    for key in properties:
        if key.startswith(prefixes) and key not in known:
            raise ConfigError(
                f"{key} is not supported by the Java Kafka client, which Spark uses",
                f"remove {key} from the cluster's properties",
            )
