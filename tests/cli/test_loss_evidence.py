"""Single pieces of evidence about a lost source."""

import math
from collections.abc import Iterable
from typing import Any, cast

import pytest

from drctl.app.loss import (
    WORKER_HEARTBEATS,
    Answers,
    LossReader,
    ReplicatorEvidence,
    by_observed_ends,
    by_own_times,
    copied_upto,
    edges_before,
    ends_of,
    heartbeat_ms,
    lag_times,
    snapshot_in,
    steady_until,
)
from drctl.formats import heartbeats
from drctl.gap.loss import EndSeen
from drctl.model.errors import Unreachable
from drctl.model.topology import Found, PartitionOffsets, Record, TopicPartition
from drctl.offsets.checkpoints import Sync
from drctl.offsets.mirror_topics import Aliases

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
AT = "2026-11-22T01:02:03.500+00:00"
AT_MS = 1_795_309_323_500


@pytest.mark.parametrize(
    ("intent", "found"),
    [
        (
            {"clusters": {"primary": {"ends": {"orders-0": 7, "or-ders-12": 3}}, "b": {}}},
            {A: EndSeen(7, AT_MS), TopicPartition("or-ders", 12): EndSeen(3, AT_MS)},
        ),
        ({"clusters": {"primary": {"ends": {"orders-0": "no leader", "odd": 3}}}}, {}),
        ({"clusters": {"primary": {"error": "it does not answer"}}}, {}),
        ({"clusters": {"b": {"ends": {"orders-0": 7}}}}, {}),
        ({"rules": []}, {}),
        (None, {}),
    ],
)
def test_recorded_snapshots(intent: Any, found: dict[TopicPartition, EndSeen]) -> None:
    entry = {"entry": "intend", "at": AT, "intent": intent}
    stock = snapshot_in(entry, "primary")
    assert (ends_of(stock, entry) if stock else {}) == found


def test_records_after_a_sync_are_copied_in_order() -> None:
    sync = Sync(upstream=100, downstream=40, at_ms=0)
    assert copied_upto(sync, PartitionOffsets(0, 41, 41)) == 101
    assert copied_upto(sync, PartitionOffsets(0, 61, 61)) == 121
    assert copied_upto(sync, PartitionOffsets(0, 3, 3)) == 101, "the target topic was recreated"


LAST = 5_000_000
EDGES = edges_before(LAST)
LOG = PartitionOffsets(0, 1_000, 1_000)


def found(log: PartitionOffsets, times: Iterable[int], pace: float, last_ms: int = LAST) -> Answers:
    """Return the look-ups of records written at a rate per second until a time."""
    answers = {}
    for at in times:
        left = max(0, min(log.end - log.log_start, math.ceil((last_ms - at) / 1000 * pace)))
        offset = log.end - left if left else -1
        written = round(last_ms - left / pace * 1000)
        answers[A, at] = Found(offset, written if left else -1)
    return answers


def test_the_write_history_is_derived_from_copies() -> None:
    answers = found(LOG, EDGES, 1)
    write_history = by_own_times(LOG, LAST, None, EDGES, answers, A)
    assert write_history is not None
    assert dict(write_history.since)[LAST - 60_000] == 60
    assert (write_history.begins_ms, write_history.lag_ms, write_history.own) == (None, None, True)
    young = by_own_times(LOG, LAST, None, EDGES, found(LOG, EDGES, 100), A)
    assert young is not None
    assert young.begins_ms == LAST - 10_000, "all 1,000 records are from the last ten seconds"
    idle = by_own_times(LOG, EDGES[-1] - 1, None, EDGES, {}, A)
    assert idle is not None
    assert {count for _, count in idle.since} == {0}
    silent = {key: answer for key, answer in answers.items() if key[1] != EDGES[3]}
    assert by_own_times(LOG, LAST, None, EDGES, silent, A) is None


@pytest.mark.parametrize(
    ("delay_ms", "lag_ms"), [(50, 0), (2_500, 2_000), (45_000, 30_000), (-900, 0), (-1_500, None)]
)
def test_the_lag_is_derived_from_a_sync_and_its_record(delay_ms: int, lag_ms: int | None) -> None:
    """A record that was replicated before its own timestamp has the timestamp of another clock."""
    log, at = PartitionOffsets(0, 1_001, 1_001), LAST + delay_ms
    answers = found(log, [*EDGES, *lag_times(at)], 1)
    write_history = by_own_times(log, LAST, Sync(1_000, 1_000, at), EDGES, answers, A)
    assert (write_history.lag_ms if write_history else None) == lag_ms


def test_event_times_are_not_write_times() -> None:
    at = LAST + 3 * 86_400_000
    answers = found(LOG, [*EDGES, *lag_times(at)], 1)
    assert by_own_times(LOG, LAST, Sync(999, 999, at), EDGES, answers, A) is None
    later = edges_before(at)
    assert by_own_times(LOG, LAST, Sync(999, 999, at), later, {}, A) is None


