"""Offset translations in a terminal of any width; text from clusters is never markup."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.constrain import Constrain
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from drctl.model.text import arguments, option, plural
from drctl.model.translation import Answer, Translation
from drctl.offsets.methods import NoAnswer
from drctl.offsets.translating import NEVER, Explained
from drctl.offsets.translation_json import questionable
from drctl.views.text import be, duration, number, plain
from drctl.views.view import Items, Part, heading, view
from drctl.views.view import Text as Line

if TYPE_CHECKING:
    from drctl.config.link import Link
    from drctl.offsets.link_translation import LinkTranslated

WIDEST = 140
"""Maximum width of a line."""

ROOM = 50
"""Minimum width for reasons next to the numbers; else they are on separate lines."""

_INDENT = 5


class Explanation:
    """One row: the chosen answer, the other answers, and why some methods have none."""

    def __init__(self, row: Explained) -> None:
        self._row = row

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, WIDEST)
        for part in self._parts(console, options.update(width=width, max_width=width)):
            yield Constrain(part, width)

    def _parts(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        found = self._row.translation
        place = f"Group {plain(found.place.group)}, {plain(str(found.place.partition))}"
        yield Text(f"{place}: source offset {_or_dash(found.source_offset)}", style="bold")
        if found.blocked:
            yield Text(f"Blocked: {plain(found.blocked)}", style="yellow")
        for words in found.contradictions:
            yield Text(f"Contradiction: {plain(words)}", style="yellow")
        results = self._row.results
        if answers := [(name, each) for name, each in results if isinstance(each, Answer)]:
            yield Text("")
            yield from self._answers(console, options, answers)
        if silent := [(name, each) for name, each in results if isinstance(each, NoAnswer)]:
            yield Text("\nNo answer from", style="bold" if answers else "")
            yield _silent(silent)
        yield Text(f"\n{self._why()}")

    def _answers(
        self, console: Console, options: ConsoleOptions, answers: Sequence[tuple[str, Answer]]
    ) -> Iterator[RenderableType]:
        numbers = self._table(answers)
        room = options.max_width - numbers.__rich_measure__(console, options).maximum
        if room >= ROOM:
            yield self._table(answers, reasons=True)
            return
        header, *lines = console.render_lines(numbers, options, pad=False)
        yield _Line(header)
        for line, (_, answer) in zip(lines, answers, strict=True):
            yield _Line(line)
            yield Padding(Text(plain(answer.evidence)), (0, 0, 0, _INDENT + 2))

    def _table(self, answers: Sequence[tuple[str, Answer]], *, reasons: bool = False) -> Table:
        table = Table(box=None, header_style="dim", padding=(0, 0, 0, 2))
        table.add_column("", no_wrap=True)
        table.add_column("Method", no_wrap=True)
        for name in ("Target", "Re-reads", "Skips", "Age"):
            table.add_column(name, justify="right", no_wrap=True)
        if reasons:
            table.add_column("Evidence", overflow="fold")
        for method, answer in answers:
            numbers = answer.target_offset, answer.rereads_at_most, answer.skips_at_most
            cells = [self._mark(method), method, *map(_or_dash, numbers), _age(answer)]
            cells += [plain(answer.evidence)] * reasons
            table.add_row(*map(Text, cells))
        return table

    def _mark(self, method: str) -> str:
        answer = self._row.translation.answer
        return "*" if answer is not None and answer.method.value == method else ""

    def _why(self) -> str:
        answer = self._row.translation.answer
        if answer is None:
            return "No method has an answer."
        if answer.skips_at_most == 0:
            return f"* {answer.method.value}: skips no records and re-reads the fewest."
        return f"* {answer.method.value}: the best answer, but every answer may skip records."


class _Line:
    """A line that is already rendered."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments

    def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> RenderResult:
        yield from self._segments
        yield Segment.line()


def _or_dash(value: int | None) -> str:
    """Format a number that may be unknown."""
    return "-" if value is None else number(value)


def _silent(results: Sequence[tuple[str, NoAnswer]]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 0, 0, 2))
    table.add_column("", width=_INDENT - 4)
    table.add_column("Method", no_wrap=True)
    table.add_column("Why", overflow="fold")
    for method, each in results:
        table.add_row(Text(""), Text(method), Text(plain(each.reason)))
    return table


def _age(answer: Answer) -> str:
    """Format the age of the evidence."""
    seconds = answer.age_seconds
    return "now" if seconds is None else duration(seconds)


