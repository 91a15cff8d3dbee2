"""The comparison without Spark equals the reference, reads nothing twice, and bounds memory."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drctl.gap import summing
from drctl.gap.comparison import (
    BucketDigest,
    ComparePlan,
    Identity,
    Ranges,
    ScanFailed,
    Side,
    TopicPlan,
    find_suspects,
    span_of,
)
from drctl.gap.direct import DirectComparer
from drctl.gap.held import record_digest
from drctl.gap.reference import compare_topic
from drctl.gap.summing import MissingRow
from drctl.model.gap import Inversion, OrderScope
from drctl.model.topology import Chunk, OffsetRange, Record, TopicRanges
from tests.depth import examples
from tests.gap.comparing import GeneratedLogs, agree, no_progress, plan_of, run
from tests.gap.logs import BASE_TIME, GeneratedTopic, identities, topics


class Written:
    """Stores what is written."""

    def __init__(self) -> None:
        self.rows: list[MissingRow] = []
        self.inversions: list[Inversion] = []

    def write(self, rows: Iterable[MissingRow]) -> None:
        self.rows = list(rows)

    def write_inversions(self, rows: Iterable[Inversion]) -> None:
        self.inversions = list(rows)


several = st.tuples(*(topics(f"topic{n}") for n in range(4)))
MEMORY = {"all": {}, "no record": {"held_offsets": 0}, "no key": {"key_bytes": 0}}


@pytest.mark.parametrize("memory", MEMORY.values(), ids=MEMORY)
@given(generated=several, identity=identities, within=st.sampled_from(OrderScope))
@settings(max_examples=examples(18), deadline=None, derandomize=True)
def test_it_agrees_with_the_reference(
    memory: Mapping[str, int],
    generated: tuple[GeneratedTopic, ...],
    identity: Identity,
    within: OrderScope,
) -> None:
    written = Written()
    comparer = DirectComparer(GeneratedLogs(generated), written, **memory)
    agree(generated, identity, run(comparer, plan_of(generated, identity, within)), within)
    assert written.rows == wanted_rows(generated, identity, within)


def wanted_rows(
    generated: Sequence[GeneratedTopic], identity: Identity, within: OrderScope = OrderScope.KEY
) -> list[MissingRow]:
    return [
        MissingRow(
            g.plan.topic,
            v.record.partition,
            v.record.offset,
            v.record.timestamp_ms,
            v.record.key,
            size(v.record),
            v.record_class,
            v.order,
            v.misplaced,
            v.repeated,
        )
        for g in generated
        for v in compare_topic(g.plan, identity, g.source, g.target, within).missing
    ]


def size(r: Record) -> int:
    names = sum(len(name.encode()) + len(value or b"") for name, value in r.headers)
    return len(r.key or b"") + len(r.value or b"") + names


def halves(ranges: Ranges, at: float) -> tuple[Ranges, Ranges]:
    """Split offset ranges in two."""
    first: dict[str, dict[int, tuple[OffsetRange, ...]]] = {}
    second: dict[str, dict[int, tuple[OffsetRange, ...]]] = {}
    for topic, partitions in ranges.items():
        for p, (r,) in partitions.items():
            middle = r.start + int(r.span * at)
            first.setdefault(topic, {})[p] = (OffsetRange(r.start, middle),)
            second.setdefault(topic, {})[p] = (OffsetRange(middle, r.end),)
    return first, second


def added_up(digests: Iterable[BucketDigest]) -> dict[object, tuple[int, ...]]:
    """Return by bucket, over all cells: records, sums, first and last offset."""
    found: dict[object, tuple[int, ...]] = {}
    for d in digests:
        name = (d.topic, d.side, d.partition, d.bucket)
        n, sum1, sum2, first, last = found.get(name, (0, 0, 0, d.first, d.last))
        sums = (sum1 + d.sum1) % 2**64, (sum2 + d.sum2) % 2**64
        found[name] = (n + d.records, *sums, min(first, d.first), max(last, d.last))
    return found


@given(generated=several, identity=identities, at=st.floats(0, 1), bits=st.integers(0, 4))
@settings(max_examples=examples(10), deadline=None, derandomize=True)
def test_digests_of_parts_add_up(
    generated: tuple[GeneratedTopic, ...], identity: Identity, at: float, bits: int
) -> None:
    plan = plan_of(generated, identity)
    whole = DirectComparer(GeneratedLogs(generated), Written())
    everything = plan.everything()
    wanted = whole.digest(plan, everything, no_progress)
    assert all(-(2**63) <= s < 2**63 for d in wanted for s in (d.sum1, d.sum2))
    assert {d.cell for d in wanted} <= {0}
    cells = replace(plan, cell_bits=bits)
    split = {side: halves(everything[side], at) for side in Side}
    comparer = DirectComparer(GeneratedLogs(generated), Written())
    parts = [
        d
        for n in (0, 1)
        for d in comparer.digest(cells, {s: split[s][n] for s in Side}, no_progress)
    ]
    assert added_up(parts) == added_up(wanted)
    assert all(d.first >> bits == d.cell == d.last >> bits for d in parts)
    agree(generated, identity, comparer.compare(cells, find_suspects(cells, parts), no_progress))


@given(generated=several, identity=identities)
@settings(max_examples=examples(8), deadline=None, derandomize=True)
def test_nothing_is_read_twice(generated: tuple[GeneratedTopic, ...], identity: Identity) -> None:
    logs = GeneratedLogs(generated)
    plan = plan_of(generated, identity)
    run(DirectComparer(logs, Written()), plan)
    read: dict[Side, int] = defaultdict(int)
    for side, ranges in logs.asked:
        read[side] += span_of({side: ranges})  # type: ignore[dict-item]
    spans = {side: span_of({side: ranges}) for side, ranges in plan.everything().items()}
    assert dict(read) == {side: span for side, span in spans.items() if span}


def one_topic(missing: int = 3, count: int = 10) -> GeneratedTopic:
    """The last records are not on the target."""
    log = [Record(0, n, BASE_TIME + n, b"key-%d" % n, b"v") for n in range(count)]
    ends = {Side.SOURCE: count, Side.TARGET: count - missing}
    ranges = {side: {0: OffsetRange(0, end)} for side, end in ends.items()}
    plan = TopicPlan(
        "orders", "orders", True, True, 1, False, ranges[Side.SOURCE], ranges[Side.TARGET], {0: 0}
    )
    return GeneratedTopic(plan, {0: log}, {0: log[: count - missing]})


class Failing(GeneratedLogs):
    """Fails once, half-way."""

    failed = False

    def read(self, side: Side, ranges: TopicRanges) -> Iterator[Chunk]:
        for chunk in super().read(side, ranges):
            yield chunk
            if not self.failed:
                self.failed = True
                raise ScanFailed("offset 3 is gone")


def in_halves(plan: ComparePlan) -> list[dict[Side, Ranges]]:
    """Return the ranges of a plan in two parts."""
    split = {side: halves(plan.everything()[side], 0.5) for side in Side}
    return [{side: parts[n] for side, parts in split.items()} for n in (0, 1)]


def compare_after_the_second_half(
    comparer: DirectComparer, plan: ComparePlan, topic: GeneratedTopic
) -> None:
    """Digest the second half; the first half's digests come from elsewhere."""
    first, second = in_halves(plan)
    elsewhere = DirectComparer(GeneratedLogs([topic]), Written())
    digests = [*elsewhere.digest(plan, first, no_progress)]
    digests += comparer.digest(plan, second, no_progress)
    comparison = comparer.compare(plan, find_suspects(plan, digests), no_progress)
    agree([topic], plan.identity, comparison)


