"""The missing and reordered records of a gap result: Parquet as Spark writes it, and its sums."""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from itertools import islice, pairwise
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.failback.gap_results import Sample
from drctl.gap.comparison import (
    EXAMPLES,
    HISTOGRAM_BINS,
    Comparison,
    ExampleOffset,
    Extra,
    Missing,
    Place,
    ScanFailed,
    histogram_frame,
    runs_limit,
)
from drctl.gap.summing import MissingRow
from drctl.model.errors import Refused, Unknown
from drctl.model.gap import Histogram, Inversion, OrderVerdict, RecordClass
from drctl.model.topology import TopicPartition
from drctl.reconcile.gap_result import key_digest

if TYPE_CHECKING:
    import pyarrow
    from pyarrow.parquet import ParquetFile, ParquetWriter

DATE, RAW = "timestamp", "timestamp_ms"

_WORD = 1 << 63


def micros(timestamp_ms: int) -> int | None:
    """The value of a Parquet timestamp column; None if Parquet cannot represent it."""
    found = timestamp_ms * 1000
    return found if -_WORD <= found < _WORD else None


def column_in(file: "ParquetFile") -> str:
    """The name of the file's timestamp column; files of earlier versions have only dates."""
    return RAW if RAW in file.schema_arrow.names else DATE


