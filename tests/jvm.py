"""What every JVM of the tests is started with."""

from collections.abc import Sequence
from pathlib import Path

from drctl.artifacts.java import classes_for
from drctl.spark.session import jars as spark_jars


def classes_of(jars: Sequence[Path]) -> tuple[str, ...]:
    """Options that let it start sooner, where `make test` has recorded its classes."""
    return classes_for(jars[0].parent)


def spark_classes() -> tuple[str, ...]:
    """The same for Spark's, which `make install` has recorded."""
    return classes_for(spark_jars())


def quick_executors() -> dict[str, str]:
    """Spark properties of executors that do little and start often."""
    return {
        "spark.executor.extraJavaOptions": " ".join(("-XX:TieredStopAtLevel=1", *spark_classes()))
    }
