"""Replicators that give a copy the offset of its original: the target's end is their position."""

from collections.abc import Callable, Iterable, Mapping

from drctl.gap.tail import Position
from drctl.model.ports import OffsetReader
from drctl.model.topology import Found, Mark, TopicPartition


class PreservingPositions:
    """Implements `drctl.gap.tail.PositionFinder`.

    Args:
        target_topic: what a topic of the source is called on the target.
    """

    def __init__(self, target: OffsetReader, target_topic: Callable[[str], str]) -> None:
        self._target = target
        self._target_topic = target_topic

    @property
    def same_offsets(self) -> bool:
        """Yes."""
        return True

    def positions(self, topics: Iterable[str]) -> Mapping[TopicPartition, Position]:
        """By source partition; without those that the target lacks.

        Raises:
            Unreachable: no broker of the target answered within the deadline.
        """
        names = {self._target_topic(topic): topic for topic in topics}
        there = [
            TopicPartition(name, partition)
            for name, partitions in self._target.overview().partitions.items()
            if name in names
            for partition in partitions
        ]
        answers = self._target.look_up([(place, Mark.STABLE) for place in there])()
        return {
            TopicPartition(names[place.topic], place.partition): Position(
                found.offset, f"{self._target.name} ends at offset {found.offset}"
            )
            for place, found in zip(there, answers, strict=True)
            if isinstance(found, Found)
        }
