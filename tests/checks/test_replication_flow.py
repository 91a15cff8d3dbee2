"""Before a source is declared dead, the check looks whether its records still arrive."""

from collections.abc import Iterator

import pytest

from drctl.checks.replication_flow import READINGS, ReplicationFlow, observe_flow
from drctl.model.topology import TopicPartition

ONE, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Copies:
    """End offsets for successive reads; the last one repeats."""

    def __init__(self, *ends: int) -> None:
        self.ends, self.looks, self.seconds = ends, 0, 0.0

    def __call__(self) -> dict[TopicPartition, int]:
        end = self.ends[min(self.looks, len(self.ends) - 1)]
        self.looks += 1
        return {ONE: end, OTHER: 7}

    def wait(self, seconds: float) -> None:
        self.seconds += seconds

    def look(self, *, silent: bool = True) -> ReplicationFlow:
        return observe_flow(self, lambda: silent, "", lambda: self.seconds, self.wait)


def test_unchanged_copies_are_read_twice() -> None:
    copies = Copies(5)
    assert copies.look() == ReplicationFlow(0, 2.0)
    assert copies.looks == 2


def test_records_in_flight_do_not_count() -> None:
    assert Copies(5, 40, 90, 90, 90).look().records == 0


def test_copies_that_grow_in_every_reading_count() -> None:
    copies = Copies(5, 6, 8, 11, 15)
    assert copies.look().records == 4
    assert copies.looks == READINGS


def test_no_wait_if_the_source_answers() -> None:
    copies = Copies(5, 6, 7, 8, 9)
    assert copies.look(silent=False) == ReplicationFlow(0, 0.0)
    assert copies.looks == 1


def test_earlier_reading_counts_as_the_first() -> None:
    copies = Copies(5, 5)
    copies.seconds = 7.0
    before = lambda: (4.0, {ONE: 5, OTHER: 7})  # noqa: E731
    look = observe_flow(copies, lambda: True, "", lambda: copies.seconds, lambda _: None, before)
    assert look == ReplicationFlow(0, 3.0)
    assert copies.looks == 1


@pytest.mark.parametrize("slow_s", [0.0, 1.5, 9.0])
def test_waiting_for_the_source_is_part_of_the_first_wait(slow_s: float) -> None:
    copies = Copies(5)

    def silent() -> bool:
        copies.seconds += slow_s
        return True

    found = observe_flow(
        copies, silent, "", lambda: copies.seconds, lambda s: copies.wait(max(0.0, s))
    )
    assert found.seconds == max(2.0, slow_s)


def test_new_or_truncated_topic_does_not_count() -> None:
    looks: Iterator[dict[TopicPartition, int]] = iter([{ONE: 9}, {ONE: 3, OTHER: 12}])
    found = observe_flow(lambda: next(looks), lambda: True, "", lambda: 0.0, lambda _: None)
    assert found.records == 0


@pytest.mark.parametrize(
    ("beats", "found"),
    [
        ((1, 3, 5, 7, 9), ReplicationFlow(0, 8.0, 2, ONE.topic)),
        ((1, 3, 5, 5, 5), ReplicationFlow(0, 6.0, 0, ONE.topic)),
        ((1, 1, 3, 5, 7), ReplicationFlow(0, 2.0, 0, ONE.topic)),
    ],
    ids=["they come", "they end", "they come too late"],
)
def test_copied_heartbeats_count_without_writes(
    beats: tuple[int, ...], found: ReplicationFlow
) -> None:
    copies = Copies(*beats)
    looked = observe_flow(copies, lambda: True, ONE.topic, lambda: copies.seconds, copies.wait)
    assert looked == found
    assert looked.active == bool(found.heartbeats)


def test_records_and_heartbeats_are_counted_separately() -> None:
    looks = iter([{ONE: n, TopicPartition("primary.heartbeats", 0): 2 * n} for n in range(9)])
    args = (lambda: 0.0, lambda _seconds: None)
    found = observe_flow(lambda: next(looks), lambda: True, "primary.heartbeats", *args)
    assert found == ReplicationFlow(1, 0.0, 2, "primary.heartbeats")
