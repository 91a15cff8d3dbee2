"""`drctl gap --submit` on a Spark standalone cluster, compared with Spark inside drctl.

Both run from the command line to the result, in turns. The cluster has two workers with one core
and one gigabyte each: as many cores, and as much memory, as Spark inside drctl uses on two cores.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.process import run_gap
from bench.records import IDENTICAL, MANY, Variant
from bench.rows import Ratio, Row, Target, paired
from bench.spark_standalone import standalone
from bench.stage import Dataset, Stage
from bench.turns import Work, in_turns

PART = "submit"
_VARIANTS = (IDENTICAL, MANY)
_WANTED = Target(1.2)
_EXECUTOR, _WORKER = "1g", "1200m"
_FULL = ("--scope", "full")


def measure(stage: Stage, records: int, rounds: int) -> Iterator[Row]:
    """Measure identical topics, and 10 % missing.

    Raises:
        WrongAnswer: a run did not find what is missing.
        Stopped: the Spark cluster does not start.
    """
    dataset = stage.data(records, _VARIANTS)
    with (
        TemporaryDirectory(dir=stage.folder) as folder,
        standalone(Path(folder), memory=_WORKER) as cluster,
    ):
        (shared := Path(folder, "shared")).mkdir()
        conf = {"spark.executor.memory": _EXECUTOR}
        spark = {"master": cluster.master, "shared": str(shared), "conf": conf}
        config = stage.configured("submit", stage.links, spark=spark)
        for variant in _VARIANTS:
            yield from _rows(stage, dataset, variant, config, rounds)


def _rows(
    stage: Stage, dataset: Dataset, variant: Variant, config: Path, rounds: int
) -> Iterator[Row]:
    def inside() -> None:
        run_gap(stage, dataset, variant, options=(*_FULL, "--engine", "spark"))

    def on_cluster() -> None:
        run_gap(stage, dataset, variant, options=(*_FULL, "--submit"), config=config)

    what = f"drctl gap from start to end, {dataset.total:,} a side, {variant.title}"
    names = f"{what}: local[*]", f"{what}: --submit"
    works = [Work(name, run) for name, run in zip(names, (inside, on_cluster), strict=True)]
    times = in_turns(works, rounds, stage.tell, warm_ups=0)
    local, submitted = (times[name] for name in names)
    read = dataset.read(variant)
    ratio = Ratio(paired(submitted, local), "--submit / local[*]", _WANTED)
    yield Row(PART, names[0], local, records=read)
    yield Row(PART, names[1], submitted, records=read, ratio=ratio)
