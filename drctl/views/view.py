"""The output of a command for people: parts in order, built when they are drawn.

A part is text, a table, a list or another view. Styles have Rich's names. No text is markup.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar, Union

from drctl.model.text import plural
from drctl.views.text import number, sentence

P = ParamSpec("P")
T = TypeVar("T")

MOST = 100
"""Maximum number of lines shown; --output json has all of them."""


class Text(NamedTuple):
    """A line or a cell; if `head` is set, only the head has the style."""

    text: str
    style: str = ""
    head: str = ""


Cell = str | Text


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose cells wrap; without `columns` it has no header.

    Attributes:
        numbers: right-aligned columns, by name or index.
        folded: the last columns, whose cells a narrow terminal shows below the column before them.
    """

    rows: Iterable[Iterable[Cell]]
    columns: tuple[str, ...] = ()
    numbers: Collection[str | int] = ()
    indented: bool = False
    folded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Items:
    """A list with bullets or numbers; wrapped lines are indented."""

    lines: Iterable[str]
    numbered: bool = False


class Drawable(Protocol):
    """Anything that Rich can draw."""

    def __rich_console__(self, console: Any, options: Any) -> Iterable[Any]:
        """Yield what Rich draws."""


Part = Union[str, Text, Table, Items, Drawable]  # noqa: UP007


@dataclass(frozen=True, slots=True)
class View:
    """The output of a command."""

    parts: Callable[[], Iterator[Part]]

    def __rich_console__(self, console: Any, options: Any) -> Iterable[Any]:
        """Return the parts as Rich draws them."""
        from drctl.views.terminal import drawn

        return map(drawn, self.parts())


def view(parts: Callable[P, Iterator[Part]]) -> Callable[P, View]:
    """Decorate a generator of parts to return a view; it runs when the view is drawn."""

    @wraps(parts)
    def made(*args: P.args, **kwargs: P.kwargs) -> View:
        return View(lambda: parts(*args, **kwargs))

    return made


def table(
    rows: Iterable[Iterable[Cell]], *columns: str, numbers: Collection[str | int] = ()
) -> Table:
    """Build a table."""
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
    """Yield a table of the first things and the number of hidden ones; nothing if there are none.

    Args:
        cells: returns the cells of a row.
        what: what the hidden things are, if `N more` does not make that clear.
    """
    if things:
        yield Table(map(cells, things[:most]), columns, numbers, indented)
        yield from more(len(things) - most, what)


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value, and how it was measured."""

    name: str
    value: str
    how: str


def figures_table(figures: Iterable[Figure]) -> Table:
    """Build a table with a row per figure."""
    return Table((each.name, Text(each.value, "bold"), Text(each.how, "dim")) for each in figures)


def heading(title: str) -> Text:
    """Build the heading of a section, with an empty line above it."""
    return Text(f"\n{title}", "bold")


def section(title: str, lines: Iterable[str], mark: str = "") -> Iterator[Text]:
    """Yield a heading and its lines; nothing if there are no lines."""
    for place, line in enumerate(lines):
        if not place:
            yield heading(title)
        yield Text(f"  {mark}{line}")


def more(count: int, what: str = "") -> Iterator[Text]:
    """Yield the number of hidden lines, if any."""
    if count > 0:
        hidden = plural(count, f"more {what}") if what else f"{number(count)} more"
        yield Text(f"and {hidden}; --output json lists all", "dim")


def counted(words: Iterable[str]) -> str:
    """Count equal words: `12 written, 3 refused`, in order of first appearance."""
    return ", ".join(f"{number(n)} {word}" for word, n in Counter(words).items()) or "nothing to do"


def why(reasons: Iterable[str]) -> Iterator[Text]:
    """Yield each reason with its count, the most frequent first."""
    counts = Counter(reasons).most_common()
    return section("Why", (f"{number(count)} x {reason}" for reason, count in counts))


def notes(of_plan: Iterable[str], overrides: Iterable[tuple[str, str]]) -> Iterator[Text]:
    """Yield the notes of a plan and its overridden prechecks, each with the reason."""
    yield from (Text(f"note: {sentence(each)}", "yellow") for each in of_plan)
    for precheck, reason in overrides:
        yield Text(f"override {precheck}: {sentence(reason)}", "yellow")
