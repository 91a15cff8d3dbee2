"""`drctl gap` when it does not read everything: the tail, and runs with a ledger."""

from collections.abc import Iterator, Sequence

from bench.process import run_gap
from bench.records import BEHIND
from bench.rows import Ratio, Row, Target
from bench.stage import Stage

PART = "scopes"
FULL, TAIL, LEDGER = ("--scope", "full"), ("--scope", "tail"), ("--ledger", "--scope", "full")
SAME = Target(1.2)


def measure(stage: Stage, sizes: Sequence[int], runs: int) -> Iterator[Row]:
    """Measure for each size: everything, the tail, a new ledger and an existing ledger.

    Raises:
        WrongAnswer: a run did not find the 50,000 missing records.
    """
    first = {"tail": 0.0, "kept ledger": 0.0}
    for size in sorted(sizes):
        ways = (("full", FULL, 1), ("tail", TAIL, runs), ("new ledger", LEDGER, 1))
        for name, options, times in (*ways, ("kept ledger", LEDGER, runs)):
            row = _row(stage, size, name, options, times)
            ratio = None
            if name in first:
                first[name] = first[name] or row.value
                if size == max(sizes) > min(sizes):
                    meaning = f"{name}: most records / fewest"
                    ratio = Ratio(row.value / first[name], meaning, SAME)
            yield Row(PART, row.name, row.samples, ratio=ratio)


def _row(stage: Stage, size: int, name: str, options: Sequence[str], runs: int) -> Row:
    dataset = stage.data(size, (BEHIND,))
    times = []
    for _ in range(runs):
        times.append(run_gap(stage, dataset, BEHIND, options=options).seconds)
        stage.tell(f"{size:,} records a side, {name}: {times[-1]:.2f} s")
    return Row(PART, f"drctl gap, {size:,} a side, the last 50,000 missing: {name}", tuple(times))
