"""Results as a table and as JSON."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.rows import Row

SCHEMA = "drctl/bench/1"
RESULTS = Path(__file__).with_name("results")

_WIDTH = 150
_REACHED = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}


def document(
    rows: Sequence[Row],
    began: datetime,
    facts: Mapping[str, Any],
    settings: Mapping[str, Any],
    complete: bool,
) -> dict[str, Any]:
    """Build the document of a run.

    Args:
        complete: whether everything requested was measured.
    """
    return {
        "schema": SCHEMA,
        "started": began.isoformat(timespec="seconds"),
        "complete": complete,
        "settings": dict(settings),
        "machine": dict(facts),
        "rows": [row.to_json() for row in rows],
    }


def save(found: Mapping[str, Any], began: datetime) -> Path:
    """Write it under its own name and as the latest one."""
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(found, indent=2) + "\n"
    path = RESULTS / f"{began:%Y%m%dT%H%M%SZ}.json"
    for file in (path, RESULTS / "latest.json"):
        file.write_text(text, encoding="utf-8")
    return path


def show(rows: Sequence[Row], facts: Mapping[str, Any]) -> None:
    """Print the table."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    table = Table(title="drctl beside its baselines", caption=_caption(facts))
    for name in ("part", "what", "median", "records/s", "ratio", "of", "target", "reached"):
        numeric = name in ("median", "records/s", "ratio", "target")
        table.add_column(name, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*_cells(row))
    console.print(table)


def _cells(row: Row) -> tuple[str, ...]:
    rate, ratio = row.records_per_second, row.ratio
    return (
        row.part,
        row.name,
        f"{_number(row)} {row.unit}",
        f"{rate:,.0f}" if rate else "",
        f"{ratio.value:.2f}" if ratio else "",
        ratio.meaning if ratio else "",
        str(ratio.target) if ratio and ratio.target else "",
        _REACHED[ratio.reached if ratio else None],
    )


def _number(row: Row) -> str:
    if row.unit == "s":
        return f"{row.value:,.3f}"
    return f"{row.value:.3g}" if abs(row.value) < 10 else f"{row.value:,.0f}"


def _caption(facts: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    load = facts["load_before"][0]
    return f"{facts['cores']} cores, {facts['memory_gb']} GB, load {load} before; {versions}"
