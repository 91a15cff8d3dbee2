"""Blockers of acting on a gap result: it is old, or about something else."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from drctl.model.errors import Refused
from drctl.model.topology import PartitionOffsets, TopicPartition, TopicState, Unavailable
from drctl.reconcile.cluster_state import ClusterStates
from drctl.reconcile.gap_result import FoundGap, FoundPartition
from drctl.reconcile.policy import SENDS
from drctl.reconcile.progress import Kept, Key


@dataclass(frozen=True, slots=True)
class Changes:
    """What was appended to the target since the gap analysis, by partition of the source.

    Attributes:
        offsets: how many offsets were appended to the partitions that were read.
        waiting: how many of them are in open transactions, and were not read yet.
        there: the first record that was missing, and is on the target by now.
        newer: how many records that were safe to copy have something newer on the target by now.
        unread: why new records could not be read.
        more: whether `newer` may be more: there was too much to count.
    """

    offsets: int = 0
    waiting: int = 0
    there: Mapping[TopicPartition, int] = field(default_factory=dict)
    newer: Mapping[TopicPartition, int] = field(default_factory=dict)
    unread: Mapping[TopicPartition, str] = field(default_factory=dict)
    more: bool = False

    def __add__(self, other: "Changes") -> "Changes":
        """Of other partitions, too."""
        return Changes(
            self.offsets + other.offsets,
            self.waiting + other.waiting,
            {**self.there, **other.there},
            {**self.newer, **other.newer},
            {**self.unread, **other.unread},
            self.more or other.more,
        )


class Precheck(StrEnum):
    """Why something is refused."""

    INCOMPLETE = "incomplete"
    SOURCE_MOVED = "source-moved"
    TARGET_MOVED_BACK = "target-moved-back"
    TARGET_HAS_THEM = "target-has-them"
    TARGET_MOVED = "target-moved"
    TARGET_UNREAD = "target-unread"
    NOT_THERE = "not-there"
    RECREATED = "recreated"
    ACTED_SINCE = "acted-since"
    DECIDED_BEFORE = "decided-before"
    CONFLICTING = "conflicting"
    NO_TIMESTAMP = "no-timestamp"

    @property
    def overridable(self) -> bool:
        """Whether an engineer may override it."""
        return self in OVERRIDABLE


OVERRIDABLE = (
    Precheck.INCOMPLETE,
    Precheck.SOURCE_MOVED,
    Precheck.TARGET_MOVED,
    Precheck.TARGET_UNREAD,
    Precheck.DECIDED_BEFORE,
)


@dataclass(frozen=True, slots=True)
class Blocker:
    """A precheck that failed.

    Attributes:
        place: None where it concerns the whole result.
        overridden: whether it is overridden.
    """

    precheck: Precheck
    place: TopicPartition | None
    reason: str
    overridden: bool = False


def check_clusters(gap: FoundGap, clusters: ClusterStates) -> None:
    """See that these are the clusters that the gap analysis saw.

    Raises:
        Refused: one is another.
    """
    for name, told, now in (
        (gap.source, gap.source_id, clusters.source.cluster_id),
        (gap.target, gap.target_id, clusters.target.cluster_id),
    ):
        if told != now:
            raise Refused(
                f"cluster {name} is {now} now: the gap result is about {told}",
                "run `drctl gap` against these clusters",
            )


def blockers(
    gap: FoundGap, chosen: Iterable[FoundPartition], clusters: ClusterStates, kept: Kept
) -> Iterator[Blocker]:
    """Everything that blocks acting on these partitions."""
    for reason in gap.not_compared:
        yield Blocker(Precheck.INCOMPLETE, None, f"it was not compared: {reason}")
    by_place: dict[TopicPartition, list[Key]] = {}
    for key in kept:
        if key.source_id == gap.source_id:
            by_place.setdefault(key.record_set.place, []).append(key)
    chosen = tuple(chosen)
    recreated = dict.fromkeys(name for each in chosen for name in _recreated(each, clusters))
    yield from (Blocker(Precheck.RECREATED, None, reason) for reason in recreated)
    for partition in chosen:
        yield from _source(partition, clusters)
        told, log = partition.target_range, clusters.target.log(partition.there)
        if isinstance(log, PartitionOffsets) and told is not None and log.end < told.end:
            reason = (
                f"the target ends at {log.end}, before {told.end}: it was truncated or made anew"
            )
            yield Blocker(Precheck.TARGET_MOVED_BACK, partition.place, reason)
        for key in by_place.get(partition.place, ()):
            yield from _earlier_runs(gap, partition, clusters, kept, key)


def appended_blockers(appended: Changes) -> Iterator[Blocker]:
    """What was appended to the target since the result was made, as far as it blocks copying."""
    for place, offset in appended.there.items():
        reason = (
            f"offset {offset} was missing, and is on the target by now: something else has copied"
            " it. Run `drctl gap` again: it sees what is there"
        )
        yield Blocker(Precheck.TARGET_HAS_THEM, place, reason)
    for place, records in appended.newer.items():
        count = f"at least {records:,}" if appended.more else f"{records:,}"
        reason = (
            f"{count} of the records that were safe to copy are behind something newer by now. Run"
            " `drctl gap` again: it calls them conflicting"
        )
        yield Blocker(Precheck.TARGET_MOVED, place, reason)
    for place, why in appended.unread.items():
        reason = f"what came to the target since cannot be looked through: {why}"
        yield Blocker(Precheck.TARGET_UNREAD, place, reason)


def _recreated(partition: FoundPartition, clusters: ClusterStates) -> Iterator[str]:
    """By Kafka's ids of the topics, where the result and the clusters tell them."""
    topic, copy = partition.place.topic, partition.target_topic
    for name, side, told, now in (
        (topic, "source", partition.source_topic_id, clusters.source.topic_id(topic)),
        (copy, "target", partition.target_topic_id, clusters.target.topic_id(copy)),
    ):
        if told and now and told != now:
            yield (
                f"topic {name} of the {side} was made anew since: its id was {told}, and is {now}"
                " now"
            )


