"""MirrorMaker 2's offset-syncs: all that the topic still holds, not the few that MM2 remembers."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition, Unavailable
from drctl.model.translation import Answer, Method
from drctl.offsets.question import UNKNOWN_POSITION, Answers, NoAnswer, Question


class Sync(NamedTuple):
    """A record's offset on both sides.

    Attributes:
        at_ms: when MirrorMaker 2 wrote it, in milliseconds UTC.
    """

    upstream: int
    downstream: int
    at_ms: int


SyncHistory = Mapping[TopicPartition, Sequence[Sync]]
"""By source partition, in the order of the topic."""

GONE_BACK = "whether the group has gone back since, the source would have to tell"
NO_SYNC = NoAnswer("MirrorMaker 2 kept no offset sync of this partition")


class OffsetSyncs:
    """Implements `TranslationMethod` for links of MirrorMaker 2.

    Args:
        targets: the logs of the partitions on the target.
        noted: what groups had committed when MirrorMaker 2 last wrote that down, by group and
            partition of the target: for where the source cannot be asked.
        now_ms: the time, to say how old a sync is.
    """

    method = Method.OFFSET_SYNC

    def __init__(
        self,
        history: SyncHistory,
        targets: Mapping[TopicPartition, PartitionOffsets | Unavailable],
        noted: Mapping[tuple[str, TopicPartition], int],
        now_ms: int,
    ) -> None:
        self._usable = {place: usable(syncs) for place, syncs in history.items()}
        self._targets = targets
        self._noted = noted
        self._now_ms = now_ms

    def answers(self, questions: Sequence[Question]) -> Answers:
        """One for each question."""
        return {q: self._answer(q) for q in questions}

    def window(self, question: Question) -> OffsetRange | None:
        """Target offsets among which the last consumed record lies, if two syncs enclose it."""
        if question.committed is None:
            return None
        syncs = self._usable.get(question.place.partition, ())
        after = bisect_right(syncs, question.committed - 1, key=_upstream)
        if not 0 < after < len(syncs):
            return None
        return OffsetRange(syncs[after - 1].downstream, syncs[after].downstream + 1)

    def _answer(self, question: Question) -> Answer | NoAnswer:
        committed = question.committed
        if committed is not None:
            return self._at(question, committed)
        noted = self._noted.get((question.place.group, question.target))
        if noted is None:
            return UNKNOWN_POSITION
        found = self._at(question, noted)
        if isinstance(found, NoAnswer):
            return found
        evidence = f"{found.evidence}, for the source offset {noted} of its checkpoint; {GONE_BACK}"
        return replace(found, skips_at_most=None, evidence=evidence)

    def _at(self, question: Question, committed: int) -> Answer | NoAnswer:
        syncs = self._usable.get(question.place.partition)
        if not syncs:
            return NO_SYNC
        found = bisect_right(syncs, committed, key=_upstream)
        if not found:
            return NoAnswer(
                f"the oldest usable sync is at source offset {syncs[0].upstream}, "
                f"behind the position {committed}"
            )
        sync = syncs[found - 1]
        log = self._targets.get(question.target)
        if isinstance(log, PartitionOffsets) and sync.downstream >= log.end:
            return NoAnswer(
                f"the sync at source offset {sync.upstream} leads to {sync.downstream}, behind "
                f"the target's end offset {log.end}: the topic was made anew there"
            )
        after = syncs[found] if found < len(syncs) else None
        exact = sync.upstream == committed
        position = sync.downstream if exact else sync.downstream + 1
        rereads = 0 if exact else _distance(committed, sync, after)
        evidence = f"sync of source offset {sync.upstream} to {sync.downstream}"
        age = max(0.0, (self._now_ms - sync.at_ms) / 1000)
        return Answer(self.method, position, rereads, 0, evidence, age)


def usable(syncs: Iterable[Sync]) -> tuple[Sync, ...]:
    """Those that hold for the logs as they are now, ascending on both sides.

    Where the downstream offset steps back the target's topic was made anew; where the upstream
    one does, the source's was, or the replicator went back: what came before does not count then.
    """
    kept: list[Sync] = []
    for sync in syncs:
        if kept and sync.downstream < kept[-1].downstream:
            kept.clear()
        while kept and sync.upstream <= kept[-1].upstream:
            kept.pop()
        kept.append(sync)
    return tuple(kept)


def _distance(committed: int, sync: Sync, after: Sync | None) -> int:
    """Target records between a sync and the position behind it, at most."""
    consumed = committed - sync.upstream - 1
    if after is None:
        return consumed
    there = after.downstream - sync.downstream - 1
    copied_twice = there > after.upstream - sync.upstream - 1
    return there if copied_twice else min(consumed, there)


def _upstream(sync: Sync) -> int:
    return sync.upstream
