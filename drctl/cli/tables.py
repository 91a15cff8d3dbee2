"""What the tables for a terminal have in common; nothing of what clusters say is rich markup."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from drctl.views.text import number, sentence

if TYPE_CHECKING:
    from drctl.views.run_lines import Figure

P = ParamSpec("P")

MOST = 100
"""Lines that are shown; all are in --output json."""


def stacked(parts: Callable[P, Iterator[RenderableType]]) -> Callable[P, Group]:
    """Has a generator of parts return them as one picture, each below the one before."""

    @wraps(parts)
    def picture(*args: P.args, **kwargs: P.kwargs) -> Group:
        return Group(*parts(*args, **kwargs))

    return picture


def heading(title: str) -> Text:
    """What begins a section, with an empty line before it."""
    return Text(f"\n{title}", style="bold")


def section(title: str, lines: Iterable[str], mark: str = "") -> Iterator[Text]:
    """A heading and its lines; nothing where there are no lines."""
    for place, line in enumerate(lines):
        if not place:
            yield heading(title)
        yield Text(f"  {mark}{line}")


def new_table(*columns: str, numbers: tuple[str, ...] = ()) -> Table:
    """A table without lines, whose text is wrapped; columns of numbers are aligned to the right."""
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in columns:
        if name in numbers:
            table.add_column(name, justify="right", no_wrap=True)
        else:
            table.add_column(name, overflow="fold")
    return table


def filled(
    rows: Iterable[Iterable[str | Text]], *columns: str, numbers: tuple[str, ...] = ()
) -> Table:
    """A table with its rows; without a header where no columns are named."""
    table, cells = new_table(*columns, numbers=numbers), [tuple(row) for row in rows]
    for _ in () if columns else cells[0] if cells else ():
        table.add_column(overflow="fold")
    table.show_header = bool(columns)
    for row in cells:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


def figures_table(figures: "Iterable[Figure]") -> Table:
    """A line for each measure."""
    return filled((each.name, Text(each.value, "bold"), Text(each.how, "dim")) for each in figures)


def more(count: int, indent: str = "") -> Iterator[Text]:
    """How many lines are not shown."""
    if count > 0:
        yield Text(f"{indent}and {number(count)} more, all in --output json", style="dim")


def counted(words: Iterable[str]) -> str:
    """`12 written, 3 refused`, in the order in which they came."""
    return ", ".join(f"{number(n)} {word}" for word, n in Counter(words).items()) or "nothing"


def why(reasons: Iterable[str]) -> Iterator[Text]:
    """Each reason with how often it was given, the most frequent first."""
    counts = Counter(reasons).most_common()
    return section("Why", (f"{number(count)} x {reason}" for reason, count in counts))


def notes(of_plan: Iterable[str], overrides: Iterable[tuple[str, str]]) -> Iterator[Text]:
    """What is good to know of a plan, and its overridden prechecks, each with the reason."""
    yield from (Text(f"note: {sentence(each)}", style="yellow") for each in of_plan)
    for precheck, reason in overrides:
        yield Text(f"override {precheck}: {sentence(reason)}", style="yellow")
