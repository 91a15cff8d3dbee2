"""The output of `drctl connect`: connectors, plans and results."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from drctl.connectors import applying, recovery_plan
from drctl.connectors.applying import Export, Kept, Line, OffsetsPlan
from drctl.connectors.diagnosis import ConnectorHealth
from drctl.connectors.recovery_plan import Backoff, RecoverPlan
from drctl.connectors.results import OffsetsResult, RemedyResult, Restarted
from drctl.model.replication import Connector
from drctl.model.text import plural
from drctl.views.text import duration, number, plain, sentence
from drctl.views.view import (
    MOST,
    Part,
    Text,
    counted,
    heading,
    listing,
    notes,
    section,
    table,
    view,
    why,
)


@view
def status_table(clusters: Sequence[ConnectorHealth]) -> Iterator[Part]:
    """Show every connector, with the cause of each failure."""
    for each in clusters:
        yield from _connect_cluster(each)


def _connect_cluster(health: ConnectorHealth) -> Iterator[Part]:
    if health.silent:
        yield Text(f"Connect {plain(health.workers)}: {sentence(health.silent)}", "red")
        return
    failed = {found.connector.name for found in health.findings}
    count = plural(len(health.connectors), "connector")
    state = f"{len(failed)} of {count} failed" if failed else f"{count}, none failed"
    yield Text(f"Connect {plain(health.workers)}: {state}", "bold")
    yield from listing(
        health.connectors, _connector_cells, "Connector", "Kind", "State", "Tasks", "Class"
    )
    yield from _retries(health)
    for connector, part, found in health.findings[:MOST]:
        yield Text(f"\n{plain(connector.name)}, {part.name}: {found.advice.message}", "bold")
        yield Text(f"  {sentence(found.evidence)}", "dim")
        yield Text(f"  Fix: {found.advice.remedy}")
    for connector, part in health.unassigned[:MOST]:
        message = f"{plain(connector.name)}, {part.name}: UNASSIGNED: no worker runs it"
        yield Text(f"\n{message}", "yellow")


def _retries(health: ConnectorHealth) -> Iterator[Part]:
    """What connectors retry by themselves; those with equal settings share a line."""
    alike: dict[str, list[str]] = {}
    for name, settings in health.retries.items():
        alike.setdefault(", ".join(each.words for each in settings), []).append(name)
    lines = [
        f"  {plain(', '.join(names))}: {plain(words)}" for words, names in alike.items() if words
    ]
    if lines:
        yield from section("Retry and backoff settings of the connectors:", lines[:MOST])


def _connector_cells(each: Connector) -> tuple[str, ...]:
    states = Counter(part.state for part in each.parts[1:])
    tasks = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    plugin = plain(each.plugin.rpartition(".")[2])
    return plain(each.name), each.kind, each.state, tasks or "none", plugin


_OVERRIDE = Text("  To override: --override cause=REASON")


_RECOVERY = {
    recovery_plan.Action.RESTART: "to restart",
    recovery_plan.Action.REMEDY: "to remedy",
    recovery_plan.Action.NOTHING: "unchanged",
    recovery_plan.Action.REFUSE: "refused",
}
_WRITE = {
    applying.Action.WRITE: "to write",
    applying.Action.KEEP: "already set",
    applying.Action.REFUSE: "refused",
}


@view
def recover_plan_table(plan: RecoverPlan, backoff: Backoff, execute: str) -> Iterator[Part]:
    """Show the plan, and the command that executes it."""
    actions = counted(_RECOVERY[line.action] for line in plan.lines)
    yield Text(f"Plan for Connect {plain(plan.workers)}: {actions}", "bold")
    yield from notes((), plan.overrides.items())
    for line in plan.lines:
        cause = f": {line.explained.advice.message}" if line.explained else ""
        yield heading(f"{plain(line.connector.name)}, {_RECOVERY[line.action]}{cause}")
        if line.explained:
            yield Text(f"  {sentence(line.explained.evidence)}", "dim")
        for count, step in enumerate(line.steps, 1):
            yield Text(f"  {count}. {plain(step)}")
        if line.consequence:
            yield Text(f"  Impact: {sentence(line.consequence)}", "yellow")
        if line.refused:
            yield Text(f"  Blocked (cause): {sentence(line.refused)}", "yellow")
            yield _OVERRIDE
    if plan.restarted:
        *_, last = backoff.rows()
        total = duration(last.total_seconds)
        yield Text(
            f"\nAt most {plural(last.attempt, 'restart')}, with pauses of"
            f" {backoff.initial_s:g} s to"
            f" {backoff.maximum_s:g} s, {total} in all"
        )
    if plan.acting:
        yield from section("Nothing was changed. To execute:", [plain(execute)])
    else:
        yield heading("Nothing to do.")


@view
def recover_table(
    plan: RecoverPlan, attempts: Sequence[Restarted], remedy_result: RemedyResult | None
) -> Iterator[Part]:
    """Show the result of a recovery."""
    endings = counted(each.ending.value for each in attempts)
    what = remedy_result.message if remedy_result else endings
    yield Text(f"Connect {plain(plan.workers)}: {sentence(what)}", "bold")
    yield from notes((), plan.overrides.items())
    for each in attempts:
        message = f"{plural(each.attempts, 'restart')}, {each.ending}"
        yield Text(f"  {plain(each.name)}: {message}")
        if each.response:
            yield Text(f"    {sentence(each.response)}", "dim")
        if each.explained and each.ending != "running":
            yield Text(f"    {each.explained.advice.message}; {each.explained.advice.remedy}")
    for step in remedy_result.done if remedy_result else ():
        yield Text(f"  done: {sentence(step)}")
    for line in plan.refused:
        name, cause = plain(line.connector.name), sentence(line.refused)
        yield Text(f"  {name}: blocked (cause): {cause}", "yellow")
        yield _OVERRIDE


@view
def export_table(export: Export, file: str) -> Iterator[Part]:
    """Show the result of an export."""
    count = plural(len(export.connectors), "connector")
    yield Text(f"Source offsets of {count} of Connect {plain(export.workers)}", "bold")
    columns = ("Connector", "Kind", "State", "Offsets", "Stored in")
    yield table(map(_kept_cells, export.connectors[:MOST]), *columns)
    for each in export.connectors:
        if each.unread:
            yield Text(f"{plain(each.name)}: {sentence(each.unread)}", "yellow")
    yield Text(f"\nSaved: {plain(file)}")


def _kept_cells(each: Kept) -> tuple[str, ...]:
    where = f"group {plain(each.group)}" if each.group else "Connect's offsets"
    return plain(each.name), each.kind, each.state, number(len(each.offsets)), where


@view
def offsets_plan_table(plan: OffsetsPlan, execute: str) -> Iterator[Part]:
    """Show the plan to write source offsets."""
    actions = counted(_WRITE[line.action] for line in plan.lines)
    yield Text(f"Plan for Connect {plain(plan.workers)}: {actions}", "bold")
    yield Text(f"from {plain(plan.origin)}", "dim")
    yield from notes((), plan.overrides.items())
    shown = [*plan.refused, *plan.writes]
    yield from listing(shown, _line_cells, "Connector", "Partition", "From", "To", "What")
    yield from why(sentence(line.reason) for line in plan.lines if line.reason)
    if plan.writes:
        yield from section("Nothing was written. To execute:", [plain(execute)])
    else:
        yield heading("Nothing to write.")


@view
def offsets_result_table(result: OffsetsResult, undo: str) -> Iterator[Part]:
    """Show the result of writing source offsets."""
    outcomes = counted(each.outcome for each in result.results)
    yield Text(f"Connect {plain(result.plan.workers)}: {outcomes}", "bold")
    cells = [
        (plain(each.line.connector), _json(each.line.partition), _json(each.now), each.outcome)
        for each in result.results
    ]
    yield from listing(cells, tuple, "Connector", "Partition", "Now", "What")
    yield from why(sentence(each.reason) for each in result.results if each.reason)
    if undo:
        yield from section("To restore the previous offsets:", [plain(undo)])


def _line_cells(line: Line) -> tuple[str, ...]:
    what = _WRITE[line.action] + (f" ({line.precheck})" if line.precheck else "")
    places = map(_json, (line.partition, line.before, line.to))
    return plain(line.connector), *places, what


def _json(value: Mapping[str, Any] | None) -> str:
    return "-" if value is None else plain(json.dumps(value, sort_keys=True, ensure_ascii=False))
