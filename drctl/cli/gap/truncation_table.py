"""`drctl gap --view truncation` for a terminal; nothing is rich markup."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from drctl.model.gap import GapResult
from drctl.model.truncation import DoomedPartition, Truncation
from drctl.report import gap_words, truncation_lines
from drctl.report.printable import number, plain, plural, size

WORST = 20


def truncation_table(result: GapResult, found: Truncation) -> RenderableType:
    """What would be destroyed; how to keep it stands last, by the prompt."""
    return Group(*_parts(result, found))


def _parts(result: GapResult, found: Truncation) -> Iterator[RenderableType]:
    yield Text(
        truncation_lines.headline(result, found),
        style="bold red" if found.partitions else "bold green" if result.complete else "bold",
    )
    yield Text(gap_words.circumstances(result), style="dim")
    if found.partitions:
        yield from (Text(""), _procedures(result, found))
        worst = truncation_lines.worst_of(found)
        yield from (Text(""), _partitions(worst[:WORST]))
        if len(worst) > WORST:
            more = plural(len(worst) - WORST, "more partition")
            yield Text(f"  and {more}, all in --output json", style="dim")
    for each in truncation_lines.unsaid(result):
        yield Text(each, style="yellow")
    if kept := truncation_lines.kept(result, found):
        yield Text(f"\n{kept}")


def _procedures(result: GapResult, found: Truncation) -> Table:
    grid = Table.grid(padding=(0, 2))
    for _ in range(3):
        grid.add_column(no_wrap=True)
    grid.add_column(style="dim", overflow="fold")
    for each in truncation_lines.procedures(result, found):
        lost = plural(each.records, "record")
        grid.add_row(*map(Text, (f"  {each.name}", lost, size(each.bytes), each.meaning)))
    return grid


def _partitions(worst: Sequence[DoomedPartition]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 0, 0, 2))
    table.add_column("Topic", overflow="fold")
    for name in ("Part.", "Cut", "Only here", "Size", "Others", "Size"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in worst:
        numbers = (number(each.records), size(each.bytes))
        others = (number(each.others), size(each.other_bytes))
        cut = truncation_lines.offsets(each)
        row = (plain(each.topic), str(each.partition), cut, *numbers, *others)
        table.add_row(*map(Text, row))
    return table
