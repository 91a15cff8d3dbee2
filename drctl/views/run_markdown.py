"""The report of a run as Markdown, for wikis and tickets; text from clusters is never markup."""

import re
from collections.abc import Iterable, Iterator

from drctl.views import run_words
from drctl.views.run_data import ReportData
from drctl.views.run_report import StepView, report
from drctl.views.text import number
from drctl.views.view import Cell, Items, Part, Table, Text

# Markup, references, and text that some renderers turn into links.
_SPECIAL = re.compile(r"([\\`*_\[\]#|~$]|:(?=//)|(?<=www)\.)|([<>&@])", re.IGNORECASE)
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;"}


def render(data: ReportData) -> str:
    """Render the report as Markdown."""
    return "\n".join(_lines(data)) + "\n"


def text(printable: str) -> str:
    """Escape printable text: no links, no markup, no mentions."""
    return _SPECIAL.sub(lambda m: f"\\{m[1]}" if m[1] else _ENTITIES[m[2]], printable)


def code(printable: str) -> str:
    """Quote printable text as code, whatever backticks it has."""
    longest = max((len(run) for run in re.findall("`+", printable)), default=0)
    if not longest:
        return f"`{printable}`"
    fence = "`" * (longest + 1)
    return f"{fence} {printable} {fence}"


def _lines(data: ReportData) -> Iterator[str]:
    shown = report(data)
    repeated = shown.headline.startswith(f"{shown.chip} at ")
    yield f"# {text(shown.headline if repeated else f'{shown.chip}: {shown.headline}')}"
    yield from ("", text(shown.circumstances))
    yield from _part(Table(((f.name, f.value, f.how) for f in shown.figures), ("", "", "Source")))
    do_now = (
        f"{place}. **{text(step.what)}** {text(step.why)}"
        + (f" {code(step.command)}" if step.command else "")
        for place, step in enumerate(shown.do_now, 1)
    )
    yield from _section("Do now", do_now)
    yield from _section("Known", (f"- {text(each)}" for each in shown.known))
    yield from _section("Unknown", (f"- {text(each)}" for each in shown.unknown))
    yield from _section("Steps", (line for step in shown.steps for line in _step(step)))
    for each in shown.sections:
        yield from ("", f"## {text(each.title)}")
        for part in each.parts:
            yield from _part(part)
    yield ""
    yield f"Journal: {text(run_words.journal_in_words(data))}. Plan {code(data.plan.fingerprint)}."


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    found = list(lines)
    if found:
        yield from ("", f"## {title}", "", *found)


def _part(part: Part) -> Iterator[str]:
    yield ""
    match part:
        case Items(lines):
            yield from (f"- {text(line)}" for line in lines)
        case Table(rows, columns, numbers):
            yield _row(columns)
            marks = ("---:" if place in numbers else "---" for place in range(len(columns)))
            yield f"|{'|'.join(marks)}|"
            yield from map(_row, rows)
        case Text(message):
            yield text(message)


def _row(cells: Iterable[Cell]) -> str:
    message = (cell.text if isinstance(cell, Text) else cell for cell in cells)
    return f"| {' | '.join(map(text, message))} |"


def _step(step: StepView) -> Iterator[str]:
    took = f", {step.took}" if step.took else ""
    yield f"{number(step.number)}. **{step.state}**{took}: {text(step.title)}"
    for each in step.details:
        label = f"{each.label}: " if each.label else ""
        if label or each.text:
            yield f"    - {label}{text(each.text)}"
        yield from (f"    - {text(item)}" for item in each.items)
