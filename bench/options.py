"""The command line of the benchmarks."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass

from bench import cold, help_page, memory, warm
from bench.records import IDENTICAL, MANY, Variant

PARTS = (help_page.PART, warm.PART, cold.PART, memory.PART)

_SCALED = (250_000, 1_000_000, 4_000_000)
_FULL = (1_000_000, 4_000_000, 16_000_000)


@dataclass(frozen=True, slots=True)
class Options:
    """What is measured, and on how much.

    Attributes:
        records: a side, of the warm comparisons.
        rounds: that count, after one that does not.
        memory_sizes: records a side, ascending.
        memory_variants: what is missing where memory is looked at.
    """

    parts: tuple[str, ...]
    records: int
    rounds: int
    memory_sizes: tuple[int, ...]
    memory_variants: tuple[Variant, ...]
    cold_records: int
    cold_runs: int
    help_runs: int


def parse(words: Sequence[str] | None = None) -> Options:
    """Read the command line; ends the process where it is wrong."""
    given = _parser().parse_args(words)
    sizes = given.memory_sizes or (_FULL if given.full else _SCALED)
    return Options(
        parts=tuple(part for part in PARTS if part in (given.only or PARTS)),
        records=given.records,
        rounds=given.rounds,
        memory_sizes=tuple(sorted(set(sizes))),
        memory_variants=(IDENTICAL, MANY) if given.full else (IDENTICAL,),
        cold_records=given.cold_records,
        cold_runs=given.cold_runs,
        help_runs=given.help_runs,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS, help="may be repeated")
    records = os.environ.get("BENCH_RECORDS", "1000000")  # argparse checks it like an option
    for name, default, words in (
        ("--records", records, "a side, warm; else $BENCH_RECORDS"),
        ("--rounds", "3", "of warm comparisons, after one that does not count"),
        ("--cold-records", "100000", "a side, from a cold start"),
        ("--cold-runs", "3", "of each cold start"),
        ("--help-runs", "20", "of drctl --help"),
    ):
        said = f"{words} (%(default)s)"
        parser.add_argument(name, default=default, type=_positive, metavar="N", help=said)
    parser.add_argument(
        "--memory-sizes", type=_sizes, metavar="N,N,..", help="records a side, for peak memory"
    )
    parser.add_argument(
        "--full", action="store_true", help="memory at 1, 4 and 16 million, 10 %% missing too"
    )
    return parser


def _positive(text: str) -> int:
    digits = text.replace("_", "")
    if not digits.isdecimal() or int(digits) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(digits)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(_positive(word) for word in text.split(","))
