"""Spark reads the Parquet that drctl writes, and writes the same columns itself."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from drctl.spark import inversions, results
from drctl.stores.parquet import ParquetRecords
from tests.parquet.reading import inversions_of, rows_of
from tests.parquet.test_inversions import inversion
from tests.parquet.test_records import row

pytestmark = pytest.mark.jvm


def columns(folder: Path) -> list[str]:
    (file,) = folder.glob("*.parquet")
    return str(pq.ParquetFile(file).schema).splitlines()[2:]


def rewritten(spark: SparkSession, ours: Path, schema: str, theirs: Path) -> Path:
    spark.read.schema(schema).parquet(str(ours)).coalesce(1).write.parquet(str(theirs))
    assert columns(ours) == columns(theirs)
    return theirs


def test_records(spark: SparkSession, tmp_path: Path) -> None:
    ParquetRecords(tmp_path).write([row(1), row(2, None), row(3, b"", timestamp_ms=-1)])
    ours = tmp_path / "records"
    theirs = rewritten(spark, ours, results.SCHEMA, tmp_path / "sparks")
    assert rows_of(ours) == rows_of(theirs)


def test_inversions(spark: SparkSession, tmp_path: Path) -> None:
    found = [inversion(1), inversion(2)]
    ParquetRecords(tmp_path).write_inversions(found)
    ours = tmp_path / "inversions"
    assert inversions_of(rewritten(spark, ours, inversions.SCHEMA, tmp_path / "sparks")) == found