def millis(times: "pyarrow.Array") -> "pyarrow.Array":
    """The timestamp column in milliseconds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(times.type):
        return times
    return pc.divide(times.cast(pa.timestamp("us")).cast(pa.int64()), 1000)


def _batches(folder: Path, names: Sequence[str], rows: int) -> "Iterator[pyarrow.RecordBatch]":
    """Read these columns and the timestamps from all files.

    Raises:
        OSError, ValueError, KeyError, ArrowException: a file is damaged.
    """
    from pyarrow.parquet import ParquetFile

    for file in sorted(folder.glob("*.parquet")):
        with ParquetFile(
            file,
            # Otherwise INT96 timestamps are read as nanoseconds, which end in the year 2262.
            coerce_int96_timestamp_unit="us",
            pre_buffer=False,
            page_checksum_verification=True,
        ) as opened:
            columns = [*names, column_in(opened)]
            for batch in opened.iter_batches(rows, columns=columns):
                yield _valid(batch.select(columns))


def _valid(batch: "pyarrow.RecordBatch") -> "pyarrow.RecordBatch":
    """The batch, if its columns have the types of `schema` and only keys are null.

    Raises:
        ValueError: they do not.
    """
    import pyarrow as pa

    wanted = schema()
    for field, column in zip(batch.schema, batch.columns, strict=True):
        # The time zone of dates is not stored.
        is_date = field.name == DATE and pa.types.is_timestamp(field.type)
        if field.type != wanted.field(field.name).type and not is_date:
            raise ValueError(f"column {field.name} has type {field.type}")
        if column.null_count and field.name != "key":
            raise ValueError(f"column {field.name} is null in a row")
    return batch


GapRow = tuple[str, int, int, int, bytes | None, int, str]
"""Topic, partition, offset, timestamp, digest of the key, size, order verdict."""

_VERDICTS = frozenset(verdict.value for verdict in OrderVerdict)
_RECORD_COLUMNS = ("topic", "partition", "offset", "key", "size", "order")
_RECORDS_AT_ONCE = 10_000


def read_records(folder: Path) -> Iterator[GapRow]:
    """All rows of all files, unordered.

    Raises:
        Refused: a file is missing or damaged.
    """
    import pyarrow as pa

    try:
        if not any(folder.glob("*.parquet")):
            raise Refused(f"{folder} contains no records of a gap result", "run `drctl gap` again")
        for batch in _batches(folder, _RECORD_COLUMNS, _RECORDS_AT_ONCE):
            topics, partitions, offsets, keys, sizes, orders, times = batch.columns
            verdicts = orders.to_pylist()
            if strange := set(verdicts) - _VERDICTS:
                raise ValueError(f"unknown order verdict: {strange}")
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
    except (OSError, ValueError, KeyError, pa.ArrowException) as wrong:
        raise Refused(f"{folder} is damaged: {wrong}", "run `drctl gap` again") from None


_SAMPLE_COLUMNS = ("topic", "partition", "offset", "key", "order")
_SAMPLES_AT_ONCE = 1_000
_MOST_SAMPLES = 100_000
_FIRST = (OrderVerdict.CONFLICTING, OrderVerdict.UNKEYED, OrderVerdict.SAFE)


def read_samples(folder: Path, number: int) -> tuple[Sample, ...]:
    """At most this many rows, out-of-order ones first; reads only a bounded number of rows.

    Raises:
        Unknown: a file is missing or damaged.
    """
    found: dict[str, list[Sample]] = {each.value: [] for each in OrderVerdict}
    for sample in islice(_samples(folder), _MOST_SAMPLES):
        if len(found[sample.order]) < number:
            found[sample.order].append(sample)
    return tuple(each for order in _FIRST for each in found[order.value])[:number]


def _samples(folder: Path) -> Iterator[Sample]:
    import pyarrow as pa

    try:
        for batch in _batches(folder, _SAMPLE_COLUMNS, _SAMPLES_AT_ONCE):
            *columns, times = batch.columns
            for topic, partition, offset, key, order, at in zip(
                *(each.to_pylist() for each in (*columns, millis(times))), strict=True
            ):
                place = TopicPartition(topic, partition)
                yield Sample(place, offset, at, key, OrderVerdict(order).value)
    except (OSError, ValueError, KeyError, pa.ArrowException) as wrong:
        raise Unknown(f"{folder} is damaged: {wrong}", "run drctl gap again") from None


FILE = "part-00000.snappy.parquet"


@contextmanager
def replaced(folder: Path, schema: "pyarrow.Schema") -> "Iterator[ParquetWriter]":
    """A writer for the file, which is complete when the block ends.

    Raises:
        OSError: it cannot be written.
    """
    from pyarrow.parquet import ParquetWriter

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with ParquetWriter(
        folder / FILE,
        schema,
        compression="snappy",
        write_page_checksum=True,
        # INT96 timestamps are deprecated, but Spark writes them.
        use_deprecated_int96_timestamps=True,
        store_schema=False,
    ) as writer:
        yield writer


INVERSIONS = "inversions"


def write_inversions(rows: Iterable[Inversion], folder: Path) -> None:
    """Write all rows in batches; creates the file even without rows.

    Raises:
        OSError: the disk is full.
    """
    columns = inversions_schema()
    coming = map(attrgetter(*columns.names), rows)
    with replaced(folder, columns) as writer:
        while some := list(islice(coming, _ROWS)):
            writer.write_batch(_batch(zip(*some, strict=True), columns))


def _batch(columns: Iterable[Sequence[object]], schema: "pyarrow.Schema") -> "pyarrow.RecordBatch":
    import pyarrow as pa

    pairs = zip(columns, schema, strict=True)
    arrays = [pa.array(values, type=field.type) for values, field in pairs]
    return pa.record_batch(arrays, schema=schema)


def inversions_schema() -> "pyarrow.Schema":
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


RECORDS = "records"
OTHERS = "others"

_ROWS = 20_000
_KEY_BYTES = 8 << 20


class ParquetRecords:
    """Implements `drctl.gap.summing.RowWriter` and `drctl.spark.comparer.TableWriter`.

    Args:
        out: parent directory of the folders.
    """

    def __init__(self, out: Path) -> None:
        self._out = out

    def write(self, rows: Iterable[MissingRow]) -> None:
        """Write the missing records.

        Raises:
            ScanFailed: the disk is full.
        """
        try:
            with _file(self._out / RECORDS) as records, _file(self._out / OTHERS) as others:
                for row in rows:
                    unreplicated = row.record_class is RecordClass.UNREPLICATED
                    (records if unreplicated else others).add(row)
        except OSError as error:
            raise ScanFailed(str(error)) from error

    def write_table(self, rows: "pyarrow.Table", extra: Mapping[Place, Extra]) -> Comparison:
        """Write the missing records, and sum them up.

        Args:
            rows: with the columns of `schema`, of source partitions in which every offset holds a
                record: ranges are consecutive offsets.

        Raises:
            ScanFailed: the disk is full.
        """
        import pyarrow.compute as pc

        columns = schema()
        order = [(name, "ascending") for name in _POSITION]
        rows = rows.select(columns.names).cast(columns).sort_by(order).combine_chunks()
        unreplicated = pc.equal(rows["class"], RecordClass.UNREPLICATED.value)
        gone = rows.filter(unreplicated).combine_chunks()
        try:
            for folder, some in ((RECORDS, gone), (OTHERS, rows.filter(pc.invert(unreplicated)))):
                with replaced(self._out / folder, columns) as writer:
                    writer.write_table(some, _ROWS)
        except OSError as error:
            raise ScanFailed(str(error)) from error
        missing = _with_runs(_counted(rows, unreplicated), gone)
        return Comparison(missing, extra, _histogram(gone, missing), _examples(gone))

    def write_inversions(self, rows: Iterable[Inversion]) -> None:
        """Write the reordered records.

        Raises:
            ScanFailed: the disk is full.
        """
        try:
            write_inversions(rows, self._out / INVERSIONS)
        except OSError as error:
            raise ScanFailed(str(error)) from error


def schema() -> "pyarrow.Schema":
    """The schemas of both kinds of files, with the names and types that Spark writes."""
    import pyarrow as pa

    return pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", "UTC")),
            ("timestamp_ms", pa.int64()),
            ("key", pa.binary()),
            ("size", pa.int64()),
            ("class", pa.string()),
            ("order", pa.string()),
            ("misplaced", pa.bool_()),
            ("repeated", pa.bool_()),
        ]
    )


class _Rows:
    """Buffers rows of one file and writes them in batches."""

    def __init__(self, writer: "ParquetWriter", columns: "pyarrow.Schema") -> None:
        self._writer = writer
        self._schema = columns
        self._rows: list[MissingRow] = []
        self._key_bytes = 0

    def add(self, row: MissingRow) -> None:
        """Add a row."""
        self._rows.append(row)
        self._key_bytes += len(row.key or b"")
        if len(self._rows) >= _ROWS or self._key_bytes >= _KEY_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the remaining rows."""
        if self._rows:
            columns: list[list[object]] = list(map(list, zip(*self._rows, strict=True)))
            dates: list[object] = [micros(row.timestamp_ms) for row in self._rows]
            columns.insert(self._schema.get_field_index("timestamp"), dates)
            for name in ("class", "order"):
                at = self._schema.get_field_index(name)
                columns[at] = list(map(str, columns[at]))
            self._writer.write_batch(_batch(columns, self._schema))
        self._rows, self._key_bytes = [], 0


