"""The share of time that a JVM spends collecting garbage."""

import time
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from bench.process import WrongAnswer
from bench.rows import Ratio, Row, Target

MOST = Target(0.10)
NAME = "garbage collection's share of the time"


class TooMuchCollection(WrongAnswer):
    """The JVM spent so much time on garbage that other times do not count."""


@dataclass(frozen=True, slots=True)
class Collecting:
    """Measures a session's JVM from the moment of creation on.

    Attributes:
        collected_s: seconds that the JVM's collectors had needed by then.
        began_s: this process's clock then.
    """

    management: Any
    collected_s: float
    began_s: float

    @classmethod
    def of(cls, spark: SparkSession) -> "Collecting":
        """Begin to measure."""
        jvm: Any = spark.sparkContext._jvm
        management = jvm.java.lang.management.ManagementFactory
        return cls(management, _seconds(management), time.perf_counter())

    def share(self) -> float:
        """The share of the time until now."""
        collected = _seconds(self.management) - self.collected_s
        return collected / (time.perf_counter() - self.began_s)


def _seconds(management: Any) -> float:
    beans = management.getGarbageCollectorMXBeans()
    return sum(int(bean.getCollectionTime()) for bean in beans) / 1000


def row_of(part: str, share: float) -> Row:
    """The row of a share."""
    return Row(part, NAME, (share,), "", ratio=Ratio(share, "collection / all time", MOST))


def check(share: float) -> None:
    """Check that the share is small enough.

    Raises:
        TooMuchCollection: it is not.
    """
    if not MOST.reached_by(share):
        raise TooMuchCollection(
            f"the JVM spent {share:.0%} of the time on garbage collection, at most"
            f" {MOST.limit:.0%} is accepted",
            "see the flags of Java in drctl/spark/session.py",
        )
