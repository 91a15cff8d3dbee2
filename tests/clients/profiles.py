"""Settings of the tested clients: defaults, those of docs/howto/clients.md, and wrong ones."""

from collections.abc import Mapping

from tests.clients.applications import Client

_BOTH: Mapping[str, str] = {
    "client.dns.lookup": "use_all_dns_ips",
    "metadata.recovery.strategy": "rebootstrap",
    "metadata.recovery.rebootstrap.trigger.ms": "10000",
    "reconnect.backoff.max.ms": "500",
    "socket.connection.setup.timeout.ms": "2000",
}
ADVISED: Mapping[str, Mapping[str, str]] = {
    "librdkafka": {
        **_BOTH,
        "socket.timeout.ms": "10000",
        "topic.metadata.refresh.interval.ms": "30000",
    },
    "java": {**_BOTH, "request.timeout.ms": "10000", "metadata.max.age.ms": "30000"},
}
CLASSIC: Mapping[str, str] = {"session.timeout.ms": "10000", "heartbeat.interval.ms": "2000"}
_READS: Mapping[str, str] = {"auto.offset.reset": "earliest"}
_KEEPS = {"metadata.recovery.strategy": "none"}
# The client resolves the name once and keeps the canonical names of its addresses.
_LOOKS_UP_ONCE = {"client.dns.lookup": "resolve_canonical_bootstrap_servers_only"}


def advised(library: str) -> list[Client]:
    """Return a producer and a consumer of each protocol that follow a failover fast."""
    given = ADVISED[library]
    return [
        Client(f"{library}.advised.producer", given),
        Client(f"{library}.advised.classic.consumer", {**given, **_READS, **CLASSIC}),
        Client(
            f"{library}.advised.kip848.consumer", {**given, **_READS, "group.protocol": "consumer"}
        ),
    ]


def default(library: str) -> list[Client]:
    """Return the same clients without any of these settings."""
    return [
        Client(f"{library}.default.producer", {}),
        Client(f"{library}.default.classic.consumer", _READS),
        Client(f"{library}.default.kip848.consumer", {**_READS, "group.protocol": "consumer"}),
    ]


def stuck(library: str) -> list[Client]:
    """Return clients that never follow."""
    never = [Client(f"{library}.no-rebootstrap.producer", {**ADVISED[library], **_KEEPS})]
    if library == "java":
        never.append(Client("java.canonical.producer", {**ADVISED["java"], **_LOOKS_UP_ONCE}))
    return never
