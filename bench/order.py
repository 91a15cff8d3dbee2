"""The cost of checking the order of replicated records, compared with digests of them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from bench.collecting import check, row_of
from bench.digests import check_digests, comparing, plan_of, unheard
from bench.filling import Appender, create_topics
from bench.process import WrongAnswer
from bench.records import Message, chunks
from bench.rows import Ratio, Row, Target, paired
from bench.stage import Stage
from bench.turns import Work, in_turns, warm_ups
from drctl.gap.comparison import ComparePlan
from drctl.model.gap import OrderScope
from drctl.spark.comparer import SparkComparer

PART = "order"
PARTITIONS = 4
DIGESTS, KEY, PARTITION = "digests of both sides", "order by key", "order by partition"
IN_ORDER = "digests and order by key, nothing out of order"
SWAPPED = 20
"""Pairs of records of one key in each chunk that are swapped on the target."""


@dataclass(frozen=True, slots=True)
class Filled:
    """Topics on both sides.

    Attributes:
        topic: some of its records are out of order on the target.
        inversions: their number.
        in_order: a topic with the same records in order.
    """

    topic: str
    records: int
    inversions: int
    in_order: str


def measure(stage: Stage, records: int, rounds: int) -> Iterator[Row]:
    """Measure digests, then the order by key and by partition.

    Raises:
        WrongAnswer: the number of inversions is wrong.
        TooMuchCollection: the JVM spent too much time on garbage.
    """
    data = _fill(stage, records)
    plan, even = (
        plan_of(topic, PARTITIONS, *stage.clusters) for topic in (data.topic, data.in_order)
    )
    with comparing(stage, "order", 2 * records) as (comparer, _, collecting):
        works = (
            Work(DIGESTS, lambda: check_digests(comparer, plan, 2 * data.records)),
            Work(KEY, lambda: _order(comparer, plan, data)),
            Work(PARTITION, lambda: _partition(comparer, plan, data)),
            Work(IN_ORDER, lambda: _in_order(comparer, even, data)),
        )
        times = in_turns(works, rounds, stage.tell, warm_ups(records))
        share = collecting.share()
    for name in times:
        ratio = None
        if name != DIGESTS:
            target = Target(1.5) if name in (KEY, IN_ORDER) else None
            ratio = Ratio(paired(times[name], times[DIGESTS]), f"{name} / digests", target)
        yield Row(PART, name, times[name], records=2 * records, ratio=ratio)
    yield row_of(PART, share)
    check(share)


def _fill(stage: Stage, records: int) -> Filled:
    stage.tell(f"writing {records:,} records a side, some of the target in another order")
    topic, in_order, inversions = f"order-{records}", f"in-order-{records}", 0
    source, target = Appender(stage.source), Appender(stage.target)
    for cluster in stage.clusters:
        create_topics(cluster, [topic, in_order], PARTITIONS)
    for _, messages in chunks(records, stage.start_ms, partitions=PARTITIONS):
        source.append(topic, messages)
        changed, swapped = reordered(messages)
        target.append(topic, changed)
        for each in (source, target):
            each.append(in_order, messages)
        inversions += swapped
    source.finish()
    target.finish()
    return Filled(topic, records, inversions, in_order)


def reordered(messages: list[Message]) -> tuple[list[Message], int]:
    """Move some records of a key after its next one; return the records and the number of pairs."""
    changed, last, swapped = list(messages), dict[bytes, int](), 0
    for place, message in enumerate(messages):
        before = last.pop(message.key, None)
        if before is None:
            last[message.key] = place
        elif swapped < SWAPPED:
            changed[before], changed[place] = changed[place], changed[before]
            swapped += 1
    return changed, swapped


def _order(comparer: SparkComparer, plan: ComparePlan, data: Filled) -> None:
    found = comparer.check_order(plan, unheard)
    if (number := sum(found.inversions.values())) != data.inversions:
        raise WrongAnswer(f"{number} inversions were found, there are {data.inversions}")


def _partition(comparer: SparkComparer, plan: ComparePlan, data: Filled) -> None:
    found = comparer.check_order(replace(plan, within=OrderScope.PARTITION), unheard)
    if (number := sum(found.inversions.values())) < data.inversions:
        raise WrongAnswer(f"{number} inversions were found, there are at least {data.inversions}")


def _in_order(comparer: SparkComparer, plan: ComparePlan, data: Filled) -> None:
    plan = plan.reading_once(order=True)
    check_digests(comparer, plan, 2 * data.records)
    if found := comparer.check_order(plan, unheard).inversions:
        raise WrongAnswer(f"{found} are out of order in a topic that is in order")
