"""A DNS record as endpoint: looked at on the primary server, changed by RFC 2136 updates.

Every update carries what was seen as its prerequisite (RFC 2136, section 2.4): the server itself
refuses where the record has changed since. There is no moment between look and write.
"""

from typing import Any

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdataclass
import dns.rdataset
import dns.rdatatype
import dns.rrset
import dns.update

from drctl.config.endpoints import DnsEndpoint
from drctl.model.endpoints import EndpointMoved, EndpointRejected, EndpointState, must_be_of
from drctl.model.errors import DrctlError, Unknown
from drctl.systems.endpoints.dns_records import (
    Records,
    cluster_of,
    of_cluster,
    of_evidence,
    of_set,
)
from drctl.systems.endpoints.dns_resolvers import Answered, ask_all, evidence_of
from drctl.systems.endpoints.dns_server import DnsServer

_PREREQUISITE_FAILED = (
    dns.rcode.NXRRSET,
    dns.rcode.YXRRSET,
    dns.rcode.NXDOMAIN,
    dns.rcode.YXDOMAIN,
)


class DnsReader:
    """Looks at a record; changes nothing."""

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
        """What the zone's primary server says, and what resolvers still have.

        Raises:
            Unreachable: the server does not answer.
            EndpointRejected: it does not accept the key, or has no such zone.
            Unknown: it answers, but not this.
        """
        soa = self._soa()
        answer = self._ask(self._name, self._type)
        records = of_set(_found(answer, self._name, self._type))
        alias = None if records.data else _found(answer, self._name, dns.rdatatype.CNAME)
        target = alias[0].target.to_text() if alias else ""
        places = self._settings.resolvers
        cached = ask_all(places, self._name, self._type, self._settings.timeout_s)
        # That there is nothing is cached, too (RFC 2308).
        ttl = records.ttl if records.data else min(soa.ttl, soa[0].minimum)
        return EndpointState(
            self.endpoint,
            cluster_of(self._settings, records),
            self._words(records, target),
            _evidence(records, soa, target, cached),
            tuple(filter(None, (each.behind(records) for each in cached))),
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
                f"check that it serves the zone {self._settings.zone}, and that it lets this"
                " address, or the key, query (in BIND: allow-query)",
            )
        if code not in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN):
            raise Unknown(
                f"the DNS server {self._server.name} answers {dns.rcode.to_text(code)} for {name}",
                "its own log says more",
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
            return f"{subject} is not there"
        name = cluster_of(self._settings, records)
        whose = f"of {name}" if name else "not what drctl.yaml says of any cluster"
        usual = self._settings.ttl
        other = f", not {usual} s as in drctl.yaml" if records.ttl != usual else ""
        return f"{subject} is {records} ({whose}), TTL {records.ttl} s{other}"


class DnsWriter:
    """Changes a record, where it is still as it was seen."""

    def __init__(self, settings: DnsEndpoint, server: DnsServer) -> None:
        self._settings = settings
        self._server = server
        self._reader = DnsReader(settings, server)

    @property
    def endpoint(self) -> str:
        """Name and type of the record, and the server."""
        return self._reader.endpoint

    def switch(self, to: str, before: EndpointState) -> None:
        """Let the record hold what drctl.yaml says of the cluster.

        Raises:
            EndpointMoved: somebody else has changed it since.
            EndpointRejected: the server does not do it; nothing was changed.
            Unreachable: it could not be asked; nothing was changed.
            Unknown: no answer came after it had been asked.
        """
        must_be_of(self.endpoint, before)
        if before.evidence.get("alias"):
            raise EndpointRejected(
                f"{before.words}; a name that is an alias can hold no {self._settings.type}",
                "remove the CNAME record, or set `type: CNAME` of the endpoint",
            )
        seen = of_evidence(self._settings.type, before.evidence)
        self._replace(seen, of_cluster(self._settings, to))

    def restore(self, before: EndpointState) -> None:
        """Let the record hold what it held, with the TTL that it had.

        Raises:
            EndpointMoved: somebody else has changed it since.
            EndpointRejected: the server does not do it; nothing was changed.
            Unreachable: it could not be asked; nothing was changed.
            Unknown: no answer came after it had been asked.
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
            # Beside other records of the name a server would leave it out without a word.
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
                "let the key change it, in BIND: update-policy { grant KEY name"
                f" {record} {kind}; }};",
            )
        if code in (dns.rcode.NOTAUTH, dns.rcode.NOTZONE, dns.rcode.NOTIMP):
            return EndpointRejected(
                f"the DNS server {server} takes no updates of {self._settings.zone}"
                f" ({dns.rcode.to_text(code)})",
                "check that `server` is the zone's primary server, and that `zone` is the zone's"
                " own name",
            )
        return Unknown(
            f"the DNS server {server} answers {dns.rcode.to_text(code)} to the update of {record}",
            "look at the record before anything else is done; the server's own log says more",
        )


def _found(
    answer: dns.message.Message, name: dns.name.Name, kind: dns.rdatatype.RdataType
) -> dns.rrset.RRset | None:
    return answer.get_rrset(answer.answer, name, dns.rdataclass.IN, kind)


def _evidence(
    records: Records, soa: dns.rrset.RRset, alias: str, cached: tuple[Answered, ...]
) -> dict[str, Any]:
    return {
        "records": records.texts,
        "ttl": records.ttl,
        "serial": soa[0].serial,
        **({"alias": alias} if alias else {}),
        **({"resolvers": evidence_of(cached)} if cached else {}),
    }


def _moved(now: EndpointState) -> EndpointMoved:
    return EndpointMoved(
        f"{now.endpoint} is not as it was when it was looked at: {now.words}",
        "somebody else changed it; find out who, then begin anew, or put it right by hand",
    )
