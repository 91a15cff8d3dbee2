from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from drctl.systems.spark.session import SparkSettings, opened


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    log: Path = tmp_path_factory.mktemp("spark") / "spark.log"
    conf = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}
    with opened(SparkSettings(master="local[2]", conf=conf, log=log)) as session:
        yield session
