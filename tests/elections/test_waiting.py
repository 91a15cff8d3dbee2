"""Waiting for leaders: progress, and when it ends."""

from collections.abc import Collection
from dataclasses import dataclass, field

import pytest

from drctl.elections.cluster_state import PartitionStates
from drctl.elections.waiting import Wait, news
from drctl.model.errors import Unreachable
from tests.elections.cluster_states import partition, reader

DARK = reader(partition((2, 3), (3,)), alive=(1, 2))
BACK = reader(partition((2, 3), (3,)), alive=(1, 2, 3))
LED = reader(partition((2, 3), (3,), leader=3), alive=(1, 2, 3))


@dataclass
class Watched:
    """States one second apart; None is a cluster that does not respond."""

    looks: list[PartitionStates | None]
    seconds: float = 0.0
    stopping: bool = False
    lines: list[str] = field(default_factory=list)

    def look(self, topics: Collection[str] | None, ends_of: object = None) -> PartitionStates:
        found = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if found is None:
            raise Unreachable("nobody answers")
        return found

    def ends_before(self, epochs: object) -> dict[object, object]:
        raise AssertionError("waiting requests no end offsets by epoch")

    def monotonic(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> None:
        self.seconds += seconds

    def report(self, reader: PartitionStates | None, words: tuple[str, ...]) -> None:
        self.lines += words


def waited(watched: Watched, within_s: float) -> PartitionStates:
    return Wait(watched, watched, None, watched.report).run(within_s)  # type: ignore[arg-type]


def test_returned_brokers_and_leaders_are_reported() -> None:
    watched = Watched([DARK, None, BACK, LED])
    assert waited(watched, 60) is LED
    assert watched.lines == ["nobody answers", "broker 3 answers", "orders-0: broker 3 leads it"]


def test_it_ends_at_the_timeout() -> None:
    watched = Watched([DARK])
    assert waited(watched, 5) is DARK
    assert 5 <= watched.seconds < 7


def test_one_read_takes_no_time() -> None:
    watched = Watched([DARK])
    assert waited(watched, 0) is DARK
    assert watched.seconds == 0


def test_a_cluster_that_never_answers_is_unreachable() -> None:
    with pytest.raises(Unreachable):
        waited(Watched([None]), 3)


def test_an_unresponsive_leader_does_not_count() -> None:
    silent = reader(partition((2, 3), (3,), leader=3), alive=(1, 2))
    assert silent.leaderless == silent.partitions
    assert news(LED, silent) == ("broker 3 no longer answers", "orders-0: no leader")
    other = reader(partition((2, 3), (3,), leader=2), alive=(1, 2, 3))
    assert news(LED, other) == ("orders-0: broker 2 leads it, no longer broker 3",)
