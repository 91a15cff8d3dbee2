"""The heap of a real JVM that drctl starts has its full size from the start."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from drctl.spark.session import SMALL, SparkSettings, opened
from tests.jvm import spark_classes

pytestmark = pytest.mark.jvm

OURS: Mapping[str, str] = {}
THEIR_HEAP = {"spark.driver.memory": "768m"}


@pytest.mark.parametrize(
    ("conf", "offsets"),
    [
        pytest.param(OURS, SMALL, id="large"),
        pytest.param(OURS, 0, id="small", marks=pytest.mark.nightly),
        pytest.param(THEIR_HEAP, SMALL, id="a heap of the site's", marks=pytest.mark.nightly),
    ],
)
def test_medium_lived_garbage_causes_no_repeated_full_collections(
    tmp_path: Path, conf: Mapping[str, str], offsets: int
) -> None:
    # In a separate process: a process with a Spark session would not start another JVM.
    words = [sys.executable, "-m", "tests.spark.test_heap", json.dumps(conf), str(offsets)]
    ran = subprocess.run(
        [*words, str(tmp_path / "log")], capture_output=True, text=True, timeout=240, check=True
    )
    young, full, size, most = json.loads(ran.stdout.splitlines()[-1])
    assert full <= max(4, young // 4), (young, full)
    if conf is OURS and offsets == SMALL:
        assert size == most, "the heap does not have its full size from the start"


def measure(conf: Mapping[str, str], offsets: int, log: Path) -> tuple[int, int, int, int]:
    """Return young and full collections, and the bytes of the heap and its limit."""
    settings = SparkSettings("local[2]", conf, log=log, offsets=offsets, java=spark_classes())
    with opened(settings) as session:
        session.range(0, 600_000, 1, 2).selectExpr(
            "id % 150000 as key", "repeat(cast(id as string), 6) as value"
        ).groupBy("key").agg({"value": "max"}).write.format("noop").mode("overwrite").save()
        return *_collections(session), *_heap(session)


def _collections(session: SparkSession) -> tuple[int, int]:
    """Return the collections of the young generation and of the whole heap."""
    beans = _management(session).getGarbageCollectorMXBeans()
    counts = {str(bean.getName()): int(bean.getCollectionCount()) for bean in beans}
    full = sum(n for name, n in counts.items() if "MarkSweep" in name or "Old" in name)
    return sum(counts.values()) - full, full


def _heap(session: SparkSession) -> tuple[int, int]:
    """Return the bytes of the heap and its limit."""
    usage = _management(session).getMemoryMXBean().getHeapMemoryUsage()
    return int(usage.getCommitted()), int(usage.getMax())


def _management(session: SparkSession) -> Any:
    jvm = session.sparkContext._jvm
    return jvm.java.lang.management.ManagementFactory


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))))
