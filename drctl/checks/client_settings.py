"""Whether a client follows its endpoint to the other cluster without a restart, and how soon.

What each setting does was measured: docs/clients.md.
"""

from collections.abc import Iterator
from ipaddress import ip_address

from drctl.checks.check import NotObserved, Verdict, fail, ok, warn
from drctl.checks.client_config import ClientCheck, ClientConfig, Library, client_check
from drctl.checks.client_waits import (
    connect_timeout,
    delivery_timeout,
    dns_cache,
    reconnect_backoff,
    request_timeout,
    trigger,
)
from drctl.checks.wording import listed
from drctl.model.finding import Finding, Status

_RESTART = "it stays with the source's brokers until it is restarted"
# The first release that can bootstrap anew, and the first that does unless told otherwise.
_ABLE = {Library.JAVA: (3, 8), Library.LIBRDKAFKA: (2, 10)}
_BY_ITSELF = {Library.JAVA: (4, 0), Library.LIBRDKAFKA: (2, 10)}
_CANONICAL = "resolve_canonical_bootstrap_servers_only"


@client_check(
    "client-bootstrap",
    "`bootstrap.servers` names the endpoint that is switched, and nothing else",
    Status.WARN,
    Status.FAIL,
)
def bootstrap(client: ClientConfig) -> Iterator[Verdict]:
    """Whether it looks at the endpoint at all."""
    seen = client.text("bootstrap.servers metadata.broker.list", "")
    hosts = [_host(word) for word in seen.value.split(",") if word.strip()]
    if not hosts:
        reason, cure = "it is set in the application's code", "look there for its bootstrap"
        raise NotObserved(client.subject, reason, cure, seen.evidence)
    if client.endpoint == "file":
        cost = "it is restarted, or goes on at the source"
        cure = "restart it after the switch, or give it a name or a proxy for an endpoint"
        yield warn(client.subject, "it reads its file only when it starts", "", cost, cure)
        return
    fixed = [host for host in hosts if _is_address(host)]
    if not client.names:
        if client.endpoint == "dns" and len(fixed) == len(hosts):
            yield _others(client, hosts, seen.evidence)
            return
        reason = "which names the endpoint answers for was not said"
        cure = "compare it with the endpoint of the link"
        raise NotObserved(client.subject, reason, cure, seen.evidence)
    others = [host for host in hosts if host not in map(_plain, client.names)]
    if others:
        yield _others(client, others, seen.evidence, some=len(others) < len(hosts))
        return
    yield ok(client.subject, "it asks the endpoint", seen.evidence)


def _others(client: ClientConfig, hosts: list[str], evidence: str, some: bool = False) -> Verdict:
    names = listed(client.names) or "the endpoint's name"
    reason = f"{listed(hosts)} is not the endpoint"
    cure = f"let bootstrap.servers be {names} and its port, alone"
    if some:
        cost = "where one of these answers for the source, it comes back to the source"
        return warn(client.subject, reason, evidence, cost, cure)
    return fail(client.subject, reason, evidence, _RESTART, cure)


@client_check(
    "client-rebootstrap",
    "`metadata.recovery.strategy` is `rebootstrap`, and the client knows it",
    Status.FAIL,
)
def rebootstrap(client: ClientConfig) -> Iterator[Verdict]:
    """Whether it asks its bootstrap again where no broker that it knows is left."""
    key, version = "metadata.recovery.strategy", client.version
    able, by_itself = _ABLE[client.library], _BY_ITSELF[client.library]
    default = "rebootstrap" if version is None or version >= by_itself else "none"
    seen = client.text(key, default)
    what = f"{client.library.value} {_dotted(version)}" if version else client.library.value
    cure = f"set {key}=rebootstrap; {client.library.value} knows it from {_dotted(able)} on"
    if seen.value.lower() == "none":
        reason = "it never asks its bootstrap again"
        yield fail(client.subject, reason, f"{what}: {seen.evidence}", _RESTART, cure)
    elif version is None:
        reason = "which version its library has was not said: older ones never bootstrap anew"
        raise NotObserved(client.subject, reason, cure, seen.evidence)
    elif version < able:
        reason = f"{what} cannot bootstrap anew"
        cure = f"use {client.library.value} {_dotted(by_itself)} or later"
        yield fail(client.subject, reason, seen.evidence, _RESTART, cure)
    else:
        yield ok(client.subject, "it asks its bootstrap again", f"{what}: {seen.evidence}")


