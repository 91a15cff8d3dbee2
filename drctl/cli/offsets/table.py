"""A translation for a terminal; nothing of what clusters say is rich markup."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from drctl.cli.offsets.explained import ROOM, told
from drctl.model.pasting import arguments
from drctl.model.translation import Translation
from drctl.offsets.translating import NEVER
from drctl.offsets.translation_json import questionable
from drctl.report.printable import number, plain, plural

if TYPE_CHECKING:
    from drctl.config.link import Link
    from drctl.offsets.link_translation import LinkTranslated

MOST_ROWS = 40
MOST_TOLD = 10

_HEADER = ("Group", "Partition", "Source", "Target", "Re-reads", "Skips", "How")


def translation_table(link: "Link", result: "LinkTranslated") -> RenderableType:
    """Totals, the rows that must be looked at, then the others, then what to do."""
    return Group(*_parts(link, result))


def _parts(link: "Link", result: "LinkTranslated") -> Iterator[RenderableType]:
    rows = [row.translation for row in result.rows]
    asked = [row for row in rows if row.blocked != NEVER]
    bad = [row for row in asked if questionable(row)]
    good = [row for row in asked if not questionable(row)]
    yield Text(_verdict(link, asked, bad), style="bold yellow" if bad else "bold green")
    yield Text(_methods(asked), style="dim")
    if result.source.silent:
        yield Text(f"{plain(link.source)} does not answer: {plain(result.source.silent)}", "yellow")
    for title, some in (("To be looked at", bad), ("Known", good)):
        if some:
            yield Text(f"\n{title}", style="bold")
            yield _Rows(some[:MOST_ROWS])
            if len(some) > MOST_ROWS:
                left = plural(len(some) - MOST_ROWS, "more row")
                yield Text(f"  and {left}; --output json has all", style="dim")
    if notes := list(_notes(result, len(rows) - len(asked))):
        yield Text("\nAlso seen", style="bold")
        yield from (_item("-", note) for note in notes)
    yield Text("\nDo now", style="bold")
    for count, step in enumerate(_steps(result, bad), 1):
        yield _item(f"{count}.", step)


def _verdict(link: "Link", asked: Sequence[Translation], bad: Sequence[Translation]) -> str:
    groups = len({row.place.group for row in asked})
    head = (
        f"{plain(link.source)} to {plain(link.target)}: {plural(len(asked), 'position')} of "
        f"{plural(groups, 'group')}"
    )
    if not asked:
        return f"{plain(link.source)} to {plain(link.target)}: no group has a position"
    if bad:
        return f"{head}, {number(len(bad))} to be looked at"
    return f"{head}, all known, none skips a record"


def _methods(rows: Sequence[Translation]) -> str:
    used = Counter(row.answer.method.value for row in rows if row.answer)
    rereads = [row.answer.rereads_at_most for row in rows if row.answer]
    known = sum(r for r in rereads if r is not None)
    by = ", ".join(f"{number(count)} by {name}" for name, count in used.most_common())
    return f"{by or 'no method has an answer'}; at most {number(known)} records are read again"


class _Rows:
    """Rows beside what is to be said of them; below them where there is no room for it."""

    def __init__(self, rows: Sequence[Translation]) -> None:
        self._rows = rows

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        lines = [(*_cells(row), _how(row)) for row in self._rows]
        columns = list(zip(_HEADER, *lines, strict=True))
        beside = sum(2 + max(map(cell_len, column)) for column in columns[:-1]) + 2
        longest = max(map(cell_len, columns[-1]))
        if options.max_width - beside >= min(longest, ROOM):
            yield _table(lines)
            return
        for group, partition, *numbers, how in lines:
            source, target, rereads, skips = numbers
            yield Text(f"  {group}, {partition}")
            said = f"{source} to {target}, re-reads {rereads}, skips {skips}: {how}"
            yield Padding(Text(said), (0, 0, 0, 6))


def _table(lines: Sequence[tuple[str, ...]]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 0, 0, 2))
    for name in _HEADER[:2]:
        table.add_column(name, no_wrap=True)
    for name in _HEADER[2:-1]:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(_HEADER[-1], overflow="fold")
    for cells in lines:
        table.add_row(*map(Text, cells))
    return table


def _cells(row: Translation) -> tuple[str, ...]:
    answer = row.answer
    return (
        plain(row.place.group),
        plain(str(row.place.partition)),
        told(row.source_offset),
        told(answer.target_offset if answer else None),
        told(answer.rereads_at_most if answer else None),
        told(answer.skips_at_most if answer else None),
    )


def _how(row: Translation) -> str:
    words = [row.blocked] if row.blocked else []
    words += row.contradictions
    if row.answer and not words:
        words.append(row.answer.method.value)
    return plain("; ".join(words))


def _notes(result: "LinkTranslated", never: int) -> Iterator[str]:
    source = result.source
    if never:
        yield f"{plural(never, 'partition')} in which a group has never committed"
    if source.elsewhere:
        yield f"{plural(source.elsewhere, 'position')} in topics that the link does not carry"
    if source.others:
        yield f"{plural(source.others, 'group')} that the link does not carry (its `groups`)"
    told = [f"{plain(g)}: {plain(r)}" for g, r in sorted(source.untranslatable.items())]
    told += [f"{plain(g)}: cannot be seen, {plain(r)}" for g, r in sorted(source.unseen.items())]
    told += [plain(reason) for reason in result.missing]
    yield from told[:MOST_TOLD]
    if len(told) > MOST_TOLD:
        yield f"and {number(len(told) - MOST_TOLD)} more"


def _steps(result: "LinkTranslated", bad: Sequence[Translation]) -> Iterator[str]:
    if bad:
        first = bad[0]
        place = first.place.partition
        where = arguments(first.place.group, place.topic, str(place.partition))
        yield (f"drctl offsets explain {where} shows what every method says of the first one")
    if result.source.silent:
        yield "groups of which nothing was noted are not in this list: see `drctl offsets track`"
    yield "drctl offsets apply shows what would be written on the target"


def _item(mark: str, text: str) -> Table:
    """A line of a list; what does not fit goes on behind the mark."""
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_row(Text(f"  {mark}"), Text(text, overflow="fold"))
    return table
