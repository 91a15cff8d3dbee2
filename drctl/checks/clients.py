"""Whether a client follows its endpoint to the other cluster without a restart, and how soon.

What each setting does was measured: docs/howto/clients.md.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from typing import ClassVar

from drctl.checks.check import duration, first_line, listed
from drctl.checks.connector_settings import Settings, Value
from drctl.checks.verdict import NotObserved, Verdict, fail, ok, verdicts, warn
from drctl.config.endpoints import EndpointKind
from drctl.config.schema import ReplicatorKind
from drctl.model.finding import Finding, Status

Version = tuple[int, int]

_LIBRDKAFKA_ONLY = (
    *("metadata.broker.list", "topic.metadata.refresh.interval.ms", "sasl.username", "debug"),
    *("socket.timeout.ms", "message.timeout.ms", "statistics.interval.ms", "broker.address.ttl"),
    *("ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "enable.partition.eof"),
)
_JAVA_ONLY = (
    *("key.serializer", "value.serializer", "key.deserializer", "value.deserializer"),
    *("sasl.jaas.config", "ssl.truststore.location", "request.timeout.ms", "max.block.ms"),
    *("default.api.timeout.ms", "max.poll.records", "buffer.memory", "interceptor.classes"),
)
_OF_PRODUCERS = (
    *("acks", "linger.ms", "batch.size", "compression.type", "enable.idempotence"),
    *("transactional.id", "delivery.timeout.ms", "message.timeout.ms", "key.serializer"),
    *("value.serializer", "max.in.flight.requests.per.connection", "max.in.flight"),
    *("retries", "message.send.max.retries", "request.required.acks"),
)


class Library(StrEnum):
    """A client library."""

    LIBRDKAFKA = "librdkafka"
    JAVA = "java"


def library_of(values: Mapping[str, str]) -> Library | None:
    """The library that settings belong to, by names that only it has; None if ambiguous."""
    librdkafka = any(key in values for key in _LIBRDKAFKA_ONLY)
    java = any(key in values for key in _JAVA_ONLY)
    if librdkafka == java:
        return None
    return Library.JAVA if java else Library.LIBRDKAFKA


@dataclass(frozen=True, slots=True)
class ClientConfig(Settings):
    """One client.

    Attributes:
        endpoint: the kind of endpoint that moves it.
        names: host names of the endpoint; empty if not given.
        version: of the library; None if not given. confluent-kafka 2.12 uses librdkafka 2.12.
        jvm: Java options; None if not given.
        prepared: whether a failover of the link creates its group on the target if it is missing.
        replicator: what translates its group's offsets; `none` if nothing does.
    """

    library: Library
    endpoint: EndpointKind = "dns"
    names: tuple[str, ...] = ()
    version: Version | None = None
    jvm: str | None = None
    prepared: bool = True
    replicator: ReplicatorKind = "none"
    owner: ClassVar[str] = "application"

    @property
    def consumes(self) -> bool:
        """Whether it is a group member."""
        return "group.id" in self.values

    @property
    def produces(self) -> bool:
        """Whether it is a producer, or may be one."""
        return not self.consumes or any(key in self.values for key in _OF_PRODUCERS)

    def text(self, keys: str, default: str) -> Value[str]:
        """The value, or the library's default.

        Args:
            keys: one name, or several names of the same setting, separated by spaces.

        Raises:
            NotObserved: the configuration contains only a reference to it.
        """
        names = keys.split()
        key = next((name for name in names if name in self.values), names[0])
        return Settings.text(self, key, default)


Judge = Callable[[ClientConfig], Verdict | None]


@dataclass(frozen=True, slots=True)
class ClientCheck:
    """One check of client settings.

    Attributes:
        about: what is true if it is ok, for messages.
        worse: the statuses that it can have beside ok and not-checked.
        judge: returns no verdict for clients that it does not apply to.
    """

    name: str
    about: str
    worse: tuple[Status, ...]
    judge: Judge

    @property
    def statuses(self) -> frozenset[Status]:
        """All statuses that it can have."""
        return frozenset((Status.OK, *self.worse, Status.NOT_CHECKED))

    def findings(self, client: ClientConfig) -> tuple[Finding, ...]:
        """Its findings."""
        return tuple(Finding(self.name, *each) for each in verdicts(lambda: self.judge(client)))


def client_check(name: str, *worse: Status) -> Callable[[Judge], ClientCheck]:
    """Turn a function into a check, as `check` does."""
    return lambda judge: ClientCheck(name, first_line(judge), worse, judge)


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


@client_check("client-rebootstrap-trigger", Status.WARN)
def trigger(client: ClientConfig) -> Verdict:
    """`metadata.recovery.rebootstrap.trigger.ms` is at most a minute."""
    key = "metadata.recovery.rebootstrap.trigger.ms"
    since, version = _TRIGGER_SINCE[client.library], client.version
    if version is not None and version < since:
        return warn(
            client.subject,
            f"{client.library.value} {'.'.join(map(str, version))} has no such limit",
            "",
            "it stays on a source that accepts connections but does not answer",
            f"use {client.library.value} {'.'.join(map(str, since))} or later",
        )
    seen = client.integer(key, 300_000)
    if seen.value <= _MOST_TRIGGER_MS:
        return seen.ok("it abandons an unresponsive source in time")
    impact = f"it may wait {duration(seen.value)} for an unresponsive source"
    remedy = f"set {key}=10000"
    return seen.warn("it abandons an unresponsive source late", impact, remedy)


@client_check("client-dns-cache", Status.WARN, Status.FAIL)
def dns_cache(client: ClientConfig) -> Verdict | None:
    """The Java runtime forgets addresses within 10 seconds (`networkaddress.cache.ttl`)."""
    if client.library is not Library.JAVA or client.endpoint != "dns":
        return None
    remedy = (
        "start Java with -Dsun.net.inetaddr.ttl=5, or set networkaddress.cache.ttl=5 in its"
        " java.security"
    )
    if client.jvm is None:
        raise NotObserved(client.subject, "its JVM options were not given", remedy)
    if "-Djava.security.properties=" in client.jvm:
        reason = "its own java.security file may set networkaddress.cache.ttl"
        raise NotObserved(
            client.subject, reason, f"check that file; if it does not, {remedy}", client.jvm
        )
    if (given := _CACHE.search(client.jvm)) is None:
        wrong = _NO_SUCH_PROPERTY.search(client.jvm)
        evidence = f"{wrong[0]}... is not a system property" if wrong else "neither is set"
        reason = f"it caches DNS for Java's default of {_DNS_DEFAULT_S} s"
        impact = f"it connects to the source for up to {_DNS_DEFAULT_S} s after the switch"
        return warn(client.subject, reason, evidence, impact, remedy)
    if (kept_s := int(given[1])) < 0:
        impact = "it never sees the switch and must be restarted"
        return fail(client.subject, "it caches DNS forever", given[0], impact, remedy)
    if kept_s > _MOST_DNS_S:
        impact = f"it connects to the source for up to {kept_s} s after the switch"
        return warn(client.subject, f"it caches DNS for {kept_s} s", given[0], impact, remedy)
    return ok(client.subject, "it caches DNS for a short time", given[0])


@client_check("client-reconnect-backoff", Status.WARN)
def reconnect_backoff(client: ClientConfig) -> Verdict:
    """`reconnect.backoff.max.ms` is at most 2 seconds."""
    key = "reconnect.backoff.max.ms"
    default = 1_000 if client.library is Library.JAVA else 10_000
    seen = client.integer(key, default)
    if seen.value <= _MOST_BACKOFF_MS:
        return seen.ok("it reconnects soon")
    impact = f"it may wait {duration(seen.value)} before it reconnects to the target"
    return seen.warn("its reconnect backoff is long", impact, f"set {key}=500")


@client_check("client-connect-timeout", Status.WARN)
def connect_timeout(client: ClientConfig) -> Verdict:
    """`socket.connection.setup.timeout.ms` is at most 10 seconds."""
    key = "socket.connection.setup.timeout.ms"
    default = 10_000 if client.library is Library.JAVA else 30_000
    seen = client.integer(key, default)
    if seen.value <= _MOST_CONNECT_MS:
        return seen.ok("its connection timeout is short")
    impact = f"it waits {duration(seen.value)} for each unreachable broker"
    remedy = f"set {key}=2000"
    return seen.warn("its connection timeout is long", impact, remedy)


@client_check("client-request-timeout", Status.WARN)
def request_timeout(client: ClientConfig) -> Verdict:
    """`request.timeout.ms` (librdkafka: `socket.timeout.ms`) is at most 30 seconds."""
    java = client.library is Library.JAVA
    key = "request.timeout.ms" if java else "socket.timeout.ms"
    seen = client.integer(key, 30_000 if java else 60_000)
    if seen.value <= _MOST_REQUEST_MS:
        return seen.ok("its request timeout is short")
    impact = f"it waits {duration(seen.value)} for an unreachable source"
    remedy = f"set {key}=10000"
    return seen.warn("its request timeout is long", impact, remedy)


@client_check("client-delivery-timeout", Status.WARN)
def delivery_timeout(client: ClientConfig) -> Verdict | None:
    """`delivery.timeout.ms` (librdkafka: `message.timeout.ms`) is at least 2 minutes, or 0."""
    if not client.produces:
        return None
    java = client.library is Library.JAVA
    keys = "delivery.timeout.ms" if java else "message.timeout.ms delivery.timeout.ms"
    seen = client.integer(keys, 120_000 if java else 300_000)
    # In librdkafka, 0 means no timeout.
    if seen.value >= _LEAST_DELIVERY_MS or (seen.value == 0 and not java):
        return seen.ok("records do not expire during a failover")
    impact = f"records are dropped, with an error, after {duration(seen.value)}"
    remedy = "set it to longer than a failover takes, or let the application resend them"
    return seen.warn("records may expire during a failover", impact, remedy)


_RESTART = "it stays on the source's brokers until it is restarted"
# The first release that can bootstrap again, and the first that does so by default.
_ABLE = {Library.JAVA: (3, 8), Library.LIBRDKAFKA: (2, 10)}
_BY_ITSELF = {Library.JAVA: (4, 0), Library.LIBRDKAFKA: (2, 10)}
_CANONICAL = "resolve_canonical_bootstrap_servers_only"


@client_check("client-bootstrap", Status.WARN, Status.FAIL)
def bootstrap(client: ClientConfig) -> Verdict:
    """`bootstrap.servers` names the endpoint that is switched, and nothing else."""
    seen = client.text("bootstrap.servers metadata.broker.list", "")
    hosts = [_host(word) for word in seen.value.split(",") if word.strip()]
    if not hosts:
        reason, remedy = "it is set in the application's code", "check bootstrap.servers there"
        raise NotObserved(client.subject, reason, remedy, seen.evidence)
    if client.endpoint == "file":
        impact = "it stays on the source until it is restarted"
        remedy = "restart it after the switch, or use DNS or a proxy as endpoint"
        return warn(client.subject, "it reads its file only when it starts", "", impact, remedy)
    fixed = [host for host in hosts if _is_address(host)]
    if not client.names:
        if client.endpoint == "dns" and len(fixed) == len(hosts):
            return _others(client, hosts, seen.evidence)
        reason = "the endpoint's names were not given"
        remedy = "compare it with the endpoint of the link"
        raise NotObserved(client.subject, reason, remedy, seen.evidence)
    others = [host for host in hosts if host not in map(_plain, client.names)]
    if others:
        return _others(client, others, seen.evidence, some=len(others) < len(hosts))
    return seen.ok("it uses the endpoint")


def _others(client: ClientConfig, hosts: list[str], evidence: str, some: bool = False) -> Verdict:
    names = listed(client.names) or "the endpoint's name"
    reason = f"{listed(hosts)} {'is' if len(hosts) == 1 else 'are'} not the endpoint"
    remedy = f"set bootstrap.servers to {names} with its port only"
    if some:
        impact = "if one of these reaches the source, it reconnects to the source"
        return warn(client.subject, reason, evidence, impact, remedy)
    return fail(client.subject, reason, evidence, _RESTART, remedy)


@client_check("client-rebootstrap", Status.FAIL)
def rebootstrap(client: ClientConfig) -> Verdict:
    """`metadata.recovery.strategy` is `rebootstrap`, and the client supports it."""
    key, version = "metadata.recovery.strategy", client.version
    able, by_itself = _ABLE[client.library], _BY_ITSELF[client.library]
    default = "rebootstrap" if version is None or version >= by_itself else "none"
    seen = client.text(key, default)
    what = f"{client.library.value} {_dotted(version)}" if version else client.library.value
    remedy = f"set {key}=rebootstrap; {client.library.value} supports it from {_dotted(able)}"
    if seen.value.lower() == "none":
        reason = "it never rebootstraps"
        return fail(client.subject, reason, f"{what}: {seen.evidence}", _RESTART, remedy)
    if version is None:
        reason = "its version was not given: older versions never rebootstrap"
        raise NotObserved(client.subject, reason, remedy, seen.evidence)
    if version < able:
        reason = f"{what} cannot rebootstrap"
        remedy = f"use {client.library.value} {_dotted(by_itself)} or later"
        return seen.fail(reason, _RESTART, remedy)
    return ok(client.subject, "it rebootstraps", f"{what}: {seen.evidence}")


@client_check("client-dns-lookup", Status.FAIL)
def dns_lookup(client: ClientConfig) -> Verdict | None:
    """`client.dns.lookup` is not `resolve_canonical_bootstrap_servers_only`."""
    if client.endpoint != "dns":
        return None
    seen = client.text("client.dns.lookup", "use_all_dns_ips")
    if seen.value != _CANONICAL:
        return seen.ok("it resolves its bootstrap servers each time")
    reason = "it keeps the addresses that it resolved at startup"
    remedy = "set client.dns.lookup=use_all_dns_ips"
    return seen.fail(reason, _RESTART, remedy)


@client_check("client-group-protocol", Status.WARN)
def group_protocol(client: ClientConfig) -> Verdict | None:
    """A failover creates the client's group on the target, if it is a KIP-848 group."""
    if not client.consumes:
        return None
    seen = client.text("group.protocol", "classic")
    if seen.value.lower() != "consumer":
        return seen.ok("its group need not exist on the target")
    group = client.text("group.id", "")
    if client.prepared:
        return seen.ok("step prepare-groups creates its group on the target")
    return warn(
        client.subject,
        "its group is not in `groups` of the link: no step creates it on the target",
        f"{seen.evidence}; {group.evidence}",
        "if it does not exist there, the client stops with GROUP_ID_NOT_FOUND until it is"
        " restarted",
        "add the group to `groups` of the link, or restart the client after a failover",
    )


