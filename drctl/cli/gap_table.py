"""Gap analyses, estimates and repeated events for a terminal; nothing is rich markup."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from drctl.cli.tables import heading, stacked
from drctl.model.estimate import EstimateResult
from drctl.model.event_duplicates import EventDuplicates, PartitionEvents
from drctl.model.gap import DoomedPartition, GapResult, PartitionGap, Truncation
from drctl.views import estimate_text, gap_text
from drctl.views.gap_page import worst_partitions
from drctl.views.text import age, number, plain, plural, size, utc

WORST = 10
TRUNCATION_WORST = 20
BLIND = 10
TOLD = 3
_EVENT_STYLES = {0: "bold green", 1: "bold red", 5: "bold yellow"}
_STYLES = {
    gap_text.Tone.FINE: "bold green",
    gap_text.Tone.FOUND: "bold red",
    gap_text.Tone.INCOMPLETE: "bold yellow",
}


@stacked
def gap_table(result: GapResult) -> Iterator[RenderableType]:
    """What a tired person needs, in 80 columns and up; what to do stands last, by the prompt."""
    yield Text(gap_text.verdict(result), style=_STYLES[gap_text.tone(result)])
    yield Text(gap_text.circumstances(result), style="dim")
    yield from (Text(""), _lines(gap_text.total_lines(result)))
    gaps = worst_partitions(result)
    if gaps:
        yield from (heading("Worst partitions"), _worst(result, gaps[:WORST]))
        yield from _more(len(gaps) - WORST)
    if gaps or result.order.inversions:
        yield from (heading("What copying would do to order"), _lines(gap_text.order_lines(result)))
    facts = gap_text.facts(result)
    if facts:
        yield from (heading("Known"), _list(facts))
    yield from (heading("Unknown"), _list(gap_text.unknown(result)))
    yield from _not_compared(
        [f"{b.topic} ({b.partitions}): {b.reason}" for b in gap_text.blind_spots(result)]
    )
    steps = [f"{step.what} {step.why}" for step in gap_text.next_steps(result)]
    yield from (heading("Do now"), _list(steps, numbered=True))
    yield Text(f"\nPage: {plain(result.out)}/{gap_text.PAGE}")


@stacked
def truncation_table(result: GapResult, found: Truncation) -> Iterator[RenderableType]:
    """What would be destroyed; how to keep it stands last, by the prompt."""
    yield Text(
        estimate_text.headline(result, found),
        style="bold red" if found.partitions else "bold green" if result.complete else "bold",
    )
    yield Text(gap_text.circumstances(result), style="dim")
    if found.partitions:
        yield from (Text(""), _procedures(result, found))
        worst = estimate_text.worst_of(found)
        yield from (Text(""), _doomed(worst[:TRUNCATION_WORST]))
        yield from _more(len(worst) - TRUNCATION_WORST, ", all in --output json")
    for each in estimate_text.unsaid(result):
        yield Text(each, style="yellow")
    if kept := estimate_text.kept(result, found):
        yield Text(f"\n{kept}")


@stacked
def estimate_table(result: EstimateResult) -> Iterator[RenderableType]:
    """What a tired person needs, in 80 columns and up; what to do stands last, by the prompt."""
    yield Text(estimate_text.verdict(result), style="bold yellow")
    yield Text(estimate_text.circumstances(result), style="dim")
    rows = estimate_text.worst(result)
    if rows:
        since = [estimate_text.begin(result, *row) for row in rows[:TOLD]]
        yield from (heading("Since when"), _list(since))
        yield from (heading("Worst partitions"), _estimates(rows[:WORST]))
        yield from _more(len(rows) - WORST)
    if known := estimate_text.known(result):
        yield from (heading("Also seen"), _list(known))
    yield from (heading("Uncertain"), _list(estimate_text.uncertain(result)))
    yield from _not_compared(estimate_text.not_compared(result))
    yield from (heading("Do now"), _list(estimate_text.next_steps(result), numbered=True))


@stacked
def event_table(result: EventDuplicates) -> Iterator[RenderableType]:
    """What was found, the worst partitions first."""
    yield Text(estimate_text.event_verdict(result), style=_EVENT_STYLES[result.exit_code])
    yield Text(estimate_text.event_circumstances(result), style="dim")
    worst = sorted(
        (each for each in result.partitions if each.counts.repeated or each.counts.unidentified),
        key=lambda each: (-each.counts.repeated, -each.counts.unidentified),
    )
    if worst:
        yield from (Text(""), _events(worst[:WORST]))
        yield from _more(len(worst) - WORST, ", all in --output json")
    for each in [each for each in worst if each.first][:WORST]:
        yield Text(f"  {estimate_text.first(each)}")
    for line in estimate_text.unknown(result):
        yield Text(line, style="yellow")


def _not_compared(lines: Sequence[str]) -> Iterator[RenderableType]:
    if lines:
        rest = [f"and {number(len(lines) - BLIND)} more"] if len(lines) > BLIND else []
        yield from (heading("Not compared"), _list([*lines[:BLIND], *rest]))


def _more(count: int, where: str = "") -> Iterator[Text]:
    if count > 0:
        yield Text(f"  and {plural(count, 'more partition')}{where}", style="dim")


def _list(items: Sequence[str], numbered: bool = False) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=4, justify="right")
    grid.add_column(overflow="fold")
    for n, item in enumerate(items, 1):
        grid.add_row(Text(f"{n}." if numbered else "-"), Text(item))
    return grid


def _lines(lines: Sequence[gap_text.Line]) -> Table:
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


def _by_topic(*numbers: str) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 0, 0, 2))
    table.add_column("Topic", overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _worst(result: GapResult, gaps: Sequence[tuple[str, PartitionGap]]) -> Table:
    table = _by_topic("Part.", "Missing", "Size", "Source offsets", "Oldest")
    # A partition may miss many ranges of offsets.
    table.columns[4].no_wrap = False
    for topic, gap in gaps:
        row = (number(gap.counts.unreplicated), size(gap.bytes), gap_text.offsets(gap))
        old = age(gap.oldest_timestamp, result.started)
        table.add_row(*map(Text, (plain(topic), str(gap.partition), *row, old)))
    return table


def _procedures(result: GapResult, found: Truncation) -> Table:
    grid = Table.grid(padding=(0, 2))
    for _ in range(3):
        grid.add_column(no_wrap=True)
    grid.add_column(style="dim", overflow="fold")
    for each in estimate_text.procedures(result, found):
        lost = plural(each.records, "record")
        grid.add_row(*map(Text, (f"  {each.name}", lost, size(each.bytes), each.meaning)))
    return grid


def _doomed(worst: Sequence[DoomedPartition]) -> Table:
    table = _by_topic("Part.", "Cut", "Only here", "Size", "Others", "Size")
    for each in worst:
        numbers = (number(each.records), size(each.bytes))
        others = (number(each.others), size(each.other_bytes))
        cut = estimate_text.offsets(each)
        row = (plain(each.topic), str(each.partition), cut, *numbers, *others)
        table.add_row(*map(Text, row))
    return table


def _estimates(rows: Sequence[estimate_text.Row]) -> Table:
    table = _by_topic("Part.", "About", "At least", "At most", "Differs from (UTC)")
    for topic, found in rows:
        part = "all" if found.partition is None else str(found.partition)
        missing = found.missing
        counts = map(number, (missing.estimate, missing.at_least, missing.at_most))
        table.add_row(*map(Text, (plain(topic), part, *counts, utc(found.diverges_from))))
    return table


def _events(worst: Sequence[PartitionEvents]) -> Table:
    table = _by_topic("Part.", "Events", "Again", "Tombstones", "Unknown", "Offsets")
    for each in worst:
        counts = each.counts
        numbers = (counts.events, counts.repeated, counts.tombstones, counts.unidentified)
        row = (plain(each.topic), str(each.partition), *map(number, numbers))
        table.add_row(*map(Text, (*row, estimate_text.where(each))))
    return table
