"""librdkafka's properties as those of Java's Kafka client, which Spark reads with.

Not one property that matters for security is lost on the way: it is translated, or refused by
name.
"""

from collections.abc import Mapping

from drctl.model.errors import ConfigError
from drctl.systems.kafka.jaas import sasl_properties
from drctl.systems.kafka.pem import keystore, truststore

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
# Zero means "leave it to the system" or "never" to librdkafka; Java says -1.
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
    """The same connection for Java's Kafka client 3.9 and later.

    Left out: what drctl sets itself in the job (groups, isolation level, where to start), and
    what only librdkafka knows and nobody misses (queues, logging, statistics).

    Args:
        properties: librdkafka's, secrets resolved, `bootstrap.servers` among them.

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
            "enable.ssl.certificate.verification=false has no counterpart in Java's Kafka client",
            "Give the certificate that signed the brokers' in ssl.ca.location instead; host names "
            "alone can be left unchecked with ssl.endpoint.identification.algorithm: none.",
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
                f"{key} has no counterpart in Java's Kafka client, which Spark reads with",
                f"Remove {key} from the cluster's properties, or find another way to say it.",
            )
