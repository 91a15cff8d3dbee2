"""Failbacks in order up to a given step, which tests then break."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from drctl.failback.answer import Answer, answer
from drctl.failback.facts import (
    Cluster,
    Copies,
    Facts,
    Fence,
    GroupState,
    Replication,
    Replicator,
    ReverseStart,
)
from drctl.failback.gap_results import GapEvidence, PartitionResult, Sample
from drctl.model.endpoints import EndpointState
from drctl.model.fencing import NoWrites
from drctl.model.health import ClusterHealth, Controller
from drctl.model.replication import Connector, Task
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable

PLACE = TopicPartition("orders", 0)
HERE, THERE = "id-of-primary", "id-of-secondary"
LOST_END, BOUNDARY, TARGET_END = 110, 100, 130
"""The primary was lost at offset 110, of which 100 were replicated; the secondary has 30 new
records."""

PRIMARY = Cluster(HERE, {PLACE: OffsetRange(0, LOST_END)})
SECONDARY = Cluster(THERE, {PLACE: OffsetRange(0, TARGET_END)})
WHOLE = ClusterHealth(HERE, Controller(1, 1), (1,), partitions=1)
FENCED = Fence(True, "every broker (1) denies writes to User:orders-app", NoWrites(2, {}))
OPEN = Fence(False, "applications may write: nothing denies it to User:orders-app on orders")
SILENT = Unavailable("cluster primary did not answer within 10 s")


IDENTITY = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}


def connector(name: str, state: str, config: Mapping[str, str] | None = None) -> Connector:
    """Return a connector with a task if it runs; it keeps topic names."""
    tasks = () if state == "STOPPED" else (Task(0, state),)
    return Connector(name, "source", {**IDENTITY, **(config or {})}, state, tasks)


def copying(
    name: str,
    state: str,
    positions: Mapping[TopicPartition, int] | Unavailable | None = None,
    config: Mapping[str, str] | None = None,
) -> Replication:
    """Return one direction with one connector."""
    known = {} if positions is None else positions
    return Replication((Replicator(connector(name, state, config), True, known),), workers=HERE)


def partition(**changed: Any) -> PartitionResult:
    """Return a partition of a gap result before reconcile: ten records are missing."""
    found = PartitionResult(
        PLACE,
        PLACE,
        OffsetRange(0, LOST_END),
        OffsetRange(0, TARGET_END),
        unreplicated=10,
        only_on_target=TARGET_END - BOUNDARY,
        duplicated=0,
        safe=9,
        conflicting=0,
        unkeyed=1,
        ranges=((100, 109),),
        ranges_total=1,
    )
    return replace(found, **changed)


def gap(*partitions: PartitionResult, **changed: Any) -> GapEvidence:
    """Return a result from the primary to the secondary."""
    found = GapEvidence(
        "gap/main-1",
        datetime(2026, 11, 22, 4, 0, tzinfo=UTC),
        "full",
        True,
        "primary",
        HERE,
        "secondary",
        THERE,
        partitions or (partition(),),
        id="result-1",
        samples=(Sample(PLACE, 103, 1_700_000_000_000, b"k", "safe"),),
    )
    return replace(found, **changed)


NOTHING_MISSING = partition(
    unreplicated=0, safe=0, conflicting=0, unkeyed=0, ranges=(), ranges_total=0
)


def back_gap(
    source_end: int = TARGET_END + 10, target_end: int = 140, **changed: Any
) -> GapEvidence:
    """Return an empty result of the opposite direction."""
    only = replace(
        NOTHING_MISSING,
        source=OffsetRange(0, source_end),
        target=OffsetRange(0, target_end),
        only_on_target=10,
    )
    ends = {"source_id": THERE, "target_id": HERE, "source": "secondary", "target": "primary"}
    return gap(only, **{"where": "gap/back-1", **ends, **changed})


def endpoint(cluster: str | None, name: str = "file bootstrap") -> EndpointState:
    """Return the state of an endpoint."""
    return EndpointState(name, cluster, f"it holds the address of {cluster}")


def in_order_to_d() -> Facts:
    """Fenced, forward replication stopped, unreplicated records found, none decided."""
    return Facts(
        "main",
        "primary",
        "secondary",
        on_source=PRIMARY,
        on_target=SECONDARY,
        health=WHOLE,
        fence=FENCED,
        forward=copying("mm2-source", "STOPPED", {PLACE: 100}),
        reverse=copying("mm2-back", "STOPPED"),
        gaps=(gap(),),
        boundaries={PLACE: BOUNDARY},
        out_of_order=(),
        reverse_start={PLACE: ReverseStart.NOTHING},
        drctl_copies=Copies(),
        decided={},
        returned_copies=Copies(),
        endpoints=(endpoint("secondary"),),
        groups=(GroupState("readers", ("secondary",), {PLACE: 90}),),
        journal=(),
    )


def in_order_to_e() -> Facts:
    """All ten records reconciled; reverse replication excludes them."""
    brought = Copies({PLACE: frozenset(range(100, 110))}, {PLACE: 30})
    return replace(
        in_order_to_d(),
        on_target=Cluster(THERE, {PLACE: OffsetRange(0, TARGET_END + 10)}),
        drctl_copies=brought,
        reverse=copying("mm2-back", "STOPPED", **DROP),
    )


def in_order_to_h() -> Facts:
    """New records are on the primary and were compared."""
    grown = Cluster(HERE, {PLACE: OffsetRange(0, 140)})
    return replace(
        in_order_to_e(),
        on_source=grown,
        reverse=copying("mm2-back", "RUNNING", {PLACE: TARGET_END}, **DROP),
        reverse_start={PLACE: ReverseStart.BOUNDARY},
        returned_copies=Copies({}, {PLACE: 30}),
        reverse_gaps=(back_gap(),),
    )


def after_failback() -> Facts:
    """The run is complete: both final comparisons are empty, forward replication runs."""
    ends = OffsetRange(0, 140)
    same = replace(NOTHING_MISSING, source=ends, target=ends, only_on_target=0)
    proof = gap(same, where="gap/main-9", id="result-9")
    return replace(
        in_order_to_h(),
        endpoints=(endpoint("primary"),),
        fence=OPEN,
        forward=copying("mm2-source", "RUNNING", {PLACE: 140}),
        reverse=copying("mm2-back", "STOPPED", {PLACE: 140}, **DROP),
        gaps=(proof, gap()),
        reverse_gaps=(back_gap(140, 140, where="gap/main-back-9"),),
        diverged="",
        boundaries={PLACE: 140},
        reverse_start={PLACE: ReverseStart.NOTHING},
        drctl_copies=Copies(),
        returned_copies=Copies(),
    )


def before_incident() -> Facts:
    """Before the incident: new records on the primary are replicated."""
    logs = {PLACE: OffsetRange(0, BOUNDARY)}
    return replace(
        in_order_to_d(),
        on_source=Cluster(HERE, logs),
        on_target=Cluster(THERE, logs),
        fence=OPEN,
        forward=copying("mm2-source", "RUNNING", {PLACE: BOUNDARY}),
        gaps=(),
        boundaries=SILENT,
        reverse_start=SILENT,
        drctl_copies=SILENT,
        returned_copies=SILENT,
        endpoints=(endpoint("primary"),),
        groups=(GroupState("readers", ("primary",), {PLACE: 90}),),
    )


DROP: dict[str, Any] = {
    "config": {
        "transforms": "ours",
        "transforms.ours.type": "org.apache.kafka.connect.transforms.Filter",
        "transforms.ours.predicate": "copied",
        "predicates": "copied",
        "predicates.copied.type": "org.apache.kafka.connect.transforms.predicates.HasHeaderKey",
        "predicates.copied.name": "__drctl_provenance",
    }
}


def judged(facts: Facts, **changed: Any) -> Answer:
    """Return the answer to these facts with changes."""
    return answer(replace(facts, **changed))


def states(found: Answer) -> str:
    """Return one letter per step: Done, Not done, Unknown."""
    return "".join(each.observed.value[0].upper() for each in found.steps.values())
