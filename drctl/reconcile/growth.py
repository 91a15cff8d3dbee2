"""What came to the target since the gap analysis, held against the records that are to be sent.

A gap result tells what was missing then, and what was newer then. Whatever copied the topic before
may have brought the same records since, and applications write on: a record that is there by now
must not be written again, and one that something newer of its key is in front of by now is not
safe any more.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from drctl.model.errors import Unknown
from drctl.model.rows import Chunk, TopicRanges
from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition, TopicState
from drctl.reconcile.gap_result import FoundPartition
from drctl.reconcile.grown import Grown
from drctl.reconcile.newcomers import Newcomers, Sameness, Sieves, Stake, Stakes
from drctl.reconcile.planning import ReconcilePlan
from drctl.reconcile.policy import SENDS, Action
from drctl.reconcile.rows import SourceLog, WantedRows
from drctl.reconcile.sight import Sight

ReadTarget = Callable[[TopicRanges], Iterator[Chunk]]
"""Every committed record of these ranges; raises Unknown where they cannot be read to their end."""

Progress = Callable[[int, int], None]
"""Told how many of how many offsets were looked through."""


@dataclass(slots=True)
class _Came:
    """What there is of a topic to look through."""

    offsets: int = 0
    waiting: int = 0
    unread: dict[TopicPartition, str] = field(default_factory=dict)
    ranges: dict[int, tuple[OffsetRange, ...]] = field(default_factory=dict)


class TargetGrowth:
    """Looks through what came; a second look goes on where the first one ended.

    Args:
        source_id: Kafka's id of the source: copies that name it were made by drctl, and are known.
        per_partition: whether whatever is newer counts, not only what has the same key.
    """

    def __init__(
        self,
        source_id: str,
        rows: WantedRows,
        source: SourceLog,
        target: ReadTarget,
        same: Sameness,
        progress: Progress,
        *,
        per_partition: bool,
    ) -> None:
        self._source_id, self._rows = source_id, rows
        self._source, self._target, self._same = source, target, same
        self._progress, self._per_partition = progress, per_partition
        self._topics: dict[str, Newcomers] = {}
        self._sieves: Sieves | None = None

    def look(self, plan: ReconcilePlan, sight: Sight, *, last: bool) -> Grown:
        """What came, as far as it stands against the plan.

        Args:
            last: whether records are written next: then what lies behind open transactions is
                waited for.

        Raises:
            Unknown: wanted records could not be read from the source.
        """
        found = Grown()
        by_topic: dict[str, dict[TopicPartition, Stake]] = {}
        for place, stake in _stakes(plan).items():
            by_topic.setdefault(place.topic, {})[place] = stake
        for topic, stakes in by_topic.items():
            found += self._look(topic, stakes, plan, sight, last)
        return found

    def _look(
        self, topic: str, stakes: Stakes, plan: ReconcilePlan, sight: Sight, last: bool
    ) -> Grown:
        target_topic = next(iter(stakes.values())).partition.target_topic
        came = self._came(topic, stakes, plan, sight, last)
        came.unread |= self._unlisted(target_topic, stakes, plan, sight)
        if came.ranges:
            known = self._topics.get(topic) or self._begun(topic, target_topic, stakes, sight)
            came.unread |= self._read(known, {target_topic: came.ranges}, stakes, sight)
        found = self._topics.get(topic)
        if found is None:
            return Grown(came.offsets, came.waiting, unread=came.unread)
        newer = dict(found.newer(stakes))
        there = dict(found.there)
        return Grown(came.offsets, came.waiting, there, newer, came.unread, found.uncounted)

    def _came(
        self, topic: str, stakes: Stakes, plan: ReconcilePlan, sight: Sight, last: bool
    ) -> _Came:
        """What is to be looked through of a topic, and what cannot be."""
        found, known = _Came(), self._topics.get(topic)
        for partition, log in self._logs(topic, stakes, plan, sight):
            number, told = partition.place.partition, _told_end(partition, log)
            start = max(told, known.until.get(number, 0) if known else 0)
            if log.log_start > start:
                why = f"it deleted its records from {start} to {log.log_start - 1} since"
                found.unread |= dict.fromkeys(_concerned(partition.place, stakes), why)
            start, end = max(start, log.log_start), log.end if last else log.last_stable
            found.offsets += log.end - told
            found.waiting += log.end - max(start, end)
            if end > start:
                found.ranges[number] = (OffsetRange(start, end),)
        return found

    def _logs(
        self, topic: str, stakes: Stakes, plan: ReconcilePlan, sight: Sight
    ) -> Iterator[tuple[FoundPartition, PartitionOffsets]]:
        """The partitions of the target that what was missing may have come to."""
        for partition in plan.gap.partitions:
            place = partition.place
            log = sight.target.log(TopicPartition(partition.target_topic, place.partition))
            theirs = place in stakes if self._same.by_partition else place.topic == topic
            if theirs and isinstance(log, PartitionOffsets):
                yield partition, log

    def _unlisted(
        self, target_topic: str, stakes: Stakes, plan: ReconcilePlan, sight: Sight
    ) -> dict[TopicPartition, str]:
        """Where copies may be in any partition, those that the gap result says nothing of."""
        state = sight.target.state(target_topic)
        if self._same.by_partition or not isinstance(state, TopicState):
            return {}
        listed = {p.place.partition for p in plan.gap.partitions if p.target_topic == target_topic}
        others = sorted(set(state.partitions) - listed)
        names = ", ".join(map(str, others))
        why = f"the gap result says nothing of partitions {names} of {target_topic}"
        return dict.fromkeys(stakes, why) if others else {}

    def _begun(self, topic: str, target_topic: str, stakes: Stakes, sight: Sight) -> Newcomers:
        state = sight.target.state(target_topic)
        self._sieves = self._sieves or Sieves()
        known = self._topics[topic] = Newcomers(
            topic,
            self._sieves,
            self._source_id,
            self._rows,
            self._source,
            self._same,
            timed=not (isinstance(state, TopicState) and state.log_append_time),
            per_partition=self._per_partition,
        )
        known.want(stakes)
        return known

    def _read(
        self, known: Newcomers, ranges: TopicRanges, stakes: Stakes, sight: Sight
    ) -> dict[TopicPartition, str]:
        """Look through them; why that could not be done to the end, if so.

        Raises:
            Unknown: the source could not be read.
        """
        total = sum(r.span for parts in ranges.values() for runs in parts.values() for r in runs)
        done, why = 0, ""
        try:
            for chunk in _chunks(self._target, ranges):
                known.take(chunk.partition, chunk.rows)
                done += len(chunk.rows)
                self._progress(done, total)
                if known.full:
                    known.compare(stakes, sight.source)
        except _Unread as failed:
            why = failed.why
        known.compare(stakes, sight.source)
        if why:
            return dict.fromkeys(stakes, why)
        for parts in ranges.values():
            known.until |= {number: runs[-1].end for number, runs in parts.items()}
        return {}


class _Unread(Exception):
    """The target could not be read to its end."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def _chunks(target: ReadTarget, ranges: TopicRanges) -> Iterator[Chunk]:
    """Read the target: what fails there is told apart from what fails at the source."""
    try:
        yield from target(ranges)
    except Unknown as failed:
        raise _Unread(failed.message) from failed


def _stakes(plan: ReconcilePlan) -> dict[TopicPartition, Stake]:
    partitions = {p.place: p for p in plan.gap.partitions}
    found: dict[TopicPartition, Stake] = {}
    for line in plan.acting:
        if line.action in SENDS:
            place, order = line.lane
            stake = found.setdefault(place, Stake(partitions[place]))
            stake.through[order] = line.through
            if line.action is Action.COPY and not line.behind:
                stake.safe.add(order)
    return found


def _told_end(partition: FoundPartition, log: PartitionOffsets) -> int:
    """Up to where the gap analysis has read the target."""
    return partition.target_range.end if partition.target_range else log.log_start


def _concerned(place: TopicPartition, stakes: Stakes) -> Iterable[TopicPartition]:
    """The stakes that what came to a partition concerns."""
    return (place,) if place in stakes else stakes
