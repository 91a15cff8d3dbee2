"""The Parquet of records that drctl writes itself equals Spark's."""

import resource
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drctl.gap import summing
from drctl.gap.comparison import Extra, Place, ScanFailed
from drctl.gap.summing import Classified, MissingRow, summed_up
from drctl.model.errors import Refused, Unknown
from drctl.model.gap import OrderVerdict, RecordClass
from drctl.stores import parquet
from drctl.stores.parquet import ParquetRecords, micros, read_records, read_samples, schema
from tests.parquet.reading import rows_of

NOON = 1_700_000_000_123


def row(offset: int, key: bytes | None = b"k", **changes: object) -> MissingRow:
    found = MissingRow(
        topic="orders",
        partition=3,
        offset=offset,
        timestamp_ms=NOON + offset,
        key=key,
        size=412,
        record_class=RecordClass.UNREPLICATED,
        order=OrderVerdict.SAFE,
        misplaced=False,
        repeated=False,
    )
    return found._replace(**changes)


def written(out: Path, *rows: MissingRow) -> dict[str, list[dict[str, object]]]:
    ParquetRecords(out).write(rows)
    return {name: rows_of(out / name) for name in ("records", "others")}


def test_rows_by_class(tmp_path: Path) -> None:
    found = written(
        tmp_path,
        row(1),
        row(2, None, order=OrderVerdict.UNKEYED, misplaced=True),
        row(5, repeated=True),
        row(3, b"", record_class=RecordClass.EXPIRED),
        row(4, b"\x00\xff", timestamp_ms=-1, record_class=RecordClass.SUPERSEDED, size=1 << 40),
    )
    names = ("offset", "timestamp", "key", "size", "class", "order", "misplaced", "repeated")
    assert [tuple(r[n] for n in names) for r in found["records"]] == [
        (1, NOON + 1, b"k", 412, "unreplicated", "safe", False, False),
        (2, NOON + 2, None, 412, "unreplicated", "unkeyed", True, False),
        (5, NOON + 5, b"k", 412, "unreplicated", "safe", False, True),
    ]
    assert [tuple(r[n] for n in names) for r in found["others"]] == [
        (3, NOON + 3, b"", 412, "expired", "safe", False, False),
        (4, -1, b"\x00\xff", 1 << 40, "superseded", "safe", False, False),
    ]
    assert {(r["topic"], r["partition"]) for rows in found.values() for r in rows} == {
        ("orders", 3)
    }


FARTHEST = ((1 << 63) - 1, -(1 << 63), 9_223_372_036_854_776, NOON * 1_000_000, -2, 0)
"""Extreme record timestamps: Kafka accepts any 64 bits, and some clients write nanoseconds."""


def test_any_timestamp_is_kept(tmp_path: Path) -> None:
    rows = [row(n, timestamp_ms=at) for n, at in enumerate(FARTHEST)]
    ParquetRecords(tmp_path).write(rows)
    kept = pq.read_table(tmp_path / "records")
    assert tuple(kept["timestamp_ms"].to_pylist()) == FARTHEST
    dated = [at is not None for at in kept["timestamp"].cast("int64").to_pylist()]
    assert dated == [False, False, False, False, True, True]
    assert tuple(r[3] for r in read_records(tmp_path / "records")) == FARTHEST
    assert tuple(s.timestamp_ms for s in read_samples(tmp_path / "records", 9)) == FARTHEST


def test_results_of_earlier_versions_have_no_raw_timestamps(tmp_path: Path) -> None:
    ParquetRecords(tmp_path).write([row(1), row(2, timestamp_ms=-1)])
    (file,) = (tmp_path / "records").glob("*.parquet")
    pq.write_table(
        pq.read_table(file).drop_columns("timestamp_ms"), file, use_deprecated_int96_timestamps=True
    )
    assert [r[3] for r in read_records(tmp_path / "records")] == [NOON + 1, -1]
    assert [s.timestamp_ms for s in read_samples(tmp_path / "records", 9)] == [NOON + 1, -1]


PLACES = [("orders", 3), ("orders", 4), ("clicks", 3), ("z", 0)]
ROWS = st.lists(
    st.builds(
        lambda place, offset, **changes: row(offset, topic=place[0], partition=place[1], **changes),
        st.sampled_from(PLACES),
        st.integers(0, 12),
        key=st.sampled_from([None, b"", b"k", b"\x00\xff"]),
        timestamp_ms=st.sampled_from([*FARTHEST, -1, 5, 90, NOON, NOON + 1, NOON + 700]),
        size=st.integers(0, 1 << 40),
        record_class=st.sampled_from(RecordClass),
        order=st.sampled_from(OrderVerdict),
        misplaced=st.booleans(),
        repeated=st.booleans(),
    ),
    unique_by=lambda found: (found.topic, found.partition, found.offset),
    max_size=40,
)


