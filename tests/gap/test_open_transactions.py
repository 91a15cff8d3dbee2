"""With continuous transactions, those that were open at the freeze are decided later."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from drctl.app import failback_search
from drctl.app.gap import GapOptions
from drctl.config.configuration import Config
from drctl.gap.freeze import Hanging, StableOffsets, TransactionWait, freeze
from drctl.model.topology import PartitionOffsets, TopicPartition, Unavailable
from tests.gap.test_freeze import WHOLE, Cluster
from tests.links import link

PLACE = TopicPartition("orders", 0)
DARK = Unavailable("the partition has no leader")


@dataclass
class Busy:
    """A partition whose leader gives these responses in turn; the last one repeats."""

    answers: list[PartitionOffsets | Unavailable]
    name: str = "secondary"
    clock: float = 0
    messages: list[str] = field(default_factory=list)
    hanging: list[Hanging] = field(default_factory=list)
    reported: Hanging = field(default_factory=dict)

    def offsets(self, partitions: Collection[TopicPartition]) -> StableOffsets:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return dict.fromkeys(partitions, answer)

    def pause(self, seconds: float) -> None:
        self.clock += seconds

    def find_hanging(self, name: str, places: Collection[TopicPartition]) -> Hanging:
        assert (name, places) == (self.name, [PLACE])
        return self.hanging.pop(0) if self.hanging else {}

    def waited_for(self, seconds: float) -> PartitionOffsets | Unavailable:
        found, self.reported = TransactionWait(
            seconds, self.messages.append, lambda: self.clock, self.pause, self.find_hanging
        ).offsets(self, [PLACE])
        return found[PLACE]


def writing_on() -> Iterator[PartitionOffsets]:
    """Each time the previous transaction is committed and another one is open."""
    return (PartitionOffsets(0, at, at + 3) for at in range(7, 100, 3))


def test_only_transactions_of_the_first_read_are_awaited() -> None:
    busy = Busy(list(writing_on()))
    assert busy.waited_for(10) == PartitionOffsets(0, 10, 10)
    assert busy.messages == [
        "waiting for an open transaction in orders-0 on secondary, at most 10 s"
    ]


def test_an_idle_log_includes_its_last_marker() -> None:
    ended = PartitionOffsets(0, 11, 11)
    assert Busy([PartitionOffsets(0, 7, 10), ended]).waited_for(10) == ended


def test_records_after_a_transaction_are_not_awaited() -> None:
    answers = [PartitionOffsets(0, 7, 10), PartitionOffsets(0, 11, 11), PartitionOffsets(0, 14, 14)]
    assert Busy([*answers]).waited_for(10) == WHOLE


def test_one_that_does_not_end_in_time_stays_undecided() -> None:
    open_ = PartitionOffsets(0, 7, 10)
    busy = Busy([open_, PartitionOffsets(0, 7, 12), DARK, PartitionOffsets(0, 7, 15)])
    assert busy.waited_for(10) == open_
    assert busy.clock == 10


def test_a_leader_that_is_silent_meanwhile_is_asked_again() -> None:
    busy = Busy([PartitionOffsets(0, 7, 10), DARK, PartitionOffsets(0, 12, 15)])
    assert busy.waited_for(10) == WHOLE


def test_truncated_records_were_never_decided() -> None:
    open_ = PartitionOffsets(0, 7, 10)
    assert Busy([open_, PartitionOffsets(0, 8, 8)]).waited_for(10) == open_


def test_without_a_wait_it_is_reported_as_open() -> None:
    busy = Busy(list(writing_on()))
    assert (busy.waited_for(0), busy.clock) == (PartitionOffsets(0, 7, 10), 0)


def test_a_hanging_transaction_is_not_awaited() -> None:
    open_ = PartitionOffsets(0, 7, 10)
    busy = Busy([open_], hanging=[{PLACE: "abort A"}, {PLACE: "abort A"}])
    assert busy.waited_for(900) == open_
    assert (busy.clock, busy.reported) == (20, {PLACE: "abort A"})


def test_a_transaction_that_was_not_known_once_is_awaited() -> None:
    open_ = PartitionOffsets(0, 7, 10)
    busy = Busy(
        [open_], hanging=[{PLACE: "abort A"}, {}, {PLACE: "abort A"}, {PLACE: "abort B"}, {}]
    )
    assert busy.waited_for(60) == open_
    assert (busy.clock, busy.reported, busy.hanging) == (60, {}, [])


class Writing(Cluster):
    """One topic with continuous transactions."""

    def __init__(self, name: str) -> None:
        super().__init__(name, {0: WHOLE})
        self._states = writing_on()

    def offsets(self, partitions: Collection[TopicPartition]) -> StableOffsets:
        return dict.fromkeys(partitions, next(self._states))


def test_a_freeze_with_continuous_transactions_is_complete() -> None:
    ends = Writing("primary"), Writing("secondary")
    transaction_wait = TransactionWait(10, pause=lambda _seconds: None)
    found = freeze(
        link(keeps_partitions=True), *ends, ["orders"], transaction_wait=transaction_wait
    )  # type: ignore[arg-type]
    (topic,) = found.topics
    decided = {0: PartitionOffsets(0, 10, 10)}
    assert (topic.source, topic.target, found.not_compared) == (decided, decided, ())


def test_a_hanging_transaction_of_either_cluster_is_named() -> None:
    open_ = PartitionOffsets(0, 7, 10)
    ends = Cluster("primary", {0: open_}), Cluster("secondary", {0: open_})
    clock = iter(range(0, 10_000, 5))
    transaction_wait = TransactionWait(
        900,
        now=lambda: next(clock),
        pause=lambda _seconds: None,
        find_hanging=lambda name, places: dict.fromkeys(places, f"abort it on {name}"),
    )
    found = freeze(
        link(keeps_partitions=True), *ends, ["orders"], transaction_wait=transaction_wait
    )  # type: ignore[arg-type]
    why = (
        "hanging transaction: 3 offsets from 7 on cannot be read; stop its producer, then abort it"
    )
    assert [each.reason for each in found.not_compared] == [
        f"{name}: {why}: abort it on {name}" for name in ("secondary", "primary")
    ]
    assert found.topics[0].source == {0: open_}


def test_failback_search_waits_for_open_transactions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[GapOptions] = []

    class Runs:
        def __init__(self, _config: object, _link: object, options: GapOptions) -> None:
            asked.append(options)

        def __enter__(self) -> "Runs":
            return self

        def __exit__(self, *_: object) -> None: ...

        def run(self, _out: Path) -> None: ...

    @dataclass
    class Kept:
        state_dir: Path

    monkeypatch.setattr("drctl.app.gap.GapRuns", Runs)
    failback_search._compare(cast(Config, Kept(tmp_path)), link(keeps_partitions=True))
    assert asked[0].timeout_s == failback_search.TRANSACTIONS_S
