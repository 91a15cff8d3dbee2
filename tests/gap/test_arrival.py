"""Whether records have arrived on the target is checked without reading, then compared once."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from drctl.gap.arrival import UNCHANGED_LOOKS, ArrivalCheck
from drctl.model.errors import Unreachable
from drctl.model.gap import Counts, GapResult, NotCompared, PartitionGap, TopicGap
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable
from tests.fakes import FakeCluster, FakeLog
from tests.links import link

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
START = datetime(2026, 11, 22, tzinfo=UTC)


@dataclass
class Side(FakeCluster):
    """A cluster with the timestamps of the records of each partition."""

    prefix: str = ""

    def at(self, place: TopicPartition) -> TopicPartition:
        return TopicPartition(self.prefix + place.topic, place.partition)

    def append(self, place: TopicPartition, *times: int) -> None:
        log = self.logs.setdefault(self.at(place), FakeLog())
        assert isinstance(log, FakeLog)
        for time in times:
            log.append(None, time)

    def times(self, place: TopicPartition) -> list[int] | None:
        return [row[1] for row in self.log(place).rows] if place in self.logs else None


@dataclass
class Pair:
    """Both clusters and a comparer: a copy has its original's timestamp, in any order."""

    source: Side = field(default_factory=lambda: Side(name="here"))
    target: Side = field(default_factory=lambda: Side(name="there", prefix="copy."))
    compared: list[set[TopicPartition]] = field(default_factory=list)
    left_out: tuple[NotCompared, ...] = ()
    fails: bool = False
    open_at: dict[TopicPartition, int] = field(default_factory=dict)

    def both(self, place: TopicPartition, *times: int) -> None:
        self.source.append(place, *times)
        self.target.append(place, *times)

    def compare(self, places: Collection[TopicPartition]) -> GapResult:
        self.compared.append(set(places))
        if self.fails:
            raise Unreachable("nobody answers")
        topics = {place.topic for place in places}
        gaps = {t: tuple(self._gap(p) for p in sorted(places) if p.topic == t) for t in topics}
        return GapResult(
            link="main",
            scope="tail",
            source="here",
            source_id="h",
            target="there",
            target_id="t",
            started=START,
            seconds=0,
            out="",
            topics=tuple(TopicGap(t, f"copy.{t}", gap) for t, gap in gaps.items()),
            not_compared=self.left_out,
        )

    def _gap(self, place: TopicPartition) -> PartitionGap:
        here, there = self.source.times(place) or [], self.target.times(self.target.at(place))
        missing = [time for time in here if time not in (there or ())]
        range_there = None if there is None else OffsetRange(0, len(there))
        counts = Counts(unreplicated=len(missing), undecided=self.open_at.get(place, 0))
        return PartitionGap(place.partition, OffsetRange(0, len(here)), range_there, counts)

    def arrival_check(self, kind: str = "none", *, keeps_partitions: bool = True) -> ArrivalCheck:
        over = link(
            "here",
            "there",
            topics=["a", "b"],
            keeps_partitions=keeps_partitions,
            replicator={"kind": kind, "rename": "copy.${topic}"},
        )
        return ArrivalCheck(over, self.source, self.target, self.compare)  # type: ignore[arg-type]


@pytest.fixture
def pair() -> Pair:
    """Everything is replicated."""
    found = Pair()
    for place in (A0, A1, B0):
        found.both(place, 1, 2, 3)
    return found


def test_a_complete_partition_is_compared_once(pair: Pair) -> None:
    arrival_check = pair.arrival_check()
    assert [arrival_check.look().proven for _ in range(3)] == [True] * 3
    assert pair.compared == [{A0, A1, B0}]


def test_only_changed_partitions_are_compared_again(pair: Pair) -> None:
    arrival_check = pair.arrival_check()
    arrival_check.look()
    pair.both(A1, 4)
    assert arrival_check.look().proven
    pair.target.append(B0, 9)
    assert arrival_check.look().proven
    assert pair.compared[1:] == [{A1}, {B0}]


