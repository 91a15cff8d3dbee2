"""Every check, once. `doctor` and the guards of a failover take them from here."""

from drctl.checks import (
    consumer_timestamps,
    mirror_checkpoints,
    mirror_coverage,
    mirror_syncs,
    replicator,
    replicator_failback,
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
)


def findings(observed: Observed) -> tuple[Finding, ...]:
    """What all checks that concern the link say."""
    return tuple(finding for check in CHECKS for finding in check.findings(observed))
