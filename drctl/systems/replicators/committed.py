"""How far Confluent Replicator got, from the positions of its own consumer group on the source."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager

from drctl.gap.tail import Position
from drctl.model.ports import GroupReader
from drctl.model.topology import TopicPartition, Unavailable


class CommittedPositions:
    """Implements `drctl.gap.tail.PositionFinder`.

    Args:
        groups: opens what looks at the source's groups.
        group: `src.consumer.group.id` of the connector; by default its name.
    """

    def __init__(
        self, groups: Callable[[], AbstractContextManager[GroupReader]], group: str
    ) -> None:
        self._opened = groups
        self._group = group

    @property
    def same_offsets(self) -> bool:
        """No: a copy has an offset of its own."""
        return False

    def positions(self, topics: Iterable[str]) -> Mapping[TopicPartition, Position]:
        """By source partition; without those in which the group has none.

        Raises:
            Unreachable: the source did not answer.
        """
        wanted = set(topics)
        with self._opened() as groups:
            found = groups.committed([self._group]).get(self._group, {})
        if isinstance(found, Unavailable):
            return {}
        return {
            place: Position(at.offset, f"group {self._group} has committed offset {at.offset}")
            for place, at in found.items()
            if place.topic in wanted
        }
