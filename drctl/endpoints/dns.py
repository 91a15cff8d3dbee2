"""A DNS record as an endpoint: read from the primary server, changed by RFC 2136 updates.

Each update has the observed record as its prerequisite (RFC 2136, section 2.4), so the server
rejects it if the record has changed since. There is no gap between reading and writing.
"""

import binascii
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.query
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdataset
import dns.rdatatype
import dns.rrset
import dns.tsig
import dns.update

from drctl.config.endpoints import DnsEndpoint, TsigConfig, host_and_port
from drctl.config.secret import reveal
from drctl.host.connections import connect
from drctl.model.endpoints import EndpointMoved, EndpointRejected, EndpointState, must_be_of
from drctl.model.errors import ConfigError, DrctlError, Unknown, Unreachable


@dataclass(frozen=True, slots=True)
class Records:
    """All data of a name and type; empty if there is no such record.

    Attributes:
        ttl: in seconds; 0 without data.
    """

    data: frozenset[dns.rdata.Rdata] = frozenset()
    ttl: int = 0

    @property
    def texts(self) -> list[str]:
        """The data as in a zone file, sorted."""
        return sorted(each.to_text() for each in self.data)

    def __str__(self) -> str:
        return ", ".join(self.texts) or "no such record"


def of_set(found: dns.rrset.RRset | None) -> Records:
    """Read the record from a response."""
    return Records(frozenset(found), found.ttl) if found else Records()


def of_cluster(settings: DnsEndpoint, cluster: str) -> Records:
    """The record of a cluster, from drctl.yaml."""
    return Records(_parsed(settings.type, settings.clusters[cluster]), settings.ttl)


def of_evidence(kind: str, evidence: Mapping[str, Any]) -> Records:
    """Read an observed record from a journal."""
    return Records(_parsed(kind, evidence["records"]), int(evidence["ttl"]))


def cluster_of(settings: DnsEndpoint, records: Records) -> str | None:
    """The cluster whose data it is; None if it matches none completely."""
    names = (c for c in settings.clusters if of_cluster(settings, c).data == records.data)
    return next(names, None)