def adjacent(offsets: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        start = runs.pop()[0] if runs and offset == runs[-1][1] + 1 else offset
        runs.append((start, offset))
    return runs


@given(rows=ROWS, chunk=st.integers(1, 41), limit=st.sampled_from([1, 1000]))
def test_a_table_is_written_and_summed_up_as_rows_are(
    tmp_path_factory: pytest.TempPathFactory, rows: list[MissingRow], chunk: int, limit: int
) -> None:
    places: dict[Place, list[Classified]] = defaultdict(list)
    for r in sorted(rows, key=lambda found: found.offset):
        entry = (r.offset, r.timestamp_ms, r.size, r.key)
        places[r.topic, r.partition].append(Classified(r.partition, entry, *r[6:]))
    values = [(*r[:3], micros(r.timestamp_ms), *r[3:]) for r in rows]
    columns = ([row[n] for row in values] for n in range(len(schema())))
    table = pa.table(
        [pa.array(c, type=field.type) for c, field in zip(columns, schema(), strict=True)],
        schema=schema(),
    )
    extra = {("orders", 3): Extra(1, 2)}
    out, expected = (tmp_path_factory.mktemp(name) for name in ("table", "rows"))
    chunks = pa.Table.from_batches(table.to_batches(max_chunksize=chunk), schema())
    with ExitStack() as patched:
        for module in (parquet, summing):
            patched.enter_context(patch.object(module, "runs_limit", lambda _: limit))
        found = ParquetRecords(out).write_table(chunks, extra)
        assert found == summed_up(places, lambda *_: adjacent, extra)
    ParquetRecords(expected).write(sorted(rows, key=lambda r: (r.topic, r.partition, r.offset)))
    for name in ("records", "others"):
        assert pq.read_table(out / name) == pq.read_table(expected / name)


def test_no_rows_still_make_files(tmp_path: Path) -> None:
    assert written(tmp_path) == {"records": [], "others": []}


def test_a_changed_byte_is_detected(tmp_path: Path) -> None:
    ParquetRecords(tmp_path).write(row(n, size=n * 7_919) for n in range(99))
    (file,) = (tmp_path / "records").glob("*.parquet")
    group = pq.ParquetFile(file).metadata.row_group(0)
    data = bytearray(file.read_bytes())
    # The last byte before the data page is in the page of the column's values.
    data[group.column(group.num_columns - 5).data_page_offset - 1] ^= 1
    file.write_bytes(data)
    with pytest.raises(Refused, match="CRC checksum"):
        list(read_records(tmp_path / "records"))


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("offset", ["1", "2"], "column offset has type string"),
        ("size", [1.5, 2.5], "column size has type double"),
        ("key", ["k", "k"], "column key has type string"),
        ("offset", [1, None], "column offset is null in a row"),
        ("timestamp_ms", [None, 2], "column timestamp_ms is null in a row"),
        ("topic", [None, "orders"], "column topic is null in a row"),
    ],
)
def test_other_types_and_missing_values_are_refused(
    tmp_path: Path, name: str, values: list[object], why: str
) -> None:
    ParquetRecords(tmp_path).write([row(1), row(2)])
    (file,) = (tmp_path / "records").glob("*.parquet")
    table = pq.read_table(file)
    at = table.column_names.index(name)
    pq.write_table(table.set_column(at, name, [values]), file)
    with pytest.raises(Refused, match=why):
        list(read_records(tmp_path / "records"))
    if name != "size":
        with pytest.raises(Unknown, match=why):
            read_samples(tmp_path / "records", 9)


def test_an_earlier_result_is_replaced(tmp_path: Path) -> None:
    written(tmp_path, *map(row, range(50)))
    (tmp_path / "others" / "part-of-spark.parquet").write_bytes(b"not whole")
    assert len(written(tmp_path, row(7))["records"]) == 1


@pytest.mark.slow
def test_many_rows_with_large_keys_need_little_memory(tmp_path: Path) -> None:
    def rows() -> Iterator[MissingRow]:
        for offset in range(300):
            yield row(offset, bytes([offset % 256]) * 1_000_000)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ParquetRecords(tmp_path).write(rows())
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 150_000, "the peak in kilobytes grew with the keys, which have 300 MB"
    assert sum(len(b) for b in pq.read_table(tmp_path / "records")["key"].chunks) == 300


FULL = """
import resource, sys
from pathlib import Path
from random import Random
from drctl.gap.comparison import ScanFailed
from drctl.stores.parquet import ParquetRecords
from tests.parquet.test_records import row
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    ParquetRecords(Path(sys.argv[1])).write(row(n, Random(n).randbytes(100_000)) for n in range(99))
except ScanFailed as failed:
    print(failed.message, "/", failed.hint)
"""


@pytest.mark.slow
def test_a_full_disk(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "File too large" in done.stdout
    assert "free disk space for --out" in done.stdout


def test_a_folder_that_may_not_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ScanFailed, match="Not a directory"):
        ParquetRecords(tmp_path / "file").write([row(1)])
    with pytest.raises(ScanFailed, match="Not a directory"):
        ParquetRecords(tmp_path / "file").write_table(schema().empty_table(), {})


def test_the_columns_are_those_of_spark(tmp_path: Path) -> None:
    from drctl.spark.results import SCHEMA

    written(tmp_path, row(1))
    kinds = {
        "int32": "int",
        "int64": "long",
        "timestamp[ns]": "timestamp",
        "binary": "binary",
        "bool": "boolean",
    }
    schema = pq.read_schema(tmp_path / "records" / "part-00000.snappy.parquet")
    columns = [f"{field.name} {kinds.get(str(field.type), field.type)}" for field in schema]
    assert columns == SCHEMA.split(", ")
