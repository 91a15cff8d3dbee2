"""The plan of `drctl offsets apply` and `undo`: it commits offsets, and leaves out refused ones."""

from collections.abc import Iterable
from dataclasses import replace

from drctl.config.link import Link
from drctl.model.plan import Plan
from drctl.offsets.applying import NOTHING, ApplyPlan, Wanted
from drctl.steps.apply_offsets import ApplyOffsets, ApplySettings, LeftOut, Row

APPLY = "offsets-apply"
UNDO = "offsets-undo"

_PATIENCE_S = 15.0
"""For what was sent and not answered to be seen."""


def offsets_plan(
    name: str, link: Link, found: ApplyPlan, wanted: Iterable[Wanted], *, unproven: bool
) -> Plan:
    """The plan; it has no steps where nothing is to be committed.

    Args:
        found: what the guards say of what is wanted.
        unproven: whether what skips records only under a condition is committed.
    """
    before = {(line.group, line.partition): line.before for line in found.writes}
    rows = tuple(
        # The age of its evidence changes while nothing else does.
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
    steps = (ApplyOffsets().step(ApplyOffsets.name, settings, _PATIENCE_S),) if rows else ()
    basis = {f"cluster {found.cluster}": found.cluster_id, "offsets": found.origin}
    return Plan(name, link.name, link.source, link.target, steps, basis, found.overrides)
