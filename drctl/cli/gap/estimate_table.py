"""An estimate for a terminal; all words come from `drctl.report`, nothing is rich markup."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from drctl.model.estimate import EstimateResult
from drctl.report import estimate_words as words
from drctl.report.printable import number, plain, plural, utc

WORST = 10
TOLD = 3
BLIND = 10


def estimate_table(result: EstimateResult) -> RenderableType:
    """What a tired person needs, in 80 columns and up; what to do stands last, by the prompt."""
    return Group(*_parts(result))


def _parts(result: EstimateResult) -> Iterator[RenderableType]:
    yield Text(words.verdict(result), style="bold yellow")
    yield Text(words.circumstances(result), style="dim")
    rows = words.worst(result)
    if rows:
        yield from (_title("Since when"), _list([words.begin(result, *r) for r in rows[:TOLD]]))
        yield from (_title("Worst partitions"), _worst(rows[:WORST]))
        if len(rows) > WORST:
            yield Text(f"  and {plural(len(rows) - WORST, 'more partition')}", style="dim")
    if known := words.known(result):
        yield from (_title("Also seen"), _list(known))
    yield from (_title("Uncertain"), _list(words.uncertain(result)))
    if blind := words.not_compared(result):
        rest = [f"and {number(len(blind) - BLIND)} more"] if len(blind) > BLIND else []
        yield from (_title("Not compared"), _list([*blind[:BLIND], *rest]))
    yield from (_title("Do now"), _list(words.next_steps(result), numbered=True))


def _title(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _list(items: Sequence[str], numbered: bool = False) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=4, justify="right")
    grid.add_column(overflow="fold")
    for n, item in enumerate(items, 1):
        grid.add_row(Text(f"{n}." if numbered else "-"), Text(item))
    return grid


def _worst(rows: Sequence[words.Row]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 0, 0, 2))
    table.add_column("Topic", overflow="fold")
    for name in ("Part.", "About", "At least", "At most", "Differs from (UTC)"):
        table.add_column(name, justify="right", no_wrap=True)
    for topic, found in rows:
        part = "all" if found.partition is None else str(found.partition)
        missing = found.missing
        counts = map(number, (missing.estimate, missing.at_least, missing.at_most))
        table.add_row(*map(Text, (plain(topic), part, *counts, utc(found.diverges_from))))
    return table