@client_check("client-offset-reset", Status.WARN)
def offset_reset(client: ClientConfig) -> Verdict | None:
    """`auto.offset.reset` skips nothing if the client's group has no offset on the target."""
    if not client.consumes:
        return None
    seen = client.text("auto.offset.reset", "latest")
    word = seen.value.lower()
    if word in ("earliest", "smallest", "beginning"):
        return seen.ok("it starts at the beginning: records are reprocessed")
    reason, impact = "it skips to the end", "records between its offset and the end are skipped"
    if word in ("none", "error"):
        reason, impact = "it stops", "it consumes nothing until an offset is set"
    remedy = "set auto.offset.reset=earliest, or check that its group's offset is translated"
    where = "if the target has no offset of its group, "
    return seen.warn(where + reason, impact, remedy)


INTERCEPTOR = "io.confluent.connect.replicator.offsets.ConsumerTimestampsInterceptor"


@client_check("client-interceptor", Status.WARN)
def interceptor(client: ClientConfig) -> Verdict | None:
    """Where Replicator translates offsets, a consumer writes timestamps: `interceptor.classes`."""
    if not client.consumes or client.replicator != "confluent-replicator":
        return None
    if not client.prepared:
        return ok(client.subject, "its group does not belong to the link")
    impact = "Replicator does not translate the offsets of its group"
    track = "run `drctl offsets track`, which needs no change of clients"
    if client.library is Library.LIBRDKAFKA:
        reason = (
            "librdkafka has no such setting; whether this client writes timestamps is not known"
        )
        raise NotObserved(client.subject, reason, f"in Python, use drctl.consumer; else {track}")
    seen = client.listed("interceptor.classes", "")
    if INTERCEPTOR in seen.value:
        return seen.ok("it writes timestamps")
    remedy = f"add {INTERCEPTOR} to interceptor.classes, or {track}"
    return seen.warn("it writes no timestamps", impact, remedy)


