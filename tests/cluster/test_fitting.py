"""Spark digests what is much; what is left to compare is little, and compared without it."""

import pytest

from drctl.systems.parquet.folder import FILE
from tests.cluster.conftest import NewDrctl, new_prefix
from tests.cluster.filling import Clock, copies, fill, holding, rows
from tests.lab.cluster_under_test import ClusterUnderTest
from tests.parquet.reading import rows_of

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]


def test_little_that_differs_in_much(
    primary: ClusterUnderTest, secondary: ClusterUnderTest, clock: Clock, new_drctl: NewDrctl
) -> None:
    topic = f"{new_prefix()}much"
    fill(primary, {topic: holding(*rows(1000))}, clock)
    fill(secondary, {topic: holding(*copies(rows(990)))}, clock)
    link = {"from": "primary", "to": "secondary", "topics": [topic]}
    spark = {"master": "local[2]", "from_offsets": 500}
    ended = new_drctl({"main": link}, spark=spark).gap()
    assert ended.code == 1, ended.stderr
    document = ended.document()
    assert document["totals"]["read_from_source"] == 1000
    (partition,) = document["topics"][0]["partitions"]
    assert partition["ranges"] == [[990, 999]]
    assert len(rows_of(ended.out / "records")) == 10
    assert [p.name for p in (ended.out / "records").iterdir()] == [FILE], "not Spark's"
