"""Peak memory of the JVM of `drctl gap`, by number of records."""

from collections.abc import Iterator, Mapping, Sequence

from bench.process import run_gap
from bench.records import IDENTICAL, Variant
from bench.rows import Ratio, Row, Target
from bench.stage import Stage

PART = "memory"
FLAT = Target(1.2)


def measure(
    stage: Stage, sizes: Sequence[int], variants: Sequence[Variant], most: int, heaps: Sequence[str]
) -> Iterator[Row]:
    """Measure each size, the last one with its ratio to the one before.

    Args:
        most: records per side of an additional run without missing records; 0 for none.
        heaps: values of `spark.driver.memory`; the empty string is drctl's default.

    Raises:
        WrongAnswer: a run did not find what is missing.
    """
    ascending = sorted(sizes)
    for variant in variants:
        peaks = {heap: dict[int, float]() for heap in heaps}
        more = [most] if most > ascending[-1] and variant is IDENTICAL else []
        for size in (*ascending, *more):
            for heap, of_heap in peaks.items():
                of_heap[size] = _peak_mb(stage, size, variant, heap)
                ratio = _ratio(of_heap, ascending, size)
                name = f"JVM's peak{_with(heap)}, {size:,} a side, {variant.title}"
                yield Row(PART, name, (of_heap[size],), "MB", ratio=ratio)


def _ratio(peaks: Mapping[int, float], ascending: Sequence[int], size: int) -> Ratio | None:
    """Ratio of the two largest sizes, or of the additional one to the largest."""
    if len(ascending) < 2 or size < ascending[-1]:
        return None
    before = ascending[-2]
    return Ratio(peaks[size] / peaks[before], f"{size:,} / {before:,}", FLAT)


def _with(heap: str) -> str:
    return f" with spark.driver.memory {heap}" if heap else ""


def _peak_mb(stage: Stage, size: int, variant: Variant, heap: str) -> float:
    data, options = stage.data(size, (variant,)), ("--scope", "full", "--engine", "spark")
    conf = {"conf": {"spark.driver.memory": heap}} if heap else {}
    config = stage.configured("memory", stage.links, spark=conf)
    ended = run_gap(stage, data, variant, watched=True, options=options, config=config)
    peak = ended.jvm_bytes / 2**20
    what = f"{size:,} records a side, {variant.title}{_with(heap)}"
    stage.tell(f"{what}: {peak:.0f} MB, {ended.seconds:.1f} s")
    return peak