_MANY = 2_147_483_647
_ACKS_SINCE, _IDEMPOTENT_SINCE = (3, 0), (3, 2)
_ACKS = "acks request.required.acks"
_RETRIES = "retries message.send.max.retries"
_IN_FLIGHT = "max.in.flight.requests.per.connection max.in.flight"
_ALL = ("all", "-1")
_IN_ORDER_UP_TO = 5


@client_check("client-retries", Status.WARN, Status.FAIL)
def retries(client: ClientConfig) -> Verdict | None:
    """A producer's `retries` last for at least 2 minutes, longer than most failovers."""
    if not client.produces:
        return None
    seen = client.integer(_RETRIES, _MANY)
    remedy = "remove it: the default retries until the delivery timeout"
    if seen.value <= 0:
        impact = "records that fail while leaders or clusters change are dropped, with an error"
        return seen.fail("it does not retry", impact, remedy)
    pause_ms = max(
        client.integer("retry.backoff.ms", 100).value,
        client.integer("retry.backoff.max.ms", 1_000).value,
    )
    lasts_ms = seen.value * pause_ms
    if lasts_ms >= _LEAST_DELIVERY_MS:
        return seen.ok("it retries for longer than a failover takes")
    impact = f"records are dropped, with an error, after at most {duration(lasts_ms)} of retries"
    return seen.warn("its retries may end during a failover", impact, remedy)


