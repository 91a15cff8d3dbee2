"""`drctl gap` on few records, from the command line to the result, with everything cold."""

from collections.abc import Iterator

from bench.process import run_gap
from bench.records import IDENTICAL, TAIL
from bench.rows import Row
from bench.stage import Stage

PART = "cold"


def measure(stage: Stage, records: int, runs: int) -> Iterator[Row]:
    """Measure identical topics, and a missing tail.

    Raises:
        WrongAnswer: a run did not find what is missing.
    """
    dataset = stage.data(records, (IDENTICAL, TAIL))
    for variant in (IDENTICAL, TAIL):
        times = []
        for number in range(runs):
            times.append(run_gap(stage, dataset, variant).seconds)
            stage.tell(f"run {number + 1} of {runs}, {variant.title}: {times[-1]:.2f} s")
        name = f"drctl gap from start to end, {records:,} a side, {variant.title}"
        yield Row(PART, name, tuple(times), records=dataset.read(variant))