def test_results_of_a_failed_scan_are_discarded() -> None:
    topic = one_topic(missing=8)
    comparer = DirectComparer(Failing([topic]), Written())
    plan = plan_of([topic], Identity())
    with pytest.raises(ScanFailed):
        comparer.digest(plan, in_halves(plan)[0], no_progress)
    compare_after_the_second_half(comparer, plan, topic)


def test_a_record_that_is_gone_when_its_key_is_read_again() -> None:
    topic = one_topic()
    logs = GeneratedLogs([topic])
    comparer = DirectComparer(logs, Written(), key_bytes=0)
    plan = plan_of([topic], Identity())
    suspects = find_suspects(plan, comparer.digest(plan, plan.everything(), no_progress))
    logs.logs[Side.SOURCE]["orders"] = {0: topic.source[0][:9]}
    with pytest.raises(ScanFailed, match="offset 9 of orders-0 was deleted"):
        comparer.compare(plan, suspects, no_progress)


def test_results_are_not_reused_for_another_plan() -> None:
    before, after = one_topic(missing=8), one_topic(missing=8)
    after.source = {0: [replace(r, key=b"made anew") for r in before.source[0]]}
    logs = GeneratedLogs([before])
    comparer = DirectComparer(logs, Written())
    plan = plan_of([before], Identity())
    comparer.digest(plan, in_halves(plan)[0], no_progress)
    logs.logs = GeneratedLogs([after]).logs
    compare_after_the_second_half(comparer, replace(plan, salt=43), after)