@client_check("client-acks", Status.WARN, Status.FAIL)
def acks(client: ClientConfig) -> Verdict | None:
    """A producer's `acks` is `all`."""
    if not client.produces:
        return None
    seen = client.text(_ACKS, _default_acks(client))
    if not seen.value:
        raise _version_matters(client, "acks", "all", _ACKS_SINCE)
    if seen.value.lower() in _ALL:
        return seen.ok("an acknowledged record is on all in-sync replicas")
    remedy = "set acks=all, and min.insync.replicas=2 on its topics"
    if seen.value == "0":
        impact = "records are lost without an error while brokers or clusters change"
        return seen.fail("no record is acknowledged", impact, remedy)
    impact = "an acknowledged record may be on the leader only: lost with it, and never replicated"
    return seen.warn("it does not wait for all in-sync replicas", impact, remedy)


@client_check("client-idempotence", Status.WARN, Status.FAIL)
def idempotence(client: ClientConfig) -> Verdict | None:
    """A producer's retries keep record order: `enable.idempotence`, or one request in flight."""
    if not client.produces:
        return None
    key, java = "enable.idempotence", client.library is Library.JAVA
    new = java and client.version is not None and client.version >= _IDEMPOTENT_SINCE
    seen = client.flag(key, new)
    flight = client.integer(_IN_FLIGHT, 5 if java else 1_000_000)
    if java and client.version is None and key not in client.values and flight.value > 1:
        raise _version_matters(client, key, "true", _IDEMPOTENT_SINCE)
    wrong = list(_conflicts(client, flight)) if seen.value else []
    remedy = f"set {key}=true and acks=all; remove retries and max.in.flight settings"
    if wrong and key in client.values:
        evidence = "; ".join((seen.evidence, *wrong))
        impact = "it fails with a configuration error when it is restarted"
        return fail(client.subject, "it cannot be idempotent", evidence, impact, remedy)
    if (seen.value and not wrong) or flight.value == 1:
        reason = "retries neither duplicate nor reorder its records on one cluster"
        return seen.ok(reason if seen.value else "only one request is in flight: order is kept")
    impact = "records that are retried during a failover may be duplicated or out of order"
    evidence = "; ".join((seen.evidence, *wrong))
    return warn(client.subject, "it is not idempotent", evidence, impact, remedy)


