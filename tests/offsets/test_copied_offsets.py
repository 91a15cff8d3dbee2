"""A copy of `__consumer_offsets`: what counts, how old it is, and what it proves."""

from collections.abc import Sequence

import pytest

from drctl.formats import consumer_offsets
from drctl.formats.consumer_offsets import CommitKey, GroupKey, OffsetCommit, RecordType
from drctl.formats.tracked_offsets import ConsumedRecord, TrackedOffset
from drctl.model.topology import Chunk, Row, TopicPartition, TopicState
from drctl.model.translation import GroupPartition
from drctl.offsets.consumed import step_of
from drctl.offsets.evidence import CopiedOffsets, CopiedPosition, Evidence, last_known, positions_of
from drctl.offsets.evidence_topics import EvidenceTopics
from drctl.offsets.identity import SameOffsets
from drctl.offsets.situation import Target
from drctl.offsets.translating import UnreachableSource, translate
from tests.fakes import FakeCluster, FakeLog
from tests.offsets.answers import bounds

COPY = "A.__consumer_offsets"
NOON = 1_700_000_000_000
ORDERS = TopicPartition("orders", 0)
Entry = tuple[int, bytes, bytes | None]
"""Timestamp, key and value."""


def commit(
    at: int, group: str, offset: int | None, *, version: int = 3, legacy: bool = False
) -> Entry:
    key = consumer_offsets.encode_key(CommitKey(group, *ORDERS, legacy))
    if offset is None:
        return at, key, None
    return at, key, consumer_offsets.encode_commit(OffsetCommit(version, offset, -1, "", at))


def chunk(partition: int, *entries: Entry) -> Chunk:
    rows: list[Row] = [(n, NOON + at, key, value, ()) for n, (at, key, value) in enumerate(entries)]
    return Chunk(COPY, partition, rows)


def read(*chunks: Chunk) -> CopiedOffsets:
    return positions_of(COPY, chunks)


def offsets(found: CopiedOffsets) -> dict[str, int]:
    return {place.group: position.offset for place, position in found.positions.items()}


@pytest.mark.parametrize(
    ("entries", "left"),
    [
        ([commit(1, "a", 5), commit(2, "a", 9), commit(3, "b", 1)], {"a": 9, "b": 1}),
        ([commit(1, "a", 5), commit(2, "a", 3)], {"a": 3}),  # the group was reset backwards
        ([commit(2, "a", 5), commit(1, "a", 9)], {"a": 9}),  # the log's order counts, not time
        ([commit(1, "a", 5), commit(2, "a", None)], {}),
        ([commit(1, "a", 5), commit(2, "a", None), commit(3, "a", 2)], {"a": 2}),
        ([commit(1, "a", 5, legacy=True), commit(2, "a", 6)], {"a": 6}),
        ([commit(1, "a", 5), commit(2, "a", None, legacy=True)], {}),
        (
            [commit(1, name, 7, version=v) for v, name in enumerate("abcde")],
            dict.fromkeys("abcde", 7),
        ),
    ],
)
def test_the_newest_record_of_a_position_counts(
    entries: Sequence[Entry], left: dict[str, int]
) -> None:
    found = read(chunk(0, *entries))
    assert offsets(found) == left
    assert found.undecodable == 0
    one_by_one = read(*(Chunk(COPY, 0, [row]) for row in chunk(0, *entries).rows))
    assert one_by_one == found


def test_a_key_that_moved_to_another_partition_counts_by_its_time() -> None:
    for chunks in (
        (chunk(0, commit(1, "a", 5)), chunk(1, commit(2, "a", 9))),
        (chunk(1, commit(2, "a", 9)), chunk(0, commit(1, "a", 5))),
        (chunk(1, commit(2, "a", 9)), chunk(0, commit(1, "a", None))),
    ):
        assert offsets(read(*chunks)) == {"a": 9}


def test_other_records_are_left_alone() -> None:
    group = consumer_offsets.encode_key(GroupKey(RecordType.GROUP_METADATA, "a"))
    newer = b"\x00\x63whatever"
    found = read(chunk(0, (1, group, None), (1, newer, b"?"), commit(1, "a", 5)))
    assert (offsets(found), found.undecodable) == ({"a": 5}, 0)


def test_unreadable_records_are_counted_and_void_earlier_ones() -> None:
    _, key, _ = commit(1, "a", 5)
    found = read(chunk(0, commit(1, "a", 5), (2, key, b"\x00\x09"), commit(3, "b", 1)))
    assert (offsets(found), found.undecodable) == ({"b": 1}, 1)
    found = read(chunk(0, commit(1, "a", 5), (2, b"\x00\x01\x00", b""), (2, b"", b"")))
    assert (offsets(found), found.undecodable) == ({"a": 5}, 2)


