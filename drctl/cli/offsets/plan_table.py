"""Plans, results and snapshots of positions for a terminal; nothing is rich markup."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from drctl.offsets.applying import ApplyPlan, Line
from drctl.offsets.results import WRITTEN, ApplyResult
from drctl.offsets.snapshot import Snapshot
from drctl.report.printable import number, plain, plural, sentence

MOST = 100
"""Lines without a finding that are shown; what is refused or failed is shown to the last."""

_NUMBERS = ("Part.", "From", "To", "Re-reads", "Skips")


def plan_table(plan: ApplyPlan, execute: str) -> RenderableType:
    """What would be done; the command line that does it stands last, by the prompt."""
    return Group(*_plan_parts(plan, execute))


def result_table(result: ApplyResult, undo: str) -> RenderableType:
    """What was done; what was not is named to the last position."""
    return Group(*_result_parts(result, undo))


def snapshot_table(snapshot: Snapshot, file: str) -> RenderableType:
    """What a snapshot holds, by protocol."""
    return Group(*_snapshot_parts(snapshot, file))


def _plan_parts(plan: ApplyPlan, execute: str) -> Iterator[RenderableType]:
    counted = _counted((action.value, count) for action, count in plan.counts.items())
    yield Text(f"Plan for cluster {plain(plan.cluster)}: {counted}", style="bold")
    yield Text(f"from {plain(plan.origin)}", style="dim")
    yield from _notes(plan)
    shown = (*plan.refused, *plan.writes[:MOST])
    yield from _table([(line, line.action.value) for line in shown])
    yield from _more(len(plan.writes) - MOST)
    yield from _reasons(Counter(f"{ln.guard}: {sentence(ln.reason)}" for ln in plan.refused))
    if plan.writes:
        yield Text("\nNothing was written. To write:", style="bold")
        yield Text(f"  {plain(execute)}")
    else:
        yield Text("\nThere is nothing to write.", style="bold")


def _result_parts(result: ApplyResult, undo: str) -> Iterator[RenderableType]:
    counted = _counted((outcome.value, count) for outcome, count in result.counts.items())
    yield Text(f"Cluster {plain(result.plan.cluster)}: {counted}", style="bold")
    yield Text(f"from {plain(result.plan.origin)}, in {result.seconds:.1f} s", style="dim")
    yield from _notes(result.plan)
    written = [each for each in result.results if each.outcome in WRITTEN]
    shown = (*result.not_done, *written[:MOST])
    yield from _table([(each.line, each.outcome.value) for each in shown])
    yield from _more(len(written) - MOST)
    yield from _reasons(
        Counter(f"{each.outcome}: {sentence(each.reason)}" for each in result.not_done)
    )
    if undo:
        yield Text("\nTo put back what was there before:", style="bold")
        yield Text(f"  {plain(undo)}")


def _snapshot_parts(snapshot: Snapshot, file: str) -> Iterator[RenderableType]:
    groups = plural(len(snapshot.groups), "group")
    positions = plural(snapshot.positions, "position")
    yield Text(f"{groups} of {plain(snapshot.cluster)} with {positions}", style="bold")
    protocols = Counter(each.group.protocol.value for each in snapshot.groups)
    states = Counter(each.group.state.value for each in snapshot.groups)
    for counts in (protocols, states):
        if counts:
            yield Text(f"  {_counted(sorted(counts.items()))}", style="dim")
    if snapshot.unavailable:
        yield Text("\nNot read", style="bold")
        for name, reason in snapshot.unavailable.items():
            yield Text(f"  {plain(name)}: {sentence(reason)}")
    yield Text(f"\nSaved: {plain(file)}")


def _notes(plan: ApplyPlan) -> Iterator[Text]:
    yield from (Text(f"note: {sentence(note)}", style="yellow") for note in plan.notes)
    for each in plan.overrides:
        yield Text(f"override {each.guard}: {sentence(each.reason)}", style="yellow")


def _table(rows: Sequence[tuple[Line, str]]) -> Iterator[Table]:
    if not rows:
        return
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("Group", overflow="fold")
    table.add_column("Topic", overflow="fold")
    for name in _NUMBERS:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("What", overflow="fold")
    for line, what in rows:
        table.add_row(*map(Text, _cells(line, what)))
    yield table


def _cells(line: Line, what: str) -> Iterator[str]:
    yield plain(line.group)
    yield plain(line.partition.topic)
    yield str(line.partition.partition)
    for position in (line.before, line.to):
        yield "-" if position is None else str(position.offset)
    for bound in (line.rereads_at_most, line.skips_at_most):
        yield "?" if bound is None else number(bound)
    guards = [f"({line.guard})"] if line.guard else [f"(over {g})" for g in line.overridden]
    yield " ".join([what, *guards])


def _more(count: int) -> Iterator[Text]:
    if count > 0:
        yield Text(f"and {number(count)} more, all in --output json", style="dim")


def _reasons(counts: Counter[str]) -> Iterator[Text]:
    if counts:
        yield Text("\nWhy", style="bold")
    for reason, count in counts.most_common():
        yield Text(f"  {number(count)} x {reason}")


def _counted(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{number(count)} {name}" for name, count in counts if count) or "nothing"
