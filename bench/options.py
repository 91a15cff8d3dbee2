"""The command line of the benchmarks."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass

from bench import (
    beside,
    cold,
    cost,
    dump,
    estimate,
    help_page,
    loss,
    memory,
    offsets,
    order,
    plan,
    reconcile,
    rereads,
    rto,
    scopes,
    status,
    submitted,
    tracking,
    warm,
    wide,
)
from bench.records import IDENTICAL, MANY, Variant

MODULES = (
    *(help_page, estimate, warm, cold, offsets, tracking, dump, rereads, reconcile, scopes, cost),
    *(wide, submitted, order, memory, plan, status, loss, rto),
)
PARTS = tuple(module.PART for module in MODULES)

_SCALED = (1_000_000, 2_000_000, 4_000_000)
_FULL = (1_000_000, 4_000_000, 16_000_000)
_MOST = 30_000_000


@dataclass(frozen=True, slots=True)
class Options:
    """What is measured, and with which sizes.

    Attributes:
        records: per side, for the warm comparisons.
        rounds: that count, after one warm-up round.
        memory_sizes: records per side, ascending.
        memory_variants: what is missing in memory measurements.
        memory_most: records per side of a memory measurement without missing records; 0: none.
        heaps: `spark.driver.memory` of memory measurements; the empty string is drctl's default.
        scope_sizes: records per side, ascending, before a tail of 50,000.
        copied_sizes: records of additional runs of `drctl reconcile`, ascending.
        many_topics: compared with the same records in four partitions; they have `topic_partitions`
            each, with `many_records` each.
        topics: for an estimate or a plan, with `topic_partitions` each.
        offsets: number of groups to move.
        dump_sizes: records of the topic to dump, ascending.
        lagging: groups that lag, with a real MirrorMaker 2 that copies `lagging_records`.
        crashes: number of crashes to draw from `seed`.
        first_crash: the first one to run; earlier ones were measured in another run.
        crowds: groups of each failover whose outage is measured, ascending.
        faults: how the primary is lost in these.
        beside: another checkout, whose commands run in turns with those of this one.
    """

    parts: tuple[str, ...]
    records: int
    rounds: int
    memory_sizes: tuple[int, ...]
    memory_variants: tuple[Variant, ...]
    memory_most: int
    heaps: tuple[str, ...]
    scope_sizes: tuple[int, ...]
    copied_sizes: tuple[int, ...]
    many_topics: int
    many_records: int
    cold_records: int
    cold_runs: int
    help_runs: int
    topics: int
    topic_partitions: int
    estimate_runs: int
    offsets: offsets.Sizes
    dump_sizes: tuple[int, ...]
    lagging: int
    lagging_records: int
    crashes: int
    first_crash: int
    seed: int
    crowds: tuple[int, ...]
    faults: tuple[str, ...]
    beside: str


def parse(words: Sequence[str] | None = None) -> Options:
    """Parse the command line; exit if it is invalid."""
    given = _parser().parse_args(words)
    sizes = given.memory_sizes or (_FULL if given.full else _SCALED)
    return Options(
        parts=(beside.PART,)
        if given.beside
        else tuple(part for part in PARTS if part in (given.only or PARTS)),
        records=given.records,
        rounds=given.rounds,
        memory_sizes=tuple(sorted(set(sizes))),
        memory_variants=(IDENTICAL, MANY) if given.full else (IDENTICAL,),
        memory_most=given.memory_most or (_MOST if given.full else 0),
        heaps=tuple(given.driver_memory.split(",")),
        scope_sizes=tuple(sorted(set(sizes))),
        copied_sizes=tuple(sorted(set(given.copied_sizes))),
        many_topics=given.many_topics,
        many_records=given.many_records,
        cold_records=given.cold_records,
        cold_runs=given.cold_runs,
        help_runs=given.help_runs,
        topics=given.topics,
        topic_partitions=given.topic_partitions,
        estimate_runs=given.estimate_runs,
        offsets=offsets.Sizes(
            given.groups, given.wide_groups, given.wide_partitions, given.checkpoints, given.rounds
        ),
        dump_sizes=tuple(sorted(set(given.dump_sizes))),
        lagging=given.lagging,
        lagging_records=given.lagging_records,
        crashes=given.crashes,
        first_crash=given.first_crash,
        seed=given.seed,
        crowds=tuple(sorted(set(given.crowds))),
        beside=given.beside,
        faults=tuple(how for how in rto.LIMITS_S if how in (given.fault or rto.LIMITS_S)),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS, help="may be repeated")
    records = os.environ.get("BENCH_RECORDS", "1000000")  # argparse checks it like an option
    for name, default, words in (
        ("--records", records, "records per side of warm and order; else $BENCH_RECORDS"),
        ("--rounds", "3", "rounds of the parts that have no option for runs"),
        ("--many-topics", "50", "topics of a comparison of very many partitions"),
        ("--many-records", "600", "records in each partition of these"),
        ("--cold-records", "100000", "records per side of each cold start"),
        ("--cold-runs", "3", "runs of each cold start"),
        ("--help-runs", "20", "runs of drctl --help"),
        ("--topics", "500", "topics of estimate, plan and status"),
        ("--topic-partitions", "20", "partitions of each of the --topics"),
        ("--estimate-runs", "3", "runs of each estimate and status"),
        ("--groups", "1000", "groups of offsets and tracking (4 partitions each), plan and status"),
        ("--wide-groups", "100", "translated groups with very many partitions"),
        ("--wide-partitions", "1000", "partitions of each of the --wide-groups"),
        ("--checkpoints", "5000000", "records in MirrorMaker 2's checkpoints topic"),
        ("--lagging", "50", "lagging groups with 4 partitions each, with a real MirrorMaker 2"),
        ("--lagging-records", "200000", "records that MirrorMaker 2 copies for them"),
        ("--crashes", "20", "crashes of the source during writes, to estimate the loss"),
        ("--first-crash", "1", "first crash to run; the others were measured before"),
        ("--seed", "20", "seed from which crashes are drawn"),
    ):
        help_text = f"{words} (%(default)s)"
        parser.add_argument(name, default=default, type=_positive, metavar="N", help=help_text)
    parser.add_argument(
        "--memory-sizes",
        type=_sizes,
        metavar="N,N,..",
        help="records per side, for memory and scopes",
    )
    parser.add_argument(
        "--memory-most",
        type=_positive,
        metavar="N",
        help="records per side of an additional memory run without missing records",
    )
    parser.add_argument(
        "--driver-memory",
        default="",
        metavar="SIZE,SIZE,..",
        help="spark.driver.memory of memory measurements, such as 640m,1g (drctl's own default)",
    )
    parser.add_argument(
        "--copied-sizes",
        default=(),
        type=_sizes,
        metavar="N,N,..",
        help="records of additional runs of drctl reconcile, whose memory is compared",
    )
    parser.add_argument(
        "--dump-sizes",
        default="1000000,5000000",
        type=_sizes,
        metavar="N,N,..",
        help="records of __consumer_timestamps (%(default)s)",
    )
    parser.add_argument(
        "--crowds",
        default="1,100,1000",
        type=_sizes,
        metavar="N,N,..",
        help="groups of each failover whose outage is measured (%(default)s)",
    )
    parser.add_argument(
        "--fault",
        action="append",
        choices=tuple(rto.LIMITS_S),
        help="how the primary is lost in rto; may be repeated",
    )
    parser.add_argument(
        "--beside",
        default="",
        metavar="DIR",
        help="another checkout: compare only its commands with those of this one",
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="memory and scopes at 1, 4 and 16 million, memory at 30 million, too",
    )
    return parser


def _positive(text: str) -> int:
    digits = text.replace("_", "")
    if not digits.isdecimal() or int(digits) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(digits)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(_positive(word) for word in text.split(","))
