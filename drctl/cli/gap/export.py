"""`drctl gap --view truncation --export`: what is nowhere else, in files, before it is gone."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.cli import wiring
from drctl.cli.console import console
from drctl.cli.reconcile import wiring as reconcile_wiring
from drctl.model.errors import Refused

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.gap import GapResult
    from drctl.reconcile.gap_result import FoundGap
    from drctl.reconcile.planning import ReconcilePlan
    from drctl.reconcile.rows import WantedRows
    from drctl.reconcile.sight import Sight

_REASON = "--export takes what there is"


def exported(
    result: "GapResult", config: "Config", link: "Link", folder: Path, to: Path
) -> "GapResult":
    """The result with what was exported of it, as `drctl reconcile --policy export` does it.

    Args:
        folder: of the result.
        to: of the export.

    Raises:
        DrctlError: not all of it could be exported.
    """
    from drctl.model.truncation import Export
    from drctl.reconcile import journal as journals
    from drctl.reconcile.executing import Execution
    from drctl.reconcile.gap_result import read_gap

    gap = read_gap((folder / "gap.json").read_text(encoding="utf-8"), str(folder))
    began = datetime.now(UTC)
    run = began.strftime("%Y%m%dT%H%M%S.%fZ")
    with (
        console().task("exporting") as task,
        reconcile_wiring.wanted_rows(gap, folder) as rows,
        reconcile_wiring.journal(config, run) as journal,
    ):
        plan, sight = _plan(link, gap, rows)
        journal.append([journals.began(run, plan, began)])
        execution = Execution(
            plan,
            rows,
            reconcile_wiring.source_log(link),
            sight,
            None,
            reconcile_wiring.exporter(to, gap),
            journal,
            time.monotonic,
            lambda done, total: task.update(done=done, total=total),
        )
        execution.run()
        journal.append([journals.ended("done", datetime.now(UTC))])
    gone = sum(each.records for each in execution.gone.values())
    if gone:
        console().warn(f"{gone} of the records were gone before they could be exported")
    kept = sum(each.records for each in execution.counts.values())
    assert result.truncation is not None
    export = Export(execution.exported or str(to), kept, gone)
    return replace(result, truncation=replace(result.truncation, export=export))


def _plan(link: "Link", gap: "FoundGap", rows: "WantedRows") -> "tuple[ReconcilePlan, Sight]":
    """All of the unreplicated records, whatever stands against acting upon a part of them.

    Raises:
        Refused: these are not the logs any more that were compared a moment ago.
    """
    from drctl.reconcile.guards import Guard, Override, check_clusters
    from drctl.reconcile.planning import build_plan
    from drctl.reconcile.policy import Action, Policies
    from drctl.reconcile.sight import look

    with wiring.both_readers(link) as (source, target):
        sight = look(source, target, gap.partitions)
    check_clusters(gap, sight)
    overrides = tuple(Override(guard, _REASON) for guard in Guard if guard.overridable)
    policies = Policies(everywhere=Action.EXPORT, conflicting=Action.EXPORT)
    plan = build_plan(gap, policies, rows, sight, {}, overrides)
    if plan.blocked:
        raise Refused(
            f"nothing was exported: {plan.blocked[0].reason}", "see what moved, and run it again"
        )
    return plan, sight