def _source(partition: FoundPartition, clusters: ClusterStates) -> Iterator[Blocker]:
    place, told = partition.place, partition.source_range
    log = clusters.source.log(place)
    if not isinstance(log, PartitionOffsets):
        yield Blocker(Precheck.NOT_THERE, place, _why(clusters.source.state(place.topic), log))
        return
    if log.end < told.end:
        reason = f"the source ends at {log.end}, before {told.end}: it was truncated or made anew"
        yield Blocker(Precheck.RECREATED, place, reason)
    elif log.end > told.end:
        more = log.end - told.end
        reason = f"{more} offsets were appended to the source since, and are in no gap result"
        yield Blocker(Precheck.SOURCE_MOVED, place, reason)
    if partition.whole and log.log_start > told.start:
        reason = f"the source deleted its records from {told.start} to {log.log_start - 1} since"
        yield Blocker(Precheck.SOURCE_MOVED, place, reason)


def _earlier_runs(
    gap: FoundGap, partition: FoundPartition, clusters: ClusterStates, kept: Kept, key: Key
) -> Iterator[Blocker]:
    """What earlier runs did in this partition that blocks another one."""
    place, progress = partition.place, kept[key]
    source_id = clusters.source.topic_id(place.topic)
    target_id = clusters.target.topic_id(partition.target_topic)
    if key.result == gap.id:
        for name, was, now in (
            ("source", progress.source_topic_id, source_id),
            ("target", progress.target_topic_id, target_id),
        ):
            if was and now and was != now:
                reason = f"the {name}'s topic was made anew since records of it were acted upon"
                yield Blocker(Precheck.RECREATED, place, reason)
    elif progress.target_topic_id == target_id and progress.source_topic_id == source_id:
        seen = partition.target_range.end if partition.target_range else 0
        copied = [s for s in progress.segments if s.to == partition.target_topic]
        if any(s.action in SENDS and s.to_last >= seen for s in copied):
            reason = f"records of it were copied since, by gap result {key.result}"
            yield Blocker(Precheck.ACTED_SINCE, place, reason)


def _why(state: TopicState | Unavailable | None, log: object) -> str:
    if state is None:
        return "the topic does not exist on the source"
    found = state if isinstance(state, Unavailable) else log
    return found.reason if isinstance(found, Unavailable) else "it does not exist on the source"
