"""The most memory that the JVM of `drctl gap` ever holds, by the number of records."""

from collections.abc import Iterator, Sequence

from bench.process import run_gap
from bench.records import Variant
from bench.rows import Ratio, Row, Target
from bench.stage import Stage

PART = "memory"
FLAT = Target(1.2)


def measure(stage: Stage, sizes: Sequence[int], variants: Sequence[Variant]) -> Iterator[Row]:
    """A row for each size, the last one with its ratio to the one before.

    Raises:
        WrongAnswer: a run did not find what is missing.
    """
    for variant in variants:
        before = 0.0
        for size in sorted(sizes):
            peak = _peak_mb(stage, size, variant)
            ratio = None
            if before and size == max(sizes):
                ratio = Ratio(peak / before, "the most records / the size before", FLAT)
            yield Row(
                PART, f"JVM's peak, {size:,} a side, {variant.title}", (peak,), "MB", ratio=ratio
            )
            before = peak


def _peak_mb(stage: Stage, size: int, variant: Variant) -> float:
    ended = run_gap(stage, stage.data(size, (variant,)), variant, watched=True)
    peak = ended.jvm_bytes / 2**20
    stage.tell(f"{size:,} records a side, {variant.title}: {peak:.0f} MB, {ended.seconds:.1f} s")
    return peak
