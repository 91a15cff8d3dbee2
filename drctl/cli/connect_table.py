"""Connectors, plans and results about them for a terminal; nothing is rich markup."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from drctl.cli.tables import MOST, counted, heading, more, new_table, notes, section, stacked, why
from drctl.connectors.applying import Export, OffsetsPlan
from drctl.connectors.diagnosis import ConnectorHealth
from drctl.connectors.recovery_plan import Backoff, RecoverPlan
from drctl.connectors.results import OffsetsResult, Restarted, Treated
from drctl.views.text import duration, number, plain, plural, sentence


@stacked
def status_table(clusters: Sequence[ConnectorHealth]) -> Iterator[RenderableType]:
    """Every connector; what failed, in words."""
    for each in clusters:
        yield from _connect_cluster(each)


def _connect_cluster(health: ConnectorHealth) -> Iterator[RenderableType]:
    if health.silent:
        yield Text(f"Connect {plain(health.workers)}: {sentence(health.silent)}", style="red")
        return
    failed = {found.connector.name for found in health.findings}
    count = plural(len(health.connectors), "connector")
    told = f"{len(failed)} of {count} failed" if failed else f"{count}, none failed"
    yield Text(f"Connect {plain(health.workers)}: {told}", style="bold")
    table = new_table("Connector", "Kind", "State", "Tasks", "Class")
    for each in health.connectors[:MOST]:
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
    yield from more(len(health.connectors) - MOST)
    for connector, part, found in health.findings[:MOST]:
        yield Text(f"\n{plain(connector.name)}, {part.name}: {found.advice.words}", style="bold")
        yield Text(f"  {sentence(found.evidence)}", style="dim")
        yield Text(f"  {found.advice.remedy}")
    for connector, part in health.unassigned[:MOST]:
        words = f"{plain(connector.name)}, {part.name}: no worker has it (UNASSIGNED)"
        yield Text(f"\n{words}", style="yellow")


@stacked
def recover_plan_table(
    plan: RecoverPlan, backoff: Backoff, execute: str
) -> Iterator[RenderableType]:
    """What would be done; the command line that does it stands last, by the prompt."""
    actions = counted(line.action for line in plan.lines)
    yield Text(f"Plan for Connect {plain(plan.workers)}: {actions}", style="bold")
    yield from notes((), plan.overrides.items())
    for line in plan.lines:
        cause = f": {line.explained.advice.words}" if line.explained else ""
        yield heading(f"{plain(line.connector.name)}, {line.action}{cause}")
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
        total = duration(last.total_seconds)
        yield Text(
            f"\n{plural(last.attempt, 'restart')} at most, pauses from {backoff.initial_s:g} s to"
            f" {backoff.maximum_s:g} s, {total} in all"
        )
    if plan.acting:
        yield from section("Nothing was done. To do it:", [plain(execute)])
    else:
        yield heading("There is nothing to do.")


@stacked
def recover_table(
    plan: RecoverPlan, attempts: Sequence[Restarted], treated: Treated | None
) -> Iterator[RenderableType]:
    """What was done."""
    endings = counted(each.ending.value for each in attempts)
    what = treated.words if treated else endings
    yield Text(f"Connect {plain(plan.workers)}: {sentence(what)}", style="bold")
    yield from notes((), plan.overrides.items())
    for each in attempts:
        words = f"{plural(each.attempts, 'restart')}, {each.ending}"
        yield Text(f"  {plain(each.name)}: {words}")
        if each.said:
            yield Text(f"    {sentence(each.said)}", style="dim")
        if each.explained and each.ending != "running":
            yield Text(f"    {each.explained.advice.words}; {each.explained.advice.remedy}")
    for step in treated.done if treated else ():
        yield Text(f"  done: {sentence(step)}")
    for line in plan.refused:
        name, cause = plain(line.connector.name), sentence(line.refused)
        yield Text(f"  {name}: refused (cause): {cause}", style="yellow")


@stacked
def export_table(export: Export, file: str) -> Iterator[RenderableType]:
    """What was saved."""
    count = plural(len(export.connectors), "connector")
    yield Text(f"Positions of {count} of Connect {plain(export.workers)}", style="bold")
    table = new_table("Connector", "Kind", "State", "Positions", "Where")
    for each in export.connectors[:MOST]:
        where = f"group {each.group}" if each.group else "Connect's offsets"
        table.add_row(
            Text(plain(each.name)),
            each.kind,
            each.state,
            number(len(each.offsets)),
            Text(plain(where)),
        )
    yield table
    for each in export.connectors:
        if each.unread:
            yield Text(f"{plain(each.name)}: {sentence(each.unread)}", style="yellow")
    yield Text(f"\nSaved: {plain(file)}")


@stacked
def offsets_plan_table(plan: OffsetsPlan, execute: str) -> Iterator[RenderableType]:
    """Which positions would be written."""
    actions = counted(line.action for line in plan.lines)
    yield Text(f"Plan for Connect {plain(plan.workers)}: {actions}", style="bold")
    yield Text(f"from {plain(plan.origin)}", style="dim")
    yield from notes((), plan.overrides.items())
    shown = [*plan.refused, *plan.writes][:MOST]
    table = new_table("Connector", "Partition", "From", "To", "What")
    for line in shown:
        what = f"{line.action} ({line.guard})" if line.guard else line.action
        cells = (_json(line.partition), _json(line.before), _json(line.to))
        table.add_row(Text(plain(line.connector)), *map(Text, cells), what)
    if shown:
        yield table
    yield from more(len(plan.refused) + len(plan.writes) - MOST)
    yield from why(sentence(line.reason) for line in plan.lines if line.reason)
    if plan.writes:
        yield from section("Nothing was written. To write:", [plain(execute)])
    else:
        yield heading("There is nothing to write.")


@stacked
def offsets_result_table(result: OffsetsResult, undo: str) -> Iterator[RenderableType]:
    """Which positions were written."""
    outcomes = counted(each.outcome for each in result.results)
    yield Text(f"Connect {plain(result.plan.workers)}: {outcomes}", style="bold")
    table = new_table("Connector", "Partition", "Now", "What")
    for each in result.results[:MOST]:
        cells = (_json(each.line.partition), _json(each.now))
        table.add_row(Text(plain(each.line.connector)), *map(Text, cells), each.outcome)
    yield table
    yield from more(len(result.results) - MOST)
    yield from why(sentence(each.reason) for each in result.results if each.reason)
    if undo:
        yield from section("To put back what was there before:", [plain(undo)])


def _json(value: Mapping[str, Any] | None) -> str:
    return "-" if value is None else plain(json.dumps(value, sort_keys=True, ensure_ascii=False))