MOST_ROWS = 40
MOST_REASONS = 10

_HEADER = ("Group", "Partition", "Source", "Target", "Re-reads", "Skips", "How")


@view
def translation_table(link: "Link", result: "LinkTranslated") -> Iterator[Part]:
    """Show totals, rows to check, the other rows, then what to do."""
    rows = [row.translation for row in result.rows]
    asked = [row for row in rows if row.blocked != NEVER]
    bad = [row for row in asked if questionable(row)]
    good = [row for row in asked if not questionable(row)]
    yield Line(_verdict(link, asked, bad), "bold yellow" if bad else "bold green")
    yield Line(_methods(asked), "dim")
    if result.source.silent:
        yield Line(f"{plain(link.source)} is unreachable: {plain(result.source.silent)}", "yellow")
    for title, some in (("To check", bad), ("Translated", good)):
        if some:
            yield from (heading(title), _Rows(some[:MOST_ROWS]))
            if len(some) > MOST_ROWS:
                left = plural(len(some) - MOST_ROWS, "more row")
                yield Line(f"  and {left}; --output json lists all", "dim")
    if also := list(_also_found(result, len(rows) - len(asked))):
        yield from (heading("Also found"), Items(also))
    if asked:
        yield from (heading("Do now"), Items(_steps(link, result, bad), numbered=True))


def _verdict(link: "Link", asked: Sequence[Translation], bad: Sequence[Translation]) -> str:
    groups = len({row.place.group for row in asked})
    head = (
        f"{plain(link.source)} to {plain(link.target)}: {plural(len(asked), 'committed offset')} of"
        f" {plural(groups, 'group')}"
    )
    if not asked:
        return f"{plain(link.source)} to {plain(link.target)}: no group has committed offsets"
    if bad:
        return f"{head}, {number(len(bad))} to check"
    return f"{head} translated; no records are skipped"


def _methods(rows: Sequence[Translation]) -> str:
    used = Counter(row.answer.method.value for row in rows if row.answer)
    rereads = [row.answer.rereads_at_most for row in rows if row.answer]
    known = sum(r for r in rereads if r is not None)
    by = ", ".join(f"{number(count)} by {name}" for name, count in used.most_common())
    return f"{by or 'no method has an answer'}; re-reads at most {plural(known, 'record')}"


class _Rows:
    """Rows with their method or reason: next to the numbers if there is room, else below."""

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
            line = f"{source} to {target}, re-reads {rereads}, skips {skips}: {how}"
            yield Padding(Text(line), (0, 0, 0, 6))


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
        _or_dash(row.source_offset),
        _or_dash(answer.target_offset if answer else None),
        _or_dash(answer.rereads_at_most if answer else None),
        _or_dash(answer.skips_at_most if answer else None),
    )


def _how(row: Translation) -> str:
    words = [row.blocked] if row.blocked else []
    words += row.contradictions
    if row.answer and not words:
        words.append(row.answer.method.value)
    return plain("; ".join(words))


def _also_found(result: "LinkTranslated", never: int) -> Iterator[str]:
    source = result.source
    if never:
        yield f"{plural(never, 'partition')} without a committed offset"
    if source.elsewhere:
        yield (
            f"{plural(source.elsewhere, 'committed offset')} in topics that are not part of the"
            " link (`topics`)"
        )
    if source.others:
        verb = be(source.others)
        yield f"{plural(source.others, 'group')} that {verb} not part of the link (`groups`)"
    more = [f"{plain(g)}: {plain(r)}" for g, r in sorted(source.untranslatable.items())]
    more += [f"{plain(g)}: not readable: {plain(r)}" for g, r in sorted(source.unseen.items())]
    more += [plain(reason) for reason in result.missing]
    yield from more[:MOST_REASONS]
    if len(more) > MOST_REASONS:
        yield f"and {number(len(more) - MOST_REASONS)} more"


def _steps(link: "Link", result: "LinkTranslated", bad: Sequence[Translation]) -> Iterator[str]:
    over = option("--link", link.name)
    if bad:
        first = bad[0]
        place = first.place.partition
        where = arguments(first.place.group, place.topic, str(place.partition))
        yield (
            "See the answer of every method for the first row:\n"
            f"drctl offsets explain {over} {where}"
        )
    if result.source.silent:
        yield (
            "Groups without evidence are not listed. drctl offsets track collects it in advance."
        )
    yield f"See what would be committed on the target:\ndrctl offsets apply {over}"
