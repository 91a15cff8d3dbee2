"""The tail: records after the offset up to which replication is known to be complete.

That offset comes from the replicator and is verified: some offsets before it (the margin) are
compared, too, and the window grows if any of them is missing.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from drctl.gap.comparison import ComparePlan, Identity, TopicPlan
from drctl.gap.reference import identify
from drctl.model.gap import NotCompared, TopicGap, Window
from drctl.model.ports import ClusterReader
from drctl.model.topology import OffsetRange, Record, TopicPartition, Unavailable

RUN = 20
"""Number of consecutive records that have to be equal."""

Name = Callable[[Record], object]
"""The value that is equal for equal records."""


def aligned(source: Sequence[Record], target: Sequence[Record], name: Name) -> int | None:
    """Find the target offset from which on the target's records equal those of the source.

    Returns the last match if there are several. If that is too late, the records before it are not
    found, which makes the window wider but never the result wrong.

    Args:
        source: consecutive records; the first `RUN` of them are compared.
        target: consecutive records to search.
    """
    wanted = [name(r) for r in source[:RUN]]
    held = [name(r) for r in target]
    if not wanted:
        return None
    for start in range(len(held) - len(wanted), -1, -1):
        if held[start] == wanted[0] and held[start : start + len(wanted)] == wanted:
            return target[start].offset
    return None


MARGIN = 10_000
"""Offsets before the replicator's committed offset that are compared, too, per partition."""

MARGINS = 400_000
"""The maximum for all partitions together; each partition gets at least `LEAST`."""

LEAST = 2 * RUN
"""Minimum margin: fewer offsets may hold too few records to find them on the target."""

WIDER = 8
"""Factor by which the margin grows if something in it is missing."""

LOOKED_AT = 2_000
"""Maximum number of target records that are searched per partition."""

LOOKED_AT_IN_ALL = 500_000
"""The maximum for all partitions together; those without a match get more in the next round."""


class Position(NamedTuple):
    """How far a partition was replicated.

    Attributes:
        offset: the first source offset that has possibly not been replicated.
        evidence: the source of this information.
    """

    offset: int
    evidence: str


class PositionFinder(Protocol):
    """Finds out how far a replicator got."""

    def positions(self, topics: Iterable[str]) -> Mapping[TopicPartition, Position]:
        """Return how far each source partition was replicated, if known.

        Raises:
            Unreachable: a cluster or worker did not answer.
        """

    @property
    def same_offsets(self) -> bool:
        """Whether copies have the same offset as their original."""


