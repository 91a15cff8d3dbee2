"""The gap analysis for a terminal; all words come from `drctl.report`, nothing is rich markup."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from drctl.model.gap import GapResult, PartitionGap
from drctl.report import gap_lines, gap_steps, gap_words
from drctl.report.gap_picture import worst_partitions
from drctl.report.printable import age, number, plain, plural, size

WORST = 10
BLIND = 10
_STYLES = {
    gap_words.Tone.FINE: "bold green",
    gap_words.Tone.FOUND: "bold red",
    gap_words.Tone.INCOMPLETE: "bold yellow",
}


def gap_table(result: GapResult) -> RenderableType:
    """What a tired person needs, in 80 columns and up; what to do stands last, by the prompt."""
    return Group(*_parts(result))


def _parts(result: GapResult) -> Iterator[RenderableType]:
    yield Text(gap_words.verdict(result), style=_STYLES[gap_words.tone(result)])
    yield Text(gap_words.circumstances(result), style="dim")
    yield from (Text(""), _lines(gap_lines.total_lines(result)))
    gaps = worst_partitions(result)
    if gaps:
        yield from (_title("Worst partitions"), _worst(result, gaps[:WORST]))
        if len(gaps) > WORST:
            yield Text(f"  and {plural(len(gaps) - WORST, 'more partition')}", style="dim")
    if gaps or result.order.inversions:
        yield from (_title("What copying would do to order"), _lines(gap_lines.order_lines(result)))
    facts = gap_words.facts(result)
    if facts:
        yield from (_title("Known"), _list(facts))
    yield from (_title("Unknown"), _list(gap_words.unknown(result)))
    blind = [f"{b.topic} ({b.partitions}): {b.reason}" for b in gap_lines.blind_spots(result)]
    if blind:
        rest = [f"and {number(len(blind) - BLIND)} more"] if len(blind) > BLIND else []
        yield from (_title("Not compared"), _list(blind[:BLIND] + rest))
    steps = [f"{step.what} {step.why}" for step in gap_steps.next_steps(result)]
    yield from (_title("Do now"), _list(steps, numbered=True))
    yield Text(f"\nPage: {plain(result.out)}/{gap_steps.PAGE}")


def _title(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _list(items: Sequence[str], numbered: bool = False) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=4, justify="right")
    grid.add_column(overflow="fold")
    for n, item in enumerate(items, 1):
        grid.add_row(Text(f"{n}." if numbered else "-"), Text(item))
    return grid


def _lines(lines: Sequence[gap_lines.Line]) -> Table:
    """Numbers with their meaning; those that are zero in one line."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, justify="right")
    grid.add_column(style="dim", overflow="fold")
    for line in lines:
        if line.count:
            grid.add_row(Text(f"  {line.name}"), Text(number(line.count)), Text(line.meaning))
    none = [line.name for line in lines if line.count == 0]
    if none:
        grid.add_row(Text("  none"), Text("0"), Text(", ".join(none)))
    return grid


def _worst(result: GapResult, gaps: Sequence[tuple[str, PartitionGap]]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 0, 0, 2))
    table.add_column("Topic", overflow="fold")
    for name in ("Part.", "Missing", "Size", "Source offsets", "Oldest"):
        table.add_column(name, justify="right", no_wrap=name != "Source offsets")
    for topic, gap in gaps:
        row = (number(gap.counts.unreplicated), size(gap.bytes), gap_lines.offsets(gap))
        old = age(gap.oldest_timestamp, result.started)
        table.add_row(*map(Text, (plain(topic), str(gap.partition), *row, old)))
    return table
