"""All checks, for `doctor` and for the prechecks of a failover."""

from collections.abc import Mapping
from types import MappingProxyType

from drctl.checks import (
    acls,
    applications,
    brokers,
    capacity,
    endpoints,
    managed,
    mirror_maker,
    parity,
    reachability,
    replication,
    replication_loops,
    replicator,
    runs,
    source,
    source_connectors,
    target,
)
from drctl.checks.check import Check, Family
from drctl.checks.observed import Observed
from drctl.model.finding import Finding

_MODULES = (
    *(replicator, mirror_maker, reachability, source, target, capacity, brokers, replication),
    *(replication_loops, source_connectors, parity, applications, acls, managed, endpoints, runs),
)
_FAMILIES = list(Family)

CHECKS: tuple[Check, ...] = tuple(
    sorted(
        (each for module in _MODULES for each in vars(module).values() if isinstance(each, Check)),
        key=lambda check: _FAMILIES.index(check.family),
    )
)
"""Ordered by family, then as in their modules."""

PRECHECKS: Mapping[str, Check] = MappingProxyType(
    {c.name: c for c in CHECKS if c.prechecks is not None}
)
"""The prechecks of a failover, by name."""


def findings(observed: Observed) -> tuple[Finding, ...]:
    """Run all checks that apply to the link."""
    return tuple(finding for check in CHECKS for finding in check.findings(observed))


def precheck_findings(observed: Observed) -> tuple[Finding, ...]:
    """Run all prechecks for the mode of failover in the observed state."""
    return tuple(
        finding for precheck in PRECHECKS.values() for finding in precheck.findings(observed)
    )
