"""The data of one name and type, as servers, drctl.yaml and journals have it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rrset

from drctl.config.endpoints import DnsEndpoint


@dataclass(frozen=True, slots=True)
class Records:
    """All data of a name and type; none where there is no such record.

    Attributes:
        ttl: in seconds; 0 where there is no data.
    """

    data: frozenset[dns.rdata.Rdata] = frozenset()
    ttl: int = 0

    @property
    def texts(self) -> list[str]:
        """Each as in a zone file, sorted."""
        return sorted(each.to_text() for each in self.data)

    def __str__(self) -> str:
        return ", ".join(self.texts) or "not there"


def of_set(found: dns.rrset.RRset | None) -> Records:
    """What an answer holds."""
    return Records(frozenset(found), found.ttl) if found else Records()


def of_cluster(settings: DnsEndpoint, cluster: str) -> Records:
    """What is to stand there for a cluster."""
    return Records(_parsed(settings.type, settings.clusters[cluster]), settings.ttl)


def of_evidence(kind: str, evidence: Mapping[str, Any]) -> Records:
    """What was seen, from a journal."""
    return Records(_parsed(kind, evidence["records"]), int(evidence["ttl"]))


def cluster_of(settings: DnsEndpoint, records: Records) -> str | None:
    """The cluster whose data it is; None where it is nobody's, or only a part of somebody's."""
    for name in settings.clusters:
        if of_cluster(settings, name).data == records.data:
            return name
    return None


def _parsed(kind: str, texts: Iterable[str]) -> frozenset[dns.rdata.Rdata]:
    return frozenset(
        dns.rdata.from_text(dns.rdataclass.IN, kind, text, dns.name.root, relativize=False)
        for text in texts
    )
