"""Drills for a terminal: the plan, the end, what was cleaned up, all that were; no rich markup."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from drctl.drill.result import Past, Result, Verdict
from drctl.views import drill_text
from drctl.views.run_words import length
from drctl.views.text import plain, plural, sentence

_STYLES = {Verdict.PASSED: "bold green", Verdict.WORSE: "bold yellow"}
_MOST = 20


def plan_table(document: dict[str, Any]) -> RenderableType:
    """What a drill would make and do; the command line that does it stands last."""
    return Group(*_plan_parts(document))


def result_table(result: Result, page: str | None) -> RenderableType:
    """The verdict, the measures, the steps, and what became of everything else."""
    return Group(*_result_parts(result, page))


def clean_table(document: dict[str, Any]) -> RenderableType:
    """What was, or would be, deleted."""
    return Group(*_clean_parts(document))


def history_table(drills: Sequence[Past], page: str | None) -> RenderableType:
    """A row for each drill."""
    if not drills:
        return Text("no drill was carried out from this state_dir")
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in drill_text.COLUMNS:
        table.add_column(name)
    for past in drills:
        style = "" if past.verdict is Verdict.PASSED else "yellow"
        table.add_row(*(Text(cell, style) for cell in drill_text.past_row(past)))
    return Group(table, Text(f"\nPage: {page}")) if page else table


def _plan_parts(document: dict[str, Any]) -> Iterator[RenderableType]:
    ends = f"{plain(document['source'])} to {plain(document['target'])}"
    fault = f", with {document['inject']}" if document["inject"] else ""
    yield Text(f"A drill over link {plain(document['link'])}, from {ends}{fault}", style="bold")
    yield Text("\nIt would make, and delete at its end", style="bold")
    scratch = document["scratch"]
    yield from _lines(f"topic {plain(n)} of the source" for n in scratch["source_topics"])
    yield from _lines(f"topic {plain(n)} of the target" for n in scratch["target_topics"])
    yield from _lines(f"group {plain(n)} of both" for n in scratch["groups"])
    yield from _lines(f"rules that deny {plain(n)} that topic" for n in scratch["principals"])
    if document["seen_within_seconds"]:
        seen = length(document["seen_within_seconds"])
        yield Text(f"  the replicator looks for new topics every {seen}", style="dim")
    yield from _steps("\nSteps of the engine", document["steps"])
    yield Text("\nLeft out, because it is a rehearsal", style="bold")
    yield from _lines(f"{plain(e['id'])}: {sentence(e['why'])}" for e in document["left_out"])
    if document["leftovers"]:
        yield Text("\nDrills that died left, and it would delete first", style="bold")
        yield from _lines(map(plain, document["leftovers"]))
    yield Text("\nNothing was made. Carry it out:", style="bold")
    yield Text(f"  {document['execute']}")


def _steps(title: str, steps: Sequence[dict[str, str]]) -> Iterator[RenderableType]:
    yield Text(title, style="bold")
    for number, step in enumerate(steps, 1):
        yield Text(f"  {number}. {plain(step['id'])}: {sentence(step['title'])}")


def _result_parts(result: Result, page: str | None) -> Iterator[RenderableType]:
    words = drill_text.VERDICTS[result.verdict]
    head = f"Drill {result.scratch.drill} over link {plain(result.link)}: {words}"
    yield Text(head, style=_STYLES.get(result.verdict, "bold red"))
    measured = drill_text.figures(result)
    figures = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for figure in measured:
        figures.add_row(Text(figure.name), Text(figure.value, "bold"), Text(figure.how, "dim"))
    if measured:
        yield figures
    if result.reasons:
        yield Text("\nWhy", style="bold")
        yield from _lines(map(sentence, result.reasons))
    if result.steps:
        yield Text("\nSteps", style="bold")
        yield _step_table(result)
        yield Text("\nLeft out, because it is a rehearsal", style="bold")
        yield from _lines(f"{plain(each.id)}: {each.why}" for each in result.left_out)
    yield Text("\nEverything else", style="bold")
    yield Text(f"  {drill_text.untouched(result)}")
    if result.compared is not None:
        yield Text(f"  Not compared: {_some(result.compared.not_compared)}", style="dim")
    left = f"; {plural(len(result.left), 'thing')} still there" if result.left else ""
    yield Text(f"  {plural(len(result.deleted), 'thing')} made by the drill and deleted{left}")
    if page:
        yield Text(f"\nPage of all drills: {page}")


def _some(what: Sequence[str]) -> str:
    told = "; ".join(map(sentence, what[:_MOST]))
    return f"{told}; and more: --output json names all" if len(what) > _MOST else told


def _step_table(result: Result) -> Table:
    steps = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for number, step in enumerate(result.steps, 1):
        seconds = "" if step.seconds is None else length(step.seconds)
        told = sentence(step.detail)
        steps.add_row(*map(Text, (str(number), plain(step.id), step.status, seconds, told)))
    return steps


def _clean_parts(document: dict[str, Any]) -> Iterator[RenderableType]:
    if not document["deleted"] and not document["left"]:
        yield Text("drills left nothing behind")
        return
    if document["deleted"]:
        yield Text("Deleted", style="bold")
        yield from _lines(map(plain, document["deleted"]))
    if document["left"]:
        yield Text("Still there" if document["executed"] else "Left by drills", style="bold")
        yield from _lines(map(plain, document["left"]))
        yield Text("\nDelete it:", style="bold")
        yield Text(f"  {document['execute']}")


def _lines(lines: "Iterator[str] | map[str]") -> Iterator[RenderableType]:
    for number, line in enumerate(lines):
        if number == _MOST:
            yield Text("  and more: --output json names all")
            return
        yield Text(f"  - {line}")
