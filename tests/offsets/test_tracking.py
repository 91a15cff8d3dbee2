"""What is tracked if offsets move, vanish, cannot be read, or have two trackers."""

import pytest

from drctl.formats import tracked_offsets
from drctl.formats.tracked_offsets import OffsetKey, TrackedOffset
from drctl.model.errors import ConfigError, ExitCode, Unreachable
from drctl.model.groups import Committed
from drctl.model.topology import TopicPartition, Unavailable
from drctl.model.translation import GroupPartition
from drctl.offsets.tracking import FORGET_MS, Passes, Problem
from tests.fakes import FakeCluster
from tests.offsets.tracked_groups import (
    HOUR,
    NOON,
    ORDERS,
    SOURCE_ID,
    Clock,
    OneTracker,
    Topic,
    fingerprints,
    log,
    of_rows,
    row,
    source_of,
)

BILLING = GroupPartition("billing", ORDERS)
SHIPPING = GroupPartition("shipping", ORDERS)
LISTING = ["cluster_id", "groups", "committed", "topics"]
"""The requests of a pass in which no offset moved."""


@pytest.fixture
def source() -> FakeCluster:
    found = source_of({ORDERS: log(100), TopicPartition("clicks", 0): log(5)})
    found.set_offsets("billing", orders=60)
    return found


@pytest.fixture
def topic() -> Topic:
    return Topic()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def one(source: FakeCluster, topic: Topic, clock: Clock) -> OneTracker:
    return OneTracker(source, topic, clock)


def noted(one: OneTracker) -> tuple[int, int]:
    """Return the tracked offsets that a successful pass writes and deletes."""
    result = one.run()
    assert result.failed is None
    assert result.look is not None
    assert result.complete
    return result.look.noted, len(result.look.forgotten)


def test_the_last_consumed_record_and_32_before_it(one: OneTracker, topic: Topic) -> None:
    assert noted(one) == (1, 0)
    tracked = topic.tracked_offsets()[BILLING]
    assert (tracked.offset, tracked.leader_epoch, tracked.topic_id) == (60, -1, "orders")
    assert tracked.observed_ms == NOON
    assert fingerprints(tracked) == of_rows(*range(59, 26, -1))
    assert [r.timestamp_ms for r in tracked.records[:2]] == [row(59)[1], row(58)[1]]


def test_fewer_if_the_log_has_fewer(one: OneTracker, source: FakeCluster, topic: Topic) -> None:
    source.set_offsets("billing", clicks=3)
    source.logs[ORDERS] = log(100, start=58)
    assert noted(one) == (2, 0)
    found = topic.tracked_offsets()
    assert fingerprints(found[BILLING]) == of_rows(59, 58)
    clicks = found[GroupPartition("billing", TopicPartition("clicks", 0))]
    assert fingerprints(clicks) == of_rows(2, 1, 0)


def test_offsets_without_records_are_skipped(source: FakeCluster, one: OneTracker) -> None:
    few = [row(n) for n in range(0, 4_000, 20)]
    source.logs[ORDERS] = log(4_000, rows=few)
    source.set_offsets("billing", orders=3_900)
    noted(one)
    assert fingerprints(one.store.topic.tracked_offsets()[BILLING]) == of_rows(
        *range(3_880, 3_220, -20)
    )


@pytest.mark.parametrize("offset", [0, 40])
def test_no_record_is_left(offset: int, source: FakeCluster, topic: Topic, one: OneTracker) -> None:
    source.logs[ORDERS] = log(100, start=offset)
    source.set_offsets("billing", orders=offset)
    result = one.run()
    assert result.complete
    assert result.look.without_records == 1
    assert topic.tracked_offsets()[BILLING].records == ()
    assert noted(one) == (0, 0), "the offset was stored again"


def test_nothing_moved(source: FakeCluster, topic: Topic, clock: Clock, one: OneTracker) -> None:
    noted(one)
    source.calls.clear()
    source.read_offsets = 0
    written = len(topic.records)
    clock.after(30_000)
    assert noted(one) == (0, 0)
    assert source.calls == LISTING
    assert source.read_offsets == 0
    assert len(topic.records) == written + 1, "more than the record of the pass was written"
    assert topic.tracked_offsets()[BILLING].observed_ms == NOON + 30_000


