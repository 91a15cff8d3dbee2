"""Whether the cluster that is to be home again can take records: asked before anything is decided.

A partition that has no leader, or too few replicas in sync, would end the way home at its middle,
when what was missing is decided on and the rest has come.
"""

from collections.abc import Iterator, Sequence

from drctl.checks.wording import listed, several
from drctl.engine.steps.way_back_order import BROKEN
from drctl.failback.facts import Facts
from drctl.model.finding import Finding, Status
from drctl.model.health import ClusterHealth, Shortage
from drctl.model.topology import Unavailable


def health_findings(facts: Facts) -> Iterator[Finding]:
    """What is broken on the source, and what nobody knows of it; nothing where it is whole."""
    source, health = facts.source, facts.health
    if isinstance(health, Unavailable):
        reason = f"whether it is whole is not known: {health.reason}"
        yield Finding(BROKEN, Status.WARN, source, reason, cure="step preflight looks again")
        return
    closed = tuple(_closed(health))
    if closed:
        reason = f"it does not take all records: {several(closed)}"
        cure = f"bring back the brokers of {source} that hold the replicas"
        yield Finding(BROKEN, Status.FAIL, source, reason, cure=cure)
    behind = tuple(_behind(health))
    if behind:
        yield Finding(BROKEN, Status.WARN, source, f"it is not whole: {several(behind)}")


def _closed(health: ClusterHealth) -> Iterator[str]:
    """What takes no record with acks=all."""
    if health.offline:
        yield f"{len(health.offline):,} partitions have no leader ({listed(health.offline)})"
    if health.under_min_isr:
        places = _places(health.under_min_isr)
        yield f"{len(places):,} partitions are below min.insync.replicas ({listed(places)})"


def _behind(health: ClusterHealth) -> Iterator[str]:
    """What does, and would not if one more broker were lost; and what is not known."""
    if health.absent:
        yield f"{len(health.absent):,} brokers are down ({listed(health.absent)})"
    closed = {*health.offline, *_places(health.under_min_isr)}
    behind = [place for place in _places(health.under_replicated) if place not in closed]
    if behind:
        yield f"{len(behind):,} partitions are not in sync ({listed(behind)})"
    if health.unknown:
        yield f"min.insync.replicas of {listed(sorted(health.unknown))} is not known"
    if isinstance(health.controller, Unavailable):
        yield f"no controller is known: {health.controller.reason}"


def _places(short: Sequence[Shortage]) -> list[object]:
    return [each.partition for each in short]
