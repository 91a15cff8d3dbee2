"""The tail finds what a full comparison finds after its start, and starts early enough."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drctl.gap.comparison import ComparePlan, Identity, TopicPlan
from drctl.gap.reference import compare_topic
from drctl.gap.tail import MARGINS, Position, Tail, aligned, too_narrow, windowed
from drctl.model.gap import Counts, PartitionGap, RecordClass, TopicGap, Window
from drctl.model.topology import OffsetRange, Record, TopicPartition
from tests.depth import examples
from tests.fakes import FakeCluster, FakeLog, record_of

PLACE = TopicPartition("t", 0)
MARGIN = 40


def cluster(records: Sequence[tuple[bytes, int]], first: int = 0) -> FakeCluster:
    log = FakeLog(start=first)
    for key, time in records:
        log.append(key, time)
    return FakeCluster({PLACE: log}, "c")


def plan(source: FakeCluster, target: FakeCluster, *, timestamps: bool = True) -> ComparePlan:
    ranges = [{0: OffsetRange(c.log(PLACE).start, c.log(PLACE).end)} for c in (source, target)]
    topic = TopicPlan("t", "t", True, timestamps, 0, False, ranges[0], ranges[1], {0: 0})
    return ComparePlan((topic,), Identity(), buckets=8, salt=1)


def compared(cut: ComparePlan, source: FakeCluster, target: FakeCluster) -> tuple[list[int], int]:
    """Return the offsets of unreplicated records of a plan, and the number of target-only ones."""
    (topic,) = cut.topics
    logs = [
        {p: [record_of(p, row) for row in c.log(TopicPartition("t", p)).read(*r_)]}
        for c, ranges in ((source, topic.source), (target, topic.target))
        for p, r_ in ranges.items()
    ]
    outcome = compare_topic(topic, cut.identity, *logs)
    missing = [v for v in outcome.missing if v.record_class is RecordClass.UNREPLICATED]
    return [v.record.offset for v in missing], outcome.only_on_target


def gap_of(missing: Sequence[int]) -> TopicGap:
    runs = tuple((o, o) for o in missing)
    counts = Counts(unreplicated=len(missing))
    return TopicGap("t", "t", (PartitionGap(0, OffsetRange(0, 1), None, counts, ranges=runs),))


def found_by_tail(
    source: FakeCluster, target: FakeCluster, position: int
) -> tuple[list[int], int, Window]:
    """Widen the tail as the analysis does."""
    positions = {PLACE: Position(position, "the test")}
    tail = Tail(source, target, positions, same_offsets=False, margin=MARGIN)  # type: ignore[arg-type]
    whole = plan(source, target)
    margins: dict[TopicPartition, int] = {}
    while True:
        windows, unknown = tail.windows(whole, margins)
        assert not unknown
        missing, extra = compared(windowed(whole, windows), source, target)
        wider = too_narrow([gap_of(missing)], windows)
        if not wider:
            return missing, extra, windows[PLACE]
        margins |= wider


@st.composite
def histories(draw: st.DrawFn) -> tuple[FakeCluster, FakeCluster, int]:
    """Draw a source, its replica, and the position that the replicator reports."""
    size = draw(st.integers(0, 400))
    jitter = draw(st.sampled_from([0, 0, 3, 30]))
    ticks = draw(st.sampled_from([1, 5]))  # some records have equal timestamps
    times = [n // ticks + draw(st.integers(0, jitter)) for n in range(size)]
    keys = [b"k%d" % draw(st.integers(0, 30)) for _ in range(size)]
    records = list(zip(keys, times, strict=True))
    position = draw(st.integers(0, size))
    lost = (
        draw(st.sets(st.integers(0, max(0, size - 1)), max_size=3))
        if draw(st.booleans())
        else set()
    )
    ahead = draw(st.integers(0, 5))  # copied beyond the reported position
    copies = [r for n, r in enumerate(records[: position + ahead]) if n not in lost]
    for _ in range(draw(st.integers(0, 2))):  # restarted from an earlier reported position
        again = draw(st.integers(0, len(copies)))
        copies[again:again] = copies[max(0, again - draw(st.integers(0, 30))) : again]
    own = [(b"own", 10_000 + n) for n in range(draw(st.integers(0, 5)))]
    return cluster(records), cluster(copies + own, draw(st.sampled_from([0, 7]))), position


@pytest.mark.slow
@given(histories())
@settings(max_examples=examples(60), deadline=None)
def test_a_tail_finds_what_a_full_comparison_finds_after_its_start(
    history: tuple[FakeCluster, FakeCluster, int],
) -> None:
    source, target, position = history
    everything, _ = compared(plan(source, target), source, target)
    missing, _, window = found_by_tail(source, target, position)
    start = window.source_start
    wanted = [o for o in everything if o >= start]
    records = [(key, time) for _, time, key, *_ in source.log(PLACE).rows]
    # Of equal records a full comparison names the last ones: the missing one may be before the
    # window. And a second copy before the window may stand for one that is missing in it.
    before = set(records[:start])
    assert len(missing) >= len([o for o in wanted if records[o] not in before])
    if len(set(records)) == len(records):
        assert missing == wanted
    assert not [o for o in missing if o < position] or window.whole
    assert window.whole or start <= position - MARGIN


def test_only_the_tail_is_read() -> None:
    records = [(b"k%d" % n, n) for n in range(5000)]
    source, target = cluster(records), cluster([*records[:4000], (b"own", 9000)], 3)
    missing, extra, window = found_by_tail(source, target, 4000)
    assert missing == list(range(4000, 5000))
    assert extra == 1
    assert (window.source_start, window.target_start) == (3960, 3963)


def test_missing_ranges_widen_the_window() -> None:
    records = [(b"k%d" % n, n) for n in range(5000)]
    source, target = cluster(records), cluster(records[:3970] + records[3980:4000])
    missing, _, window = found_by_tail(source, target, 4000)
    assert missing == [*range(3970, 3980), *range(4000, 5000)]
    assert window.source_start == 4000 - 8 * 8 * MARGIN or window.whole


def test_without_evidence_a_partition_is_left_out_unless_it_is_small() -> None:
    records = [(b"k%d" % n, n) for n in range(100)]
    source, target = cluster(records), cluster(records)
    whole = plan(source, target)
    tail = Tail(source, target, {}, same_offsets=False, margin=MARGIN)  # type: ignore[arg-type]
    windows, unknown = tail.windows(whole, {})
    assert windows == {}
    assert [(u.topic, u.partition) for u in unknown] == [("t", 0)]
    assert "replication progress is unknown" in unknown[0].reason
    tail = Tail(source, target, {}, same_offsets=False, margin=100)  # type: ignore[arg-type]
    windows, unknown = tail.windows(whole, {})
    assert (windows[PLACE].whole, unknown) == (True, ())


def test_requested_partitions_without_evidence_are_read_in_full() -> None:
    source = cluster([(b"k%d" % n, n) for n in range(100)])
    source.logs[TopicPartition("t", 1)] = source.logs[PLACE]
    topic = TopicPlan(
        "t", "t", True, True, 0, False, {p: OffsetRange(0, 100) for p in (0, 1)}, {}, {}
    )
    whole = ComparePlan((topic,), Identity(), buckets=8, salt=1)
    tail = Tail(source, source, {}, same_offsets=False, margin=MARGIN, only={PLACE})  # type: ignore[arg-type]
    windows, unknown = tail.windows(whole, {})
    assert (list(windows), windows[PLACE].whole, unknown) == ([PLACE], True, ())
    assert "replication progress is unknown" in windows[PLACE].evidence
    assert dict(windowed(whole, windows).topics[0].source) == {0: OffsetRange(0, 100)}


def test_many_partitions_get_smaller_margins() -> None:
    number, end = 5_000, 1_000_000
    ranges = dict.fromkeys(range(number), OffsetRange(0, end))
    topic = TopicPlan("t", "t", True, True, 0, False, ranges, ranges, {})
    positions = {TopicPartition("t", p): Position(end, "the test") for p in range(number)}
    nobody = FakeCluster()
    tail = Tail(nobody, nobody, positions, same_offsets=True)  # type: ignore[arg-type]
    windows, _ = tail.windows(ComparePlan((topic,), Identity(), buckets=8, salt=1), {})
    assert {end - window.source_start for window in windows.values()} == {MARGINS // number}


def test_copies_that_keep_their_offsets_need_no_search() -> None:
    records = [(b"same", 1)] * 200
    source, target = cluster(records), cluster(records[:150])
    positions: Mapping[TopicPartition, Position] = {PLACE: Position(150, "the target ends there")}
    tail = Tail(source, target, positions, same_offsets=True, margin=MARGIN)  # type: ignore[arg-type]
    windows, _ = tail.windows(plan(source, target), {})
    assert (windows[PLACE].source_start, windows[PLACE].target_start) == (110, 110)


def test_the_last_of_several_equal_ranges_is_used() -> None:
    def records(keys: str) -> list[Record]:
        return [Record(0, n, 0, key.encode(), None) for n, key in enumerate(keys)]

    def name(record: Record) -> object:
        return record.key

    assert aligned(records("ab"), records("xababx"), name) == 3
    assert aligned(records("ab"), records("axb"), name) is None
    assert aligned([], records("ab"), name) is None
