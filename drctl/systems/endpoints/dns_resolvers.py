"""What the resolvers that clients ask still have of a record, and for how long."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import dns.exception
import dns.message
import dns.name
import dns.query
import dns.rcode
import dns.rdatatype

from drctl.config.endpoints import host_and_port
from drctl.systems.endpoints.dns_records import Records, of_set


@dataclass(frozen=True, slots=True)
class Answered:
    """What one resolver said.

    Attributes:
        records: with the seconds that are left of them.
        failure: why there are none; empty where it answered.
    """

    resolver: str
    records: Records
    failure: str = ""

    def to_json(self) -> dict[str, Any]:
        """For the evidence of an `EndpointState`."""
        if self.failure:
            return {"failure": self.failure}
        return {"records": self.records.texts, "ttl": self.records.ttl}

    def behind(self, records: Records) -> str:
        """In words how it differs from what the zone holds; empty where it does not."""
        if self.failure:
            return f"the resolver {self.resolver} does not say what it has: {self.failure}"
        if self.records.data == records.data:
            return ""
        left = f", for {self.records.ttl} s more" if self.records.data else ""
        return f"the resolver {self.resolver} still answers: {self.records}{left}"


def ask_all(
    resolvers: Sequence[str], name: dns.name.Name, kind: dns.rdatatype.RdataType, timeout_s: float
) -> tuple[Answered, ...]:
    """Each one's answer, asked side by side as a client asks; an alias is followed to its end."""
    if not resolvers:
        return ()
    with ThreadPoolExecutor(max_workers=len(resolvers)) as threads:
        return tuple(threads.map(lambda each: _ask(each, name, kind, timeout_s), resolvers))


def evidence_of(answers: Sequence[Answered]) -> Mapping[str, Any]:
    """By resolver."""
    return {each.resolver: each.to_json() for each in answers}


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
            return Answered(resolver, Records(), "its answer is none")
        return Answered(resolver, of_set(answer.resolve_chaining().answer))
    except dns.exception.Timeout:
        return Answered(resolver, Records(), "it did not answer")
    except (dns.exception.DNSException, OSError) as error:
        return Answered(resolver, Records(), str(error))
