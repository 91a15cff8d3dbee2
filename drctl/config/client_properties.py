"""Which librdkafka properties a cluster may set: any that drctl does not decide itself."""

_DECIDED_BY_DRCTL = {
    "bootstrap.servers": "belongs into `bootstrap`, beside `properties`",
    "metadata.broker.list": "belongs into `bootstrap`, beside `properties`",
    "group.id": "drctl joins no consumer group",
    "group.instance.id": "drctl joins no consumer group",
    "group.protocol": "drctl joins no consumer group",
    "group.remote.assignor": "drctl joins no consumer group",
    "partition.assignment.strategy": "drctl joins no consumer group",
    "enable.auto.commit": "drctl commits no offsets behind your back",
    "auto.commit.interval.ms": "drctl commits no offsets behind your back",
    "enable.auto.offset.store": "drctl commits no offsets behind your back",
    "auto.offset.reset": "drctl reads exact offsets; a reset would hide that some are gone",
    "isolation.level": "drctl decides for each question which records count",
    "enable.partition.eof": "drctl decides where a scan ends",
    "allow.auto.create.topics": "drctl never creates a topic by looking at it",
    "transactional.id": "drctl sets it where it writes, to fence an older run of itself",
    "enable.idempotence": "drctl sets it where it writes",
    "acks": "drctl sets it where it writes",
    "request.required.acks": "drctl sets it where it writes",
    "plugin.library.paths": "drctl loads no libraries named in a configuration file",
    "ssl.providers": "drctl loads no libraries named in a configuration file",
    "ssl.engine.location": "drctl loads no libraries named in a configuration file",
}

_OF_JAVA_CLIENTS = {
    "sasl.jaas.config": "`sasl.username` and `sasl.password`",
    "sasl.login.callback.handler.class": "`sasl.oauthbearer.method`",
    "sasl.client.callback.handler.class": "`sasl.mechanism`",
    "ssl.truststore.location": "`ssl.ca.location` (PEM)",
    "ssl.truststore.certificates": "`ssl.ca.pem`",
    "ssl.truststore.password": "`ssl.ca.location`, a PEM file without password",
    "ssl.truststore.type": "`ssl.ca.location` (PEM)",
    "ssl.keystore.type": "`ssl.keystore.location` (PKCS#12), or `ssl.certificate.location`",
    "ssl.keystore.key": "`ssl.key.pem`",
    "ssl.keystore.certificate.chain": "`ssl.certificate.pem`",
    "ssl.protocol": "`ssl.cipher.suites` and the system's OpenSSL configuration",
    "ssl.enabled.protocols": "the system's OpenSSL configuration",
    "key.deserializer": "nothing: drctl compares bytes",
    "value.deserializer": "nothing: drctl compares bytes",
    "key.serializer": "nothing: drctl compares bytes",
    "value.serializer": "nothing: drctl compares bytes",
}


def objection(name: str) -> str:
    """Why the property must not be set; empty where it may."""
    if name in _DECIDED_BY_DRCTL:
        return f"may not be set: {_DECIDED_BY_DRCTL[name]}"
    if name in _OF_JAVA_CLIENTS:
        return f"is a property of Java clients; librdkafka has {_OF_JAVA_CLIENTS[name]}"
    if name.endswith("_cb") or name in ("logger", "on_delivery", "on_commit"):
        return "takes a function, which a file cannot hold"
    if not name or any(not c.isprintable() or c.isspace() for c in name):
        return "is not the name of a librdkafka property"
    return ""
