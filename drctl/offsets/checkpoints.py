"""Translation by MirrorMaker 2's offset syncs and checkpoints."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition
from drctl.model.translation import Answer, GroupPartition, Method
from drctl.offsets.consumed import Logs
from drctl.offsets.methods import UNKNOWN_POSITION, Answers, NoAnswer, Question


class Sync(NamedTuple):
    """An offset sync: the offset of a record on both clusters.

    Attributes:
        at_ms: when MirrorMaker 2 wrote it, in milliseconds UTC.
    """

    upstream: int
    downstream: int
    at_ms: int


SyncHistory = Mapping[TopicPartition, Sequence[Sync]]
"""Offset syncs by source partition, in the order of the topic."""

OFFSETS_RESET = NoAnswer("the source topic was recreated after this offset was recorded")
NO_SYNC = NoAnswer("MirrorMaker 2 has no offset sync for this partition")


class OffsetSyncs:
    """Implements `TranslationMethod` for MirrorMaker 2 links, with offset syncs.

    Args:
        targets: logs of the target partitions.
        noted_ms: with an unreachable source, when committed offsets were recorded. An offset that
            was recorded before the source topic was recreated refers to another record.
        now_ms: current time, for the age of a sync.
    """

    method = Method.OFFSET_SYNC

    def __init__(
        self,
        history: SyncHistory,
        targets: Logs,
        noted_ms: Mapping[GroupPartition, int],
        now_ms: int,
    ) -> None:
        self._usable = {place: usable(syncs) for place, syncs in history.items()}
        self._again_ms = {place: offsets_reset_ms(syncs) for place, syncs in history.items()}
        self._targets = targets
        self._noted_ms = noted_ms
        self._now_ms = now_ms

    def answers(self, questions: Sequence[Question]) -> Answers:
        """Return one answer for each question."""
        return {q: self._answer(q) for q in questions}

    def window(self, question: Question, offset: int) -> OffsetRange | None:
        """Return the target offsets between two syncs that enclose a source offset, if any.

        Args:
            offset: source offset of the record.
        """
        syncs = self._usable.get(question.place.partition, ())
        after = bisect_right(syncs, offset, key=_upstream)
        if not 0 < after < len(syncs):
            return None
        return OffsetRange(syncs[after - 1].downstream, syncs[after].downstream + 1)

    def _answer(self, question: Question) -> Answer | NoAnswer:
        if question.committed is None:
            return UNKNOWN_POSITION
        noted_ms = self._noted_ms.get(question.place)
        if noted_ms is not None and noted_ms < self._again_ms.get(question.place.partition, 0):
            return OFFSETS_RESET
        committed = question.committed
        syncs = self._usable.get(question.place.partition)
        if not syncs:
            return NO_SYNC
        found = bisect_right(syncs, committed, key=_upstream)
        if not found:
            return NoAnswer(
                f"the oldest usable sync is at source offset {syncs[0].upstream}, "
                f"after the committed offset {committed}"
            )
        sync = syncs[found - 1]
        log = self._targets.get(question.target)
        if isinstance(log, PartitionOffsets) and sync.downstream >= log.end:
            return NoAnswer(
                f"the sync at source offset {sync.upstream} points to {sync.downstream}, after "
                f"the end offset {log.end} on the target: the topic was recreated there"
            )
        after = syncs[found] if found < len(syncs) else None
        exact = sync.upstream == committed
        position = sync.downstream if exact else sync.downstream + 1
        rereads = 0 if exact else _distance(committed, sync, after)
        evidence = f"sync of source offset {sync.upstream} to {sync.downstream}"
        age = max(0.0, (self._now_ms - sync.at_ms) / 1000)
        return Answer(self.method, position, rereads, 0, evidence, age)


def usable(syncs: Iterable[Sync]) -> tuple[Sync, ...]:
    """Return the syncs that are valid for the current logs, ascending on both sides.

    If the downstream offset decreases, the target topic was recreated. If the upstream offset
    decreases, the source topic was recreated or the replicator was reset. Earlier syncs are
    invalid then.
    """
    kept: list[Sync] = []
    for sync in syncs:
        if kept and sync.downstream < kept[-1].downstream:
            kept.clear()
        while kept and sync.upstream <= kept[-1].upstream:
            kept.pop()
        kept.append(sync)
    return tuple(kept)


def offsets_reset_ms(syncs: Iterable[Sync]) -> int:
    """Return when the upstream offset last decreased; 0 if it never did."""
    found, before = 0, -1
    for sync in syncs:
        if sync.upstream < before:
            found = sync.at_ms
        before = sync.upstream
    return found


def _distance(committed: int, sync: Sync, after: Sync | None) -> int:
    """Return the maximum number of target records between a sync and the committed offset."""
    consumed = committed - sync.upstream - 1
    if after is None:
        return consumed
    there = after.downstream - sync.downstream - 1
    copied_twice = there > after.upstream - sync.upstream - 1
    return there if copied_twice else min(consumed, there)


_upstream = attrgetter("upstream")


class Checkpoint(NamedTuple):
    """MirrorMaker 2's last checkpoint of a group in a partition.

    Attributes:
        at_ms: when it was written, in milliseconds UTC.
    """

    upstream: int
    downstream: int
    at_ms: int


Checkpoints = Mapping[tuple[str, TopicPartition], Checkpoint]
"""By group and partition of the target."""


@dataclass(frozen=True, slots=True)
class CheckpointAnswers:
    """Implements `TranslationMethod` for MirrorMaker 2 links, with checkpoints.

    Attributes:
        targets: logs of the target partitions.
        recreated_ms: when target partitions were recreated, by source partition: older checkpoints
            are ignored.
        now_ms: current time, for the age of a checkpoint.
    """

    method = Method.CHECKPOINT

    checkpoints: Checkpoints
    targets: Logs
    recreated_ms: Mapping[TopicPartition, int]
    now_ms: int

    def answers(self, questions: Sequence[Question]) -> Answers:
        """Return one answer for each question."""
        return {q: self._answer(q) for q in questions}

    def _answer(self, question: Question) -> Answer | NoAnswer:
        checkpoint = self.checkpoints.get((question.place.group, question.target))
        if checkpoint is None:
            return NoAnswer("MirrorMaker 2 has no checkpoint for this group and partition")
        committed = question.committed
        if committed is None:
            return UNKNOWN_POSITION
        if checkpoint.upstream > committed:
            return NoAnswer(
                f"its checkpoint is of source offset {checkpoint.upstream}, after the committed "
                f"offset {committed}: the group was reset, and the checkpoint would skip records"
            )
        if checkpoint.at_ms < self.recreated_ms.get(question.place.partition, 0):
            return NoAnswer("its checkpoint is older than the target's topic")
        log = self.targets.get(question.target)
        end = log.end if isinstance(log, PartitionOffsets) else None
        if end is not None and checkpoint.downstream > end:
            return NoAnswer(
                f"its checkpoint points to {checkpoint.downstream}, after the end offset {end} on"
                " the target: the topic was recreated there"
            )
        # MirrorMaker 2 does not record how far a checkpoint is below the exact offset.
        rereads = None if end is None else end - checkpoint.downstream
        evidence = f"checkpoint of source offset {checkpoint.upstream} to {checkpoint.downstream}"
        age = max(0.0, (self.now_ms - checkpoint.at_ms) / 1000)
        return Answer(self.method, checkpoint.downstream, rereads, 0, evidence, age)
