"""What `doctor --fix` would change, for a terminal; nothing of what clusters say is rich markup."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from drctl.checks.fixing_guard import GUARD
from drctl.model.finding import Finding, Status
from drctl.model.plan import Plan
from drctl.report.printable import plain, plural, sentence


def fix_table(
    plan: Plan, findings: Sequence[Finding], against: Sequence[str], execute: str
) -> RenderableType:
    """The verdict, every change, what is left and why, and what to type."""
    failing = [each for each in findings if each.status is Status.FAIL]
    changes = [change for step in plan.steps for change in step.settings.get("changes", ())]
    left = [each for each in findings if each.status is Status.WARN]
    unseen = [each for each in findings if each.status is Status.NOT_CHECKED]
    todo = tuple(_what_to_do(changes, left, against, failing, execute))
    return Group(*_parts(plan, changes, left, unseen, against, todo))


def _parts(
    plan: Plan,
    changes: Sequence[Mapping[str, Any]],
    left: Sequence[Finding],
    unseen: Sequence[Finding],
    against: Sequence[str],
    todo: Sequence[str],
) -> Iterator[RenderableType]:
    yield _verdict(plan, changes, left, against)
    if changes:
        yield Text(f"\nWould be changed on {plain(plan.target)}", style="bold")
        yield _table(changes)
    if left:
        yield Text("\nLeft to a person", style="bold")
        for each in left:
            yield from _told(each)
    if unseen:
        yield Text("\nBeyond this link, or not compared", style="bold")
        for each in unseen:
            yield from _told(each)
    yield Text("\nDo now", style="bold")
    for line in todo:
        yield Text(f"  {line}")


def _verdict(
    plan: Plan,
    changes: Sequence[Mapping[str, Any]],
    left: Sequence[Finding],
    against: Sequence[str],
) -> Text:
    ends = f"link {plain(plan.link)}, {plain(plan.source)} -> {plain(plan.target)}"
    counts = f"{plural(len(changes), 'change')}, {len(left)} left to a person"
    if against:
        return Text(f"Refused: {ends}; {plural(len(against), 'objection')} below", "bold red")
    if not changes and not left:
        return Text(f"Nothing differs that is looked at: {ends}", "bold green")
    return Text(f"{'Ready' if changes else 'Nothing to change'}: {ends}; {counts}", "bold yellow")


def _table(changes: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 2))
    for heading in ("What", "Now", "Then", "Why it matters in a failover"):
        table.add_column(heading, overflow="fold")
    for each in changes:
        why = sentence(each["why"])
        if each["note"]:
            why = f"{why}. Note: {sentence(each['note'])}"
        table.add_row(
            *(Text(sentence(each[name])) for name in ("what", "before", "after")), Text(why)
        )
    return table


def _told(finding: Finding) -> Iterator[Text]:
    yield Text(f"  {sentence(finding.subject)}")
    for name in ("reason", "cost", "cure"):
        if text := getattr(finding, name):
            label = {"reason": "why", "cost": "cost", "cure": "by hand"}[name]
            yield Text(f"      {label}: {sentence(text)}", style="dim")


def _what_to_do(
    changes: Sequence[Mapping[str, Any]],
    left: Sequence[Finding],
    against: Sequence[str],
    failing: Sequence[Finding],
    execute: str,
) -> Iterator[str]:
    if against:
        yield from (f"{sentence(each)}." for each in against)
        yield from (f"Cure: {sentence(each.cure)}." for each in failing if each.cure)
        if any(each.check == GUARD for each in failing):
            yield f"Or, where that is wrong: --override {GUARD}=REASON"
    elif changes:
        yield f"Nothing has been changed. To carry it out: {plain(execute)}"
    elif left:
        yield "Nothing here is for drctl to change: see above for what a person would type."
    else:
        yield "Nothing."
