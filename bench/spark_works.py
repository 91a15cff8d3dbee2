"""The work that is timed in a Spark session: drctl's comparison and the baselines."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from secrets import randbits
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession

from bench.digests import unheard
from bench.process import WrongAnswer
from bench.records import IDENTICAL, Variant
from bench.stage import Dataset, Stage
from drctl.app.adapters import both_readers
from drctl.config.loading import load
from drctl.gap.comparison import ComparePlan, Side, find_suspects, span_of
from drctl.gap.freeze import freeze, missing_throughout, plan_comparison
from drctl.kafka.java_properties import java_properties
from drctl.spark.comparer import SparkComparer, on_side
from drctl.spark.scan import KafkaRows, union
from drctl.stores.parquet import ParquetRecords

COMPARED = ("key", "value", "partition", "timestamp")

_V1_SOURCES = "spark.sql.sources.useV1SourceList"
_V1_SCAN = "KafkaRelation"


class Works:
    """The work of one session on one dataset."""

    def __init__(self, spark: SparkSession, stage: Stage, dataset: Dataset) -> None:
        self._spark = spark
        self._stage = stage
        self._dataset = dataset
        self._properties = {
            Side.SOURCE: java_properties(stage.source.client_properties()),
            Side.TARGET: java_properties(stage.target.client_properties()),
        }
        self._rows = KafkaRows(spark, self._properties, spark.sparkContext.defaultParallelism)

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self._spark

    def check_default_source(self) -> None:
        """Verify that the baseline uses Spark's default source and reads everything.

        Raises:
            WrongAnswer: it does not.
        """
        frame = self._both_by_default()
        plan = str(frame._jdf.queryExecution().executedPlan().toString())
        if plan.count(_V1_SCAN) != len(Side):
            raise WrongAnswer(f"Spark's default Kafka source does not read: {plan[:500]}")
        if (found := frame.count()) != self._dataset.read(IDENTICAL):
            raise WrongAnswer(f"Spark's default Kafka source read {found} records")

    def read_by_default(self) -> None:
        """Read both sides with Spark's defaults."""
        _read_only(self._both_by_default())

    def reading_as_drctl(self) -> Callable[[], None]:
        """Read both sides with drctl's source and fetch options."""
        plan = self.plan(IDENTICAL)

        def read() -> None:
            self._rows.renew()
            frame = union(
                self._rows.rows(side, on_side(plan, side, plan.everything()[side])) for side in Side
            )
            assert frame is not None
            _read_only(frame)

        return read

    def except_all(self, variant: Variant) -> Callable[[], None]:
        """The obvious comparison in Spark, which only counts what is missing."""
        missing = self._dataset.missing(variant)

        def compare() -> None:
            source = self._by_default(Side.SOURCE).select(*COMPARED)
            target = self._by_default(Side.TARGET, variant).select(*COMPARED)
            if (found := source.exceptAll(target).count()) != missing:
                raise WrongAnswer(f"exceptAll found {found} records, not {missing}")

        return compare

    def comparison(self, variant: Variant) -> Callable[[], None]:
        """Compare a variant as drctl does: each time with another salt, as in another run."""
        plan = self.plan(variant)
        missing = self._dataset.missing(variant)

        def compare() -> None:
            with self._folder() as out:
                salted = replace(plan, salt=randbits(62))
                found = self._unreplicated(salted, Path(out))
            if found != missing:
                raise WrongAnswer(f"{variant.title}: found {found} records, not {missing}")

        return compare

    def check_plan(self, variant: Variant) -> None:
        """Freeze and plan.

        Raises:
            WrongAnswer: the plan does not cover all records.
        """
        plan = self.plan(variant)
        if (span := span_of(plan.everything())) != self._dataset.read(variant):
            raise WrongAnswer(f"{variant.title}: planned to read {span} records")

    def plan(self, variant: Variant) -> ComparePlan:
        """The plan of a comparison, as in `drctl gap`."""
        link = load(self._stage.config).link(self._dataset.link(variant))
        with both_readers(link) as (source, target):
            frozen = freeze(link, source, target, [self._dataset.topic])
            plan = plan_comparison(link, frozen, source)
            return plan.reading_once() if missing_throughout(plan, source, target) else plan

    def _unreplicated(self, plan: ComparePlan, out: Path) -> int:
        comparer = SparkComparer(self._spark, self._rows, out, ParquetRecords(out))
        suspects = find_suspects(plan, comparer.digest(plan, plan.everything(), unheard))
        comparison = comparer.compare(plan, suspects, unheard)
        return sum(missing.unreplicated for missing in comparison.missing.values())

    def _folder(self) -> AbstractContextManager[str]:
        return TemporaryDirectory(dir=self._stage.folder)

    def _both_by_default(self) -> DataFrame:
        source, target = map(self._by_default, Side)
        return source.union(target)

    def _by_default(self, side: Side, variant: Variant = IDENTICAL) -> DataFrame:
        dataset = self._dataset
        topic = dataset.topic if side is Side.SOURCE else dataset.target_topic(variant)
        options = {f"kafka.{name}": value for name, value in self._properties[side].items()}
        reader = self._spark.read.format("kafka").options(**options)
        reader = reader.options(subscribe=topic, startingOffsets="earliest", endingOffsets="latest")
        drctls = self._spark.conf.get(_V1_SOURCES)
        self._spark.conf.set(_V1_SOURCES, f"{drctls},kafka")
        try:
            return reader.load()  # Spark selects the source here
        finally:
            self._spark.conf.set(_V1_SOURCES, str(drctls))


def _read_only(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()
