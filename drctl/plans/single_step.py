"""Plans of one effect: `elect`, `offsets apply` and `undo`, `reconcile`, `doctor --fence-probe`.

A plan has no step if there is nothing to do.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from drctl.config.link import Link
from drctl.elections.planning import Aim, ElectionPlan
from drctl.model.plan import Plan
from drctl.offsets.applying import NOTHING, ApplyPlan, Wanted
from drctl.reconcile.planning import ReconcilePlan
from drctl.steps.apply_offsets import ApplyOffsets, ApplySettings, LeftOut, Row
from drctl.steps.elections import ElectLeaders, ElectSettings
from drctl.steps.fence_probe import VISIBLE_S, ProbeAcls, ProbeSettings, RemoveProbeAcls
from drctl.steps.records import ReconcileResult, ResultSettings

OFFSETS_APPLY = "offsets-apply"
OFFSETS_UNDO = "offsets-undo"
RECONCILE = "reconcile"
FENCE_PROBE = "fence-probe"

_ELECT_S = 30.0
_COMMIT_S = 15.0
"""How long to wait until a commit without a response becomes visible."""

_RECONCILE_S = 1.0
"""Appended records are read back at once and never sent again automatically."""


def election_plan(found: ElectionPlan, link: str) -> Plan:
    """The plan that elects leaders inside one cluster.

    Args:
        link: the name that runs inside this cluster use as their link: see `Config.inside`.
    """
    overrides = {precheck.value: why for precheck, why in found.overrides.items()}
    aims = tuple(Aim.of(line) for line in found.elected)
    settings = ElectSettings(found.cluster, found.kind, aims, overrides)
    steps = (ElectLeaders().step("elect", settings, _ELECT_S),) if aims else ()
    refused = {
        f"refused {line.place}": ", ".join(each.precheck for each in line.refused)
        for line in found.refused
    }
    basis = {f"cluster {found.cluster}": found.cluster_id, **refused}
    name = f"elect-{found.kind}"
    return Plan(name, link, found.cluster, found.cluster, steps, basis, overrides)


def fence_probe_plan(link: Link, cluster_id: str, watch_s: float) -> Plan:
    """The plan that probes whether ACLs stay on the link's source, and removes them again.

    Args:
        cluster_id: of the source.
        watch_s: how long to watch them, in seconds.
    """
    principals = link.settings.fence.principals
    settings = ProbeSettings(
        cluster=link.source, principals=principals, link=link.configured, seconds=watch_s
    )
    steps = (
        ProbeAcls().step(ProbeAcls.name, settings, watch_s + VISIBLE_S),
        RemoveProbeAcls().step(RemoveProbeAcls.name, settings, VISIBLE_S),
    )
    basis = {f"cluster {link.source}": cluster_id}
    return Plan(FENCE_PROBE, link.name, link.source, link.target, steps, basis)


def offsets_plan(
    name: str, link: Link, found: ApplyPlan, wanted: Iterable[Wanted], *, unproven: bool
) -> Plan:
    """The plan that commits offsets and leaves out refused ones.

    Args:
        found: what the prechecks decided about the wanted offsets.
        unproven: whether to commit offsets that may skip records.
    """
    before = {(line.group, line.partition): line.before for line in found.writes}
    rows = tuple(
        # The age of the evidence changes all the time: it must not change the plan.
        Row(replace(each, based_on=NOTHING), before[each.group, each.partition])
        for each in wanted
        if (each.group, each.partition) in before
    )
    left_out = tuple(
        LeftOut(line.group, *line.partition, line.precheck)
        for line in found.refused
        if line.precheck
    )
    settings = ApplySettings(found.cluster, rows, left_out, found.overrides, unproven)
    steps = (ApplyOffsets().step(ApplyOffsets.name, settings, _COMMIT_S),) if rows else ()
    basis = {f"cluster {found.cluster}": found.cluster_id, "offsets": found.origin}
    return Plan(name, link.name, link.source, link.target, steps, basis, found.overrides)


def reconcile_plan(link: Link, found: ReconcilePlan, settings: ResultSettings) -> Plan:
    """The plan that reconciles the records of a gap result."""
    step = ReconcileResult().step(ReconcileResult.name, settings, _RECONCILE_S)
    steps = (step,) if found.writes else ()
    gap, records = found.gap, Counter[str]()
    for line in found.lines:
        records[f"{line.action.value} {line.to}".strip()] += line.due.records
    basis = {
        f"cluster {gap.source}": gap.source_id,
        f"cluster {gap.target}": gap.target_id,
        "gap result": gap.id,
        "records": ", ".join(f"{what}: {number}" for what, number in sorted(records.items())),
    }
    return Plan(RECONCILE, link.name, link.source, link.target, steps, basis, settings.overrides)