def test_what_was_compared_ahead_is_not_compared_again(pair: Pair) -> None:
    arrival_check = pair.arrival_check()
    arrival_check.look_ahead()
    assert pair.compared == [{A0, A1, B0}]
    assert arrival_check.look().proven
    pair.both(A1, 4)
    assert arrival_check.look().proven
    assert pair.compared[1:] == [{A1}]


def test_what_is_missing_ahead_is_missing_until_it_arrives(pair: Pair) -> None:
    pair.source.append(A0, 4)
    arrival_check = pair.arrival_check()
    arrival_check.look_ahead()
    assert dict(arrival_check.look().missing) == {A0: 1}
    pair.target.append(A0, 4)
    assert arrival_check.look().proven


@pytest.mark.parametrize("side", ["source", "target"])
def test_growing_partitions_are_not_compared_ahead(pair: Pair, side: str) -> None:
    cluster: Side = getattr(pair, side)

    def grow() -> None:
        cluster.append(A0, 9)

    cluster.at_call["look_up"] = grow
    arrival_check = pair.arrival_check()
    arrival_check.look_ahead()
    assert pair.compared == [{A1, B0}]


def test_a_growing_partition_leaves_its_repartitioned_topic_for_later(pair: Pair) -> None:
    pair.source.at_call["look_up"] = lambda: pair.source.append(A0, 9)
    arrival_check = pair.arrival_check(keeps_partitions=False)
    arrival_check.look_ahead()
    assert pair.compared == [{B0}]


@pytest.mark.parametrize("side", ["source", "target"])
def test_equal_end_offsets_of_another_leader_epoch_prove_nothing(pair: Pair, side: str) -> None:
    """An unclean election truncated the log, and as many other records were written since."""
    arrival_check = pair.arrival_check()
    arrival_check.look_ahead()
    cluster: Side = getattr(pair, side)
    log = cluster.log(cluster.at(A0))
    log.truncate(2)
    cluster.append(A0, 7)
    log.epoch += 1
    looks = [arrival_check.look() for _ in range(2)]
    assert not looks[0].proven
    assert pair.compared[1:] == [{A0}]
    assert dict(looks[1].missing) == {A0: 1}


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_topic_recreated_since_is_compared_again(pair: Pair, side: str) -> None:
    """Nothing else would show it, if as many records were written."""
    arrival_check = pair.arrival_check()
    arrival_check.look_ahead()
    cluster: Side = getattr(pair, side)
    cluster.ids[cluster.at(A0).topic] = "recreated"
    assert arrival_check.look().proven
    assert pair.compared[1:] == [{A0, A1}]


def test_arriving_records_are_awaited_without_a_comparison(pair: Pair) -> None:
    arrival_check = pair.arrival_check()
    pair.source.append(A0, *range(10, 20))
    for time in range(10, 19):
        pair.target.append(A0, time)
        seen = arrival_check.look()
        assert (seen.pending, seen.proven) == ((A0,), False)
    pair.target.append(A0, 19)
    assert arrival_check.look().proven
    assert pair.compared == [{A1, B0}, {A0}]


def test_missing_records_are_compared_once_nothing_changes(pair: Pair) -> None:
    arrival_check = pair.arrival_check()
    pair.source.append(A0, 4, 5)
    assert arrival_check.look().pending == (A0,)
    for _ in range(3):
        seen = arrival_check.look()
        assert (dict(seen.missing), seen.pending) == ({A0: 2}, ())
    assert pair.compared == [{A1, B0}, {A0}]


def test_unchanged_partition_among_others_is_compared_after_a_while(pair: Pair) -> None:
    arrival_check = pair.arrival_check()
    pair.source.append(A0, 4)
    for _ in range(UNCHANGED_LOOKS):
        assert arrival_check.look().pending
        pair.both(B0, 4)
    assert dict(arrival_check.look().missing) == {A0: 1}


def test_copy_with_the_newest_timestamp_may_be_incomplete(pair: Pair) -> None:
    pair.source.append(A0, 4, 5)
    pair.target.append(A0, 5)
    assert dict(pair.arrival_check().look().missing) == {A0: 1}


def test_decreasing_timestamps_do_not_prevent_a_comparison(pair: Pair) -> None:
    arrival_check = pair.arrival_check()
    pair.both(A0, 2)
    assert arrival_check.look().proven


