"""A translation for a terminal; nothing of what clusters say is rich markup."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from drctl.model.translation import Answer, Translation
from drctl.offsets.question import NoAnswer
from drctl.offsets.translating import NEVER, Explained
from drctl.offsets.translation_json import questionable
from drctl.report.printable import number, plain, plural

if TYPE_CHECKING:
    from drctl.config.link import Link
    from drctl.offsets.link_translation import LinkTranslated

MOST_ROWS = 40
MOST_TOLD = 10


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
            yield _rows(some[:MOST_ROWS])
            if len(some) > MOST_ROWS:
                left = plural(len(some) - MOST_ROWS, "more row")
                yield Text(f"  and {left}; --output json has all", style="dim")
    if notes := list(_notes(result, len(rows) - len(asked))):
        yield Text("\nAlso seen", style="bold")
        yield from (Text(f"  - {note}") for note in notes)
    yield Text("\nDo now", style="bold")
    yield from (Text(f"  {n}. {step}") for n, step in enumerate(_steps(result, bad), 1))


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


def _rows(rows: Sequence[Translation]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 0, 0, 2))
    table.add_column("Group", overflow="fold")
    table.add_column("Partition", overflow="fold")
    for name in ("Source", "Target", "Re-reads", "Skips"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("How", overflow="fold")
    for row in rows:
        answer = row.answer
        cells = (
            plain(row.place.group),
            plain(str(row.place.partition)),
            _number(row.source_offset),
            _number(answer.target_offset if answer else None),
            _number(answer.rereads_at_most if answer else None),
            _number(answer.skips_at_most if answer else None),
            _how(row),
        )
        table.add_row(*map(Text, cells))
    return table


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
        yield (
            f"drctl offsets explain {plain(first.place.group)} {plain(place.topic)} "
            f"{place.partition} shows what every method says of the first one"
        )
    if result.source.silent:
        yield "groups of which nothing was noted are not in this list: see `drctl offsets track`"
    yield "drctl offsets apply shows what would be written on the target"


def explanation(row: Explained) -> RenderableType:
    """One row: the answer taken, and what every method says."""
    found = row.translation
    table = Table(box=None, header_style="dim", padding=(0, 0, 0, 2))
    table.add_column("")
    table.add_column("Method", no_wrap=True)
    for name in ("Target", "Re-reads", "Skips", "Age"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("Why", overflow="fold")
    for method, said in row.said:
        table.add_row(*map(Text, _said(found, method, said)))
    head = f"{plain(found.place.group)} in {plain(str(found.place.partition))}"
    parts: list[RenderableType] = [
        Text(f"{head}: source offset {_number(found.source_offset)}", style="bold")
    ]
    if found.blocked:
        parts.append(Text(f"blocked: {plain(found.blocked)}", style="yellow"))
    parts += [Text(f"contradiction: {plain(c)}", style="yellow") for c in found.contradictions]
    return Group(*parts, table, Text(_why(found)))


def _said(found: Translation, method: str, said: Answer | NoAnswer) -> tuple[str, ...]:
    if isinstance(said, NoAnswer):
        return "", method, "-", "-", "-", "-", plain(said.reason)
    won = found.answer is not None and found.answer.method.value == method
    age = "" if said.age_seconds is None else f"{said.age_seconds:,.0f} s"
    numbers = map(_number, (said.target_offset, said.rereads_at_most, said.skips_at_most))
    return "*" if won else "", method, *numbers, age, plain(said.evidence)


def _why(found: Translation) -> str:
    if found.answer is None:
        return "\nNo method has an answer."
    return (
        f"\n* {found.answer.method.value} is taken: of the answers that skip nothing it is the one "
        "with the fewest records to read again."
        if found.answer.skips_at_most == 0
        else f"\n* {found.answer.method.value} is taken, but every answer may skip records."
    )


def _number(value: int | None) -> str:
    return "-" if value is None else number(value)
