from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from drctl.spark.session import SparkSettings, opened
from tests.jvm import spark_classes


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    log: Path = tmp_path_factory.mktemp("spark") / "spark.log"
    conf = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}
    with opened(SparkSettings("local[2]", conf, log=log, java=spark_classes())) as session:
        yield session
