"""`drctl gap --view truncation --export`: what is nowhere else, in files, before it is gone."""

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.cli import wiring
from drctl.cli.console import console
from drctl.cli.reconcile import wiring as reconcile_wiring
from drctl.model.errors import Refused
from drctl.model.gap import RecordClass
from drctl.model.topology import PartitionOffsets

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.gap import GapResult
    from drctl.reconcile.gap_result import FoundGap
    from drctl.reconcile.planning import ReconcilePlan
    from drctl.reconcile.rows import WantedRows
    from drctl.reconcile.sight import Sight

_REASON = "--export takes what there is"
_FIRST = (RecordClass.UNREPLICATED.value,)
_REST = (RecordClass.SUPERSEDED.value, RecordClass.EXPIRED.value)


def exported(
    result: "GapResult",
    config: "Config",
    link: "Link",
    folder: Path,
    to: Path,
    *,
    others: bool = False,
) -> "GapResult":
    """The result with what was exported of it, as `drctl reconcile --policy export` does it.

    Args:
        folder: of the result.
        to: of the export.
        others: whether superseded and expired records are exported, too, to a folder within.

    Raises:
        DrctlError: not all of it could be exported.
    """
    from drctl.model.truncation import Export
    from drctl.reconcile.gap_result import others_of, read_gap

    gap = read_gap((folder / "gap.json").read_text(encoding="utf-8"), str(folder))
    kept, gone, since = _Part(config, link, folder, gap, "records", to, _FIRST).export()
    more: int | None = None
    more_gone = 0
    if others:
        rest = _Part(config, link, folder, others_of(gap, result), "others", to / "others", _REST)
        more, more_gone, since = rest.export()
    if lost := gone + more_gone:
        console().warn(f"{lost} of the records were gone before they could be exported")
    if since:
        console().warn(f"{since} offsets came to the source since the comparison: not exported")
    assert result.truncation is not None
    done = Export(str(to), kept, gone, more, more_gone, since)
    return replace(result, truncation=replace(result.truncation, export=done))


@dataclass(frozen=True, slots=True)
class _Part:
    """An export of its own.

    Attributes:
        folder: of the gap result.
        gap: what it found, counting the records of this part only.
        name: of the folder in it that lists them.
        to: where they go.
        classes: of these records.
    """

    config: "Config"
    link: "Link"
    folder: Path
    gap: "FoundGap"
    name: str
    to: Path
    classes: tuple[str, ...]

    def export(self) -> tuple[int, int, int]:
        """How many were exported, how many were gone, and how many offsets came since.

        Raises:
            DrctlError: not all of it could be exported.
        """
        from drctl.reconcile import journal as journals
        from drctl.reconcile.executing import Execution

        began = datetime.now(UTC)
        run = began.strftime("%Y%m%dT%H%M%S.%fZ")
        with (
            console().task(f"exporting {' and '.join(self.classes)} records") as task,
            reconcile_wiring.wanted_rows(self.gap, self.folder, self.name) as rows,
            reconcile_wiring.journal(self.config, run) as journal,
        ):
            plan, sight = _plan(self.link, self.gap, rows)
            journal.append([journals.began(run, plan, began)])
            execution = Execution(
                plan,
                rows,
                reconcile_wiring.source_log(self.link),
                sight,
                None,
                reconcile_wiring.exporter(self.to, self.gap, self.classes),
                journal,
                time.monotonic,
                lambda done, total: task.update(done=done, total=total),
            )
            execution.run()
            journal.append([journals.ended("done", datetime.now(UTC))])
        gone = sum(each.records for each in execution.gone.values())
        kept = sum(each.records for each in execution.counts.values())
        return kept, gone, appended(self.gap, sight)


def appended(gap: "FoundGap", sight: "Sight") -> int:
    """How many offsets came to the source since it was compared: they are in no result."""
    logs = ((p.source_range.end, sight.source.log(p.place)) for p in gap.partitions)
    return sum(max(0, log.end - end) for end, log in logs if isinstance(log, PartitionOffsets))


def _plan(link: "Link", gap: "FoundGap", rows: "WantedRows") -> "tuple[ReconcilePlan, Sight]":
    """All of these records, whatever stands against acting upon a part of them.

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
