"""The memory settings of the JVM that drctl starts."""

from pathlib import Path

from drctl.spark.session import SMALL, SparkSettings, defaults

OPTIONS = "spark.driver.extraJavaOptions"


def test_the_default_heap_has_a_fixed_young_generation(tmp_path: Path) -> None:
    conf = defaults(SparkSettings(offsets=SMALL), tmp_path)
    assert conf["spark.driver.memory"] == "2g"
    assert {"-Xms2g", "-Xmn768m"} <= set(conf[OPTIONS].split())


def test_a_user_supplied_heap_is_divided_by_the_jvm(tmp_path: Path) -> None:
    conf = defaults(SparkSettings(conf={"spark.driver.memory": "256m"}, offsets=SMALL), tmp_path)
    assert "spark.driver.memory" not in conf
    assert OPTIONS not in conf


def test_a_small_comparison_is_compiled_little(tmp_path: Path) -> None:
    assert "TieredStopAtLevel=1" in defaults(SparkSettings(offsets=SMALL - 1), tmp_path)[OPTIONS]
