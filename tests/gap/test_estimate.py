"""The estimate on generated logs, and everything that may make it wrong."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from drctl.config.link import Link
from drctl.gap.estimate import GapEstimate
from drctl.gap.estimating import CROWD, Log, Narrowing, Terms, Timeline, Unit, judge
from drctl.model.errors import ExitCode, UsageError
from drctl.model.estimate import EstimateResult, Missing, PartitionEstimate, Uncertainty
from drctl.model.gap import NotCompared
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable
from tests.cli.documents import check
from tests.depth import examples
from tests.fakes import FakeCluster
from tests.gap.offsets import (
    NOON,
    Entry,
    NumberedLog,
    cluster,
    link,
    log,
    never_copied,
    numbered,
    sides,
)

HOUR = 3_600_000
MOMENT = datetime(2026, 3, 5, tzinfo=UTC)


def silent(_phase: str, _done: int, _total: int) -> None: ...


def estimate(
    source: FakeCluster, target: FakeCluster, of: Link | None = None, *topics: str
) -> EstimateResult:
    found = GapEstimate(of or link(), source, target, silent, lambda: MOMENT).run(topics)
    check(found.to_json())
    assert found.exit_code == ExitCode.UNKNOWN
    return found


def one(
    source: NumberedLog, target: NumberedLog, of: Link | None = None, **more: object
) -> PartitionEstimate:
    """Return the estimate of one partition; `source_...` and `target_...` go to the clusters."""
    ours = {k.removeprefix("source_"): v for k, v in more.items() if k.startswith("source_")}
    theirs = {k.removeprefix("target_"): v for k, v in more.items() if k.startswith("target_")}
    found = estimate(cluster("primary", source, **ours), cluster("secondary", target, **theirs), of)
    ((topic,),) = (list(found.topics),)
    (partition,) = topic.partitions
    return partition


def numbers(log: NumberedLog, first: int, last: int) -> Counter[int | None]:
    """Return the records between two counts from the log start."""
    found = log.entries[log.start + first : log.start + last]
    return Counter(entry.number for entry in found)


def assumption_holds(source: NumberedLog, target: NumberedLog, timeline: Timeline | None) -> bool:
    """Whether time ranges with equal counts have equal records."""
    if timeline is None:
        return source.records() == target.records()
    return all(
        numbers(source, p.left.source, p.right.source)
        == numbers(target, p.left.target, p.right.target)
        for p in timeline.body()
        if p.excess == 0
    )


def unit_of(source: NumberedLog, target: NumberedLog) -> Unit:
    place = TopicPartition("orders", 0)
    logs = [(Log(place, x.start, x.end - x.open, x.end),) for x in (source, target)]
    return Unit("orders", 0, *logs)


def timeline_of(
    source: NumberedLog, target: NumberedLog, look_ups: int = 30_000
) -> Timeline | None:
    unit = unit_of(source, target)
    ends = cluster("primary", source), cluster("secondary", target)
    narrowing = Narrowing(*ends, silent, look_ups)
    return narrowing.run(narrowing.differing([unit], timed=True)).get(unit)


def surely_missing(source: NumberedLog, target: NumberedLog, timeline: Timeline | None) -> int:
    """Return records that were never replicated, except expired ones."""
    head = sum(piece.source for piece in timeline.head()) if timeline else 0
    return never_copied(numbered(source.entries, source.start + head, source.open), target)


@settings(max_examples=examples(80), deadline=None)
@given(sides())
def test_ground_truth_is_within_the_bounds(both: tuple[NumberedLog, NumberedLog]) -> None:
    source, target = both
    timeline = timeline_of(source, target)
    assume(assumption_holds(source, target, timeline))
    found = one(source, target)
    event("something is missing" if found.missing.estimate else "nothing seems missing")
    missing = found.missing
    assert missing.at_least <= never_copied(source, target)
    assert surely_missing(source, target, timeline) <= missing.at_most
    assert missing.at_least <= missing.estimate <= missing.at_most


@settings(max_examples=examples(40), deadline=None)
@given(sides(), st.integers(0, 6))
def test_the_bounds_hold_however_few_look_ups_there_are(
    both: tuple[NumberedLog, NumberedLog], look_ups: int
) -> None:
    source, target = both
    timeline = timeline_of(source, target, look_ups)
    assume(assumption_holds(source, target, timeline))
    unit = unit_of(source, target)
    found = judge(unit, Terms(), timeline).missing
    assert found.at_least <= never_copied(source, target)
    assert surely_missing(source, target, timeline) <= found.at_most


@settings(max_examples=examples(30), deadline=None)
@given(sides())
def test_with_transactions_there_is_no_lower_bound(both: tuple[NumberedLog, NumberedLog]) -> None:
    """Every third record of the source is followed by a marker, and nothing is missing."""
    records, _ = both
    marked = [
        m
        for n, e in enumerate(records.entries)
        for m in ([e, Entry(e.time, None)][: 1 + (n % 3 == 2)])
    ]
    found = one(numbered(marked), numbered(records.entries), source_transactions=True)
    assert found.missing.at_least == 0
    assert found.missing.at_most >= 0
    assert Uncertainty.TRANSACTIONS in found.uncertainty
    if len(marked) > len(records.entries):
        assert found.missing.estimate <= 1


def test_nothing_differs() -> None:
    same = log(0, 5, 5, 70)
    found = one(same, same)
    assert (found.missing, found.ahead_on_target) == (Missing(), 0)
    assert (found.source_range, found.target_range) == (OffsetRange(0, 4), OffsetRange(0, 4))
    assert (found.diverges_from, found.stopped_at, found.time_ranges) == (None, None, ())
    assert found.uncertainty == ()
    assert not found.diverges


def test_replication_stopped() -> None:
    times = [n * 1000 for n in range(100)]
    found = one(log(*times), log(*times[:63]))
    assert found.missing == Missing(37, 37, 37)
    assert found.diverges_from == found.stopped_at == NOON + 63_000


def test_replication_stopped_within_a_millisecond() -> None:
    found = one(log(0, 1, 2, 2, 2, 2, 3, 9), log(0, 1, 2, 2))
    assert found.missing == Missing(4, 4, 6)
    assert found.diverges_from == NOON + 2
    assert found.stopped_at == NOON + 3


def test_replication_stopped_and_the_target_has_own_writes() -> None:
    """Totals are equal: only the newest records show a loss."""
    times = [n * 1000 for n in range(100)]
    own = [200_000 + n for n in range(40)]
    found = one(log(*times), log(*times[:60], *own))
    assert found.missing == Missing(0, 40, 40)
    assert found.ahead_on_target == 40
    assert found.diverges_from == NOON + 60_000
    assert found.stopped_at is None
    assert found.uncertainty == (Uncertainty.AHEAD_ON_TARGET,)


def test_records_copied_late_are_not_certainly_missing() -> None:
    """As after a failback that copied 30 of 40 records."""
    times = [n * 1000 for n in range(100)]
    own = [200_000 + n for n in range(10)]
    found = one(log(*times), log(*times[:60], *own, *times[60:90]))
    assert found.missing == Missing(0, 40, 40)
    assert found.ahead_on_target == 40


def test_what_the_target_had_before_does_not_explain_a_later_loss() -> None:
    times = [n * 60_000 for n in range(100)]
    own = [600_000 + n for n in range(1, 21)]
    found = one(log(*times), log(*sorted([*times[:90], *own])))
    assert found.missing.at_least == found.missing.estimate == 10
    assert found.ahead_on_target == 20


def test_old_losses_and_a_stop_have_two_times() -> None:
    times = [n * 60_000 for n in range(1000)]
    found = one(log(*times), log(*(t for n, t in enumerate(times) if n < 900 and n != 17)))
    assert found.missing == Missing(101, 101, 101)
    assert found.diverges_from == NOON + 17 * 60_000
    assert found.stopped_at == NOON + 900 * 60_000


def test_late_records_do_not_hide_a_stop() -> None:
    times = [n * 100 - (n * 7919) % 3000 for n in range(500)]
    found = one(log(*times), log(*times[:400]))
    assert found.missing.at_least == found.missing.estimate == 100
    assert 100 <= found.missing.at_most < 160


def test_a_lost_record_from_the_future_is_one_record() -> None:
    """Later records have its time on the source, and their own on the target."""
    times = [0, 1000, 3000, 2000, 2100, 2200, 4000]
    found = one(log(*times), log(*times[:2], *times[3:]))
    assert found.missing.at_least == 1
    assert found.missing.at_most >= 1


def test_clocks_out_of_order() -> None:
    times = [0, HOUR, *range(1, CROWD + 400)]
    found = one(log(*times), log(*times[:-300]))
    assert found.missing.at_least == found.missing.estimate == 300
    assert found.diverges_from is None
    assert found.uncertainty == (Uncertainty.CLOCKS_OUT_OF_ORDER,)


def test_records_deleted_on_the_target_are_no_gap() -> None:
    times = [n * 10_000 for n in range(100)]
    found = one(log(*times), log(*times[:90], start=30))
    assert found.missing == Missing(10, 10, 10)
    assert found.diverges_from == NOON + 900_000
    assert found.uncertainty == (Uncertainty.DELETED_ON_TARGET,)


def test_records_deleted_on_the_source_hide_nothing() -> None:
    times = [n * 10_000 for n in range(100)]
    found = one(log(*times, start=40), log(*times[:90]))
    assert found.missing == Missing(10, 10, 10)
    assert found.ahead_on_target == 0
    assert found.uncertainty == (Uncertainty.DELETED_ON_SOURCE,)


def test_more_than_a_target_without_records_can_have_deleted() -> None:
    times = [n * 10_000 for n in range(100)]
    found = one(log(*times), log(*times[:20], start=20))
    assert found.missing == Missing(80, 80, 80)


def test_a_target_with_its_own_clock_is_compared_by_totals() -> None:
    own = {"orders": {"message.timestamp.type": "LogAppendTime"}}
    found = one(log(*range(50)), log(*range(HOUR, HOUR + 45)), target_configs=own)
    assert found.missing == Missing(5, 5, 50)
    assert found.diverges_from is None
    assert found.uncertainty == (Uncertainty.TIMES_NOT_COMPARABLE,)


def test_an_identity_without_timestamp_is_compared_by_totals() -> None:
    found = one(log(*range(50)), log(*range(HOUR, HOUR + 45)), link(identity="key"))
    assert found.missing == Missing(5, 5, 50)
    assert found.uncertainty == (Uncertainty.TIMES_NOT_COMPARABLE,)
    same = one(log(*range(50)), log(*range(HOUR, HOUR + 50)), link(identity="key"))
    assert same.missing == Missing()


@pytest.mark.parametrize("side", ["source", "target"])
def test_in_compacted_topics_only_newer_records_count(side: str) -> None:
    compacted = {f"{side}_configs": {"orders": {"cleanup.policy": "compact,delete"}}}
    times = [n * 1000 for n in range(100)]
    kept = [t for n, t in enumerate(times[:80]) if n % 3]
    found = one(log(*times), log(*kept), **compacted)
    assert found.missing.estimate == 20 + (side == "target") * (80 - len(kept))
    assert found.missing.at_least == (0 if side == "source" else 100 - len(kept))
    assert found.missing.at_most >= found.missing.estimate
    assert found.stopped_at == NOON + 80_000
    assert Uncertainty.COMPACTED in found.uncertainty


def test_a_configuration_that_may_not_be_read() -> None:
    dark = {"orders": Unavailable("not authorized to describe topic orders")}
    found = one(log(*range(9)), log(*range(7)), source_configs=dark)
    assert found.missing == Missing(0, 2, 2)
    assert found.uncertainty == (Uncertainty.CONFIGURATION_UNKNOWN,)


def test_open_transactions() -> None:
    run = {"source_transactions": True, "target_transactions": True}
    found = one(log(*range(20), open=5), log(*range(15), open=2), **run)
    assert found.undecided == 5
    assert found.source_offsets == 15
    assert found.missing == Missing(0, 0, 2)
    assert set(found.uncertainty) == {
        Uncertainty.TRANSACTIONS,
        Uncertainty.TRANSACTIONS_ON_TARGET,
        Uncertainty.OPEN_TRANSACTION,
        Uncertainty.OPEN_TRANSACTION_ON_TARGET,
    }


def test_partition_missing_on_the_target() -> None:
    ours = cluster("primary", log(0, 7), log(9, 10, 11))
    found = estimate(ours, cluster("secondary", log(0, 7))).topics[0].partitions[1]
    assert found.missing == Missing(3, 3, 3)
    assert found.target_range is None
    assert found.diverges_from == found.stopped_at == NOON + 9
    assert found.uncertainty == (Uncertainty.NOT_ON_TARGET,)


def test_topic_missing_on_the_target_and_one_not_visible() -> None:
    logs = {"orders": log(0, 1), "bills": log(0, 1), "dark": log(3)}
    ours = FakeCluster({TopicPartition(topic, 0): each for topic, each in logs.items()}, "primary")
    hidden = {"dark": Unavailable("not authorized to describe topic dark")}
    theirs = cluster("secondary", log(0, 1), topic="bills", hidden=hidden)
    found = estimate(ours, theirs, link("orders", "bills", "dark", "gone"))
    assert [(t.topic, t.partitions[0].missing.estimate) for t in found.topics] == [
        ("bills", 0),
        ("orders", 2),
    ]
    assert set(found.not_compared) == {
        NotCompared("gone", None, "does not exist on primary"),
        NotCompared("dark", None, "secondary: not authorized to describe topic dark"),
    }


def test_partitions_that_only_the_target_has_are_ahead() -> None:
    theirs = cluster("secondary", log(0, 7), log(9, 10, 11))
    found = estimate(cluster("primary", log(0, 7)), theirs).topics[0].partitions[1]
    assert (found.source_range, found.ahead_on_target) == (None, 3)
    assert found.missing == Missing()


@pytest.mark.parametrize("dark", ["primary", "secondary"])
def test_a_partition_that_one_side_cannot_show_is_left_out(dark: str) -> None:
    gone = Unavailable("the partition has no leader")
    logs = {
        name: (log(0, 1), gone if name == dark else log(0)) for name in ("primary", "secondary")
    }
    ends = [cluster(name, *each) for name, each in logs.items()]
    found = estimate(*ends)
    assert [p.partition for p in found.topics[0].partitions] == [0]
    assert found.not_compared == (NotCompared("orders", 1, f"{dark}: {gone.reason}"),)
    whole = estimate(*ends, link(keeps=False))
    assert whole.topics[0].partitions == ()
    assert len(whole.not_compared) == 2


def test_repartitioned_topics_are_counted_as_a_whole() -> None:
    ours = cluster("primary", log(0, 1000, 4000), log(2000, 3000, first=10))
    theirs = cluster("secondary", log(2000, first=10), log(0, first=0), log(1000, first=1))
    ((found,),) = (t.partitions for t in estimate(ours, theirs, link(keeps=False)).topics)
    assert (found.partition, found.source_range, found.target_range) == (None, None, None)
    assert found.missing == Missing(2, 2, 2)
    assert found.stopped_at == NOON + 3000
    assert found.uncertainty == (Uncertainty.WHOLE_TOPIC,)


def test_totals_do_not_hide_the_worst_partition() -> None:
    times = [n * 10_000 for n in range(50)]
    ours = cluster("primary", log(*times), log(*times[:30]))
    theirs = cluster("secondary", log(*times[:30]), log(*times))
    totals = estimate(ours, theirs).totals
    assert totals.missing == Missing(20, 20, 20)
    assert (totals.ahead_on_target, totals.ahead) == (20, 1)
    assert (totals.partitions, totals.diverging) == (2, 1)


def test_look_ups_are_limited_and_the_result_says_so() -> None:
    """Every second record of every partition is missing: the estimate never converges."""
    times = [n * 100_000 for n in range(400)]
    ours = cluster("primary", *(log(*times) for _ in range(20)))
    theirs = cluster("secondary", *(log(*times[::2]) for _ in range(20)))
    units = [
        Unit("orders", n, (Log(TopicPartition("orders", n), 0, 400, 400),),
             (Log(TopicPartition("orders", n), 0, 200, 200),))
        for n in range(20)
    ]  # fmt: skip
    narrowing = Narrowing(ours, theirs, silent, look_ups=300)
    lines = narrowing.run(narrowing.differing(units, timed=True))
    assert ours.asked <= 300 + 2 * len(units)
    for unit in units:
        found = judge(unit, Terms(), lines[unit])
        assert found.missing.at_least <= found.missing.estimate == 200
        assert 350 < found.missing.at_most <= 400
        assert Uncertainty.COARSE in found.uncertainty


def test_a_look_up_that_fails_ends_the_narrowing_of_its_partition() -> None:
    class Failing(FakeCluster):
        def _found(self, partition: TopicPartition, when: int) -> object:
            return Unavailable("gone") if when > NOON else super()._found(partition, when)

    times = [n * 1000 for n in range(50)]
    ours = Failing({TopicPartition("orders", 0): log(*times)}, "primary")
    theirs = cluster("secondary", log(*times[:30]))
    found = estimate(ours, theirs).topics[0].partitions[0]
    assert found.missing == Missing(20, 20, 50)
    assert Uncertainty.COARSE in found.uncertainty


def test_a_topic_that_the_link_does_not_carry() -> None:
    ends = cluster("primary", log(0)), cluster("secondary", log(0))
    with pytest.raises(UsageError, match="topic 'order' on primary is not part") as raised:
        estimate(*ends, link(), "order")
    assert "did you mean 'orders'" in raised.value.hint


def test_no_configuration_is_read_if_nothing_differs() -> None:
    class Strict(FakeCluster):
        def configurations(self, names: Sequence[str]) -> dict[str, object]:  # type: ignore[override]
            assert not names
            return {}

    same = {TopicPartition("orders", n): log(0, 1, 2) for n in range(3)}
    found = estimate(Strict(same, "primary"), Strict(same, "secondary"))
    assert found.totals.missing == Missing()
