"""The end of a run for a terminal; nothing of what clusters say is rich markup."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from drctl.report import run_known, run_lines, run_next, run_words
from drctl.report.leaving_lines import leaving_told
from drctl.report.printable import sentence
from drctl.report.run_data import ReportData, Standing
from drctl.report.run_words import Tone

_STYLES = {Tone.FINE: "bold green", Tone.FOUND: "bold yellow", Tone.INCOMPLETE: "bold red"}
_MOST = 20


def run_table(data: ReportData, page: str | None) -> RenderableType:
    """The verdict, the figures, the steps, what is known and not, and what to do."""
    return Group(*_parts(data, page))


def _parts(data: ReportData, page: str | None) -> Iterator[RenderableType]:
    yield Text(run_words.verdict(data), style=_STYLES.get(run_words.tone(data), "bold"))
    figures = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for figure in run_lines.figures(data):
        figures.add_row(Text(figure.name), Text(figure.value, "bold"), Text(figure.how, "dim"))
    yield figures
    yield Text("\nSteps", style="bold")
    steps = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for row in run_lines.step_rows(data):
        style = "bold red" if row.bad else ""
        words = (str(row.number), row.id, row.became, row.seconds, row.told)
        steps.add_row(*(Text(word, style) for word in words))
    yield steps
    named = run_lines.named(data)
    yield from _list("Named", (*named[:_MOST], *_more(len(named))))
    yield from _list("Known", run_known.known(data))
    yield from _list("Unknown", run_known.unknown(data))
    if data.ending.standing is not Standing.DONE:
        yield from _list("Clients that are connected to the source", leaving_told(data))
    evidence = tuple(map(sentence, data.rpo.evidence))
    yield from _list("What the estimate of the loss rests on", evidence)
    yield Text("\nDo now", style="bold")
    for number, step in enumerate(run_next.next_steps(data), 1):
        yield Text(f"  {number}. {step.what} {step.why}")
        if step.command:
            yield Text(f"     {step.command}", style="bold")
    if page:
        yield Text(f"\nPage: {page}")


def _more(count: int) -> tuple[str, ...]:
    return (f"and {count - _MOST} more: the report names all",) if count > _MOST else ()


def _list(title: str, lines: tuple[str, ...]) -> Iterator[RenderableType]:
    if lines:
        yield Text(f"\n{title}", style="bold")
        for line in lines:
            yield Text(f"  - {line}")
