"""Several who may know how far replication got; the first one that does counts."""

from collections.abc import Iterable, Mapping, Sequence

from drctl.gap.tail import Position, PositionFinder
from drctl.model.errors import Unknown
from drctl.model.topology import TopicPartition


class FirstToKnow:
    """Implements `drctl.gap.tail.PositionFinder`.

    Args:
        finders: the best one first.
    """

    def __init__(self, finders: Sequence[PositionFinder]) -> None:
        self._finders = finders

    @property
    def same_offsets(self) -> bool:
        """No: whoever keeps offsets needs nobody else."""
        return False

    def positions(self, topics: Iterable[str]) -> Mapping[TopicPartition, Position]:
        """By source partition; without those of which nobody knows.

        Raises:
            Unknown: none of them answered, or not as it should.
        """
        names, failures = tuple(topics), list[Unknown]()
        found: dict[TopicPartition, Position] = {}
        for finder in self._finders:
            try:
                found = {**finder.positions(names), **found}
            except Unknown as error:
                failures.append(error)
        if len(failures) == len(self._finders):
            raise failures[0]
        return found
