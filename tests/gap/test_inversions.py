"""Replicated records in another order on the target: what counts."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drctl.gap.comparison import Identity, OrderCheck, RecordComparer, TopicPlan
from drctl.gap.direct import DirectComparer
from drctl.gap.reference import inversions
from drctl.model.gap import Inversion, OrderScope
from drctl.model.topology import OffsetRange, Record
from tests.depth import examples
from tests.gap.comparing import GeneratedLogs, explain, no_progress, plan_of
from tests.gap.logs import GeneratedTopic, identities, reordered
from tests.gap.test_direct import Written

T = "orders"
KEY, PARTITION = OrderScope.KEY, OrderScope.PARTITION


def log(*names: str, partition: int = 0) -> list[Record]:
    """Return records `a1`, `a2`, ... of key `a`; `-1` has no key."""
    return [
        Record(partition, offset, 0, None if name[0] == "-" else name[:1].encode(), name.encode())
        for offset, name in enumerate(names)
    ]


def topic(
    source: Mapping[int, Sequence[Record]],
    target: Mapping[int, Sequence[Record]],
    *,
    by_partition: bool = True,
) -> GeneratedTopic:
    ranges = [{p: OffsetRange(0, len(log)) for p, log in side.items()} for side in (source, target)]
    plan = TopicPlan(T, T, by_partition, True, 0, False, *ranges, dict.fromkeys(target, 0))
    return GeneratedTopic(plan, source, target)


def found(
    source: Sequence[str], target: Sequence[str], within: OrderScope = KEY
) -> list[tuple[int, int, int, int]]:
    """Return for each its offsets on both clusters, and those of the record that it follows."""
    generated = topic({0: log(*source)}, {0: log(*target)})
    wanted = inversions(generated.plan, Identity(), generated.source, generated.target, within)
    agree([generated], Identity(), within, *direct([generated], Identity(), within))
    return [(i.offset, i.target_offset, i.earlier_offset, i.earlier_target_offset) for i in wanted]


def direct(
    generated: Sequence[GeneratedTopic], identity: Identity, within: OrderScope
) -> tuple[OrderCheck, list[Inversion]]:
    written = Written()
    comparer: RecordComparer = DirectComparer(GeneratedLogs(generated), written)
    order = comparer.check_order(plan_of(generated, identity, within), no_progress)
    return order, written.inversions


def agree(
    generated: Sequence[GeneratedTopic],
    identity: Identity,
    within: OrderScope,
    order: OrderCheck,
    written: Sequence[Inversion],
) -> None:
    """Assert that numbers and records equal the reference's, and that it found the examples."""
    wanted: Counter[tuple[str, int]] = Counter()
    every: set[Inversion] = set()
    for g in generated:
        here = inversions(g.plan, identity, g.source, g.target, within)
        wanted.update((g.plan.topic, each.partition) for each in here)
        every.update(here)
        numbers = {p: n for p, n in order.inversions.items() if p[0] == g.plan.topic}
        assert numbers == {p: n for p, n in wanted.items() if p[0] == g.plan.topic}, explain(g)
    assert len(order.examples) == min(20, len(every))
    assert set(order.examples) <= every
    assert len(written) == len(every)
    assert set(written) == every


def test_equal_order_has_no_inversion() -> None:
    assert found(["a1", "b1", "a2"], ["a1", "b1", "a2"]) == []


def test_other_keys_may_overtake_each_other_unless_the_partition_counts() -> None:
    assert found(["a1", "b1"], ["b1", "a1"]) == []
    assert found(["a1", "b1"], ["b1", "a1"], PARTITION) == [(1, 0, 0, 1)]


def test_record_before_its_predecessor_counts() -> None:
    assert found(["a1", "a2"], ["a2", "a1"]) == [(1, 0, 0, 1)]


def test_an_old_tail_appended_after_newer_records() -> None:
    """One late record: all that overtook it count, each with the record that it follows."""
    assert found(["a1", "a2", "a3"], ["a2", "a3", "a1"]) == [(1, 0, 0, 2), (2, 1, 0, 2)]


def test_records_without_a_key_have_an_order_only_in_their_partition() -> None:
    assert found(["-1", "-2"], ["-2", "-1"]) == []
    assert found(["-1", "-2"], ["-2", "-1"], PARTITION) == [(1, 0, 0, 1)]


def test_missing_and_target_only_records_have_no_order() -> None:
    assert found(["a1", "a2", "a3"], ["a9", "a1", "a3"]) == []


def test_duplicates_do_not_count() -> None:
    """A restarted replicator: the first copy of every record is in order."""
    assert found(["a1", "a2"], ["a1", "a2", "a1", "a2"]) == []
    assert found(["a1", "a2", "a1"], ["a1", "a2"]) == []


def test_equal_records_are_interchangeable() -> None:
    assert found(["a1", "b1", "a1", "b1"], ["a1", "b1", "b1", "a1"]) == []


def test_copies_in_two_partitions_have_no_order_among_each_other() -> None:
    source = {0: log("a1", "a2", "a3")}
    target = {0: log("a2", "a1"), 1: log("a3", partition=1)}
    generated = topic(source, target, by_partition=False)
    identity = Identity(timestamp=False)
    agree([generated], identity, KEY, *direct([generated], identity, KEY))
    wanted = inversions(generated.plan, identity, source, target, KEY)
    assert [each.offset for each in wanted] == [1]


@pytest.mark.parametrize("within", OrderScope)
@given(generated=st.tuples(*(reordered(f"topic{n}") for n in range(4))), identity=identities)
@settings(
    max_examples=examples(25),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_without_spark_it_agrees_with_the_reference(
    within: OrderScope, generated: tuple[GeneratedTopic, ...], identity: Identity
) -> None:
    agree(generated, identity, within, *direct(generated, identity, within))


def test_digested_records_are_not_read_again() -> None:
    generated = [topic({0: log("a1", "a2")}, {0: log("a2", "a1")})]
    logs, plan = GeneratedLogs(generated), plan_of(generated, Identity())
    comparer = DirectComparer(logs, Written())
    comparer.digest(plan, plan.everything(), no_progress)
    read = len(logs.asked)
    assert comparer.check_order(plan, no_progress).inversions == {(T, 0): 1}
    assert len(logs.asked) == read
    other = dataclasses.replace(plan, salt=plan.salt + 1)
    assert comparer.check_order(other, no_progress).inversions == {(T, 0): 1}
    assert len(logs.asked) > read