def test_observed_ends_replace_unusable_timestamps() -> None:
    points = [EndSeen(1_000, LAST - 60_000), EndSeen(1_600, LAST), EndSeen(9_000, LAST + 5)]
    write_history = by_observed_ends(points, 1_650, LAST)
    assert write_history is not None
    assert (write_history.newest_ms, write_history.own) == (LAST, False)
    assert dict(write_history.since)[LAST - 60_000] == 650
    assert write_history.begins_ms == LAST - 60_000
    assert by_observed_ends(points[:1], 1_650, LAST) is None


SLOW = [0, 400, 800, 1_200, 1_600]


@pytest.mark.parametrize(
    ("notes", "until"),
    [
        (SLOW, 1_600),
        (SLOW[::-1], 1_600),
        ([*SLOW, 4_500, 4_510, 4_520], 1_600),
        ([*SLOW, 4_500, 5_000, 5_500, 6_000], 6_000),
        ([0, 2_800, 5_600, 8_400], 8_400),
        ([0, 10, 20], None),
        ([7], None),
        ([], None),
    ],
    ids=["slow", "unsorted", "thawed", "goes on", "very slow", "at once", "one", "none"],
)
def test_steady_syncs_show_the_source_alive(notes: list[int], until: int | None) -> None:
    """Syncs that arrive at once after a pause are of records fetched before it."""
    assert steady_until(notes) == until


def test_invalid_heartbeats_are_ignored() -> None:
    assert heartbeat_ms(Record(0, 0, 1, b"", heartbeats.encode_value(AT_MS))) == AT_MS
    assert heartbeat_ms(Record(0, 0, 1, b"", None)) is None
    assert heartbeat_ms(Record(0, 0, 1, b"", b"\x00")) is None


class RecordingTask:
    """Records the progress of an estimate."""

    def __init__(self) -> None:
        self.descriptions: list[str | None] = []

    def update(self, description: str | None = None, **_: object) -> None:
        self.descriptions.append(description)


def test_an_estimate_names_its_evidence_and_unreachable_parts() -> None:
    recording, nothing = RecordingTask(), cast(Any, None)
    reader = LossReader(nothing, nothing, nothing, (), task=cast(Any, recording))

    def silent() -> None:
        raise Unreachable("nobody is there")

    reader.ask("the journal on b", lambda: None)
    reader.ask("Connect's offsets", silent)
    assert recording.descriptions == [
        "estimating the loss: the journal on b",
        "estimating the loss: Connect's offsets",
    ]
    assert reader.found.silent == ["Connect's offsets: nobody is there"]


class Target:
    """Heartbeats on the target: of this replicator, and of one in the other direction."""

    def __init__(self, own_ms: Iterable[int], other_ms: Iterable[int] = ()) -> None:
        both = [(at, "primary", "secondary") for at in own_ms]
        both += [(at, "secondary", "primary") for at in other_ms]
        self.beats = sorted(both)

    def topics(self, names: list[str]) -> dict[str, object]:
        return {name: object() if name == WORKER_HEARTBEATS else None for name in names}

    def look_up(self, questions: Any) -> Any:
        ((_, wanted),) = questions
        offset = next((n for n, (at, *_) in enumerate(self.beats) if at >= wanted), -1)
        return lambda: [Found(offset, wanted)]

    def following(self, positions: Any, number: int) -> Any:
        ((place, begin),) = positions.items()
        rows = self.beats[begin : begin + number]
        return {
            place: tuple(
                Record(
                    0,
                    n,
                    at,
                    heartbeats.encode_key(heartbeats.Flow(*flow)),
                    heartbeats.encode_value(at),
                )
                for n, (at, *flow) in enumerate(rows)
            )
        }


@pytest.mark.parametrize("halted", [None, ""])
def test_a_suspended_worker_is_detected_by_its_heartbeats(halted: str | None) -> None:
    begin, end = LAST, LAST + 8_000
    own = [*range(begin - 90_000, begin + 1, 1_000), *range(end, end + 30_000, 1_000)]
    other = range(begin - 90_000, end + 30_000, 1_000)
    sync = Sync(1_000, 1_000, end + 300)
    mirrored = cast(Any, type("Mirrored", (), {"syncs": {A: [sync]}, "checkpoints": {}}))

    def looked(target: Target) -> tuple[LossReader, ReplicatorEvidence]:
        now = (end + 30_000) / 1000
        into = LossReader(cast(Any, None), cast(Any, None), cast(Any, target), ("orders",))
        into.now, into.halted = (lambda: now), halted
        mirror = ReplicatorEvidence(into, [A])
        mirror._paused(Aliases("primary", "secondary"), mirrored)
        return into, mirror

    into, mirror = looked(Target(own, other))
    assert into.found.pause == (begin, end)
    assert not into.found.pause_unseen
    assert mirror._before_pause([sync])[0].at_ms == begin
    steady, mirror = looked(Target(other_ms=own, own_ms=other))
    assert steady.found.pause is None, "only the other direction was suspended"
    assert mirror._before_pause([sync]) == [sync]
    assert looked(Target((), other))[0].found.pause_unseen
