"""What single traces of a lost source tell."""

from typing import Any, cast

import pytest

from drctl.cli.runs.loss_known import stock_of
from drctl.cli.runs.loss_mirror import beat_of, copied_upto, pace_of
from drctl.cli.runs.loss_sight import LossSight
from drctl.gap.traces import EndSeen
from drctl.model.errors import Unreachable
from drctl.model.topology import PartitionOffsets, Record, TopicPartition
from drctl.offsets.offset_syncs import Sync
from drctl.wire import heartbeats

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
def test_stock_that_was_taken(intent: Any, found: dict[TopicPartition, EndSeen]) -> None:
    assert stock_of({"entry": "intend", "at": AT, "intent": intent}, "primary") == found


def test_what_lies_behind_a_sync_is_copied_too() -> None:
    sync = Sync(upstream=100, downstream=40, at_ms=0)
    assert copied_upto(sync, PartitionOffsets(0, 41, 41)) == 101
    assert copied_upto(sync, PartitionOffsets(0, 61, 61)) == 121
    assert copied_upto(sync, PartitionOffsets(0, 3, 3)) == 101, "made anew there"


def test_the_pace_is_that_of_the_last_minutes() -> None:
    old = Sync(0, 0, 0)
    syncs = {
        A: (old, Sync(1_000, 1_000, 5_000_000), Sync(1_600, 1_600, 5_060_000)),
        B: (old, Sync(90, 90, 5_030_000), Sync(690, 690, 5_050_000)),
    }
    found = pace_of(syncs, 5_060_000)
    assert found is not None
    assert found.per_second == pytest.approx(20)
    assert "60 s before the newest" in found.evidence
    assert pace_of({A: (old, Sync(9, 9, 5_060_000))}, 5_060_000) is None
    assert pace_of({A: (Sync(1, 1, 4_000), Sync(9, 9, 5_000))}, 5_000) is None, "too short"


def test_heartbeats_that_are_none_tell_nothing() -> None:
    assert beat_of(Record(0, 0, 1, b"", heartbeats.encode_value(AT_MS))) == AT_MS
    assert beat_of(Record(0, 0, 1, b"", None)) is None
    assert beat_of(Record(0, 0, 1, b"", b"\x00")) is None


class Told:
    """Whoever watches an estimate."""

    def __init__(self) -> None:
        self.said: list[str | None] = []

    def update(self, description: str | None = None, **_: object) -> None:
        self.said.append(description)


def test_an_estimate_says_whom_it_asks_and_who_does_not_answer() -> None:
    told, nothing = Told(), cast(Any, None)
    sight = LossSight(nothing, nothing, nothing, (), task=cast(Any, told))

    def silent() -> None:
        raise Unreachable("nobody is there")

    sight.ask("the journal on b", lambda: None)
    sight.ask("Connect's offsets", silent)
    assert told.said == [
        "estimating what is lost: the journal on b",
        "estimating what is lost: Connect's offsets",
    ]
    assert sight.silent == ["Connect's offsets: nobody is there"]
