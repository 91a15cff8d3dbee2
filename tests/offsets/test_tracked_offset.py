"""Translation by tracked offsets: which ones are used, their age, and the answers."""

from collections.abc import Sequence
from typing import cast

import pytest

from drctl.formats import tracked_offsets, tracking_passes
from drctl.formats.tracked_offsets import OffsetKey, TrackedOffset
from drctl.formats.tracking_passes import Pass, PassKey, Scope
from drctl.model.ports import ClusterReader
from drctl.model.topology import TopicPartition
from drctl.model.translation import Answer, GroupPartition
from drctl.offsets.methods import NoAnswer, Question
from drctl.offsets.searching import TargetSearch
from drctl.offsets.tracked_offset import TrackedOffsetAnswers
from drctl.offsets.tracking_log import (
    Change,
    TrackingLog,
    tracked_offsets_of,
    unreachable_source_id,
)
from tests.fakes import FakeCluster
from tests.offsets.answers import bounds, reason
from tests.offsets.tracked_groups import (
    HOUR,
    NOON,
    ORDERS,
    Clock,
    OneTracker,
    Topic,
    log,
    source_of,
)

EVERYTHING = Scope("primary", (".*",), (), (".*",))
BILLING = GroupPartition("billing", ORDERS)


def offset_record(
    cluster: str = "A", topic: str = "orders", at: int = NOON, **more: bool
) -> Change:
    key = OffsetKey(cluster, "billing", topic, 0)
    return tracked_offsets.encode_key(key), tracked_offsets.encode_value(
        TrackedOffset(7, -1, "id", at, (), **more)
    )


def passed(at: int, scope: Scope = EVERYTHING, cluster: str = "A") -> Change:
    key = tracking_passes.encode_key(PassKey(cluster, scope.digest))
    return key, tracking_passes.encode_value(Pass(at, scope, 1, 1))


def log_of(*records: Change) -> TrackingLog:
    found = TrackingLog()
    found.take(records)
    return found


def seen_ms(*records: Change, topic: str = "orders", own: Scope | None = None) -> int:
    found, _ = tracked_offsets_of(log_of(*records), "A", None, own)
    return found[GroupPartition("billing", TopicPartition(topic, 0))].observed_ms


def test_pass_confirms_a_tracked_offset() -> None:
    later = NOON + HOUR
    assert seen_ms(offset_record()) == NOON
    assert seen_ms(offset_record(), passed(later)) == later
    assert seen_ms(passed(NOON - HOUR), offset_record()) == NOON
    assert seen_ms(offset_record(), passed(later), passed(later + HOUR)) == later + HOUR
    assert seen_ms(offset_record(unverified=True), passed(later)) == NOON


def test_pass_confirms_only_its_scope() -> None:
    later = NOON + HOUR
    assert seen_ms(offset_record(), passed(later, cluster="B")) == NOON
    for topics, exclude, groups in (
        (("clicks",), (), (".*",)),
        ((".*",), ("orders",), (".*",)),
        ((".*",), (), ("shipping",)),
    ):
        assert (
            seen_ms(offset_record(), passed(later, Scope("primary", topics, exclude, groups)))
            == NOON
        )
    some = Scope("primary", ("or.*",), (), ("b.*",))
    assert seen_ms(offset_record(), passed(later, some), passed(NOON + 1), own=some) == later
    assert seen_ms(offset_record(), passed(later, some), passed(NOON + 1)) == NOON + 1
    other = Scope("other", ("or.*",), (), ("b.*",))
    assert seen_ms(offset_record(), passed(later, other), own=some) == later
    assert seen_ms(offset_record(topic="__own"), passed(later), topic="__own") == NOON
    named = Scope("primary", ("__own",), (), (".*",))
    assert seen_ms(offset_record(topic="__own"), passed(later, named), topic="__own") == later


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([], ""),
        ([offset_record("TARGET")], ""),
        ([offset_record("A")], "A"),
        ([offset_record("A"), offset_record("TARGET")], "A"),
        ([offset_record("A"), offset_record("B")], None),
        ([offset_record("A"), offset_record("B"), passed(NOON, cluster="B")], "B"),
        (
            [*map(offset_record, "AB"), passed(NOON + 1, cluster="A"), passed(NOON, cluster="B")],
            "A",
        ),
        (
            [*map(offset_record, "AB"), passed(NOON, Scope("other", (".*",), (), (".*",)), "B")],
            None,
        ),
    ],
)
def test_cluster_id_of_an_unreachable_source(
    records: Sequence[Change], expected: str | None
) -> None:
    assert unreachable_source_id(log_of(*records), "primary", "TARGET") == expected


