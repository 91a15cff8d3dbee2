"""Replicated records in another order as Parquet, as Spark writes them: `inversions`."""

from collections.abc import Iterable
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.model.gap_order import Inversion
from drctl.systems.parquet.folder import replaced

if TYPE_CHECKING:
    import pyarrow

INVERSIONS = "inversions"

_ROWS = 20_000


def write_inversions(rows: Iterable[Inversion], folder: Path) -> None:
    """Write all of them, a bounded number at a time; also if there are none.

    Raises:
        OSError: there is no room for them.
    """
    import pyarrow as pa

    columns = schema()
    coming = map(attrgetter(*columns.names), rows)
    with replaced(folder, columns) as writer:
        while some := list(islice(coming, _ROWS)):
            arrays = [
                pa.array(values, type=column.type)
                for values, column in zip(zip(*some, strict=True), columns, strict=True)
            ]
            writer.write_batch(pa.record_batch(arrays, schema=columns))


def schema() -> "pyarrow.Schema":
    """The attributes of `Inversion`, with the types of Spark's columns."""
    import pyarrow as pa

    return pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("target_partition", pa.int32()),
            ("target_offset", pa.int64()),
            ("earlier_offset", pa.int64()),
            ("earlier_target_offset", pa.int64()),
        ]
    )