def test_only_changed_offsets_are_read(source: FakeCluster, topic: Topic, one: OneTracker) -> None:
    for number in range(50):
        source.set_offsets(f"g{number}", orders=90)
    assert noted(one) == (51, 0)
    milestones = 1
    assert source.read_offsets == 90 - (60 - 33) + milestones, (
        "records that several groups need were read twice"
    )
    source.read_offsets = 0
    source.set_offsets("billing", orders=61)
    assert noted(one) == (1, 0)
    assert source.read_offsets == 33
    assert topic.tracked_offsets()[BILLING].offset == 61


def test_a_group_that_moved_back(source: FakeCluster, topic: Topic, one: OneTracker) -> None:
    noted(one)
    source.set_offsets("billing", orders=10)
    assert noted(one) == (1, 0)
    assert topic.tracked_offsets()[BILLING].offset == 10
    assert fingerprints(topic.tracked_offsets()[BILLING]) == of_rows(*range(9, -1, -1))


def test_another_leader_epoch_is_another_log(source: FakeCluster, one: OneTracker) -> None:
    noted(one)
    source.positions["billing"][ORDERS] = Committed(60, 7)
    assert noted(one) == (1, 0)


def test_recreated_topic(source: FakeCluster, topic: Topic, one: OneTracker) -> None:
    noted(one)
    source.ids["orders"] = "another"
    source.logs[ORDERS] = log(70, start=50)
    assert noted(one) == (1, 0)
    tracked = topic.tracked_offsets()[BILLING]
    assert tracked.topic_id == "another"
    assert len(tracked.records) == 10


def test_topic_recreated_while_read(source: FakeCluster, topic: Topic, one: OneTracker) -> None:
    source.at_call["read"] = lambda: source.ids.update(orders="another")
    result = one.run()
    assert result.exit_code is ExitCode.UNKNOWN
    assert [p.reason for p in result.look.problems] == ["the topic was recreated while it was read"]
    assert topic.tracked_offsets() == {}
    assert noted(one) == (1, 0)


def test_groups_outside_the_link(source: FakeCluster, topic: Topic, clock: Clock) -> None:
    source.set_offsets("shipping", orders=5)
    source.set_offsets("billing", clicks=3)
    one = OneTracker(source, topic, clock, topics=["orders"], groups=["billing"])
    assert noted(one) == (1, 0)
    assert topic.tracked_offsets().keys() == {BILLING}


@pytest.mark.parametrize("how", ["group", "position", "topic"])
def test_deleted_offset_is_forgotten_after_a_day(
    how: str, source: FakeCluster, topic: Topic, clock: Clock, one: OneTracker
) -> None:
    source.set_offsets("shipping", clicks=2)
    noted(one)
    clock.after(HOUR)
    noted(one)
    seen_ms = clock.now_ms
    if how == "topic":
        del source.logs[ORDERS]
    if how == "group":
        del source.positions["billing"]
    else:
        del source.positions["billing"][ORDERS]
    for _ in range(3):
        clock.after(HOUR)
        result = one.run()
        assert result.complete, "a missing group was reported as a problem"
        assert result.look.unverified == 1
        assert topic.tracked_offsets()[BILLING].observed_ms == seen_ms, (
            "the age of a deleted offset does not grow"
        )
    clock.now_ms = seen_ms + FORGET_MS
    assert noted(one) == (0, 1)
    assert BILLING not in topic.tracked_offsets()
    assert len(topic.tracked_offsets()) == 1
    assert noted(one) == (0, 0)


def test_an_offset_that_reappears(
    source: FakeCluster, topic: Topic, clock: Clock, one: OneTracker
) -> None:
    noted(one)
    gone = source.positions.pop("billing")
    clock.after(HOUR)
    assert noted(one) == (1, 0)
    source.positions["billing"] = gone
    source.read_offsets = 0
    clock.after(HOUR)
    assert noted(one) == (1, 0)
    assert source.read_offsets == 0, "known records were read again"
    clock.after(HOUR)
    assert noted(one) == (0, 0)
    assert topic.tracked_offsets()[BILLING].observed_ms == clock.now_ms


