"""A few of the unreplicated records of a gap result, read back for people to look at."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.failback.gap_results import Sample
from drctl.model.errors import Unknown
from drctl.model.gap import OrderVerdict
from drctl.model.topology import TopicPartition
from drctl.systems.parquet.dates import column_in, millis

if TYPE_CHECKING:
    import pyarrow

_COLUMNS = ("topic", "partition", "offset", "key", "order")
_BATCH = 1_000
_LOOKED_THROUGH = 100_000
_FIRST = (OrderVerdict.CONFLICTING, OrderVerdict.UNKEYED, OrderVerdict.SAFE)


def read_samples(folder: Path, number: int) -> tuple[Sample, ...]:
    """Up to so many, those that would stand behind newer ones first; of a bounded number of rows.

    Raises:
        Unknown: a file is missing or damaged.
    """
    found: dict[str, list[Sample]] = {each.value: [] for each in OrderVerdict}
    for sample in islice(_rows(folder), _LOOKED_THROUGH):
        if len(found[sample.order]) < number:
            found[sample.order].append(sample)
    return tuple(each for order in _FIRST for each in found[order.value])[:number]


def _rows(folder: Path) -> Iterator[Sample]:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    try:
        for file in sorted(folder.glob("*.parquet")):
            # Twelve-byte timestamps count nanoseconds otherwise, which end in the year 2262.
            with ParquetFile(file, coerce_int96_timestamp_unit="us") as opened:
                columns = [*_COLUMNS, column_in(opened)]
                for batch in opened.iter_batches(_BATCH, columns=columns):
                    yield from _samples(batch.select(columns))
    except (OSError, ValueError, KeyError, pa.ArrowException) as wrong:
        raise Unknown(f"{folder} is damaged: {wrong}", "run drctl gap again") from None


def _samples(batch: "pyarrow.RecordBatch") -> Iterator[Sample]:
    *columns, times = batch.columns
    for topic, partition, offset, key, order, at in zip(
        *(each.to_pylist() for each in (*columns, millis(times))), strict=True
    ):
        place = TopicPartition(topic, partition)
        yield Sample(place, offset, at, key, OrderVerdict(order).value)
