"""Connectors, plans and results about them for a terminal; nothing is rich markup."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from drctl.connectors.applying import Export, OffsetsPlan
from drctl.connectors.diagnosis import ConnectorHealth, Explained
from drctl.connectors.recovering import Backoff, RestartAttempt
from drctl.connectors.recovery_plan import RecoverPlan
from drctl.connectors.remedies import Treated
from drctl.connectors.writing import OffsetsResult
from drctl.views.text import duration, number, plain, plural, sentence

MOST = 100
"""Lines that are shown; all are in --output json."""


def status_table(wards: Sequence[ConnectorHealth]) -> RenderableType:
    """Every connector; what failed, in words."""
    return Group(*(part for ward in wards for part in _ward(ward)))


def recover_plan_table(plan: RecoverPlan, backoff: Backoff, execute: str) -> RenderableType:
    """What would be done; the command line that does it stands last, by the prompt."""
    return Group(*_recover_parts(plan, backoff, execute))


def recover_table(
    plan: RecoverPlan, patients: Sequence[RestartAttempt], treated: Treated | None
) -> RenderableType:
    """What was done."""
    return Group(*_recovered_parts(plan, patients, treated))


def export_table(export: Export, file: str) -> RenderableType:
    """What was saved."""
    return Group(*_export_parts(export, file))


def offsets_plan_table(plan: OffsetsPlan, execute: str) -> RenderableType:
    """Which positions would be written."""
    return Group(*_offsets_plan_parts(plan, execute))


def offsets_result_table(result: OffsetsResult, undo: str) -> RenderableType:
    """Which positions were written."""
    return Group(*_offsets_result_parts(result, undo))


def _ward(ward: ConnectorHealth) -> Iterator[RenderableType]:
    if ward.silent:
        yield Text(f"Connect {plain(ward.workers)}: {sentence(ward.silent)}", style="red")
        return
    failed = {found.connector.name for found in ward.findings}
    count = plural(len(ward.connectors), "connector")
    told = f"{len(failed)} of {count} failed" if failed else f"{count}, none failed"
    yield Text(f"Connect {plain(ward.workers)}: {told}", style="bold")
    table = _new("Connector", "Kind", "State", "Tasks", "Class")
    for each in ward.connectors[:MOST]:
        states = Counter(part.state for part in each.parts[1:])
        tasks = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        table.add_row(
            Text(plain(each.name)),
            each.kind,
            each.state,
            tasks or "none",
            Text(plain(each.plugin.rpartition(".")[2])),
        )
    yield table
    yield from _more(len(ward.connectors) - MOST)
    for connector, part, found in ward.findings[:MOST]:
        yield Text(f"\n{plain(connector.name)}, {part.name}: {found.advice.words}", style="bold")
        yield from _explained(found)
    for connector, part in ward.unassigned[:MOST]:
        words = f"{plain(connector.name)}, {part.name}: no worker has it (UNASSIGNED)"
        yield Text(f"\n{words}", style="yellow")


def _explained(found: Explained) -> Iterator[Text]:
    yield Text(f"  {sentence(found.evidence)}", style="dim")
    yield Text(f"  {found.advice.remedy}")


def _recover_parts(plan: RecoverPlan, backoff: Backoff, execute: str) -> Iterator[RenderableType]:
    counted = _counted(line.action for line in plan.lines)
    yield Text(f"Plan for Connect {plain(plan.workers)}: {counted}", style="bold")
    yield from _overrides(plan.overrides)
    for line in plan.lines:
        cause = f": {line.explained.advice.words}" if line.explained else ""
        yield Text(f"\n{plain(line.connector.name)}, {line.action}{cause}", style="bold")
        if line.explained:
            yield Text(f"  {sentence(line.explained.evidence)}", style="dim")
        for count, step in enumerate(line.steps, 1):
            yield Text(f"  {count}. {plain(step)}")
        if line.consequence:
            yield Text(f"  consequence: {sentence(line.consequence)}", style="yellow")
        if line.refused:
            yield Text(f"  refused (cause): {sentence(line.refused)}", style="yellow")
    if plan.restarted:
        *_, last = backoff.rows()
        total = duration(last.total_s)
        yield Text(
            f"\n{plural(last.attempt, 'restart')} at most, pauses from {backoff.initial_s:g} s to"
            f" {backoff.maximum_s:g} s, {total} in all"
        )
    if plan.acting:
        yield Text("\nNothing was done. To do it:", style="bold")
        yield Text(f"  {plain(execute)}")
    else:
        yield Text("\nThere is nothing to do.", style="bold")


def _recovered_parts(
    plan: RecoverPlan, patients: Sequence[RestartAttempt], treated: Treated | None
) -> Iterator[RenderableType]:
    counted = _counted(each.ending.value for each in patients if each.ending)
    told = treated.words if treated else counted
    yield Text(f"Connect {plain(plan.workers)}: {sentence(told)}", style="bold")
    yield from _overrides(plan.overrides)
    for each in patients:
        words = f"{plural(each.attempts, 'restart')}, {each.ending}"
        yield Text(f"  {plain(each.name)}: {words}")
        if each.said:
            yield Text(f"    {sentence(each.said)}", style="dim")
        if each.explained and each.ending != "running":
            yield Text(f"    {each.explained.advice.words}; {each.explained.advice.remedy}")
    for step in treated.done if treated else ():
        yield Text(f"  done: {sentence(step)}")
    for line in plan.refused:
        name, why = plain(line.connector.name), sentence(line.refused)
        yield Text(f"  {name}: refused (cause): {why}", style="yellow")


def _export_parts(export: Export, file: str) -> Iterator[RenderableType]:
    count = plural(len(export.connectors), "connector")
    yield Text(f"Positions of {count} of Connect {plain(export.workers)}", style="bold")
    table = _new("Connector", "Kind", "State", "Positions", "Where")
    for each in export.connectors[:MOST]:
        where = f"group {each.group}" if each.group else "Connect's offsets"
        table.add_row(
            Text(plain(each.name)),
            each.kind,
            each.state,
            number(len(each.positions)),
            Text(plain(where)),
        )
    yield table
    for each in export.connectors:
        if each.unread:
            yield Text(f"{plain(each.name)}: {sentence(each.unread)}", style="yellow")
    yield Text(f"\nSaved: {plain(file)}")


def _offsets_plan_parts(plan: OffsetsPlan, execute: str) -> Iterator[RenderableType]:
    counted = _counted(line.action for line in plan.lines)
    yield Text(f"Plan for Connect {plain(plan.workers)}: {counted}", style="bold")
    yield Text(f"from {plain(plan.origin)}", style="dim")
    yield from _overrides({guard.value: why for guard, why in plan.overrides.items()})
    shown = [*plan.refused, *plan.writes][:MOST]
    table = _new("Connector", "Partition", "From", "To", "What")
    for line in shown:
        what = f"{line.action} ({line.guard})" if line.guard else line.action
        cells = (_json(line.partition), _json(line.before), _json(line.to))
        table.add_row(Text(plain(line.connector)), *map(Text, cells), what)
    if shown:
        yield table
    yield from _more(len(plan.refused) + len(plan.writes) - MOST)
    yield from _why(line.reason for line in plan.lines)
    if plan.writes:
        yield Text("\nNothing was written. To write:", style="bold")
        yield Text(f"  {plain(execute)}")
    else:
        yield Text("\nThere is nothing to write.", style="bold")


def _offsets_result_parts(result: OffsetsResult, undo: str) -> Iterator[RenderableType]:
    counted = _counted(each.outcome for each in result.results)
    yield Text(f"Connect {plain(result.plan.workers)}: {counted}", style="bold")
    table = _new("Connector", "Partition", "Now", "What")
    for each in result.results[:MOST]:
        cells = (_json(each.line.partition), _json(each.now))
        table.add_row(Text(plain(each.line.connector)), *map(Text, cells), each.outcome)
    yield table
    yield from _more(len(result.results) - MOST)
    yield from _why(each.reason for each in result.results)
    if undo:
        yield Text("\nTo put back what was there before:", style="bold")
        yield Text(f"  {plain(undo)}")


def _why(reasons: Iterable[str]) -> Iterator[Text]:
    counts = Counter(reason for reason in reasons if reason)
    if counts:
        yield Text("\nWhy", style="bold")
    for reason, count in counts.most_common():
        yield Text(f"  {number(count)} x {sentence(reason)}")


def _overrides(overrides: Mapping[str, str]) -> Iterator[Text]:
    for guard, reason in overrides.items():
        yield Text(f"override {guard}: {sentence(reason)}", style="yellow")


def _json(value: Mapping[str, Any] | None) -> str:
    return "-" if value is None else plain(json.dumps(value, sort_keys=True, ensure_ascii=False))


def _new(*names: str) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def _more(count: int) -> Iterator[Text]:
    if count > 0:
        yield Text(f"and {number(count)} more, all in --output json", style="dim")


def _counted(words: Iterable[str]) -> str:
    return ", ".join(f"{number(n)} {word}" for word, n in Counter(words).items()) or "nothing"
