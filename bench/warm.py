"""A warm Spark session: reading alone, `exceptAll`, and drctl's comparison, in turns."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bench.collecting import Collecting, check, row_of
from bench.records import FEW, IDENTICAL, MANY, TAIL, VARIANTS
from bench.rows import Ratio, Row, Target, paired
from bench.spark_works import Works
from bench.stage import Dataset, Stage
from bench.turns import Work, in_turns, warm_ups
from drctl.artifacts.jars import resolve
from drctl.spark.session import SMALL, SparkSettings, opened

PART = "warm"
GAP = "drctl gap, "
RAW = "Spark read of both sides, default source (V1)"
OWN = "Spark read of both sides, as drctl reads"
EXCEPT = "Spark exceptAll on key, value, partition, timestamp, "
FREEZE = "freezing offsets and planning"

Times = Mapping[str, tuple[float, ...]]


def measure(stage: Stage, records: int, rounds: int) -> Iterator[Row]:
    """Measure all rows of this part.

    Raises:
        WrongAnswer: a measured computation was wrong.
        TooMuchCollection: the JVM spent too much time on garbage.
    """
    dataset = stage.data(records, VARIANTS)
    with _works(stage, dataset) as works:
        works.check_default_source()
        listed = _listed(works, dataset)
        in_turns(listed, 0, stage.tell, warm_ups=warm_ups(records))
        collecting = Collecting.of(works.spark)
        times = in_turns(listed, rounds, stage.tell, warm_ups=0)
        share = collecting.share()
    ratios = _ratios(times)
    for work in listed:
        name = work.name
        yield Row(PART, name, times[name], records=work.records, ratio=ratios.get(name))
    yield row_of(PART, share)
    check(share)


@contextmanager
def _works(stage: Stage, dataset: Dataset) -> Iterator[Works]:
    jars = resolve("spark-connector", progress=stage.tell)
    log = stage.folder / "spark.log"
    # Small datasets use the settings for large ones, too: this part measures a warm session.
    offsets = max(SMALL, 2 * dataset.total)
    with opened(SparkSettings(jars=jars, log=log, offsets=offsets)) as spark:
        yield Works(spark, stage, dataset)


def _listed(works: Works, dataset: Dataset) -> tuple[Work, ...]:
    both = dataset.read(IDENTICAL)
    compared = (
        Work(GAP + variant.title, works.comparison(variant), dataset.read(variant))
        for variant in VARIANTS
    )
    return (
        Work(RAW, works.read_by_default, both),
        Work(OWN, works.reading_as_drctl(), both),
        *(
            Work(EXCEPT + each.title, works.except_all(each), dataset.read(each))
            for each in (IDENTICAL, MANY)
        ),
        *compared,
        Work(FREEZE, lambda: works.check_plan(IDENTICAL)),
    )


def _ratios(times: Times) -> Mapping[str, Ratio]:
    same = times[GAP + IDENTICAL.title]
    many, few, tail = (times[GAP + v.title] for v in (MANY, FEW, TAIL))
    return {
        GAP + IDENTICAL.title: Ratio(
            paired(same, times[RAW]), "gap on identical topics / default read", Target(0.33)
        ),
        EXCEPT + IDENTICAL.title: Ratio(
            paired(times[EXCEPT + IDENTICAL.title], same),
            "exceptAll / gap on identical topics",
            Target(3.5, at_least=True),
        ),
        EXCEPT + MANY.title: Ratio(
            paired(times[EXCEPT + MANY.title], many),
            "exceptAll / gap with 10 % missing",
            Target(1.5, at_least=True),
        ),
        GAP + MANY.title: Ratio(paired(many, same), "10 % missing / identical topics", Target(2.0)),
        GAP + FEW.title: Ratio(paired(few, same), "0.1 % missing / identical topics", Target(2.0)),
        GAP + TAIL.title: Ratio(
            paired(tail, same), "last 1 % missing / identical topics", Target(1.5)
        ),
        OWN: Ratio(paired(times[OWN], times[RAW]), "drctl's way to read / default read"),
    }