def _default_acks(client: ClientConfig) -> str:
    """The default of `acks`; empty if it depends on the version, which was not given."""
    if client.library is Library.LIBRDKAFKA:
        return "-1"
    if client.version is None and not any(key in client.values for key in _ACKS.split()):
        return ""
    return "all" if client.version is None or client.version >= _ACKS_SINCE else "1"


def _conflicts(client: ClientConfig, flight: Value[int]) -> Iterator[str]:
    """Settings with which a producer cannot be idempotent."""
    acknowledged = client.text(_ACKS, "all")
    if acknowledged.value.lower() not in _ALL:
        yield acknowledged.evidence
    tries = client.integer(_RETRIES, _MANY)
    if tries.value <= 0:
        yield tries.evidence
    # librdkafka lowers its own default.
    if flight.value > _IN_ORDER_UP_TO and any(key in client.values for key in _IN_FLIGHT.split()):
        yield flight.evidence


def _version_matters(client: ClientConfig, key: str, new: str, since: Version) -> NotObserved:
    reason = f"its version was not given: {key} is {new} by default only from {_dotted(since)}"
    return NotObserved(client.subject, reason, f"set {key}={new}")


@client_check("client-transactions", Status.FAIL)
def transactions(client: ClientConfig) -> Verdict | None:
    """The client has no `transactional.id`: a transaction belongs to the cluster it began on."""
    if not client.produces:
        return None
    if "transactional.id" not in client.values:
        return ok(client.subject, "it uses no transactions", "transactional.id is not set")
    seen = client.text("transactional.id", "")
    return seen.fail(
        "it continues a transaction that the target does not know",
        "its open transaction on the source hangs and blocks read_committed consumers",
        "stop it before clients move, and start it afterwards",
    )


CLIENT_CHECKS: tuple[ClientCheck, ...] = (
    bootstrap,
    rebootstrap,
    trigger,
    dns_lookup,
    dns_cache,
    reconnect_backoff,
    connect_timeout,
    request_timeout,
    delivery_timeout,
    group_protocol,
    offset_reset,
    interceptor,
    retries,
    acks,
    idempotence,
    transactions,
)


def client_findings(client: ClientConfig) -> tuple[Finding, ...]:
    """The findings of all checks that apply to the client."""
    return tuple(finding for check in CLIENT_CHECKS for finding in check.findings(client))


def _dotted(version: tuple[int, int] | None) -> str:
    return ".".join(map(str, version or ()))


def _host(word: str) -> str:
    """Return the host of `PROTOCOL://HOST:PORT`; IPv6 addresses without brackets."""
    place = word.strip().rpartition("//")[2]
    host, colon, port = place.rpartition(":")
    return _plain(host if colon and port.isdecimal() else place)


def _plain(host: str) -> str:
    return host.strip("[]").lower().removesuffix(".")


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
