"""Gap results for the page and the terminal."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from random import Random

from drctl.model.gap import (
    Counts,
    Example,
    GapResult,
    Histogram,
    NotCompared,
    OrderCounts,
    OrderVerdict,
    PartitionGap,
    TopicGap,
)
from drctl.model.topology import OffsetRange

FROZEN = datetime(2026, 3, 5, 14, 20, 7, tzinfo=UTC)
FROZEN_MS = int(FROZEN.timestamp() * 1000)
MINUTE = 60_000
HOSTILE_KEYS = (
    b"<script>document.title='pwned'</script>",
    b'"><img src=x onerror="document.title=\'pwned\'">',
    b"</title></style><svg onload=document.title='pwned'>",
    "\u202egnp.exe\u202c \u2066\u200b\ufeff".encode(),
    b"\x1b[31mred\x1b]0;pwned\x07\x00\xff\\",
    b"{{ 7*7 }} {% raw %} [bold]x[/bold] [/]",
)
HOSTILE_TOPIC = "<script>document.title='pwned'</script>\u202e[red]\x1b[31m"


def gap(partition: int, read: int, missing: int = 0, **other: object) -> PartitionGap:
    """Return a partition whose last `missing` records, one per second, are not on the target."""
    tail = PartitionGap(
        partition=partition,
        source_range=OffsetRange(0, read),
        target_range=OffsetRange(0, read - missing),
        counts=Counts(read, read - missing, missing),
        order=OrderCounts(safe=missing),
        bytes=missing * 212,
        ranges=((read - missing, read - 1),) if missing else (),
        ranges_total=1 if missing else 0,
        oldest_timestamp=FROZEN_MS - missing * 1000 if missing else None,
        newest_timestamp=FROZEN_MS - 1000 if missing else None,
    )
    return replace(tail, **other)  # type: ignore[arg-type]


def result(*topics: TopicGap, **other: object) -> GapResult:
    whole = GapResult(
        link="main",
        scope="full",
        source="primary",
        source_id="MkU3OEVBNTcwNTJENDM2Qg",
        target="secondary",
        target_id="Qk1OREVGNTcwNTJENDM2Qg",
        started=FROZEN,
        seconds=41.27,
        out=".drctl/gap/20260305T142007Z",
        topics=topics,
    )
    return replace(whole, **other)  # type: ignore[arg-type]


def topic(name: str, *partitions: PartitionGap, **other: object) -> TopicGap:
    return replace(TopicGap(name, name, partitions), **other)  # type: ignore[arg-type]


def nothing_missing() -> GapResult:
    return result(*(topic(f"orders-{n}", *(gap(p, 125_000) for p in range(8))) for n in range(5)))


def tail_lost() -> GapResult:
    """Return a failover that lost the last seconds of three topics, with later writes there."""
    random = Random(7)
    lost = {"orders": 12, "payments": 6, "customer-addresses": 3}
    topics, rows, examples = [], [], []
    for name, partitions in lost.items():
        gaps = []
        for p in range(partitions):
            missing = random.randint(0, 140) if name != "payments" or p % 2 else 0
            counts = Counts(52_000, 52_000 - missing + 900, missing, only_on_target=900)
            conflicting = missing // 5
            order = OrderCounts(missing - conflicting - missing // 10, conflicting, missing // 10)
            gaps.append(gap(p, 52_000, missing, counts=counts, order=order))
            bins = [0] * 60
            for _ in range(missing):
                bins[min(59, int(random.triangular(20, 60, 52)))] += 1
            rows.append((name, p, tuple(bins)))
        topics.append(topic(name, *gaps))
        examples += [
            Example(name, 1, 51_990 + n, FROZEN_MS - n * 700, key, value, 212, verdict)
            for n, (key, value, verdict) in enumerate(
                (
                    (b"N14228", b'{"flight": "UA1545", "dest": "IAH"}', OrderVerdict.SAFE),
                    (b"N24211", b'{"flight": "UA1714", "dest": "IAH"}', OrderVerdict.CONFLICTING),
                    (None, b"\x00\x00\x00\x00\x2a\x02\x10Newark", OrderVerdict.UNKEYED),
                    (b"N619AA", None, OrderVerdict.SAFE),
                    (b"", b"", OrderVerdict.SAFE),
                )
            )
        ]
    start = FROZEN_MS - 60 * 5_000
    return result(*topics, histogram=Histogram(start, 5_000, tuple(rows)), examples=tuple(examples))


def scattered() -> GapResult:
    """Return one missing record in ten of 400 partitions, all day long."""
    random = Random(3)
    gaps, rows = [], []
    for p in range(400):
        missing = random.randint(900, 1_100)
        runs = tuple((n * 10, n * 10) for n in range(50))
        gaps.append(
            gap(
                p,
                10_000,
                missing,
                ranges=runs,
                ranges_total=missing,
                oldest_timestamp=FROZEN_MS - 24 * 60 * MINUTE,
            )
        )
        bins = [0] * 96
        for _ in range(missing):
            bins[random.randrange(96)] += 1
        rows.append(("clicks", p, tuple(bins)))
    histogram = Histogram(FROZEN_MS - 24 * 60 * MINUTE, 15 * MINUTE, tuple(rows[:200]))
    return result(topic("clicks", *gaps), histogram=histogram)


def not_complete() -> GapResult:
    lost = tail_lost()
    orders, *others = lost.topics
    assert lost.histogram
    rows = tuple(
        row for row in lost.histogram.rows if row[:2] not in {("orders", 10), ("orders", 11)}
    )
    held = replace(orders.partitions[0].counts, undecided=40)
    partitions = (replace(orders.partitions[0], counts=held), *orders.partitions[1:10])
    partitions += (gap(10, 0), gap(11, 0))
    notes = ("secondary keeps LogAppendTime: compared without timestamps",)
    return replace(
        lost,
        histogram=replace(lost.histogram, rows=rows),
        topics=(replace(orders, partitions=partitions, notes=notes), *others, topic("audit")),
        not_compared=(
            NotCompared(
                "audit", None, "user orders-app may not read it (TOPIC_AUTHORIZATION_FAILED)"
            ),
            NotCompared("orders", 10, "no leader on primary"),
            NotCompared(
                "orders", 11, "broker 2 did not answer within 30 s,\nread up to offset 41,233"
            ),
        ),
    )


def unknown_only() -> GapResult:
    held = Counts(52_000, 52_000, undecided=1)
    return result(topic("orders", gap(0, 52_001, counts=held)))


def target_topic_missing() -> GapResult:
    gaps = (gap(p, 120, 120, target_range=None) for p in range(3))
    return result(topic("invoices", *gaps), topic("orders", gap(0, 10_000)))


def many_topics() -> GapResult:
    """500 topics with names as long as Kafka allows, and records of 2013."""
    day = 24 * 60 * MINUTE
    start = 1_358_985_600_000  # 2013-01-24
    names = [f"{n:03}.com.example.orders.".ljust(249, "x") for n in range(500)]
    lost = [gap(0, 9_000, 90, oldest_timestamp=start, newest_timestamp=start + 5 * day)]
    rows = tuple((name, 0, (30, 60)) for name in names)
    topics = (topic(name, *lost) for name in names)
    return result(*topics, histogram=Histogram(start, 3 * day, rows))


def one_record() -> GapResult:
    return result(topic("orders", gap(0, 10, 1)))


def accounted_for() -> GapResult:
    counts = Counts(10_000, 9_500, superseded=400, expired=150, only_on_target=50)
    return result(topic("orders", gap(0, 10_000, counts=counts)))


def hostile() -> GapResult:
    examples = tuple(
        Example(
            HOSTILE_TOPIC, 0, n, FROZEN_MS, key, key[::-1] if n % 2 else key, 99, OrderVerdict.SAFE
        )
        for n, key in enumerate(HOSTILE_KEYS)
    )
    odd = (Example(HOSTILE_TOPIC, 0, 99, 2**62, b"a" * 1000, None, 9, OrderVerdict.SAFE),)
    partition = gap(0, 100, 7, oldest_timestamp=-1, newest_timestamp=2**62)
    return result(
        topic(HOSTILE_TOPIC, partition, notes=(HOSTILE_TOPIC,)),
        link=HOSTILE_TOPIC,
        source=HOSTILE_TOPIC,
        source_id=HOSTILE_TOPIC,
        target=HOSTILE_TOPIC,
        target_id=HOSTILE_TOPIC,
        scope=HOSTILE_TOPIC,
        out=HOSTILE_TOPIC,
        records_path=HOSTILE_TOPIC,
        examples=examples + odd,
        histogram=Histogram(-5, 7, ((HOSTILE_TOPIC, 0, (3, 4)),)),
        not_compared=(NotCompared(HOSTILE_TOPIC, None, HOSTILE_TOPIC),),
    )


@cache
@cache
def vast() -> GapResult:
    """Return 10,000 partitions of 100 topics, each with missing records."""
    random = Random(1)
    topics = []
    rows = []
    for t in range(100):
        name = f"tenant-{t:03}.eu-west.order-events.v2"
        gaps = []
        for p in range(100):
            missing = int(random.paretovariate(0.7)) % 40_000
            runs = tuple((9_000_000 + n * 700, 9_000_000 + n * 700 + 90) for n in range(100))
            gaps.append(gap(p, 10_000_000, missing, ranges=runs, ranges_total=4_000))
            if p % 4 == 0:
                bins = [0] * 120
                for n in range(120):
                    bins[n] = int(missing * random.random() ** 8 / 20)
                rows.append((name, p, tuple(bins)))
        topics.append(topic(name, *gaps, notes=(f"note {t}", "a note of all")))
    reasons = tuple(NotCompared(f"dark-{n}", n, "no leader on primary") for n in range(3_000))
    histogram = Histogram(FROZEN_MS - 7 * 24 * 60 * MINUTE, 84 * MINUTE, tuple(rows))
    return result(*topics, histogram=histogram, not_compared=reasons)


EVERY = {
    f.__name__: f
    for f in (
        nothing_missing,
        tail_lost,
        scattered,
        not_complete,
        unknown_only,
        target_topic_missing,
        one_record,
        accounted_for,
        hostile,
        vast,
    )
}
