"""What happens to clients that are connected to a source that still runs: notes of a plan."""

from collections.abc import Mapping
from dataclasses import dataclass

from drctl.engine.kind import Kind, Trait
from drctl.model.document import Name
from drctl.model.plan import Plan, Step
from drctl.steps.registry import KINDS
from drctl.views.text import plain, sentence

_NOWHERE = (
    "drctl switches no endpoint: redirect clients to {target} yourself; while {source} is up,"
    " clients stay connected to {source} until they are restarted or its listener is closed"
)


@dataclass(frozen=True, slots=True)
class LeavingRow:
    """The note of a step about clients that are connected to the source.

    Attributes:
        step: null if no step of the plan moves them.
    """

    step: Name | None
    message: Name


def leaving_rows(plan: Plan, kinds: Mapping[str, Kind] = KINDS) -> tuple[LeavingRow, ...]:
    """Return the notes in the order of the steps; none if the plan does not enable writes."""
    if not _with(Trait.ENABLES_WRITES, plan, kinds):
        return ()
    nowhere = _NOWHERE.format(source=plan.source, target=plan.target)
    rows = [] if _with(Trait.SWITCHES, plan, kinds) else [LeavingRow(None, nowhere)]
    for step in plan.steps:
        words = kinds[step.kind].describe(step.settings).clients if step.kind in kinds else ""
        if words:
            rows.append(LeavingRow(step.id, words))
    return tuple(rows)


def leaving_lines(plan: Plan) -> tuple[str, ...]:
    """Format the notes as printable lines."""
    return tuple(
        f"{plain(row.step or 'no endpoint')}: {sentence(row.message)}" for row in leaving_rows(plan)
    )


def _with(trait: Trait, plan: Plan, kinds: Mapping[str, Kind]) -> list[Step]:
    return [step for step in plan.steps if step.kind in kinds and trait in kinds[step.kind].traits]
