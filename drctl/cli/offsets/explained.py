"""What every method says of one position, for a terminal of any width; nothing is rich markup."""

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.constrain import Constrain
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from drctl.model.translation import Answer
from drctl.offsets.question import NoAnswer
from drctl.offsets.translating import Explained
from drctl.report.printable import duration, number, plain

WIDEST = 140
"""Columns beyond which lines are too long to read."""

ROOM = 50
"""Columns that reasons take beside the numbers at least; else they stand below them."""

_INDENT = 5


class Explanation:
    """One row: the answer taken, the other ones, and why some methods have none."""

    def __init__(self, row: Explained) -> None:
        self._row = row

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, WIDEST)
        for part in self._parts(console, options.update(width=width, max_width=width)):
            yield Constrain(part, width)

    def _parts(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        found = self._row.translation
        place = f"{plain(found.place.group)} in {plain(str(found.place.partition))}"
        yield Text(f"{place}: source offset {told(found.source_offset)}", style="bold")
        if found.blocked:
            yield Text(f"blocked: {plain(found.blocked)}", style="yellow")
        for words in found.contradictions:
            yield Text(f"contradiction: {plain(words)}", style="yellow")
        said = self._row.said
        if answers := [(name, each) for name, each in said if isinstance(each, Answer)]:
            yield Text("")
            yield from self._answers(console, options, answers)
        if silent := [(name, each) for name, each in said if isinstance(each, NoAnswer)]:
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
            table.add_column("Why", overflow="fold")
        for method, answer in answers:
            numbers = answer.target_offset, answer.rereads_at_most, answer.skips_at_most
            cells = [self._mark(method), method, *map(told, numbers), _age(answer)]
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
            return (
                f"* {answer.method.value} is taken: of the answers that skip nothing it is the one "
                "with the fewest records to read again."
            )
        return f"* {answer.method.value} is taken, but every answer may skip records."


class _Line:
    """A line that is laid out already."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments

    def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> RenderResult:
        yield from self._segments
        yield Segment.line()


def told(value: int | None) -> str:
    """A number that may not be known."""
    return "-" if value is None else number(value)


def _silent(said: Sequence[tuple[str, NoAnswer]]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 0, 0, 2))
    table.add_column("", width=_INDENT - 4)
    table.add_column("Method", no_wrap=True)
    table.add_column("Why", overflow="fold")
    for method, each in said:
        table.add_row(Text(""), Text(method), Text(plain(each.reason)))
    return table


def _age(answer: Answer) -> str:
    """How old the evidence is."""
    seconds = answer.age_seconds
    return "now" if seconds is None else duration(seconds)
