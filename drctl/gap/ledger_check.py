"""Whether what a ledger says of a log still holds: nothing is used that could have changed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from drctl.gap.comparison import Side
from drctl.gap.freeze import Frozen, FrozenTopic
from drctl.gap.ledger import KnownLog, LogKey, within
from drctl.model.gap import Forgotten
from drctl.model.ports import ClusterReader
from drctl.model.topology import (
    OffsetRange,
    PartitionOffsets,
    TopicPartition,
    TopicState,
    Unavailable,
)


@dataclass(frozen=True, slots=True)
class FrozenLog:
    """One log of a freeze.

    Attributes:
        name: the topic's name on this side.
        lasting: whether what is committed stays as it is: not where the log is compacted.
    """

    name: str
    topic_id: str
    lasting: bool
    offsets: PartitionOffsets

    @property
    def committed(self) -> OffsetRange:
        """What can be read."""
        return OffsetRange(self.offsets.log_start, self.offsets.last_stable)


@dataclass(slots=True)
class Check:
    """Tells which facts still hold.

    Attributes:
        forgotten: those that do not, and why.
    """

    frozen: Frozen
    readers: Mapping[Side, ClusterReader]
    forgotten: list[Forgotten] = field(default_factory=list)

    def still_true(self, stored: Mapping[LogKey, KnownLog]) -> dict[LogKey, KnownLog]:
        """Of each log, the cells that still hold; without the logs of which nothing does.

        Raises:
            Unreachable: a cluster did not answer.
        """
        logs = frozen_logs(self.frozen)
        found: dict[LogKey, KnownLog] = {}
        elected: dict[LogKey, KnownLog] = {}
        for key, known in stored.items():
            log = logs.get(key)
            if log is None:
                continue  # not readable now, or not asked for: nothing is known against it
            if reason := _refuted(known, log):
                self._forget(key, reason)
            elif moved_on(known, log):
                elected[key] = known
            else:
                found[key] = known
        found |= self._same_logs(elected, logs)
        held = {key: self._held(key, known, logs[key]) for key, known in found.items()}
        return {key: known for key, known in held.items() if known.cells}

    def _forget(self, key: LogKey, reason: str) -> None:
        self.forgotten.append(Forgotten(key.topic, key.side.value, key.partition, reason))

    def _held(self, key: LogKey, known: KnownLog, log: FrozenLog) -> KnownLog:
        cells = within(known.cells, log.committed)
        if not cells and known.cells:
            self._forget(key, "all of it was deleted by retention")
        return replace(known, cells=cells)

    def _same_logs(
        self, elected: Mapping[LogKey, KnownLog], logs: Mapping[LogKey, FrozenLog]
    ) -> dict[LogKey, KnownLog]:
        """Those whose last digested record is still the one that was digested."""
        same = {}
        for side, reader in self.readers.items():
            asked = {
                TopicPartition(logs[key].name, key.partition): key
                for key in elected
                if key.side is side
            }
            epochs = reader.leader_epochs({p: elected[key].witness for p, key in asked.items()})
            for partition, key in asked.items():
                found = epochs[partition]
                if found == elected[key].witness_epoch:
                    same[key] = elected[key]
                elif isinstance(found, Unavailable):
                    self._forget(key, f"another leader was elected; in its log {found.reason}")
                else:
                    self._forget(key, "another leader was elected, and its log is another one")
        return same


def _refuted(known: KnownLog, log: FrozenLog) -> str:
    """Why nothing of it can be used; empty where something can."""
    if not log.lasting:
        return "the topic is compacted, or its configuration may not be read"
    if known.topic_id != log.topic_id:
        return "the topic was deleted and made anew"
    if any(c.end > log.offsets.last_stable for c in known.cells.values()):
        return "the log was truncated"
    return ""


def moved_on(known: KnownLog, log: FrozenLog) -> bool:
    """Whether a leader was elected since, or the broker does not tell."""
    return known.leader_epoch != log.offsets.leader_epoch or log.offsets.leader_epoch < 0


def frozen_logs(frozen: Frozen) -> dict[LogKey, FrozenLog]:
    """Every log of a freeze, by its key."""
    found = {}
    for topic in frozen.topics:
        for side, name, state, partitions in _sides(topic):
            if state is None:
                continue
            lasting = bool(state.config) and not state.compacted and bool(state.topic_id)
            for partition, offsets in partitions.items():
                key = LogKey(side, topic.topic, partition)
                found[key] = FrozenLog(name, state.topic_id, lasting, offsets)
    return found


def _sides(
    topic: FrozenTopic,
) -> Iterator[tuple[Side, str, TopicState | None, Mapping[int, PartitionOffsets]]]:
    yield Side.SOURCE, topic.topic, topic.state, topic.source
    yield Side.TARGET, topic.target_topic, topic.target_state, topic.target
