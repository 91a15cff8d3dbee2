"""The state of both sides at one moment: what will be compared, and what cannot be.

The source is frozen first: whatever is replicated in between is then on the target's side too.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from drctl.config.link import Link
from drctl.gap.deciding import NO_PATIENCE, Patience, decided
from drctl.model.gap import NotCompared
from drctl.model.ports import ClusterReader
from drctl.model.topology import (
    OffsetRange,
    PartitionOffsets,
    TopicPartition,
    TopicState,
    Unavailable,
)

Offsets = Mapping[int, PartitionOffsets]


def at_once() -> None:
    """The target is frozen right behind the source."""


@dataclass(frozen=True, slots=True)
class FrozenTopic:
    """Both sides of one topic.

    Attributes:
        target_state: None where the target has no such topic.
        source: readable partitions only, and in a comparison by partition only those whose
            partition on the target could be looked at; `target` likewise.
    """

    topic: str
    target_topic: str
    state: TopicState
    target_state: TopicState | None
    source: Offsets
    target: Offsets

    def committed(self, offsets: Offsets) -> dict[int, OffsetRange]:
        """What read_committed gives: from the log start to the last stable offset."""
        return {p: OffsetRange(o.log_start, o.last_stable) for p, o in offsets.items()}


@dataclass(frozen=True, slots=True)
class Frozen:
    """All topics of a link."""

    topics: tuple[FrozenTopic, ...]
    not_compared: tuple[NotCompared, ...]


class _Freezer:
    """Collects what can be compared and what cannot."""

    def __init__(
        self,
        link: Link,
        source: ClusterReader,
        target: ClusterReader,
        settle: Callable[[], None],
        patience: Patience,
    ) -> None:
        self._link = link
        self._settle = settle
        self._patience = patience
        self._source = source
        self._target = target
        self._left_out: list[NotCompared] = []

    def freeze(self, names: Sequence[str]) -> Frozen:
        states = self._source_states(names)
        targets = self._target_states(states)
        states = {name: state for name, state in states.items() if name in targets}
        source = self._patience.offsets(self._source, _partitions(states.values()))
        self._settle()
        source = decided(self._source, source)
        present = [state for state in targets.values() if state is not None]
        target = self._patience.offsets(self._target, _partitions(present))
        topics = [
            self._topic(states[name], targets[name], source, target) for name in sorted(states)
        ]
        return Frozen(tuple(t for t in topics if t is not None), tuple(self._left_out))

    def _leave_out(self, topic: str, partition: int | None, reason: str) -> None:
        self._left_out.append(NotCompared(topic, partition, reason))

    def _source_states(self, names: Sequence[str]) -> dict[str, TopicState]:
        found: dict[str, TopicState] = {}
        for name, state in self._source.topics(names).items():
            if state is None:
                self._leave_out(name, None, f"does not exist on {self._source.name}")
            elif isinstance(state, Unavailable):
                self._leave_out(name, None, f"{self._source.name}: {state.reason}")
            elif not state.readable:
                self._leave_out(name, None, f"{self._source.name}: not authorized to read it")
            else:
                found[name] = state
        return found

    def _target_states(self, names: Iterable[str]) -> dict[str, TopicState | None]:
        on_target = {self._link.target_topic(name): name for name in names}
        found: dict[str, TopicState | None] = {}
        for target_name, state in self._target.topics(tuple(on_target)).items():
            name = on_target[target_name]
            if isinstance(state, Unavailable):
                self._leave_out(name, None, f"{self._target.name}: {state.reason}")
            elif state is not None and not state.readable:
                self._leave_out(name, None, f"{self._target.name}: not authorized to read it")
            else:
                found[name] = state
        return found

    def _topic(
        self,
        state: TopicState,
        target_state: TopicState | None,
        source: Mapping[TopicPartition, PartitionOffsets | Unavailable],
        target: Mapping[TopicPartition, PartitionOffsets | Unavailable],
    ) -> FrozenTopic | None:
        by_partition = self._link.settings.keeps_partitions
        theirs, dark_there = self._readable(state.name, target_state, target, self._target.name)
        ours, dark_here = self._readable(state.name, state, source, self._source.name)
        if (dark_there or dark_here) and not by_partition:
            self._leave_out(state.name, None, "compared as a whole, and part of it is unreadable")
            return None
        # Against a partition that cannot be read, all records of the other side would look alone.
        ours = {p: o for p, o in ours.items() if p not in dark_there}
        theirs = {p: o for p, o in theirs.items() if p not in dark_here}
        for partition, offsets in theirs.items():
            if waiting := offsets.end - offsets.last_stable:
                reason = (
                    f"{self._target.name}: an open transaction keeps {waiting} offsets"
                    f" from {offsets.last_stable} on from being read"
                )
                self._leave_out(state.name, partition, reason)
        return FrozenTopic(
            topic=state.name,
            target_topic=self._link.target_topic(state.name),
            state=state,
            target_state=target_state,
            source=ours,
            target=theirs,
        )

    def _readable(
        self,
        topic: str,
        state: TopicState | None,
        offsets: Mapping[TopicPartition, PartitionOffsets | Unavailable],
        cluster: str,
    ) -> tuple[dict[int, PartitionOffsets], frozenset[int]]:
        readable: dict[int, PartitionOffsets] = {}
        unreadable = set()
        for partition in sorted(state.partitions) if state else ():
            assert state is not None
            found = offsets[TopicPartition(state.name, partition)]
            if isinstance(found, Unavailable):
                unreadable.add(partition)
                self._leave_out(topic, partition, f"{cluster}: {found.reason}")
            else:
                readable[partition] = found
        return readable, frozenset(unreadable)


def freeze(
    link: Link,
    source: ClusterReader,
    target: ClusterReader,
    topics: Sequence[str],
    settle: Callable[[], None] = at_once,
    patience: Patience = NO_PATIENCE,
) -> Frozen:
    """Take the offsets of both sides of these source topics.

    Args:
        settle: waits for records that are on their way between the two.
        patience: for transactions that are open.

    Raises:
        Unreachable: one of the clusters did not answer at all.
    """
    return _Freezer(link, source, target, settle, patience).freeze(topics)


def _partitions(states: Iterable[TopicState]) -> list[TopicPartition]:
    return [TopicPartition(s.name, p) for s in states for p in sorted(s.partitions)]
