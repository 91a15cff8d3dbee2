"""Reading Parquet folders."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from drctl.model.gap import Inversion


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file or folder, with timestamps in milliseconds."""
    table = pq.read_table(path)
    times = [n // 1_000_000 for n in table["timestamp"].cast("int64").to_pylist()]
    rows = table.drop_columns("timestamp").to_pylist()
    return [{**row, "timestamp": time} for row, time in zip(rows, times, strict=True)]


def inversions_of(folder: Path) -> list[Inversion]:
    """Return the content of a folder of inversions."""
    return [Inversion(**row) for row in pq.read_table(folder).to_pylist()]
