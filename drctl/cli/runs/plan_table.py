"""A plan for a terminal; nothing of what clusters say is rich markup."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from drctl.checks.causes import network_suspected
from drctl.engine.steps.commit_offsets import Foreseen
from drctl.model.finding import Finding
from drctl.model.loss import Loss
from drctl.model.plan import Plan
from drctl.report import plan_lines
from drctl.report.leaving_lines import leaving_lines
from drctl.report.plan_lines import GuardRow, PlanRow
from drctl.report.printable import sentence

_STYLES = {"fail": "bold red", "not-checked": "yellow", "warn": "yellow"}


def plan_table(
    plan: Plan,
    findings: Sequence[Finding],
    violations: Sequence[str],
    execute: str,
    loss: Loss | None = None,
    groups: Foreseen | None = None,
) -> RenderableType:
    """The verdict, what is lost, the steps, what clients do, what guards say, and what to type."""
    return Group(*_parts(plan, findings, violations, execute, loss, groups))


def _parts(
    plan: Plan,
    findings: Sequence[Finding],
    violations: Sequence[str],
    execute: str,
    loss: Loss | None,
    groups: Foreseen | None,
) -> Iterator[RenderableType]:
    if network := network_suspected(findings):
        yield Text(sentence(network), style="bold red")
    told = plan_lines.verdict(plan, findings, violations, groups)
    lacking = groups is not None and groups.without_offset
    style = "bold yellow" if lacking else "bold green"
    yield Text(told, style="bold red" if told.startswith("Refused") else style)
    if loss is not None:
        yield from _loss(loss)
    if groups is not None:
        yield from _groups(groups)
    yield Text("\nSteps", style="bold")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("", "Step", "What is done", "How it is known", "Way back"):
        table.add_column(heading, overflow="fold")
    for row in plan_lines.step_rows(plan):
        table.add_row(*_step(row))
    yield table
    if lines := leaving_lines(plan):
        yield Text("\nClients that are connected to the source", style="bold")
        yield from (Text(f"  {line}") for line in lines)
    mode = plan_lines.mode_of(plan)
    guards = plan_lines.guards_in_words(findings, plan.overrides, mode)
    yield Text(f"\nGuards: {guards}", style="bold")
    for guard in plan_lines.guard_rows(findings, plan.overrides, mode):
        yield from _guard(guard)
    yield Text("\nDo now", style="bold")
    for line in plan_lines.what_to_type(plan, findings, violations, execute):
        yield Text(f"  {line}")


def _loss(loss: Loss) -> Iterator[RenderableType]:
    words, *evidence = plan_lines.loss_lines(loss)
    yield Text("\nProbably lost, if it is carried out now", style="bold")
    yield Text(f"  {words}")
    yield from (Text(f"    {each}", style="dim") for each in evidence)


def _groups(groups: Foreseen) -> Iterator[RenderableType]:
    words, *rows = plan_lines.group_lines(groups)
    yield Text("\nWhere groups resume", style="bold")
    yield Text(f"  {words}")
    yield from (Text(f"    {each}", style="dim") for each in rows)


def _step(row: PlanRow) -> tuple[Text, ...]:
    title = f"{row.title}; {row.unless}" if row.unless else row.title
    back = row.way_back or "-"
    if row.opens:
        back = f"{back}; from here on nothing goes back by itself"
    style = "bold" if row.opens else ""
    return tuple(Text(part, style) for part in (str(row.number), row.id, title, row.proof, back))


def _guard(row: GuardRow) -> Iterator[Text]:
    head = f"  {row.status.value:<11} "
    yield Text.assemble(
        (head, _STYLES.get(row.status.value, "")), f"{row.check}: {row.subject}: {row.reason}"
    )
    if row.overridden:
        yield Text(f"{'':14}passed over: {row.overridden}", style="dim")
    elif row.cure:
        yield Text(f"{'':14}cure: {row.cure}", style="dim")
