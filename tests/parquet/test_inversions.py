"""The Parquet of inversions that drctl writes itself equals Spark's."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from drctl.gap.comparison import ScanFailed
from drctl.model.gap import Inversion
from drctl.stores.parquet import FILE, ParquetRecords
from tests.parquet.reading import inversions_of

MANY = 50_001
"""More rows than are written at once."""


def inversion(number: int) -> Inversion:
    return Inversion("orders", 3, number, 4, 1 << 40, number - 1, (1 << 40) + 1)


def written(out: Path, *found: Inversion) -> list[Inversion]:
    ParquetRecords(out).write_inversions(found)
    return inversions_of(out / "inversions")


def test_every_row_is_read_back(tmp_path: Path) -> None:
    found = [inversion(9), Inversion("pay", 0, 5, 0, 4, 3, 9)]
    assert written(tmp_path, *found) == found
    assert written(tmp_path, inversion(1)) == [inversion(1)], "the earlier result was not replaced"
    assert written(tmp_path) == []


def test_more_rows_than_fit_in_memory(tmp_path: Path) -> None:
    asked = 0

    def found() -> Iterator[Inversion]:
        nonlocal asked
        for asked in range(MANY):
            yield inversion(asked)

    ParquetRecords(tmp_path).write_inversions(found())
    offsets = pq.read_table(tmp_path / "inversions", columns=["offset"])["offset"].to_pylist()
    assert (asked, offsets) == (MANY - 1, list(range(MANY)))


def test_a_folder_that_may_not_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ScanFailed, match="Not a directory"):
        ParquetRecords(tmp_path / "file").write_inversions([inversion(1)])


def test_the_columns_are_those_of_spark(tmp_path: Path) -> None:
    from drctl.spark.inversions import SCHEMA

    written(tmp_path, inversion(1))
    kinds = {"int32": "int", "int64": "long"}
    schema = pq.read_schema(tmp_path / "inversions" / FILE)
    columns = [f"{field.name} {kinds.get(str(field.type), field.type)}" for field in schema]
    assert columns == SCHEMA.split(", ")
