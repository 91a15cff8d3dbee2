"""Current state of a gap result's topics on both clusters."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from drctl.model.ports import ClusterReader
from drctl.model.topology import PartitionOffsets, TopicPartition, TopicState, Unavailable
from drctl.reconcile.gap_result import FoundPartition

State = TopicState | Unavailable | None
Log = PartitionOffsets | Unavailable

_NOT_LOOKED_AT = Unavailable("it was not read")


@dataclass(frozen=True, slots=True)
class ClusterState:
    """One cluster.

    Attributes:
        states: None for topics that do not exist.
    """

    cluster_id: str
    states: Mapping[str, State] = field(default_factory=dict)
    logs: Mapping[TopicPartition, Log] = field(default_factory=dict)

    def state(self, topic: str) -> State:
        """Return the state of a topic."""
        return self.states.get(topic, _NOT_LOOKED_AT)

    def log(self, place: TopicPartition) -> Log:
        """Return the offsets of a partition."""
        return self.logs.get(place, _NOT_LOOKED_AT)

    def log_start(self, place: TopicPartition) -> int:
        """Return the log start offset of a partition; 0 if unknown."""
        log = self.logs.get(place)
        return log.log_start if isinstance(log, PartitionOffsets) else 0

    def topic_id(self, topic: str) -> str:
        """Return the topic id; empty if unknown."""
        state = self.states.get(topic)
        return state.topic_id if isinstance(state, TopicState) else ""


@dataclass(frozen=True, slots=True)
class ClusterStates:
    """Both clusters."""

    source: ClusterState
    target: ClusterState


def look(
    source: ClusterReader, target: ClusterReader, partitions: Collection[FoundPartition]
) -> ClusterStates:
    """Read topics and offsets from both clusters.

    Raises:
        Unreachable: a cluster did not answer.
    """
    return ClusterStates(
        _look(source, {p.place for p in partitions}), _look(target, {p.there for p in partitions})
    )


def _look(reader: ClusterReader, places: Collection[TopicPartition]) -> ClusterState:
    states = reader.topics(sorted({place.topic for place in places}))
    there = [
        place
        for place in sorted(places)
        if isinstance(state := states.get(place.topic), TopicState)
        and place.partition in state.partitions
    ]
    return ClusterState(reader.cluster_id(), states, reader.offsets(there) if there else {})