@dataclass(frozen=True, slots=True)
class Tail:
    """Chooses the windows of one run.

    Attributes:
        positions: by source partition.
        margin: initial number of offsets to compare before a position.
        only: the partitions to compare; None for all. If set, partitions with unknown replication
            progress are read completely instead of being left out.
    """

    source: ClusterReader
    target: ClusterReader
    positions: Mapping[TopicPartition, Position]
    same_offsets: bool
    margin: int = MARGIN
    only: Collection[TopicPartition] | None = None

    def windows(
        self, plan: ComparePlan, margins: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, Window], tuple[NotCompared, ...]]:
        """Return the windows to read, and partitions with unknown replication progress.

        Args:
            margins: offsets to compare before the position, if different from `margin`.

        Raises:
            Unreachable: a cluster did not answer.
        """
        found: dict[TopicPartition, Window] = {}
        unknown = []
        begun: dict[TopicPartition, Window] = {}
        topics = {topic.topic: topic for topic in plan.topics}
        places = (TopicPartition(t.topic, number) for t in plan.topics for number in t.source)
        wanted = [place for place in places if self.only is None or place in self.only]
        share = min(self.margin, max(LEAST, MARGINS // max(1, len(wanted))))
        for place in wanted:
            topic, position = topics[place.topic], self.positions.get(place)
            why = "" if position else "replication progress is unknown"
            why = why if topic.by_partition else "replication does not preserve partitions"
            margin = margins.get(place, self.margin if why else share)
            whole = topic.source[place.partition]
            if _read_whole(whole, position, margin):
                found[place] = _whole(topics, place, position, margin)
            elif position is not None and not why:
                begun[place] = _window(place, position, margin, whole)
            elif self.only is None:
                reason = f"{why}: the start of the tail cannot be determined; use --scope full"
                unknown.append(NotCompared(*place, reason))
            else:
                window = _whole(topics, place, position, margin)
                found[place] = replace(window, evidence=f"{why}: all records were read")
        return found | self._placed(begun, topics, plan.identity), tuple(unknown)

    def _placed(
        self,
        begun: Mapping[TopicPartition, Window],
        topics: Mapping[str, TopicPlan],
        identity: Identity,
    ) -> dict[TopicPartition, Window]:
        """Find the start of each window on the target; widen it if there is no match."""
        placed: dict[TopicPartition, Window] = {}
        waiting = dict(begun)
        while waiting:
            placed |= self._on_target(waiting, topics, identity)
            missed = {p: w for p, w in waiting.items() if p not in placed}
            waiting = {}
            for place, window in missed.items():
                position, margin = self.positions[place], window.margin * WIDER
                whole = topics[place.topic].source[place.partition]
                if _read_whole(whole, position, margin):
                    placed[place] = _whole(topics, place, position, margin)
                else:
                    waiting[place] = _window(place, position, margin, whole)
        return placed

    def _on_target(
        self,
        begun: Mapping[TopicPartition, Window],
        topics: Mapping[str, TopicPlan],
        identity: Identity,
    ) -> dict[TopicPartition, Window]:
        """Return the windows whose start was found on the target."""
        if self.same_offsets:
            return {
                place: replace(w, target_start=max(w.source_start, _first(topics, place)))
                for place, w in begun.items()
            }
        following = self.source.following({p: w.source_start for p, w in begun.items()}, RUN)
        samples = {p: r for p, r in following.items() if isinstance(r, tuple) and len(r) == RUN}
        starts = self._starts(samples, topics, identity)
        return {
            place: replace(begun[place], source_start=samples[place][0].offset, target_start=start)
            for place, start in starts.items()
        }

    def _starts(
        self,
        samples: Mapping[TopicPartition, tuple[Record, ...]],
        topics: Mapping[str, TopicPlan],
        identity: Identity,
    ) -> dict[TopicPartition, int]:
        """Find the target offsets of the samples' first records.

        Copies keep the order of their partition, so the copy of a record is not before the first
        record with its timestamp.
        """
        timed = [p for p in samples if identity.timestamp and topics[p.topic].timestamps]
        there = {p: TopicPartition(topics[p.topic].target_topic, p.partition) for p in timed}
        asked = [(there[p], samples[p][0].timestamp_ms) for p in timed]
        answers = self.target.look_up(asked)() if asked else ()
        begins = {
            p: max(answer.offset, _first(topics, p))
            for p, answer in zip(timed, answers, strict=True)
            if not isinstance(answer, Unavailable) and answer.offset >= 0
        }
        number = min(LOOKED_AT, max(LEAST, LOOKED_AT_IN_ALL // max(1, len(begins))))
        read = self.target.following({there[p]: o for p, o in begins.items()}, number)
        # Without comparable timestamps there is no offset to start the search at.
        return {
            place: start
            for place in begins
            if isinstance(records := read[there[place]], tuple)
            and (start := aligned(samples[place], records, lambda r: identify(r, identity, True)))
            is not None
        }


def windowed(plan: ComparePlan, windows: Mapping[TopicPartition, Window]) -> ComparePlan:
    """Reduce the plan to its windows; drop partitions without one."""
    of_topic: dict[str, dict[int, Window]] = {topic.topic: {} for topic in plan.topics}
    for place, window in windows.items():
        of_topic[place.topic][place.partition] = window
    return replace(plan, topics=tuple(_cut(t, of_topic[t.topic]) for t in plan.topics))


def _cut(topic: TopicPlan, mine: Mapping[int, Window]) -> TopicPlan:
    if not topic.by_partition:
        whole = len(mine) == len(topic.source)
        return topic if whole else replace(topic, source={}, target={}, target_deleted={})
    source, target, deleted = {}, {}, {}
    for partition, window in mine.items():
        there = topic.target.get(partition)
        source[partition] = OffsetRange(window.source_start, topic.source[partition].end)
        if there is not None:
            target[partition] = OffsetRange(max(there.start, window.target_start), there.end)
            # The target still holds the start of the window, so what it deleted is before it.
            deleted[partition] = topic.target_deleted.get(partition, 0) if window.whole else 0
    # Partitions that exist only on the target are extra.
    alone = {p: r for p, r in topic.target.items() if p not in topic.source}
    return replace(topic, source=source, target=target | alone, target_deleted=deleted)


def too_narrow(
    topics: Iterable[TopicGap], windows: Mapping[TopicPartition, Window]
) -> dict[TopicPartition, int]:
    """Return wider margins for windows with missing records before the position."""
    wider = {}
    for topic in topics:
        for gap in topic.partitions:
            window = windows.get(TopicPartition(topic.topic, gap.partition))
            if window is None or window.whole or window.position is None:
                continue
            if any(first < window.position for first, _ in gap.ranges):
                wider[TopicPartition(topic.topic, gap.partition)] = window.margin * WIDER
    return wider


def _first(topics: Mapping[str, TopicPlan], place: TopicPartition) -> int:
    there = topics[place.topic].target.get(place.partition)
    return there.start if there else 0


def _read_whole(whole: OffsetRange, position: Position | None, margin: int) -> bool:
    """Return whether the window would cover the partition, or be as much work."""
    return whole.span <= margin or (
        position is not None and min(position.offset, whole.end) - margin <= whole.start
    )


def _window(place: TopicPartition, position: Position, margin: int, whole: OffsetRange) -> Window:
    start = min(position.offset, whole.end) - margin
    return Window(*place, start, 0, position.offset, position.evidence, margin, whole=False)


def _whole(
    topics: Mapping[str, TopicPlan], place: TopicPartition, position: Position | None, margin: int
) -> Window:
    start = topics[place.topic].source[place.partition].start
    at, evidence = position or (None, "small partition: all records were read")
    return Window(*place, start, _first(topics, place), at, evidence, margin, whole=True)