def test_a_truncated_copy_is_compared_again(pair: Pair) -> None:
    arrival_check = pair.arrival_check()
    arrival_check.look()
    pair.target.log(pair.target.at(A0)).truncate(1)
    arrival_check.look()
    assert dict(arrival_check.look().missing) == {A0: 2}


def test_topic_missing_on_the_target(pair: Pair) -> None:
    del pair.target.logs[pair.target.at(B0)]
    arrival_check = pair.arrival_check()
    assert arrival_check.look().pending == (B0,)
    assert dict(arrival_check.look().missing) == {B0: 3}


def test_an_open_transaction_may_still_be_committed(pair: Pair) -> None:
    arrival_check = pair.arrival_check()
    pair.open_at[A1] = 5
    seen = arrival_check.look()
    assert (seen.proven, seen.missing) == (False, {})
    (words,) = seen.left_out
    assert words.startswith("a-1: 5 offsets follow an open transaction")
    pair.open_at.clear()
    assert arrival_check.look().proven
    assert pair.compared == [{A0, A1, B0}, {A1}]


def test_end_offsets_show_arrival_if_offsets_are_preserved(pair: Pair) -> None:
    arrival_check = pair.arrival_check("offset-preserving")
    pair.source.append(A0, 9)
    pair.target.append(B0, 8)
    assert arrival_check.look().pending == (A0,)
    assert pair.compared == [{A1, B0}]


def test_a_repartitioned_topic_is_compared_as_a_whole(pair: Pair) -> None:
    arrival_check = pair.arrival_check(keeps_partitions=False)
    assert arrival_check.look().pending == (A0, A1, B0)
    assert arrival_check.look().proven
    assert arrival_check.look().proven
    pair.both(A1, 4)
    assert arrival_check.look().pending == (A0, A1)
    arrival_check.look()
    assert pair.compared == [{A0, A1, B0}, {A0, A1}]


def test_unreadable_topics_are_reported(pair: Pair) -> None:
    pair.source.logs[A0] = Unavailable("no leader")
    pair.target.logs[pair.target.at(B0)] = Unavailable("no leader")
    seen = pair.arrival_check().look()
    assert seen.left_out == ("a-0: here: no leader", "b-0: there: no leader")
    assert not seen.proven
    assert pair.compared == [{A1}]


def test_named_topic_that_is_not_visible_is_reported(pair: Pair) -> None:
    del pair.source.logs[B0]
    seen = pair.arrival_check().look()
    assert seen.left_out == ("b: does not exist on here, or is not visible",)


def test_a_failed_comparison_is_repeated_at_the_next_read(pair: Pair) -> None:
    arrival_check = pair.arrival_check()
    pair.left_out = (NotCompared("a", 1, "an open transaction"), NotCompared("b", None, "odd"))
    seen = arrival_check.look()
    assert seen.left_out == ("a-1: an open transaction", "b: odd")
    assert seen.pending == (A1, B0)
    pair.left_out = ()
    assert arrival_check.look().proven
    assert pair.compared[1:] == [{A1, B0}]


def test_a_comparison_that_failed_proves_nothing(pair: Pair) -> None:
    arrival_check = pair.arrival_check()
    arrival_check.look()
    pair.both(A0, 4)
    pair.fails = True
    with pytest.raises(Unreachable):
        arrival_check.look()
    pair.fails = False
    assert arrival_check.look().proven
    assert pair.compared[1:] == [{A0}, {A0}]


def test_an_empty_partition_needs_no_comparison(pair: Pair) -> None:
    pair.source.append(TopicPartition("b", 1))
    assert pair.arrival_check().look().proven


def test_a_wait_sends_few_requests_per_leader() -> None:
    pair = Pair()
    places = [TopicPartition("a", number) for number in range(1000)]
    for place in places:
        pair.source.append(place, 1, 2)
        pair.target.append(place, 1)
    arrival_check = pair.arrival_check()
    arrival_check.look()
    assert pair.compared == []
    assert pair.source.asked + pair.target.asked <= 4 * len(places)
