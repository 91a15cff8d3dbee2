"""What a command shows a person: parts in order, made once somebody draws them.

A part is text, a table, or another view; a style is named as Rich names it. Nothing here is markup.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar, Union

from drctl.views.text import number, plural, sentence

P = ParamSpec("P")
T = TypeVar("T")

MOST = 100
"""Lines that are shown; all are in --output json."""


class Text(NamedTuple):
    """A line or a cell; where it has a head, only that has the style."""

    text: str
    style: str = ""
    head: str = ""


Cell = str | Text


@dataclass(frozen=True, slots=True)
class Table:
    """Cells whose text is wrapped; without a header where no columns are named.

    Attributes:
        numbers: columns by their names, or by their places, that are aligned to the right.
    """

    rows: Iterable[Iterable[Cell]]
    columns: tuple[str, ...] = ()
    numbers: Collection[str | int] = ()
    indented: bool = False


@dataclass(frozen=True, slots=True)
class Items:
    """A list; what does not fit goes on behind the mark."""

    lines: Iterable[str]
    numbered: bool = False


class Drawable(Protocol):
    """What Rich can draw."""

    def __rich_console__(self, console: Any, options: Any) -> Iterable[Any]:
        """Its parts."""


Part = Union[str, Text, Table, Items, Drawable]  # noqa: UP007


@dataclass(frozen=True, slots=True)
class View:
    """What a command shows."""

    parts: Callable[[], Iterator[Part]]

    def __rich_console__(self, console: Any, options: Any) -> Iterable[Any]:
        """As Rich draws it."""
        from drctl.views.terminal import drawn

        return map(drawn, self.parts())


def view(parts: Callable[P, Iterator[Part]]) -> Callable[P, View]:
    """Has a generator of parts return them as one view; nothing of it runs before it is drawn."""

    @wraps(parts)
    def made(*args: P.args, **kwargs: P.kwargs) -> View:
        return View(lambda: parts(*args, **kwargs))

    return made


def table(
    rows: Iterable[Iterable[Cell]], *columns: str, numbers: Collection[str | int] = ()
) -> Table:
    """A table with its rows."""
    return Table(rows, columns, numbers)


def listing(
    things: Sequence[T],
    cells: Callable[[T], Iterable[Cell]],
    *columns: str,
    numbers: Collection[str | int] = (),
    most: int = MOST,
    what: str = "",
    indented: bool = False,
) -> Iterator[Part]:
    """A table of the first of them, and how many are not shown; nothing where there are none.

    Args:
        cells: of one of them.
        what: they are, where `N more` does not say it.
    """
    if things:
        yield Table(map(cells, things[:most]), columns, numbers, indented)
        yield from more(len(things) - most, what)


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that the run was for, with how it is known."""

    name: str
    value: str
    how: str


def figures_table(figures: Iterable[Figure]) -> Table:
    """A line for each measure."""
    return Table((each.name, Text(each.value, "bold"), Text(each.how, "dim")) for each in figures)


def heading(title: str) -> Text:
    """What begins a section, with an empty line before it."""
    return Text(f"\n{title}", "bold")


def section(title: str, lines: Iterable[str], mark: str = "") -> Iterator[Text]:
    """A heading and its lines; nothing where there are no lines."""
    for place, line in enumerate(lines):
        if not place:
            yield heading(title)
        yield Text(f"  {mark}{line}")


def more(count: int, what: str = "") -> Iterator[Text]:
    """How many lines are not shown."""
    if count > 0:
        told = plural(count, f"more {what}") if what else f"{number(count)} more"
        yield Text(f"and {told}, all in --output json", "dim")


def counted(words: Iterable[str]) -> str:
    """`12 written, 3 refused`, in the order in which they came."""
    return ", ".join(f"{number(n)} {word}" for word, n in Counter(words).items()) or "nothing"


def why(reasons: Iterable[str]) -> Iterator[Text]:
    """Each reason with how often it was given, the most frequent first."""
    counts = Counter(reasons).most_common()
    return section("Why", (f"{number(count)} x {reason}" for reason, count in counts))


def notes(of_plan: Iterable[str], overrides: Iterable[tuple[str, str]]) -> Iterator[Text]:
    """What is good to know of a plan, and its overridden prechecks, each with the reason."""
    yield from (Text(f"note: {sentence(each)}", "yellow") for each in of_plan)
    for precheck, reason in overrides:
        yield Text(f"override {precheck}: {sentence(reason)}", "yellow")
