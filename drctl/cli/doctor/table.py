"""What `doctor` found, for a terminal; nothing of what clusters say is rich markup."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from drctl.checks.diagnosis import Diagnosis, Row
from drctl.model.finding import Status
from drctl.report.printable import sentence
from drctl.report.status_lines import folded

_STYLES = {
    Status.OK: "green",
    Status.WARN: "yellow",
    Status.FAIL: "bold red",
    Status.NOT_CHECKED: "yellow",
}
_URGENT = {Status.FAIL: 0, Status.NOT_CHECKED: 1, Status.WARN: 2, Status.OK: 3}


def doctor_table(found: Diagnosis) -> RenderableType:
    """The verdict, what stands in the way first, then every row by family."""
    return Group(*_parts(found))


def _parts(found: Diagnosis) -> Iterator[RenderableType]:
    yield _verdict(found)
    ends = f"link {found.link}: {found.source} -> {found.target}"
    counts = ", ".join(f"{count} {status.value}" for status, count in found.counts.items())
    yield Text(f"{sentence(ends)}; {counts}", style="dim")
    bad = [row for row in found.rows if row.refuses or row.finding.status is Status.FAIL]
    if bad:
        yield Text("\nIn the way of a failover", style="bold")
        yield from _told(bad, found.silences)
    others = [row for row in found.rows if row not in bad and row.finding.status is not Status.OK]
    if others:
        yield Text("\nTo know of", style="bold")
        yield from _told(sorted(others, key=_urgency), found.silences)
    yield Text("\nAll rows", style="bold")
    yield _table(found.rows)


def _verdict(found: Diagnosis) -> Text:
    if found.silent:
        silent = " and ".join(map(sentence, found.silent))
        return Text(f"Unknown: {silent} did not answer", style="bold red")
    if not found.ready:
        return Text("Not ready: a failover would be refused, or go wrong", style="bold red")
    style = "bold yellow" if found.counts[Status.WARN] else "bold green"
    return Text("Ready: nothing stands in the way of a failover", style=style)


def _told(rows: Sequence[Row], silent: Sequence[str]) -> Iterator[Text]:
    told, unseen = folded([row.finding for row in rows], silent)
    for finding in told:
        head = f"  {finding.status.value:<11} "
        words = sentence(f"{finding.check}: {finding.subject}: {finding.reason}")
        yield Text.assemble((head, _STYLES[finding.status]), words)
        for name in ("evidence", "cost", "cure"):
            if text := getattr(finding, name):
                yield Text(f"{'':14}{name}: {sentence(text)}", style="dim")
    yield from (Text(f"  not-checked {sentence(line)}", style="yellow") for line in unseen)


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for _ in range(3):
        table.add_column(overflow="fold")
    for family, group in groupby(sorted(rows, key=_place), key=lambda row: row.family):
        table.add_row(Text(family.value, "bold"), "", "")
        for row in group:
            finding = row.finding
            said = sentence(f"{finding.subject}: {finding.reason}")
            if finding.status is Status.OK and finding.evidence:
                said += f" ({sentence(finding.evidence)})"
            status = Text(finding.status.value, _STYLES[finding.status])
            table.add_row(Text(f"  {finding.check}"), status, Text(said))
    return table


def _urgency(row: Row) -> int:
    return _URGENT[row.finding.status]


def _place(row: Row) -> int:
    return list(type(row.family)).index(row.family)
