"""Compares with Spark: digests first, then records where digests differ, then totals."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from drctl.gap.comparison import (
    BucketDigest,
    ComparePlan,
    Comparison,
    Extra,
    Missing,
    OrderCheck,
    Place,
    Progress,
    Ranges,
    Reads,
    ScanFailed,
    Side,
    TopicSuspects,
    runs_limit,
    span_of,
    suspect_span,
)
from drctl.gap.summing import RowWriter
from drctl.model.gap import OrderScope
from drctl.model.topology import OffsetRange, TopicRanges
from drctl.spark import compare, inversions, results
from drctl.spark.failure import cause_of, was_interrupted
from drctl.spark.scan import ROWS_A_TASK, RowReader, union

POLL_SECONDS = 0.25

WAITING = "waiting for executors"
"""The phase before the first task of a job runs."""


class TableWriter(RowWriter, Protocol):
    """Writes and sums up what has been collected from Spark."""

    def write_table(self, rows: Any, extra: Mapping[Place, Extra]) -> Comparison:
        """Write the missing records, and sum them up.

        Args:
            rows: an Arrow table with the columns of `results.SCHEMA`.

        Raises:
            ScanFailed: the disk is full.
        """


@contextmanager
def watched(spark: SparkSession, phase: str, total: int, progress: Progress) -> Iterator[None]:
    """Report `progress(phase, done, total)` while the body runs Spark jobs.

    Progress is the share of finished tasks in the largest stage: tasks are of similar size. While
    other applications use all cores of a cluster, the phase is `WAITING`.

    Raises:
        ScanFailed: a Spark job failed.
    """
    finished = threading.Event()
    progress(phase, 0, total)
    watcher = threading.Thread(
        target=_watch, args=(spark, phase, total, progress, finished), daemon=True
    )
    watcher.start()
    try:
        yield
        progress(phase, total, total)
    except (PySparkException, Py4JError) as error:
        if was_interrupted(error):
            raise KeyboardInterrupt from error
        raise ScanFailed(cause_of(error)) from error
    finally:
        finished.set()
        watcher.join()


def _watch(
    spark: SparkSession, phase: str, total: int, progress: Progress, finished: threading.Event
) -> None:
    tracker = spark.sparkContext.statusTracker()
    most = idle = 0
    while not finished.wait(POLL_SECONDS):
        try:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except Py4JError:  # the context is closing; the job's own call reports why
            return
        tasks = [(s.numTasks, s.numCompletedTasks) for s in stages if s is not None]
        if not tasks:
            continue
        all_tasks, done = max(tasks)
        begun = done or most or any(s is not None and s.numActiveTasks for s in stages)
        idle = 0 if begun else idle + 1
        if idle > 1:  # a stage has no active task for a moment, even if there are executors
            progress(WAITING, 0, 0)
            continue
        most = max(most, total * done // max(1, all_tasks))
        progress(phase, most, total)


class SparkComparer:
    """Compares the two clusters of a link in one Spark application.

    Args:
        rows: reads the records.
        out: directory writable by the driver and all executors. Unreplicated records are written
            to `records`, superseded and expired ones to `others`, inversions to `inversions`, as
            Parquet.
        writer: writes missing records to `out` if they are not too many, which takes less time than
            Spark jobs; None if only Spark can write there.
    """

    def __init__(
        self, spark: SparkSession, rows: RowReader, out: Path, writer: TableWriter | None = None
    ) -> None:
        self._spark = spark
        self._rows = rows
        self._out = out
        self._writer = writer
        self._kept: DataFrame | None = None
        self._counted: tuple[DataFrame, results.Balance] | None = None
        self._in_order: frozenset[Place] = frozenset()

    def digest(self, plan: ComparePlan, reads: Reads, progress: Progress) -> Sequence[BucketDigest]:
        """Digest every record of these ranges.

        Raises:
            ScanFailed: the records could not be read completely.
        """
        self._forget()
        self._rows.renew()
        names = self._names(plan)
        with self._job("reading both clusters", span_of(reads), progress):
            sides = [self._narrow(plan, side, reads[side]) for side in Side]
            once = plan.once and not (plan.order and _may_be_laid_out_alike(plan))
            if once and (both := union(sides)) is not None:
                shuffled = self._shuffled(plan, both)
                if compare.counts_suffice(plan) and not plan.order:
                    return self._count(plan, shuffled, names)[1].digests
                self._kept = shuffled.persist(StorageLevel.DISK_ONLY)
                sides = [self._kept]
            # Each side on its own: Spark then sums up in the loop that reads, and plans the other
            # side meanwhile.
            frames = [compare.digest_rows(plan, some) for some in sides if some is not None]
            found = self._together(*(frame.collect for frame in frames))
        width = len(BucketDigest._fields) - len(("topic", "side"))
        digests = [
            (
                BucketDigest(
                    names[topic], Side.SOURCE if on_source else Side.TARGET, *numbers[:width]
                ),
                numbers[width:],
            )
            for rows in found
            for topic, on_source, *numbers in rows
        ]
        if plan.order and reads == plan.everything():
            self._in_order = inversions.laid_out_alike(plan, digests)
        return [digest for digest, _ in digests]

    def compare(
        self, plan: ComparePlan, suspects: Sequence[TopicSuspects], progress: Progress
    ) -> Comparison:
        """Compare record by record; write the missing ones as Parquet.

        Raises:
            ScanFailed: the records could not be read completely.
        """
        names = self._names(plan)
        counted, rows = self._counted, self._kept
        if rows is None:  # what `digest` kept has rows of all topics
            plan = replace(plan, topics=tuple(s.plan for s in suspects))
        if counted is None and suspects:
            rows = rows or self._suspect_rows(plan, suspects)
            assert rows is not None  # a differing bucket has records
            with self._job("comparing records", suspect_span(suspects), progress):
                counted = self._count(plan, rows, names)
        if counted is None:
            return self._nothing_missing({}, progress)
        _, balance = counted
        starts = _starts(suspects, balance)
        if not starts:
            return self._nothing_missing(balance.extra, progress)
        total = sum(t.source[p].end - o for t in plan.topics for p, o in _of(t.topic, starts))
        with self._job("locating missing records", total, progress):
            missing = self._missing(plan, suspects, rows, counted, starts)
            every = {(s.plan.topic, p) for s in suspects for p in s.dense}
            few = balance.few and starts.keys() <= every
            selected = results.selected(missing, names)
            if few and self._writer:
                comparison = self._writer.write_table(selected.toArrow(), balance.extra)
            else:
                results.write(self._spark, selected, self._out)
                with self._job("adding up", 0, progress):
                    comparison = self._summarise(plan, suspects, balance)
        self._forget()
        return comparison

    def check_order(self, plan: ComparePlan, progress: Progress) -> OrderCheck:
        """Check the order of all replicated records of the plan; write the inversions.

        Partitions that `digest` proved to be in order are not read again.

        Raises:
            ScanFailed: the records could not be read completely.
        """
        reads = {
            side: {
                topic: {p: r for p, r in parts.items() if (topic, p) not in self._in_order}
                for topic, parts in topics.items()
            }
            for side, topics in plan.everything().items()
        }
        folder = self._out / inversions.INVERSIONS
        with self._job("comparing the order of records", span_of(reads), progress):
            rows = self._kept
            if rows is None:
                narrow = union(self._narrow(plan, side, reads[side]) for side in Side)
                rows = None if narrow is None else self._shuffled(plan, narrow)
            found, matched = None, None
            if rows is not None:
                matched = inversions.matched(plan, rows).persist(StorageLevel.DISK_ONLY)
                found = inversions.inverted(plan, self._pairs(plan, rows, matched))
            inversions.write_inversions(self._spark, found, self._names(plan), folder)
            if matched is not None:
                matched.unpersist()
            return inversions.sum_inversions(self._spark, folder)

    def _pairs(self, plan: ComparePlan, rows: DataFrame, matched: DataFrame) -> DataFrame:
        """Match all records with their copies."""
        several = matched.where("several")
        pairs = matched.where("not several").select(*inversions.PAIR)
        if not several.count():
            return pairs
        return pairs.union(inversions.pairs(plan, rows, several).select(*inversions.PAIR))

    def _nothing_missing(self, extra: Mapping[Place, Extra], progress: Progress) -> Comparison:
        with self._job("adding up", 0, progress):
            if self._writer:
                self._writer.write(())
            else:
                results.write(self._spark, None, self._out)
        self._forget()
        return Comparison({}, extra)

    def _forget(self) -> None:
        """Release the rows that `digest` kept, and the counted records."""
        for kept in (self._kept, self._counted and self._counted[0]):
            if kept is not None:
                kept.unpersist()
        self._kept = self._counted = None
        self._in_order = frozenset()

    def _narrow(self, plan: ComparePlan, side: Side, ranges: Ranges) -> DataFrame | None:
        """Read ranges of a cluster, reduced to what is compared."""
        rows = self._rows.rows(side, on_side(plan, side, ranges))
        return None if rows is None else compare.narrow(plan, side, rows)

    def _shuffled(self, plan: ComparePlan, rows: DataFrame) -> DataFrame:
        """Shuffle rows so that no later step has to shuffle them again."""
        return rows.repartition(*compare.shuffled_by(plan.identity))

    def _suspect_rows(
        self, plan: ComparePlan, suspects: Sequence[TopicSuspects]
    ) -> DataFrame | None:
        """Read the records in different buckets again."""
        ranges = {side: {s.plan.topic: s.ranges(side) for s in suspects} for side in Side}
        rows = union(self._narrow(plan, side, ranges[side]) for side in Side)
        if rows is None:
            return None
        differing = compare.in_suspect_buckets(self._spark, suspects, rows)
        # Usually few: the session's number of partitions is for all records.
        needed = -(-suspect_span(suspects) // ROWS_A_TASK)
        most = int(str(self._spark.conf.get("spark.sql.shuffle.partitions")))
        partitions = min(most, max(self._spark.sparkContext.defaultParallelism, needed))
        return differing.repartition(partitions, *compare.shuffled_by(plan.identity))

    def _count(
        self, plan: ComparePlan, rows: DataFrame, names: Mapping[int, str]
    ) -> tuple[DataFrame, results.Balance]:
        """Count equal records, keep the rows that are needed, and sum them up."""
        records = compare.counted(plan, rows).persist(StorageLevel.DISK_ONLY)
        self._counted = records, results.balance(plan, records, names)
        return self._counted

    def _missing(
        self,
        plan: ComparePlan,
        suspects: Sequence[TopicSuspects],
        rows: DataFrame | None,
        counted: tuple[DataFrame, results.Balance],
        starts: Mapping[Place, int],
    ) -> DataFrame:
        """Return the missing records with class and order."""
        records, balance = counted
        deficit = records.where("on_source > on_target")
        surplus = records.where("on_target > on_source") if balance.extra else None
        newest = None
        if compare.counts_suffice(plan) and not balance.equals and _all_counted(suspects, starts):
            missing = compare.missing_records(records)
            if plan.within is OrderScope.PARTITION:
                newest = compare.newest_counted(records)
        else:
            source = self._source(plan, starts)
            missing = compare.missing_rows(plan, source, deficit, self._kept is not None)
            if plan.within is OrderScope.PARTITION:
                newest = compare.newest_replicated(plan, source, deficit)
        with_order = compare.with_order(plan, missing, rows, surplus, newest)
        replicated = _replicated(suspects, balance)
        return compare.classified(self._spark, plan, with_order, replicated)

    def _source(self, plan: ComparePlan, starts: Mapping[Place, int]) -> DataFrame:
        """Return the source records from the first possible missing one of each partition on."""
        if self._kept is not None:
            return self._kept.where("on_source")
        tails = {
            t.topic: {p: (OffsetRange(o, t.source[p].end),) for p, o in _of(t.topic, starts)}
            for t in plan.topics
        }
        read = self._narrow(plan, Side.SOURCE, tails)
        assert read is not None
        return read

    def _summarise(
        self, plan: ComparePlan, suspects: Sequence[TopicSuspects], balance: results.Balance
    ) -> Comparison:
        unreplicated = results.read(self._spark, self._out / results.RECORDS)
        summary = results.summarise(results.read_all(self._spark, self._out))
        missing, picture, examples = self._together(
            lambda: self._with_runs(plan, suspects, unreplicated, summary),
            lambda: results.histogram(unreplicated, summary),
            lambda: results.examples(unreplicated),
        )
        return Comparison(missing, balance.extra, picture, examples)

    def _with_runs(
        self,
        plan: ComparePlan,
        suspects: Sequence[TopicSuspects],
        unreplicated: DataFrame,
        missing: Mapping[Place, Missing],
    ) -> dict[Place, Missing]:
        places = [place for place, m in missing.items() if m.unreplicated]
        dense = {(s.plan.topic, p) for s in suspects for p in s.dense}
        limit = runs_limit(len(places))
        found: dict[Place, list[tuple[int, int]]] = {}
        totals: dict[Place, int] = {}
        for chosen in ([p for p in places if p in dense], [p for p in places if p not in dense]):
            if not chosen:
                continue
            rows = results.at_places(unreplicated, chosen, len(places))
            frame = (
                results.dense_runs(rows)
                if chosen[0] in dense
                else results.sparse_runs(rows, self._committed(plan, rows))
            )
            some, numbers = results.first_runs(frame, limit)
            found |= some
            totals |= numbers
        return {
            place: replace(m, runs=tuple(found.get(place, ())), runs_total=totals.get(place, 0))
            for place, m in missing.items()
        }

    def _committed(self, plan: ComparePlan, unreplicated: DataFrame) -> DataFrame:
        """Return the offsets of all compared records from the first to the last unreplicated.

        If `digest` kept the rows, the result may have more offsets.
        """
        if self._kept is not None:
            kept = self._kept.where(F.col("on_source") & compare.of_topics(plan.topics))
            named = compare.named(kept, self._names(plan))
            return named.select(F.col("name").alias("topic"), "partition", "offset")
        bounds = unreplicated.groupBy("topic", "partition").agg(
            F.min("offset").alias("start"), F.max("offset").alias("end")
        )
        ranges: dict[str, dict[int, tuple[OffsetRange, ...]]] = {}
        for row in bounds.collect():
            between = OffsetRange(row["start"], row["end"] + 1)
            ranges.setdefault(row["topic"], {})[row["partition"]] = (between,)
        rows = self._rows.rows(Side.SOURCE, ranges)
        assert rows is not None
        compared = compare.compared_rows(plan, Side.SOURCE, rows)
        return compared.select("topic", "partition", "offset")

    def _names(self, plan: ComparePlan) -> dict[int, str]:
        """Return topic names by digest."""
        topics = ", ".join(f"('{t.topic}')" for t in plan.topics)  # legal names have no quotes
        if not topics:
            return {}
        # Of literals only: Spark needs no job.
        query = f"SELECT xxhash64(name) AS digest, name FROM VALUES {topics} AS topics(name)"
        return {row["digest"]: row["name"] for row in self._spark.sql(query).collect()}

    def _together(self, *works: Callable[[], Any]) -> list[Any]:
        """Do several works at the same time, so that Spark plans one while it runs another."""
        pool = ThreadPoolExecutor(len(works) or 1)
        doing = [pool.submit(work) for work in works]
        try:
            return [each.result() for each in doing]
        except Exception:
            with suppress(Py4JError, OSError):  # Java may have ended, and its jobs with it
                self._spark.sparkContext.cancelAllJobs()
            raise
        finally:
            # After an interrupt, the jobs end with Java: do not wait for their answers.
            pool.shutdown(wait=False, cancel_futures=True)

    def _job(self, phase: str, total: int, progress: Progress) -> AbstractContextManager[None]:
        return watched(self._spark, phase, total, progress)


def on_side(plan: ComparePlan, side: Side, ranges: Ranges) -> TopicRanges:
    """Return what to read on one cluster, by topic name there."""
    return {t.name_on(side): ranges[t.topic] for t in plan.topics if t.topic in ranges}


def _may_be_laid_out_alike(plan: ComparePlan) -> bool:
    """Return whether most records are in partitions with as many offsets as their copies."""
    spans = [
        (r.span, t.by_partition and p in t.target and t.target[p].span == r.span)
        for t in plan.topics
        for p, r in t.source.items()
    ]
    return 2 * sum(span for span, alike in spans if alike) > sum(span for span, _ in spans)


def _starts(suspects: Sequence[TopicSuspects], balance: results.Balance) -> Mapping[Place, int]:
    """Return the first possible missing offset of each source partition."""
    starts = dict(balance.starts)
    deficit = {topic for topic, _ in starts}
    for s in suspects:
        # Equal records may be in several partitions: there is no single first offset.
        if not s.plan.by_partition and s.plan.topic in deficit:
            starts |= {
                (s.plan.topic, p): results[0].start for p, results in s.source.items() if results
            }
    return starts


def _all_counted(suspects: Sequence[TopicSuspects], starts: Mapping[Place, int]) -> bool:
    """Return whether all records after these offsets are in differing buckets."""
    return all(
        s.replicated_to.get(partition, -1) < offset
        for s in suspects
        for partition, offset in _of(s.plan.topic, starts)
    )


def _replicated(suspects: Sequence[TopicSuspects], balance: results.Balance) -> dict[Place, int]:
    """Return the first source offset of each partition that is on the target."""
    found = dict(balance.replicated_from)
    for s in suspects:
        for partition, offset in s.replicated_from.items():
            place = (s.plan.topic, partition)
            found[place] = min(offset, found.get(place, offset))
    return found


def _of(topic: str, starts: Mapping[Place, int]) -> list[tuple[int, int]]:
    return [(partition, offset) for (name, partition), offset in starts.items() if name == topic]
