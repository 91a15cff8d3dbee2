"""Committed offsets in a terminal: plans, results, snapshots."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from drctl.model.text import plural
from drctl.offsets.applying import Action, ApplyPlan, Line
from drctl.offsets.results import WRITTEN, ApplyResult
from drctl.offsets.snapshot import Snapshot
from drctl.views.text import number, plain, sentence
from drctl.views.view import MOST, Part, Text, heading, more, notes, section, table, view, why

_NUMBERS = ("Part.", "From", "To", "Re-reads", "Skips")
_PLANNED = {
    Action.COMMIT: "to commit",
    Action.DELETE: "to delete",
    Action.SAME: "already committed",
    Action.KEPT: "kept: a higher offset is committed",
    Action.REFUSED: "refused",
}


@view
def plan_table(plan: ApplyPlan, execute: str) -> Iterator[Part]:
    """Show the plan; the command that executes it comes last, next to the prompt."""
    counts = _in_words((_PLANNED[action], count) for action, count in plan.counts.items())
    yield Text(f"Plan for cluster {plain(plan.cluster)}: {counts}", "bold")
    yield Text(f"Source of the offsets: {plain(plan.origin)}", "dim")
    yield from _notes(plan)
    # Never truncate the list of refused or failed lines.
    shown = (*plan.refused, *plan.writes[:MOST])
    yield from _offsets([(line, line.action.value) for line in shown])
    yield from more(len(plan.writes) - MOST)
    explained = (line for line in (*plan.refused, *plan.writes) if line.reason)
    yield from why(f"{line.precheck or line.action}: {sentence(line.reason)}" for line in explained)
    if plan.writes:
        yield from section("Nothing was written. To write:", [plain(execute)])
    else:
        yield heading("Nothing to write.")


@view
def result_table(result: ApplyResult, undo: str) -> Iterator[Part]:
    """Show what was written, and every offset that was not."""
    counts = _in_words((outcome.value, count) for outcome, count in result.counts.items())
    yield Text(f"Cluster {plain(result.plan.cluster)}: {counts}", "bold")
    yield Text(
        f"Source of the offsets: {plain(result.plan.origin)}; took {result.seconds:.1f} s", "dim"
    )
    yield from _notes(result.plan)
    written = [each for each in result.results if each.commit.outcome in WRITTEN]
    shown = (*result.not_done, *written[:MOST])
    yield from _offsets([(line, commit.outcome.value) for line, commit in shown])
    yield from more(len(written) - MOST)
    yield from why(f"{b.outcome}: {sentence(b.reason)}" for _, b in result.not_done)
    if undo:
        yield from section("To roll back:", [plain(undo)])


@view
def snapshot_table(snapshot: Snapshot, file: str) -> Iterator[Part]:
    """Show what a snapshot contains."""
    groups = plural(len(snapshot.groups), "group")
    offsets = plural(snapshot.committed_offsets, "committed offset")
    yield Text(f"{plain(snapshot.cluster)}: {groups}, {offsets}", "bold")
    protocols = Counter(each.group.protocol.value for each in snapshot.groups)
    states = Counter(each.group.state.value for each in snapshot.groups)
    for counts in (protocols, states):
        if counts:
            yield Text(f"  {_in_words(sorted(counts.items()))}", "dim")
    unread = snapshot.unavailable.items()
    yield from section(
        "Not read", (f"{plain(name)}: {sentence(reason)}" for name, reason in unread)
    )
    yield Text(f"\nSaved: {plain(file)}")


def _notes(plan: ApplyPlan) -> Iterator[Text]:
    return notes(plan.notes, plan.overrides.items())


def _offsets(rows: Sequence[tuple[Line, str]]) -> Iterator[Part]:
    if rows:
        cells = (_offset_cells(line, what) for line, what in rows)
        yield table(cells, "Group", "Topic", *_NUMBERS, "What", numbers=_NUMBERS)


def _offset_cells(line: Line, what: str) -> Iterator[str]:
    yield plain(line.group)
    yield plain(line.partition.topic)
    yield str(line.partition.partition)
    for position in (line.before, line.to):
        yield "-" if position is None else str(position.offset)
    for bound in (line.rereads_at_most, line.skips_at_most):
        yield "?" if bound is None else number(bound)
    prechecks = (
        [f"({line.precheck})"] if line.precheck else [f"({g} overridden)" for g in line.overridden]
    )
    yield " ".join([what, *prechecks])


def _in_words(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{number(count)} {name}" for name, count in counts if count) or "nothing"
