"""Prechecks before reconciling: the gap result may be outdated or about other clusters."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from drctl.model.errors import Refused
from drctl.model.text import plural
from drctl.model.topology import PartitionOffsets, TopicPartition, TopicState, Unavailable
from drctl.reconcile.cluster_state import ClusterStates
from drctl.reconcile.gap_result import FoundGap, FoundPartition
from drctl.reconcile.policy import SENDS
from drctl.reconcile.progress import Kept, Key


@dataclass(frozen=True, slots=True)
class Changes:
    """Records appended to the target since the gap analysis, by source partition.

    Attributes:
        offsets: number of appended offsets in the partitions that were read.
        waiting: how many of them are in open transactions and could not be read yet.
        there: the first missing record that is now on the target.
        newer: number of safe records that now have newer records on the target.
        unread: why appended records could not be read.
        more: whether `newer` is a lower bound: there were too many to count.
    """

    offsets: int = 0
    waiting: int = 0
    there: Mapping[TopicPartition, int] = field(default_factory=dict)
    newer: Mapping[TopicPartition, int] = field(default_factory=dict)
    unread: Mapping[TopicPartition, str] = field(default_factory=dict)
    more: bool = False

    def __add__(self, other: "Changes") -> "Changes":
        """Combine the changes of several partitions."""
        return Changes(
            self.offsets + other.offsets,
            self.waiting + other.waiting,
            {**self.there, **other.there},
            {**self.newer, **other.newer},
            {**self.unread, **other.unread},
            self.more or other.more,
        )


class Precheck(StrEnum):
    """Names of the prechecks, as used with `--override`."""

    INCOMPLETE = "incomplete"
    SOURCE_MOVED = "source-moved"
    TARGET_MOVED_BACK = "target-moved-back"
    ALREADY_ON_TARGET = "already-on-target"
    TARGET_MOVED = "target-moved"
    TARGET_UNREAD = "target-unread"
    NOT_THERE = "not-there"
    RECREATED = "recreated"
    COPIED_SINCE = "copied-since"
    DECIDED_BEFORE = "decided-before"
    CONFLICTING = "conflicting"
    NO_TIMESTAMP = "no-timestamp"

    @property
    def overridable(self) -> bool:
        """Whether it can be overridden."""
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
        place: None if it concerns the whole result.
        overridden: whether it is overridden.
    """

    precheck: Precheck
    place: TopicPartition | None
    reason: str
    overridden: bool = False


def check_clusters(gap: FoundGap, clusters: ClusterStates) -> None:
    """Check that these are the clusters of the gap result.

    Raises:
        Refused: a cluster is a different one.
    """
    for name, before, now in (
        (gap.source, gap.source_id, clusters.source.cluster_id),
        (gap.target, gap.target_id, clusters.target.cluster_id),
    ):
        if before != now:
            raise Refused(
                f"the gap result is about another cluster {name}: its id was {before}, now {now}",
                "run `drctl gap` again",
            )


def blockers(
    gap: FoundGap, chosen: Iterable[FoundPartition], clusters: ClusterStates, kept: Kept
) -> Iterator[Blocker]:
    """Yield every blocker for these partitions."""
    for reason in gap.not_compared:
        yield Blocker(Precheck.INCOMPLETE, None, f"not compared: {reason}")
    by_place: dict[TopicPartition, list[Key]] = {}
    for key in kept:
        if key.source_id == gap.source_id:
            by_place.setdefault(key.record_set.place, []).append(key)
    chosen = tuple(chosen)
    recreated = dict.fromkeys(name for each in chosen for name in _recreated(each, clusters))
    yield from (Blocker(Precheck.RECREATED, None, reason) for reason in recreated)
    for partition in chosen:
        yield from _source(partition, clusters)
        then, log = partition.target_range, clusters.target.log(partition.there)
        if isinstance(log, PartitionOffsets) and then is not None and log.end < then.end:
            reason = (
                f"end offset on the target is {log.end}, was {then.end}: truncated or recreated"
            )
            yield Blocker(Precheck.TARGET_MOVED_BACK, partition.place, reason)
        for key in by_place.get(partition.place, ()):
            yield from _earlier_runs(gap, partition, clusters, kept, key)


