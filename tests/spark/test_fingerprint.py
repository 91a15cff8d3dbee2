"""Fingerprints in Spark's SQL, as `drctl.formats.fingerprint` documents them."""

import pytest
from pyspark.sql import SparkSession

from tests.wire.test_fingerprint import KNOWN

pytestmark = pytest.mark.jvm


def test_spark_computes_the_same(spark: SparkSession) -> None:
    rows = [
        (key, value, number - 2**64 if number >= 2**63 else number)
        for (key, value), number in KNOWN.items()
    ]
    frame = spark.createDataFrame(rows, "key binary, value binary, number long")
    hashed = frame.selectExpr("number", "xxhash64(isnull(key), key, isnull(value), value) AS found")
    found = [(row.number, row.found) for row in hashed.collect()]
    assert len(found) == len(KNOWN)
    assert all(here == there for here, there in found)
