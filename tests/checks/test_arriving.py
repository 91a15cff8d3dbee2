"""Who gives up a source as dead looks first whether its records still arrive."""

from collections.abc import Iterator

import pytest

from drctl.checks.arriving import LOOKS, Arriving, arriving
from drctl.model.topology import TopicPartition

ONE, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Copies:
    """Ends that are looked at, one after another; the last stays."""

    def __init__(self, *ends: int) -> None:
        self.ends, self.looks, self.seconds = ends, 0, 0.0

    def __call__(self) -> dict[TopicPartition, int]:
        end = self.ends[min(self.looks, len(self.ends) - 1)]
        self.looks += 1
        return {ONE: end, OTHER: 7}

    def wait(self, seconds: float) -> None:
        self.seconds += seconds

    def look(self, *, silent: bool = True) -> Arriving:
        return arriving(self, lambda: silent, lambda: self.seconds, self.wait)


def test_copies_that_stand_still_are_looked_at_twice() -> None:
    copies = Copies(5)
    assert copies.look() == Arriving(0, 2.0)
    assert copies.looks == 2


def test_what_was_on_its_way_when_the_source_died_does_not_count() -> None:
    assert Copies(5, 40, 90, 90, 90).look().records == 0


def test_copies_that_grow_at_every_look_do() -> None:
    copies = Copies(5, 6, 8, 11, 15)
    assert copies.look().records == 4
    assert copies.looks == LOOKS


def test_nobody_waits_where_the_source_answers() -> None:
    copies = Copies(5, 6, 7, 8, 9)
    assert copies.look(silent=False) == Arriving(0, 0.0)
    assert copies.looks == 1


@pytest.mark.parametrize("slow_s", [0.0, 1.5, 9.0])
def test_waiting_for_the_source_is_part_of_the_first_wait(slow_s: float) -> None:
    copies = Copies(5)

    def silent() -> bool:
        copies.seconds += slow_s
        return True

    found = arriving(copies, silent, lambda: copies.seconds, lambda s: copies.wait(max(0.0, s)))
    assert found.seconds == max(2.0, slow_s)


def test_a_topic_that_comes_new_or_is_cut_is_no_growth() -> None:
    looks: Iterator[dict[TopicPartition, int]] = iter([{ONE: 9}, {ONE: 3, OTHER: 12}])
    found = arriving(lambda: next(looks), lambda: True, lambda: 0.0, lambda _: None)
    assert found.records == 0
