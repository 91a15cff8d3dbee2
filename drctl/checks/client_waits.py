"""How long a client waits before it follows its endpoint: time-outs, back-off, caches of names."""

import re
from collections.abc import Iterator

from drctl.checks.check import NotObserved, Verdict, fail, ok, warn
from drctl.checks.client_config import ClientConfig, Library, client_check
from drctl.checks.wording import duration
from drctl.model.finding import Status

_MINUTE_MS = 60_000
_MOST_TRIGGER_MS = _MINUTE_MS
_MOST_BACKOFF_MS = 2_000
_MOST_CONNECT_MS = 10_000
_MOST_REQUEST_MS = 30_000
_LEAST_DELIVERY_MS = 2 * _MINUTE_MS
_MOST_DNS_S = 10
_DNS_DEFAULT_S = 30

_TRIGGER_SINCE = {Library.JAVA: (4, 0), Library.LIBRDKAFKA: (2, 11)}
_CACHE = re.compile(r"-D(?:sun\.net\.inetaddr\.ttl)=(-?\d+)")
_NO_SUCH_PROPERTY = re.compile(r"-Dnetworkaddress\.cache\.ttl=")


@client_check(
    "client-rebootstrap-trigger",
    "`metadata.recovery.rebootstrap.trigger.ms` is at most a minute",
    Status.WARN,
)
def trigger(client: ClientConfig) -> Iterator[Verdict]:
    """When it asks its bootstrap again although brokers seem to be there."""
    key = "metadata.recovery.rebootstrap.trigger.ms"
    since, version = _TRIGGER_SINCE[client.library], client.version
    if version is not None and version < since:
        yield warn(
            client.subject,
            f"{client.library.value} {'.'.join(map(str, version))} has no such limit",
            "",
            "it stays with a source that takes connections and answers nothing",
            f"use {client.library.value} {'.'.join(map(str, since))} or later",
        )
        return
    seen = client.number(key, 300_000)
    if seen.value <= _MOST_TRIGGER_MS:
        yield ok(client.subject, "it gives a silent source up", seen.evidence)
        return
    cost = f"a source that is cut off or hangs may keep it for {duration(seen.value)}"
    cure = f"set {key}=10000"
    yield warn(client.subject, "it gives a silent source up late", seen.evidence, cost, cure)


@client_check(
    "client-dns-cache",
    "Java forgets addresses within 10 seconds (`networkaddress.cache.ttl`)",
    Status.WARN,
    Status.FAIL,
)
def dns_cache(client: ClientConfig) -> Iterator[Verdict]:
    """How long its Java goes on with the address that the name had."""
    if client.library is not Library.JAVA or client.endpoint != "dns":
        return
    cure = (
        "start Java with -Dsun.net.inetaddr.ttl=5, or set networkaddress.cache.ttl=5 in its"
        " java.security"
    )
    if client.jvm is None:
        raise NotObserved(client.subject, "how its Java is started was not said", cure)
    if "-Djava.security.properties=" in client.jvm:
        reason = "a file of its own may set networkaddress.cache.ttl"
        raise NotObserved(client.subject, reason, f"look there; else {cure}", client.jvm)
    if (given := _CACHE.search(client.jvm)) is None:
        wrong = _NO_SUCH_PROPERTY.search(client.jvm)
        evidence = f"{wrong[0]}... is no system property" if wrong else "neither is set"
        reason = f"it keeps addresses for Java's default, {_DNS_DEFAULT_S} s"
        cost = f"it goes to the source's address for up to {_DNS_DEFAULT_S} s after the switch"
        yield warn(client.subject, reason, evidence, cost, cure)
    elif (kept_s := int(given[1])) < 0:
        cost = "it never sees the switch, and must be restarted"
        yield fail(client.subject, "it keeps addresses for ever", given[0], cost, cure)
    elif kept_s > _MOST_DNS_S:
        cost = f"it goes to the source's address for up to {kept_s} s after the switch"
        yield warn(client.subject, f"it keeps addresses for {kept_s} s", given[0], cost, cure)
    else:
        yield ok(client.subject, "it forgets addresses soon", given[0])


@client_check(
    "client-reconnect-backoff",
    "`reconnect.backoff.max.ms` is at most 2 seconds",
    Status.WARN,
)
def reconnect_backoff(client: ClientConfig) -> Iterator[Verdict]:
    """How long it pauses between attempts, once many have failed."""
    key = "reconnect.backoff.max.ms"
    default = 1_000 if client.library is Library.JAVA else 10_000
    seen = client.number(key, default)
    if seen.value <= _MOST_BACKOFF_MS:
        yield ok(client.subject, "it tries again soon", seen.evidence)
        return
    cost = f"it may pause for {duration(seen.value)} before it sees where it is sent"
    yield warn(client.subject, "it pauses long", seen.evidence, cost, f"set {key}=500")


@client_check(
    "client-connect-timeout",
    "`socket.connection.setup.timeout.ms` is at most 10 seconds",
    Status.WARN,
)
def connect_timeout(client: ClientConfig) -> Iterator[Verdict]:
    """How long it waits for a connection that nobody answers."""
    key = "socket.connection.setup.timeout.ms"
    default = 10_000 if client.library is Library.JAVA else 30_000
    seen = client.number(key, default)
    if seen.value <= _MOST_CONNECT_MS:
        yield ok(client.subject, "it gives a connection up in time", seen.evidence)
        return
    cost = f"it waits {duration(seen.value)} for each broker that is cut off"
    cure = f"set {key}=2000"
    yield warn(client.subject, "it waits long for connections", seen.evidence, cost, cure)


@client_check(
    "client-request-timeout",
    "`request.timeout.ms` (librdkafka: `socket.timeout.ms`) is at most 30 seconds",
    Status.WARN,
)
def request_timeout(client: ClientConfig) -> Iterator[Verdict]:
    """How long it waits for an answer on a connection that it has."""
    java = client.library is Library.JAVA
    key = "request.timeout.ms" if java else "socket.timeout.ms"
    seen = client.number(key, 30_000 if java else 60_000)
    if seen.value <= _MOST_REQUEST_MS:
        yield ok(client.subject, "it gives an answer up in time", seen.evidence)
        return
    cost = f"it waits {duration(seen.value)} for a source that is cut off"
    cure = f"set {key}=10000"
    yield warn(client.subject, "it waits long for answers", seen.evidence, cost, cure)


@client_check(
    "client-delivery-timeout",
    "`delivery.timeout.ms` (librdkafka: `message.timeout.ms`) is at least 2 minutes, or 0",
    Status.WARN,
)
def delivery_timeout(client: ClientConfig) -> Iterator[Verdict]:
    """How long records may wait for the target."""
    if not client.produces:
        return
    java = client.library is Library.JAVA
    keys = "delivery.timeout.ms" if java else "message.timeout.ms delivery.timeout.ms"
    seen = client.number(keys, 120_000 if java else 300_000)
    # To librdkafka 0 is for ever.
    if seen.value >= _LEAST_DELIVERY_MS or (seen.value == 0 and not java):
        yield ok(client.subject, "records wait until it has moved", seen.evidence)
        return
    cost = f"records that wait longer than {duration(seen.value)} are given up, and reported so"
    cure = "set it to longer than a failover takes, or let the application send them again"
    yield warn(client.subject, "records may not wait long", seen.evidence, cost, cure)