@pytest.mark.parametrize("name", ["billing", "orders"])
def test_unreadable_offset_is_never_forgotten(
    name: str, source: FakeCluster, topic: Topic, clock: Clock, one: OneTracker
) -> None:
    noted(one)
    source.hidden[name] = Unavailable("not authorized")
    if name == "orders":
        del source.positions["billing"][ORDERS]  # Kafka omits it without an error
    for _ in range(3):
        clock.after(FORGET_MS)
        result = one.run()
        assert not result.look.forgotten
    assert topic.tracked_offsets()[BILLING].observed_ms == NOON
    if name == "billing":
        assert result.exit_code is ExitCode.UNKNOWN
        assert result.look.problems == (Problem("billing", "", -1, "not authorized"),)


def test_a_partition_that_cannot_be_read(
    source: FakeCluster, topic: Topic, clock: Clock, one: OneTracker
) -> None:
    noted(one)
    there, source.logs[ORDERS] = source.log(ORDERS), Unavailable("the partition has no leader")
    clock.after(HOUR)
    assert noted(one) == (0, 0), "offsets were stored although none moved"
    seen_ms = clock.now_ms
    source.set_offsets("billing", orders=70)
    source.set_offsets("shipping", orders=70)
    clock.after(HOUR)
    result = one.run()
    assert result.exit_code is ExitCode.UNKNOWN
    assert [(p.group, p.topic, p.partition) for p in result.look.problems] == [
        ("billing", "orders", 0),
        ("shipping", "orders", 0),
    ]
    # The records of the new offset cannot be read: the earlier tracked offset stays, and ages.
    assert topic.tracked_offsets()[BILLING].offset == 60
    assert topic.tracked_offsets()[BILLING].observed_ms == seen_ms
    assert SHIPPING not in topic.tracked_offsets()
    source.logs[ORDERS] = there
    assert noted(one) == (2, 0)


def test_a_topic_that_may_not_be_read(source: FakeCluster, topic: Topic, one: OneTracker) -> None:
    source.unreadable.add("orders")
    source.set_offsets("billing", clicks=2)
    result = one.run()
    assert [p.reason for p in result.look.problems] == ["not authorized to read the topic"]
    assert len(topic.tracked_offsets()) == 1


def test_an_offset_above_the_end(source: FakeCluster, topic: Topic, one: OneTracker) -> None:
    source.set_offsets("billing", orders=101)
    result = one.run()
    assert "after the end offset 100" in result.look.problems[0].reason
    assert topic.tracked_offsets() == {}


def test_an_unreachable_source(
    source: FakeCluster, topic: Topic, clock: Clock, one: OneTracker
) -> None:
    noted(one)
    written = list(topic.records)
    source.silent = True
    for age in (1, 2):
        clock.after(HOUR)
        result = one.run()
        assert isinstance(result.failed, Unreachable)
        assert result.exit_code is ExitCode.UNKNOWN
        assert result.known_ms == NOON
        assert result.age_seconds is not None
        assert result.age_seconds == pytest.approx(age * 3600, abs=5)
    assert topic.records == written
    source.silent = False
    assert noted(one) == (0, 0)


def test_an_unreachable_target(source: FakeCluster, topic: Topic, one: OneTracker) -> None:
    topic.silent = True
    result = one.run()
    assert "target" in result.failed.message
    assert source.calls == [], "the source was read although nothing could be stored"
    topic.silent = False
    assert noted(one) == (1, 0)


def test_nothing_is_written_without_permission(
    source: FakeCluster, topic: Topic, clock: Clock
) -> None:
    one = OneTracker(source, topic, clock)
    result = Passes(one.tracker, one.store, None).run(lambda _phase: None)
    assert (result.look.noted, result.executed, result.topic_existed) == (1, False, False)
    assert result.known_ms is None
    assert topic.records == []