@client_check(
    "client-dns-lookup",
    f"`client.dns.lookup` is not `{_CANONICAL}`",
    Status.FAIL,
)
def dns_lookup(client: ClientConfig) -> Iterator[Verdict]:
    """Whether it keeps the name, or what the name once stood for."""
    if client.endpoint != "dns":
        return
    seen = client.text("client.dns.lookup", "use_all_dns_ips")
    if seen.value != _CANONICAL:
        yield ok(client.subject, "it looks its bootstrap up each time", seen.evidence)
        return
    reason = "it keeps what the name stood for when it started"
    cure = "set client.dns.lookup=use_all_dns_ips"
    yield fail(client.subject, reason, seen.evidence, _RESTART, cure)


@client_check(
    "client-group-protocol",
    "a member of a KIP-848 group finds its group on the target, as a group of that kind",
)
def group_protocol(client: ClientConfig) -> Iterator[Verdict]:
    """Whether the target has to know its group beforehand."""
    if not client.consumes:
        return
    seen = client.text("group.protocol", "classic")
    if seen.value.lower() != "consumer":
        yield ok(client.subject, "its group need not be known on the target", seen.evidence)
        return
    cost = (
        "where its group is not made on the target first, it ends for good (GROUP_ID_NOT_FOUND)"
        " and must be restarted; step prepare-groups makes those that the link carries"
    )
    yield ok(client.subject, "its group has to be on the target first", seen.evidence, cost)


@client_check(
    "client-offset-reset",
    "`auto.offset.reset` loses nothing where the target has no position of its group",
    Status.WARN,
)
def offset_reset(client: ClientConfig) -> Iterator[Verdict]:
    """Where it goes on if its position was not translated."""
    if not client.consumes:
        return
    seen = client.text("auto.offset.reset", "latest")
    word = seen.value.lower()
    if word in ("earliest", "smallest", "beginning"):
        yield ok(client.subject, "it begins anew: records are read again", seen.evidence)
        return
    reason, cost = "it skips to the end", "records between its position and the end are not read"
    if word in ("none", "error"):
        reason, cost = "it stops", "it reads nothing until somebody has set its position"
    cure = "set auto.offset.reset=earliest, or see that its group's position is translated"
    where = "where the target has no position of its group, "
    yield warn(client.subject, where + reason, seen.evidence, cost, cure)


@client_check(
    "client-transactions",
    "it has no `transactional.id`: a transaction belongs to the cluster that it began on",
    Status.FAIL,
)
def transactions(client: ClientConfig) -> Iterator[Verdict]:
    """Whether it may move in the middle of a transaction."""
    if not client.produces:
        return
    if "transactional.id" not in client.values:
        yield ok(client.subject, "it writes without transactions", "transactional.id is not set")
        return
    seen = client.text("transactional.id", "")
    yield fail(
        client.subject,
        "it goes on with a transaction that the target does not know",
        seen.evidence,
        "what it wrote there hangs: readers of committed records stop in front of it",
        "stop it before clients are moved, and start it afterwards",
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
    transactions,
)


def client_findings(client: ClientConfig) -> tuple[Finding, ...]:
    """What all checks that concern the client say."""
    return tuple(finding for check in CLIENT_CHECKS for finding in check.findings(client))


def _dotted(version: tuple[int, int] | None) -> str:
    return ".".join(map(str, version or ()))


def _host(word: str) -> str:
    """Of `PROTOCOL://HOST:PORT`, an IPv6 address without its brackets."""
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