@contextmanager
def _file(folder: Path) -> Iterator[_Rows]:
    columns = schema()
    with replaced(folder, columns) as writer:
        rows = _Rows(writer, columns)
        yield rows
        rows.flush()


_PLACE = ("topic", "partition")
_POSITION = (*_PLACE, "offset")


def _counted(rows: "pyarrow.Table", unreplicated: "pyarrow.ChunkedArray") -> dict[Place, Missing]:
    """Count missing records of each source partition by class and order verdict."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def number(condition: "pyarrow.ChunkedArray") -> "pyarrow.ChunkedArray":
        return condition.cast(pa.int64())

    def of_gone(condition: "pyarrow.ChunkedArray") -> "pyarrow.ChunkedArray":
        return number(pc.and_(unreplicated, condition))

    sums = {
        "unreplicated": number(unreplicated),
        **{name: number(pc.equal(rows["class"], name)) for name in ("superseded", "expired")},
        **{verdict.value: of_gone(pc.equal(rows["order"], verdict.value)) for verdict in _FIRST},
        **{name: of_gone(rows[name]) for name in ("misplaced", "repeated")},
        "bytes": pc.if_else(unreplicated, rows["size"], 0),
        "other_bytes": pc.if_else(unreplicated, 0, rows["size"]),
    }
    times = pc.if_else(unreplicated, rows[RAW], None)
    table = pa.table({name: rows[name] for name in _PLACE} | sums | {"time": times})
    totals = table.group_by(_PLACE).aggregate(
        [*((name, "sum") for name in sums), ("time", "min"), ("time", "max")]
    )
    return {
        (row["topic"], row["partition"]): Missing(
            oldest_timestamp=row["time_min"],
            newest_timestamp=row["time_max"],
            **{name: row[f"{name}_sum"] for name in sums},
        )
        for row in totals.to_pylist()
    }


def _with_runs(missing: Mapping[Place, Missing], gone: "pyarrow.Table") -> dict[Place, Missing]:
    """Add the ranges of the unreplicated records, which are sorted."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(gone):
        return dict(missing)
    offsets = gone["offset"].combine_chunks()
    numbers = [
        gone["topic"].combine_chunks().dictionary_encode().indices,
        gone["partition"].combine_chunks(),
    ]
    new_place = _any(pc.not_equal(pc.pairwise_diff(each), 0) for each in numbers)
    starts = pc.indices_nonzero(_any((new_place, pc.not_equal(pc.pairwise_diff(offsets), 1))))
    before = pc.subtract(starts.cast(pa.int64()), 1)
    ends = pa.concat_arrays([before[1:], pa.array([len(gone) - 1], pa.int64())])
    first, last = offsets.take(starts), offsets.take(ends)
    # The number of the first range of each partition, and the number of all ranges.
    bounds = [*pc.indices_nonzero(new_place.take(starts)).to_pylist(), len(starts)]
    limit = runs_limit(len(bounds) - 1)
    found = dict(missing)
    for start, end in pairwise(bounds):
        at = starts[start].as_py()
        place = gone["topic"][at].as_py(), gone["partition"][at].as_py()
        kept = slice(start, min(end, start + limit))
        runs = tuple(zip(first[kept].to_pylist(), last[kept].to_pylist(), strict=True))
        found[place] = replace(missing[place], runs=runs, runs_total=end - start)
    return found