def test_ranges_are_cut_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drctl.gap.comparison.RUNS_A_PARTITION", 100)
    log = [Record(0, n, BASE_TIME + n, None, b"%d" % n) for n in range(601)]
    kept = [replace(r, offset=n) for n, r in enumerate(log[::2])]
    plan = TopicPlan(
        *("orders", "orders", True, True, 1, False),
        {0: OffsetRange(0, 601)},
        {0: OffsetRange(0, len(kept))},
        {0: 0},
    )
    topic = GeneratedTopic(plan, {0: log}, {0: kept})
    comparison = run(
        DirectComparer(GeneratedLogs([topic]), Written()), plan_of([topic], Identity())
    )
    missing = comparison.missing["orders", 0]
    assert missing.runs == tuple((n, n) for n in range(1, 200, 2))
    assert missing.runs_total == missing.unreplicated == 300
    assert [e.offset for e in comparison.examples] == list(range(1, 40, 2))
    ((name, partition, bins),) = comparison.histogram.rows
    assert (name, partition, len(bins), sum(bins)) == ("orders", 0, 60, 300)
    assert comparison.histogram.start_ms == BASE_TIME + 1


def test_progress_is_reported() -> None:
    topic = one_topic()
    reports: list[tuple[str, int, int]] = []

    def progress(phase: str, done: int, total: int) -> None:
        reports.append((phase, done, total))

    plan = plan_of([topic], Identity())
    comparer = DirectComparer(GeneratedLogs([topic]), Written())
    digests = comparer.digest(plan, plan.everything(), progress)
    assert reports[0] == ("reading both clusters", 0, 17)
    assert reports[-1] == ("reading both clusters", 17, 17)
    assert [done for _, done, _ in reports] == sorted(done for _, done, _ in reports)
    comparer.compare(plan, find_suspects(plan, digests), progress)
    assert reports[-1][0] == "adding up"


def test_a_plan_without_topics() -> None:
    plan = ComparePlan((), Identity(), buckets=8, salt=1)
    assert run(DirectComparer(GeneratedLogs([]), Written()), plan).missing == {}


def test_the_same_limits_as_with_spark() -> None:
    from drctl.spark import comparer, results

    assert summing.runs_limit is comparer.runs_limit
    for name in ("HISTOGRAM_BINS", "histogram_frame", "EXAMPLES"):
        assert getattr(summing, name) is getattr(results, name)


ANY_TIME = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([2**63 - 1, -(2**63), 9_223_372_036_854_776, 9_223_372_036_854_775, -1, 0]),
)


@given(generated=several, times=st.lists(ANY_TIME, min_size=1, max_size=5), identity=identities)
@settings(max_examples=examples(15), deadline=None, derandomize=True)
def test_any_timestamp_is_compared(
    generated: tuple[GeneratedTopic, ...], times: list[int], identity: Identity
) -> None:
    """Kafka accepts any 64 bits; clients write nanoseconds instead of milliseconds."""
    known: dict[int, int] = {}

    def odd(logs: Mapping[int, Sequence[Record]]) -> dict[int, list[Record]]:
        def at(r: Record) -> int:
            return known.setdefault(r.timestamp_ms, times[len(known) % len(times)])

        return {p: [replace(r, timestamp_ms=at(r)) for r in log] for p, log in logs.items()}

    some = tuple(GeneratedTopic(g.plan, odd(g.source), odd(g.target)) for g in generated)
    written = Written()
    comparer = DirectComparer(GeneratedLogs(some), written)
    agree(some, identity, run(comparer, plan_of(some, identity)))
    assert written.rows == wanted_rows(some, identity)


def test_timestamps_that_overflow_alike_differ() -> None:
    digest = record_digest(Identity(), True, 7)
    found = [digest(at, b"k", b"v", ()) for at in (5, 5 + 2**61, 5 - 2**61, 2**62, 2**63 - 1)]
    assert len(set(found)) == 5
