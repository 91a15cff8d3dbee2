"""Repeated events for a terminal; all words come from `drctl.report`, nothing is rich markup."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from drctl.model.event_duplicates import EventDuplicates, PartitionEvents
from drctl.report import event_lines
from drctl.report.printable import number, plain, plural

WORST = 10
_STYLES = {0: "bold green", 1: "bold red", 5: "bold yellow"}
_NUMBERS = ("Part.", "Events", "Again", "Tombstones", "Unknown", "Offsets")


def event_table(result: EventDuplicates) -> RenderableType:
    """What was found, the worst partitions first."""
    return Group(*_parts(result))


def _parts(result: EventDuplicates) -> Iterator[RenderableType]:
    yield Text(event_lines.verdict(result), style=_STYLES[result.exit_code])
    yield Text(event_lines.circumstances(result), style="dim")
    worst = sorted(
        (each for each in result.partitions if each.counts.repeated or each.counts.unidentified),
        key=lambda each: (-each.counts.repeated, -each.counts.unidentified),
    )
    if worst:
        yield from (Text(""), _table(worst[:WORST]))
        if len(worst) > WORST:
            more = plural(len(worst) - WORST, "more partition")
            yield Text(f"  and {more}, all in --output json", style="dim")
    for each in [each for each in worst if each.first][:WORST]:
        yield Text(f"  {event_lines.first(each)}")
    for line in event_lines.unknown(result):
        yield Text(line, style="yellow")


def _table(worst: Sequence[PartitionEvents]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 0, 0, 2))
    table.add_column("Topic", overflow="fold")
    for name in _NUMBERS:
        table.add_column(name, justify="right", no_wrap=True)
    for each in worst:
        counts = each.counts
        numbers = (counts.events, counts.repeated, counts.tombstones, counts.unidentified)
        row = (plain(each.topic), str(each.partition), *map(number, numbers))
        table.add_row(*map(Text, (*row, event_lines.where(each))))
    return table