def _parsed(kind: str, texts: Iterable[str]) -> frozenset[dns.rdata.Rdata]:
    return frozenset(
        dns.rdata.from_text(dns.rdataclass.IN, kind, text, dns.name.root, relativize=False)
        for text in texts
    )


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer of one resolver.

    Attributes:
        records: records with their remaining TTL.
        failure: why there is no answer; empty if there is one.
    """

    resolver: str
    records: Records
    failure: str = ""

    def to_json(self) -> dict[str, Any]:
        """The JSON form for the evidence of an `EndpointState`."""
        if self.failure:
            return {"failure": self.failure}
        return {"records": self.records.texts, "ttl": self.records.ttl}

    def outdated(self, records: Records) -> str:
        """How it differs from the zone, as text; empty if it does not."""
        if self.failure:
            return f"the cache of resolver {self.resolver} is unknown: {self.failure}"
        if self.records.data == records.data:
            return ""
        left = f", for {self.records.ttl} s more" if self.records.data else ""
        return f"the resolver {self.resolver} still answers: {self.records}{left}"


def ask_all(
    resolvers: Sequence[str], name: dns.name.Name, kind: dns.rdatatype.RdataType, timeout_s: float
) -> tuple[Answered, ...]:
    """Ask all resolvers in parallel, as a client would; aliases are followed."""
    if not resolvers:
        return ()
    with ThreadPoolExecutor(max_workers=len(resolvers)) as threads:
        return tuple(threads.map(lambda each: _ask(each, name, kind, timeout_s), resolvers))


def _ask(
    resolver: str, name: dns.name.Name, kind: dns.rdatatype.RdataType, timeout_s: float
) -> Answered:
    host, port = host_and_port(resolver)
    query = dns.message.make_query(name, kind)
    try:
        answer, _ = dns.query.udp_with_fallback(
            query, host, timeout_s, port, ignore_unexpected=True, ignore_errors=True
        )
        if answer.rcode() not in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN):
            return Answered(resolver, Records(), dns.rcode.to_text(answer.rcode()))
        if not isinstance(answer, dns.message.QueryMessage):
            return Answered(resolver, Records(), "it sent no valid answer")
        return Answered(resolver, of_set(answer.resolve_chaining().answer))
    except dns.exception.Timeout:
        return Answered(resolver, Records(), "it did not answer")
    except (dns.exception.DNSException, OSError) as error:
        return Answered(resolver, Records(), str(error))


class DnsServer:
    """The primary server of a zone.

    Args:
        key: signs requests; responses that are not signed with it are rejected.
        timeout_s: timeout of each request.
    """

    def __init__(
        self, host: str, port: int, key: dns.tsig.Key | None = None, timeout_s: float = 5
    ) -> None:
        self.name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._place = (host, port)
        self._key = key
        self._timeout_s = timeout_s

    def ask(self, message: dns.message.Message) -> dns.message.Message:
        """The server's response to a query or an update, with any response code.

        Raises:
            Unreachable: it could not be reached, or did not answer a query.
            Unknown: it did not answer an update, or its response is not trusted.
            EndpointRejected: it rejected the key.
        """
        until = time.monotonic() + self._timeout_s
        if self._key is not None:
            message.use_tsig(self._key)
        with self._connected() as stream:
            try:
                left = max(0.1, until - time.monotonic())
                answer = dns.query.tcp(message, self._place[0], timeout=left, sock=stream)
            except dns.tsig.PeerError as error:
                raise self._rejected(error) from None
            except (dns.exception.DNSException, OSError, EOFError) as error:
                raise self._lost(message, _reason(error)) from None
        if self._key is not None and not answer.had_tsig:
            raise self._lost(message, "the answer is not signed")
        return answer

    def _connected(self) -> socket.socket:
        try:
            stream = connect(self._place, self._timeout_s)
        except OSError as error:
            raise Unreachable(
                f"the DNS server {self.name} cannot be reached: {_reason(error)}",
                "check `server` and `port` of the endpoint; updates need TCP, which a firewall may"
                " block on port 53",
            ) from None
        stream.setblocking(False)
        return stream

    def _lost(self, message: dns.message.Message, reason: str) -> DrctlError:
        if isinstance(message, dns.update.UpdateMessage):
            return Unknown(
                f"the DNS server {self.name} did not confirm an update, so the record may have"
                f" changed: {reason}",
                "check the record first; the update was conditional, so sending it again does no"
                " harm",
            )
        return Unreachable(
            f"the DNS server {self.name} did not answer: {reason}",
            "check that it is running, and check the endpoint's `server` and `port`",
        )

    def _rejected(self, error: dns.tsig.PeerError) -> EndpointRejected:
        name = self._key.name.to_text() if self._key else ""
        for kind, text, fix in _REJECTIONS:
            if isinstance(error, kind):
                return EndpointRejected(f"the DNS server {self.name} {text.format(name)}", fix)
        return EndpointRejected(
            f"the DNS server {self.name} does not accept the TSIG key {name}: {error}",
            "see the log of the DNS server",
        )


_REJECTIONS = (
    (
        dns.tsig.PeerBadKey,
        "does not know the TSIG key {}",
        "check `tsig.name` and `tsig.algorithm`: the server must have a key of the same name and"
        " algorithm",
    ),
    (
        dns.tsig.PeerBadSignature,
        "has a different secret for the TSIG key {}",
        "check `tsig.secret` and `tsig.algorithm` against the server's key",
    ),
    (
        dns.tsig.PeerBadTime,
        "rejects signatures of the TSIG key {}: its clock differs from this host's",
        "synchronize both clocks: TSIG allows a difference of 5 minutes",
    ),
)


def opened(settings: DnsEndpoint, environ: Mapping[str, str]) -> DnsServer:
    """The server of an endpoint; connects for each request.

    Raises:
        ConfigError: the key's secret is missing or invalid.
    """
    key = _key(settings.tsig, environ) if settings.tsig else None
    return DnsServer(settings.server, settings.port, key, settings.timeout_s)


def _key(tsig: TsigConfig, environ: Mapping[str, str]) -> dns.tsig.Key:
    secret = reveal(tsig.secret.resolve(environ))
    try:
        decoded = binascii.a2b_base64(secret.strip(), strict_mode=True)
    except ValueError:
        decoded = b""
    if not decoded:
        raise ConfigError(
            f"{tsig.secret.place}: is not the secret of a TSIG key",
            "use the base64 text that `tsig-keygen` prints after `secret`",
        )
    return dns.tsig.Key(tsig.name, decoded, tsig.algorithm)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError | dns.exception.Timeout):
        return "it took too long"
    if isinstance(error, EOFError):
        return "it closed the connection"
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__


_PREREQUISITE_FAILED = (
    dns.rcode.NXRRSET,
    dns.rcode.YXRRSET,
    dns.rcode.NXDOMAIN,
    dns.rcode.YXDOMAIN,
)


class DnsReader:
    """Reads a record."""

    def __init__(self, settings: DnsEndpoint, server: DnsServer) -> None:
        self._settings = settings
        self._server = server
        self._type = dns.rdatatype.from_text(settings.type)
        self._name = dns.name.from_text(settings.record)

    @property
    def endpoint(self) -> str:
        """Name and type of the record, and the server."""
        return f"dns {self._settings.record} {self._settings.type} at {self._server.name}"

    def observe(self) -> EndpointState:
        """Read the record from the zone's primary server, and what resolvers have cached.

        Raises:
            Unreachable: the server does not answer.
            EndpointRejected: it rejected the key, or does not serve the zone.
            Unknown: it gave no usable answer.
        """
        soa = self._soa()
        answer = self._ask(self._name, self._type)
        records = of_set(_found(answer, self._name, self._type))
        alias = None if records.data else _found(answer, self._name, dns.rdatatype.CNAME)
        target = alias[0].target.to_text() if alias else ""
        settings = self._settings
        cached = ask_all(settings.resolvers, self._name, self._type, settings.timeout_s)
        resolvers = {each.resolver: each.to_json() for each in cached}
        # Negative answers are cached, too (RFC 2308).
        ttl = records.ttl if records.data else min(soa.ttl, soa[0].minimum)
        return EndpointState(
            self.endpoint,
            cluster_of(settings, records),
            self._words(records, target),
            {
                "records": records.texts,
                "ttl": records.ttl,
                "serial": soa[0].serial,
                **({"alias": target} if target else {}),
                **({"resolvers": resolvers} if resolvers else {}),
            },
            tuple(filter(None, (each.outdated(records) for each in cached))),
            float(alias.ttl if alias else ttl),
        )

    def _soa(self) -> dns.rrset.RRset:
        zone = dns.name.from_text(self._settings.zone)
        found = _found(self._ask(zone, dns.rdatatype.SOA), zone, dns.rdatatype.SOA)
        if found is None:
            raise self._no_zone()
        return found

    def _ask(self, name: dns.name.Name, kind: dns.rdatatype.RdataType) -> dns.message.Message:
        """An authoritative answer."""
        answer = self._server.ask(dns.message.make_query(name, kind, flags=0))
        code = answer.rcode()
        if code == dns.rcode.REFUSED:
            raise EndpointRejected(
                f"the DNS server {self._server.name} refuses to answer for {name}",
                f"check that it serves the zone {self._settings.zone} and allows queries from this"
                " address or key (in BIND: allow-query)",
            )
        if code not in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN):
            raise Unknown(
                f"the DNS server {self._server.name} answers {dns.rcode.to_text(code)} for {name}",
                "see the log of the DNS server",
            )
        if not answer.flags & dns.flags.AA:
            raise self._no_zone()
        return answer

    def _no_zone(self) -> EndpointRejected:
        return EndpointRejected(
            f"the DNS server {self._server.name} has no zone {self._settings.zone}",
            "check `zone`, and that `server` is the zone's primary server, not a resolver",
        )

    def _words(self, records: Records, alias: str) -> str:
        subject = f"{self._settings.record} {self._settings.type}"
        if alias:
            return f"{self._settings.record} is an alias of {alias}"
        if not records.data:
            return f"{subject} does not exist"
        name = cluster_of(self._settings, records)
        whose = f"of {name}" if name else "not the data of any cluster in drctl.yaml"
        usual = self._settings.ttl
        other = f", not {usual} s as in drctl.yaml" if records.ttl != usual else ""
        return f"{subject} is {records} ({whose}), TTL {records.ttl} s{other}"


class DnsWriter:
    """Changes a record if it is unchanged since it was read."""

    def __init__(self, settings: DnsEndpoint, server: DnsServer) -> None:
        self._settings = settings
        self._server = server
        self._reader = DnsReader(settings, server)

    @property
    def endpoint(self) -> str:
        """Name and type of the record, and the server."""
        return self._reader.endpoint

    def switch(self, to: str, before: EndpointState) -> None:
        """Set the record to the data of the cluster in drctl.yaml.

        Raises:
            EndpointMoved: it was changed by someone else.
            EndpointRejected: the server rejected it; nothing was changed.
            Unreachable: it could not be reached; nothing was changed.
            Unknown: no answer to the request.
        """
        must_be_of(self.endpoint, before)
        if before.evidence.get("alias"):
            raise EndpointRejected(
                f"{before.message}; an alias cannot have {self._settings.type} records",
                "remove the CNAME record, or set `type: CNAME` of the endpoint",
            )
        seen = of_evidence(self._settings.type, before.evidence)
        self._replace(seen, of_cluster(self._settings, to))

    def restore(self, before: EndpointState) -> None:
        """Restore the previous record, with its TTL.

        Raises:
            EndpointMoved: it was changed by someone else.
            EndpointRejected: the server rejected it; nothing was changed.
            Unreachable: it could not be reached; nothing was changed.
            Unknown: no answer to the request.
        """
        must_be_of(self.endpoint, before)
        wanted = of_evidence(self._settings.type, before.evidence)
        now = self._reader.observe()
        seen = of_evidence(self._settings.type, now.evidence)
        if seen == wanted:
            return
        if now.cluster is None:
            raise _moved(now)
        self._replace(seen, wanted)

    def _replace(self, seen: Records, wanted: Records) -> None:
        answer = self._server.ask(self._update(seen, wanted))
        code = answer.rcode()
        if code in _PREREQUISITE_FAILED:
            now = self._reader.observe()
            if of_evidence(self._settings.type, now.evidence).data != wanted.data:
                raise _moved(now)
        elif code != dns.rcode.NOERROR:
            raise self._failure(code)

    def _update(self, seen: Records, wanted: Records) -> dns.update.UpdateMessage:
        name, kind = dns.name.from_text(self._settings.record), self._settings.type
        update = dns.update.UpdateMessage(self._settings.zone)
        if seen.data:
            update.present(name, *seen.data)
        elif kind == "CNAME":
            # A server silently ignores it if the name has other records.
            update.absent(name)
        else:
            update.absent(name, kind)
        update.delete(name, kind)
        if wanted.data:
            update.add(name, dns.rdataset.from_rdata_list(wanted.ttl, wanted.data))
        return update

    def _failure(self, code: dns.rcode.Rcode) -> DrctlError:
        server, record = self._server.name, self._settings.record
        if code == dns.rcode.REFUSED:
            kind = self._settings.type
            return EndpointRejected(
                f"the DNS server {server} refuses to change {record} {kind}",
                "allow the key to update it, in BIND: update-policy { grant KEY name"
                f" {record} {kind}; }};",
            )
        if code in (dns.rcode.NOTAUTH, dns.rcode.NOTZONE, dns.rcode.NOTIMP):
            return EndpointRejected(
                f"the DNS server {server} does not accept updates of {self._settings.zone}"
                f" ({dns.rcode.to_text(code)})",
                "check that `server` is the zone's primary server, and that `zone` is the zone's"
                " own name",
            )
        return Unknown(
            f"the DNS server {server} answers {dns.rcode.to_text(code)} to the update of {record}",
            "check the record first; see the server's log",
        )


def _found(
    answer: dns.message.Message, name: dns.name.Name, kind: dns.rdatatype.RdataType
) -> dns.rrset.RRset | None:
    return answer.get_rrset(answer.answer, name, dns.rdataclass.IN, kind)


def _moved(now: EndpointState) -> EndpointMoved:
    return EndpointMoved(
        f"{now.endpoint} has changed since it was read: {now.message}",
        "someone else changed it; find out who, then start again or correct it by hand",
    )