def _any(conditions: "Iterable[pyarrow.Array]") -> "pyarrow.Array":
    """Whether a condition is true, row by row; null counts as true, as in the first row."""
    import pyarrow.compute as pc

    return reduce(pc.or_, (pc.fill_null(each, True) for each in conditions))


def _histogram(gone: "pyarrow.Table", missing: Mapping[Place, Missing]) -> Histogram | None:
    """Build the histogram of the partitions with the largest gaps."""
    import pyarrow.compute as pc

    frame = histogram_frame(missing)
    if frame is None:
        return None
    worst, start, width = frame
    rows = []
    for topic, partition in worst:
        here = pc.and_(pc.equal(gone["topic"], topic), pc.equal(gone["partition"], partition))
        times = gone[RAW].filter(pc.and_(here, pc.greater_equal(gone[RAW], start)))
        bins = pc.value_counts(pc.divide(pc.subtract(times, start), width))
        counts = {each["values"]: each["counts"] for each in bins.to_pylist()}
        rows.append((topic, partition, tuple(counts.get(n, 0) for n in range(HISTOGRAM_BINS))))
    return Histogram(start, width, tuple(rows))


def _examples(gone: "pyarrow.Table") -> tuple[ExampleOffset, ...]:
    """Return the oldest unreplicated records."""
    import pyarrow.compute as pc

    keys = [(name, "ascending") for name in (RAW, *_POSITION)]
    oldest = gone.take(pc.select_k_unstable(gone, min(EXAMPLES, len(gone)), sort_keys=keys))
    return tuple(
        ExampleOffset(*(row[name] for name in (*_POSITION, "size", "order")))
        for row in oldest.to_pylist()
    )
