"""Every check, once. `doctor` and the guards of a failover take them from here."""

from collections.abc import Mapping
from types import MappingProxyType

from drctl.checks import (
    consumer_timestamps,
    endpoints,
    fencing,
    groups,
    journal,
    mirror_checkpoints,
    mirror_coverage,
    mirror_syncs,
    parity,
    parity_acls,
    producers,
    replication,
    replicator,
    replicator_failback,
    retention,
    source,
    target,
)
from drctl.checks.check import Check
from drctl.checks.observed import Observed
from drctl.model.finding import Finding

CHECKS: tuple[Check, ...] = (
    replicator.connector,
    replicator.translates,
    replicator.separate_tasks,
    replicator.pace,
    replicator.expiry,
    replicator.retry,
    replicator.timestamps_kept,
    consumer_timestamps.topic,
    consumer_timestamps.acls,
    consumer_timestamps.for_sinks,
    consumer_timestamps.not_itself,
    replicator_failback.group_id,
    replicator_failback.own_timestamps,
    replicator_failback.own_offsets,
    replicator_failback.reverse_start,
    replicator_failback.provenance,
    replicator_failback.header_converter,
    mirror_coverage.connectors,
    mirror_coverage.topics,
    mirror_coverage.groups,
    mirror_coverage.names,
    mirror_syncs.emitted,
    mirror_syncs.location,
    mirror_syncs.density,
    mirror_syncs.replicas,
    mirror_syncs.start,
    mirror_syncs.exactly_once,
    mirror_checkpoints.emitted,
    mirror_checkpoints.pace,
    mirror_checkpoints.replicas,
    mirror_checkpoints.group_sync,
    source.unreachable,
    source.alive,
    source.hanging,
    target.unreachable,
    target.no_controller,
    target.offline,
    target.under_min_isr,
    replication.unreachable,
    replication.named,
    replication.not_running,
    replication.lag,
    retention.near_tail,
    parity.missing,
    parity.fewer,
    parity.settings,
    parity_acls.acls,
    groups.active,
    groups.left_out,
    producers.collide,
    fencing.possible,
    endpoints.unreachable,
    endpoints.elsewhere,
    journal.unwritable,
)

GUARDS: Mapping[str, Check] = MappingProxyType({c.name: c for c in CHECKS if c.guards is not None})
"""Those that a failover is refused for, by name."""


def findings(observed: Observed) -> tuple[Finding, ...]:
    """What all checks that concern the link say."""
    return tuple(finding for check in CHECKS for finding in check.findings(observed))


def guard_findings(observed: Observed) -> tuple[Finding, ...]:
    """What the guards say before the failover that was looked at."""
    return tuple(finding for guard in GUARDS.values() for finding in guard.findings(observed))