def appended_blockers(appended: Changes) -> Iterator[Blocker]:
    """Yield blockers because of records appended to the target since the gap analysis."""
    for place, offset in appended.there.items():
        reason = (
            f"offset {offset} was missing and is now on the target: something else copied it."
            " Run `drctl gap` again"
        )
        yield Blocker(Precheck.ALREADY_ON_TARGET, place, reason)
    for place, records in appended.newer.items():
        count = f"at least {records:,}" if appended.more else f"{records:,}"
        reason = (
            f"records that were safe to copy but have newer ones on the target now: {count}."
            " Run `drctl gap` again: it reports them as conflicting"
        )
        yield Blocker(Precheck.TARGET_MOVED, place, reason)
    for place, why in appended.unread.items():
        reason = f"records appended to the target since the gap analysis cannot be read: {why}"
        yield Blocker(Precheck.TARGET_UNREAD, place, reason)


def _recreated(partition: FoundPartition, clusters: ClusterStates) -> Iterator[str]:
    """Compare topic ids, if both the result and the clusters report them."""
    topic, copy = partition.place.topic, partition.target_topic
    for name, side, before, now in (
        (topic, "source", partition.source_topic_id, clusters.source.topic_id(topic)),
        (copy, "target", partition.target_topic_id, clusters.target.topic_id(copy)),
    ):
        if before and now and before != now:
            yield f"topic {name} on the {side} was recreated: its id was {before}, is now {now}"


def _source(partition: FoundPartition, clusters: ClusterStates) -> Iterator[Blocker]:
    place, then = partition.place, partition.source_range
    log = clusters.source.log(place)
    if not isinstance(log, PartitionOffsets):
        yield Blocker(Precheck.NOT_THERE, place, _why(clusters.source.state(place.topic), log))
        return
    if log.end < then.end:
        reason = f"end offset on the source is {log.end}, was {then.end}: truncated or recreated"
        yield Blocker(Precheck.RECREATED, place, reason)
    elif log.end > then.end:
        more = log.end - then.end
        reason = (
            f"{plural(more, 'offset was', 'offsets were')} appended to the source since the"
            " gap analysis. Run `drctl gap` again"
        )
        yield Blocker(Precheck.SOURCE_MOVED, place, reason)
    if partition.whole and log.log_start > then.start:
        reason = (
            f"the source has deleted offsets {then.start} to {log.log_start - 1} since the gap"
            " analysis. Run `drctl gap` again"
        )
        yield Blocker(Precheck.SOURCE_MOVED, place, reason)


def _earlier_runs(
    gap: FoundGap, partition: FoundPartition, clusters: ClusterStates, kept: Kept, key: Key
) -> Iterator[Blocker]:
    """Yield blockers because of what earlier runs did in this partition."""
    place, progress = partition.place, kept[key]
    source_id = clusters.source.topic_id(place.topic)
    target_id = clusters.target.topic_id(partition.target_topic)
    if key.result == gap.id:
        for name, was, now in (
            ("source", progress.source_topic_id, source_id),
            ("target", progress.target_topic_id, target_id),
        ):
            if was and now and was != now:
                reason = f"the topic on the {name} was recreated since an earlier reconcile run"
                yield Blocker(Precheck.RECREATED, place, reason)
    elif progress.target_topic_id == target_id and progress.source_topic_id == source_id:
        seen = partition.target_range.end if partition.target_range else 0
        copied = [s for s in progress.segments if s.to == partition.target_topic]
        if any(s.action in SENDS and s.to_last >= seen for s in copied):
            reason = f"records were copied since the gap analysis, for gap result {key.result}"
            yield Blocker(Precheck.COPIED_SINCE, place, reason)


def _why(state: TopicState | Unavailable | None, log: object) -> str:
    if state is None:
        return "the topic does not exist on the source"
    found = state if isinstance(state, Unavailable) else log
    if isinstance(found, Unavailable):
        return found.reason
    return "the partition does not exist on the source"
