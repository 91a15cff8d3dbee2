"""Draws the parts of a view with Rich; text from clusters is never markup."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text as RichText

from drctl.views.text import COMMANDS
from drctl.views.view import Cell, Items, Table, Text

_WIDE = 140
"""Minimum width for all columns of a table with folded columns."""


@singledispatch
def drawn(part: Any) -> RenderableType:
    """Convert a part to what Rich draws; Rich's own objects are not changed."""
    found: RenderableType = part
    return found


@drawn.register(str)
@drawn.register(Text)
def _line(part: Cell) -> RichText:
    line = _cell(part)
    if line.plain.lstrip().startswith(COMMANDS):
        # The terminal wraps it, so that it can be pasted.
        line.no_wrap, line.overflow = True, "ignore"
    return line


def _cell(part: Cell) -> RichText:
    text, style, head = Text(part) if isinstance(part, str) else part
    return RichText.assemble((head, style), text) if head else RichText(text, style)


@drawn.register
def _table(part: Table) -> RenderableType:
    return _Folding(part) if part.folded else _grid(part)


@dataclass(frozen=True, slots=True)
class _Folding:
    """A table that is drawn with fewer columns on a narrow terminal."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RichTable]:
        narrow = options.max_width < _WIDE
        yield _grid(_folded(self.table) if narrow else replace(self.table, folded=()))


def _folded(part: Table) -> Table:
    """Put the folded cells below the one before them, each with the name of its column."""
    first = len(part.columns) - len(part.folded)
    rows = []
    for row in map(tuple, part.rows):
        *kept, (text, style, _) = (Text(c) if isinstance(c, str) else c for c in row[:first])
        for name, cell in zip(part.folded, row[first:], strict=True):
            if below := cell if isinstance(cell, str) else cell.text:
                text += f"\n{name}: {below}"
        rows.append((*kept, Text(text, style)))
    return replace(part, rows=rows, columns=part.columns[:first], folded=())


def _grid(part: Table) -> RichTable:
    padding = (0, 0, 0, 2) if part.indented else (0, 2, 0, 0)
    table = RichTable(box=None, header_style="dim", padding=padding, show_header=bool(part.columns))
    rows = [tuple(row) for row in part.rows]
    for place in range(len(part.columns) or len(rows[0] if rows else ())):
        name = part.columns[place] if part.columns else ""
        if name in part.numbers or place in part.numbers:
            table.add_column(name, justify="right", no_wrap=True)
        else:
            table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row))
    return table


@drawn.register
def _items(part: Items) -> Group:
    lines: list[RenderableType] = []
    for place, line in enumerate(part.lines, 1):
        text, *commands = line.split("\n")
        grid = RichTable.grid(padding=(0, 1))
        grid.add_column(width=4, justify="right")
        grid.add_column(overflow="fold")
        grid.add_row(f"{place}." if part.numbered else "-", RichText(text))
        lines += [grid, *(_line(f"     {command}") for command in commands)]
    return Group(*lines)