def test_tracked_offsets_of_a_recreated_topic_do_not_count() -> None:
    source = source_of({ORDERS: log(10)})
    source.ids["orders"] = "id"
    reader = cast(ClusterReader, source)
    assert tracked_offsets_of(log_of(offset_record()), "A", reader, None)[0].keys() == {BILLING}
    source.ids["orders"] = "another"
    assert tracked_offsets_of(log_of(offset_record()), "A", reader, None)[0] == {}
    assert tracked_offsets_of(log_of(offset_record(topic="gone")), "A", reader, None)[0] == {}


def test_damage_is_counted() -> None:
    key, value = offset_record()
    for wrong in (b"", b"\x02", value[:20], value + b"\0"):
        assert tracked_offsets_of(log_of((key, wrong)), "A", None, None) == ({}, 1)
    mended = log_of((key, b""), (key, value))
    assert tracked_offsets_of(mended, "A", None, None)[1] == 0
    broken_later = log_of((key, value), (key, b""))
    assert tracked_offsets_of(broken_later, "A", None, None)[0].keys() == {BILLING}


def answers(topic: Topic, target: FakeCluster, now_ms: int) -> Answer | NoAnswer:
    search = TargetSearch(cast(ClusterReader, target), target, {"orders": True})
    question = Question(BILLING, None, ORDERS)
    found = TrackedOffsetAnswers(topic.tracked_offsets(), search, now_ms).answers([question])
    return found[question]


def tracked(offset: int, start: int = 0) -> tuple[Topic, Clock]:
    source, topic, clock = source_of({ORDERS: log(100, start)}), Topic(), Clock()
    source.set_offsets("billing", orders=offset)
    one = OneTracker(source, topic, clock)
    for _ in range(2):
        assert one.run().complete
        clock.after(HOUR)
    return topic, clock


def test_tracked_offsets_are_read_back() -> None:
    topic, clock = tracked(60)
    target = FakeCluster({ORDERS: log(80)})
    found = answers(topic, target, clock.now_ms)
    assert bounds(found) == (60, 0, 0)
    assert found.age_seconds == 3600, "the age is not that of the last pass, one hour ago"


def test_a_group_that_had_consumed_nothing() -> None:
    topic, clock = tracked(0)
    assert bounds(answers(topic, FakeCluster({ORDERS: log(80)}), clock.now_ms)) == (0, None, 0)


def test_group_without_remaining_records() -> None:
    topic, clock = tracked(40, start=40)
    found = answers(topic, FakeCluster({ORDERS: log(80)}), clock.now_ms)
    assert "no consumed records were left" in reason(found)


ENDLESS = "(a|a)*b"
"""A pattern that takes seconds to evaluate on twenty letters, and days on forty."""


@pytest.mark.timeout(20)
@pytest.mark.parametrize("own", [None, EVERYTHING, Scope("primary", ("or.*",), (), ("a+",))])
@pytest.mark.parametrize(
    "read",
    [
        Scope("primary", (ENDLESS,), (), (".*",)),
        Scope("primary", (".*",), (ENDLESS,), (".*",)),
        Scope("primary", (".*",), (), (ENDLESS,)),
        Scope("primary", (ENDLESS,), (ENDLESS,), (ENDLESS,)),
        Scope("primary", ("(",), ("(" * 3000,), ("a{4294967295}",)),
    ],
)
def test_recorded_patterns_are_never_evaluated(read: Scope, own: Scope | None) -> None:
    name = "a" * 60
    key = tracked_offsets.encode_key(OffsetKey("A", name, name, 0))
    value = tracked_offsets.encode_value(TrackedOffset(7, -1, "id", NOON, ()))
    found, damaged = tracked_offsets_of(
        log_of((key, value), passed(NOON + HOUR, read)), "A", None, own
    )
    assert found[GroupPartition(name, TopicPartition(name, 0))].observed_ms == NOON
    assert not damaged


def test_without_the_links_scope_named_groups_count() -> None:
    later = NOON + HOUR
    named = Scope("primary", ("orders",), ("orders-2",), ("billing",))
    assert seen_ms(offset_record(), passed(later, named)) == later
    assert (
        seen_ms(offset_record(), passed(later, Scope("primary", (".*",), ("or|x",), (".*",))))
        == NOON
    )
