"""The unreplicated records of a gap result, read back in batches of bounded size."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.model.errors import Refused
from drctl.model.gap import OrderVerdict
from drctl.reconcile.rows import key_digest
from drctl.systems.parquet.dates import column_in, millis

if TYPE_CHECKING:
    import pyarrow

_ROWS = 10_000
_VERDICTS = frozenset(verdict.value for verdict in OrderVerdict)
_COLUMNS = ("topic", "partition", "offset", "key", "size", "order")

GapRow = tuple[str, int, int, int, bytes | None, int, str]
"""Topic, partition, offset, timestamp, digest of the key, size, order verdict."""


def read_records(folder: Path) -> Iterator[GapRow]:
    """All rows of all files, in no order.

    Raises:
        Refused: a file is missing or damaged.
    """
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    try:
        files = sorted(folder.glob("*.parquet"))
        if not files:
            raise Refused(f"{folder} holds no records of a gap result", "run `drctl gap` again")
        for file in files:
            # Twelve-byte timestamps count nanoseconds otherwise, which end in the year 2262.
            with ParquetFile(file, coerce_int96_timestamp_unit="us", pre_buffer=False) as opened:
                columns = [*_COLUMNS, column_in(opened)]
                for batch in opened.iter_batches(_ROWS, columns=columns):
                    yield from _rows(batch.select(columns))
    except (OSError, ValueError, KeyError, pa.ArrowException) as wrong:
        raise Refused(f"{folder} is damaged: {wrong}", "run `drctl gap` again") from None


def _rows(batch: "pyarrow.RecordBatch") -> Iterator[GapRow]:
    topics, partitions, offsets, keys, sizes, orders, times = batch.columns
    verdicts = orders.to_pylist()
    if strange := set(verdicts) - _VERDICTS:
        raise ValueError(f"no order verdict: {strange}")
    yield from zip(
        topics.to_pylist(),
        partitions.to_pylist(),
        offsets.to_pylist(),
        millis(times).to_pylist(),
        map(key_digest, keys.to_pylist()),
        sizes.to_pylist(),
        verdicts,
        strict=True,
    )