def test_tracked_offsets_are_not_stored_on_their_own_cluster(one: OneTracker) -> None:
    one.store.cluster_id = lambda: SOURCE_ID  # type: ignore[method-assign]
    with pytest.raises(ConfigError, match="are the same cluster"):
        raise one.run().failed or AssertionError


class Race:
    """Two trackers: the second completes a pass while the first is between reading and writing."""

    def __init__(self, source: FakeCluster, topic: Topic) -> None:
        self.source, self.topic = source, topic
        self.clock = Clock()
        self.slow, self.quick = (OneTracker(source, topic, self.clock) for _ in range(2))

    def run(self, offset: int) -> None:
        """Run while the group moves to this offset."""
        look = self.slow.tracker.look(self.slow.store.catch_up(), "id", lambda _: None)
        self.source.set_offsets("billing", orders=offset)
        self.clock.after(1_000)
        assert self.quick.run().complete
        self.slow.store.write(look.changes)


@pytest.mark.parametrize("offset", [70, 50, 60])
def test_an_older_observation_does_not_replace_a_newer_one(
    offset: int, source: FakeCluster, topic: Topic
) -> None:
    race = Race(source, topic)
    race.run(offset)
    assert topic.tracked_offsets()[BILLING].offset == offset
    assert topic.tracked_offsets()[BILLING].observed_ms == NOON + 1_000
    assert topic.compacted().tracked_offsets()[BILLING].observed_ms <= NOON, (
        "the later observation survives compaction by itself"
    )
    # The next pass writes it again, before compaction deletes it.
    race.clock.after(1_000)
    source.read_offsets = 0
    assert noted(race.slow) == (1, 0)
    assert source.read_offsets == 0
    assert topic.compacted().tracked_offsets()[BILLING].offset == offset
    assert [noted(each) for each in (race.quick, race.slow)] == [(0, 0), (0, 0)]


def test_two_trackers_do_not_conflict(source: FakeCluster, topic: Topic, clock: Clock) -> None:
    both = [OneTracker(source, topic, clock) for _ in range(2)]
    assert [noted(each) for each in both] == [(1, 0), (0, 0)]
    for offset in (70, 80, 20):
        source.set_offsets("billing", orders=offset)
        clock.after(1_000)
        assert [noted(each) for each in both] == [(1, 0), (0, 0)]
        assert topic.tracked_offsets()[BILLING].offset == offset


def test_a_tracker_with_a_slow_clock(source: FakeCluster, topic: Topic) -> None:
    ahead, behind = (
        OneTracker(source, topic, Clock()),
        OneTracker(source, topic, Clock(NOON - 60_000)),
    )
    noted(ahead)
    source.set_offsets("billing", orders=70)
    assert noted(behind) == (1, 0)
    assert topic.tracked_offsets()[BILLING].offset == 70
    assert topic.compacted().tracked_offsets()[BILLING].offset == 70
    assert noted(ahead) == (0, 0)


def test_a_tracked_offset_from_the_far_future(
    source: FakeCluster, topic: Topic, one: OneTracker
) -> None:
    key = tracked_offsets.encode_key(OffsetKey(SOURCE_ID, "billing", "orders", 0))
    topic.records = [
        (key, tracked_offsets.encode_value(TrackedOffset(50, -1, "orders", 2**52, ())))
    ]
    assert noted(one) == (1, 0)
    assert topic.tracked_offsets()[BILLING].observed_ms == NOON
    assert topic.tracked_offsets()[BILLING].offset == 60
    assert topic.compacted().tracked_offsets()[BILLING].offset == 60


def test_unreadable_records_are_replaced(topic: Topic, one: OneTracker) -> None:
    key = tracked_offsets.encode_key(OffsetKey(SOURCE_ID, "billing", "orders", 0))
    topic.records = [(key, b"nonsense"), (b"nonsense", b"")]
    assert topic.log().damaged == 2
    assert noted(one) == (1, 0)
    assert topic.log().damaged == 1
    assert topic.log().held(OffsetKey(SOURCE_ID, "billing", "orders", 0))
