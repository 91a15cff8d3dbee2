"""Evidence of how far replication got without a Connect worker."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from drctl.app.replication_progress import CommittedPositions, FirstAnswer
from drctl.gap.tail import Position
from drctl.model.errors import Unreachable
from drctl.model.groups import Committed, Positions
from drctl.model.topology import TopicPartition, Unavailable

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


class Finder:
    """Reports given positions; nothing if it is unreachable."""

    same_offsets = False

    def __init__(self, known: Mapping[TopicPartition, int] | None) -> None:
        self._known = known

    def positions(self, topics: Iterable[str]) -> Mapping[TopicPartition, Position]:
        if self._known is None:
            raise Unreachable("nobody is there")
        return {p: Position(o, "told") for p, o in self._known.items() if p.topic in topics}


def offsets(*finders: Finder) -> dict[TopicPartition, int]:
    found = FirstAnswer(finders).positions(["t"])
    return {place: position.offset for place, position in found.items()}


def test_the_first_that_knows_a_partition_counts() -> None:
    assert offsets(Finder({ONE: 5}), Finder({ONE: 3, OTHER: 7})) == {ONE: 5, OTHER: 7}
    assert offsets(Finder(None), Finder({ONE: 3})) == {ONE: 3}
    assert offsets(Finder({ONE: 5}), Finder(None)) == {ONE: 5}


def test_none_of_them_answers() -> None:
    with pytest.raises(Unreachable, match="nobody is there"):
        offsets(Finder(None), Finder(None))


class Groups:
    """A source with one group."""

    def __init__(self, held: Positions | Unavailable) -> None:
        self._held = held

    def committed(self, names: Collection[str]) -> Mapping[str, Positions | Unavailable]:
        return dict.fromkeys(names, self._held)


def committed(held: Positions | Unavailable) -> Mapping[TopicPartition, Position]:
    @contextmanager
    def opened() -> Iterator[Groups]:
        yield Groups(held)

    return CommittedPositions(opened, "replicator").positions(["t"])  # type: ignore[arg-type]


def test_replicators_own_group() -> None:
    held = {ONE: Committed(12), TopicPartition("other", 0): Committed(4)}
    assert committed(held) == {ONE: Position(12, "group replicator has committed offset 12")}
    assert committed(Unavailable("no right")) == {}