def test_it_is_as_old_as_the_newest_record_of_its_partition() -> None:
    found = read(chunk(0, commit(1, "a", 5), commit(60, "b", 1)), chunk(1, commit(7, "c", 2)))
    known = {place.group: position.known_ms - NOON for place, position in found.positions.items()}
    assert known == {"a": 60, "b": 60, "c": 7}


def test_of_a_tracked_offset_and_a_copy_the_newer_counts() -> None:
    place = GroupPartition("a", ORDERS)
    copied = {place: CopiedPosition(7, NOON, "by a copy")}
    for observed, offset, words in ((NOON - 1, 7, "by a copy"), (NOON, 5, ""), (NOON + 1, 5, "")):
        tracked_offsets = {place: TrackedOffset(5, -1, "", observed, ())}
        known = last_known(
            Evidence(tracked_offsets=tracked_offsets, copied=copied), lambda topic: topic
        )
        assert (known[place].offset, known[place].reported_by) == (offset, words)
        assert known[place].at_ms == max(observed, NOON)


def topics(**logs: FakeLog) -> FakeCluster:
    return FakeCluster({TopicPartition(name, 0): log for name, log in logs.items()}, "target")


def evidence(target: FakeCluster, topic: str | None, *, alive: bool = False) -> Evidence:
    nowhere = FakeCluster({}, "source")
    places = (nowhere, nowhere), (target, target)
    reader = EvidenceTopics(*places, lambda: None, mirrors=False, copied_topic=topic)  # type: ignore[arg-type]
    return reader.read(alive, lambda _phase: None)


def test_the_copy_is_read_without_the_source() -> None:
    rows = list(chunk(0, commit(1, "a", 5), commit(2, "a", 9)).rows)
    target = FakeCluster({TopicPartition(COPY, 0): FakeLog(rows, 2)}, "target")
    found = evidence(target, COPY)
    assert [p.offset for p in found.copied.values()] == [9]
    assert found.missing == ()
    assert evidence(target, None).copied == {}
    assert evidence(target, COPY, alive=True).copied == {}


def test_a_copy_that_cannot_be_read_is_missing() -> None:
    assert "it does not exist" in evidence(topics(), COPY).missing[0]
    rows: list[Row] = [(0, NOON, b"\x00\x01", b"", ())]
    target = FakeCluster({TopicPartition(COPY, 0): FakeLog(rows, 1)}, "target")
    assert f"{COPY}: 1 record cannot be decoded" in evidence(target, COPY).missing

    class Leaderless(FakeCluster):
        def topics(self, names):  # type: ignore[no-untyped-def]
            return {name: TopicState(name, {0: 1, 1: None}) for name in names if name == COPY} | {
                name: None for name in names if name != COPY
            }

    target = Leaderless({TopicPartition(COPY, 0): FakeLog([], 0)}, "target")
    assert f"{COPY}-1: no such partition" in evidence(target, COPY).missing


@pytest.mark.parametrize(
    ("committed", "position", "rereads", "skips"),
    [(40, 40, 60, 0), (120, 100, 0, 0), (3, 10, 90, 7)],
)
def test_positions_of_the_copy_are_clamped_to_the_targets_log(
    committed: int, position: int, rereads: int, skips: int
) -> None:
    rows: list[Row] = [(n, n, None, b"v%d" % n, ()) for n in range(10, 100)]
    target = FakeCluster({ORDERS: FakeLog(rows, 100, 10)}, "target")
    place = GroupPartition("a", ORDERS)
    known = last_known(
        Evidence(copied={place: CopiedPosition(committed, NOON, "told by a copy")}), lambda t: t
    )
    method = SameOffsets(target, target, {}, target.offsets([ORDERS]), _tracked_offsets(target))
    state = Target({"orders": TopicState("orders", {0: 1})}, target.offsets([ORDERS]), {})
    positions = {place: position.offset for place, position in known.items()}
    unreachable = UnreachableSource(known, False, NOON + 5_000)
    (row,) = translate(positions, (), lambda topic: topic, state, [method], unreachable)
    found = row.translation
    assert found.answer.target_offset == position
    assert bounds(found.answer)[1:] == (rereads, skips)
    assert found.answer.age_seconds == 5
    assert found.answer.evidence.endswith("told by a copy")
    assert found.source_offset == committed


def _tracked_offsets(target: FakeCluster) -> dict[GroupPartition, TrackedOffset]:
    """Tracked offsets of another group show that offsets are preserved."""
    log = target.offsets([ORDERS])[ORDERS]
    last = step_of(target.logs[ORDERS].rows[-1])
    records = (ConsumedRecord(last.fingerprint, last.timestamp_ms),)
    return {GroupPartition("other", ORDERS): TrackedOffset(log.end, -1, "", NOON, records)}
