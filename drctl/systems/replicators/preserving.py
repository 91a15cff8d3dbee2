"""Replicators that give a copy the offset of its original: the target's end is their position."""

from collections.abc import Callable, Iterable, Mapping

from drctl.gap.tail import Position
from drctl.model.ports import ClusterReader
from drctl.model.topology import PartitionOffsets, TopicPartition, TopicState


class PreservingPositions:
    """Implements `drctl.gap.tail.PositionFinder`.

    Args:
        target_topic: what a topic of the source is called on the target.
    """

    def __init__(self, target: ClusterReader, target_topic: Callable[[str], str]) -> None:
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
        states = self._target.topics(tuple(names))
        there = [
            TopicPartition(name, partition)
            for name, state in states.items()
            if isinstance(state, TopicState)
            for partition in state.partitions
        ]
        return {
            TopicPartition(names[place.topic], place.partition): Position(
                offsets.last_stable, f"{self._target.name} ends at offset {offsets.last_stable}"
            )
            for place, offsets in self._target.offsets(there).items()
            if isinstance(offsets, PartitionOffsets)
        }
