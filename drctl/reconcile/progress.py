"""Progress of reconciling a gap result, and how it is stored.

All records of a partition with the same order verdict form a record set, which is processed
together. `through` is the source offset up to which all of them are done. It is written in the same
transaction as the records, so that both are committed or neither.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from drctl.formats.primitives import Undecodable, compact_json, parse_json
from drctl.model.errors import Unknown
from drctl.model.gap import GapResult, OrderVerdict
from drctl.model.topology import TopicPartition
from drctl.reconcile.policy import LEFT_MISSING, Action

Run = tuple[int, int]
"""First and last offset of a range, inclusive."""

MOST_RUNS = 2_000
"""Maximum number of ranges stored with the progress of a record set: about 40 KB."""


class LeftMissing(NamedTuple):
    """Records of a source partition that were left missing on purpose.

    Attributes:
        runs: their offset ranges, ascending.
        newest_ms: their newest timestamp. A newer record at one of these offsets is a different
            one: the log was truncated and written again.
    """

    runs: tuple[Run, ...]
    newest_ms: int

    def holds(self, offset: int, timestamp_ms: int) -> bool:
        """Return whether this record was left missing."""
        return timestamp_ms <= self.newest_ms and self.among(offset)

    def among(self, offset: int) -> bool:
        """Return whether a record at this offset was left missing."""
        at = bisect_right(self.runs, offset, key=lambda run: run[0]) - 1
        return at >= 0 and offset <= self.runs[at][1]


@dataclass(slots=True)
class LeftMissingBuilder:
    """Collects records in ascending order, unless they need too many ranges."""

    _runs: list[Run] = field(default_factory=list)
    _newest_ms: int = -1

    def add(self, offset: int, timestamp_ms: int) -> None:
        """Add the next record."""
        self._newest_ms = max(self._newest_ms, timestamp_ms)
        if self._runs and self._runs[-1][1] == offset - 1:
            self._runs[-1] = (self._runs[-1][0], offset)
        elif len(self._runs) <= MOST_RUNS:
            self._runs.append((offset, offset))

    @property
    def left(self) -> LeftMissing | None:
        """All collected records; None if they need too many ranges."""
        return (
            LeftMissing(tuple(self._runs), self._newest_ms)
            if len(self._runs) <= MOST_RUNS
            else None
        )


def joined(these: LeftMissing | None, out_of_order: LeftMissing | None) -> LeftMissing | None:
    """Combine two; None if one is unknown, or if together they need too many ranges."""
    if these is None or out_of_order is None:
        return None
    first, second = list(these.runs), list(out_of_order.runs)
    if first and second and first[-1][1] == second[0][0] - 1:
        second[0] = (first.pop()[0], second[0][1])
    runs = (*first, *second)
    newest_ms = max(these.newest_ms, out_of_order.newest_ms)
    return LeftMissing(runs, newest_ms) if len(runs) <= MOST_RUNS else None


TOPIC = "__drctl_reconcile"
"""The topic on the target that stores progress; compacted."""

_VERSION = 1
_FORMAT = "reconcile"


class RecordSet(NamedTuple):
    """All records of a source partition with the same order verdict."""

    place: TopicPartition
    order: OrderVerdict


class Key(NamedTuple):
    """The key under which progress is stored.

    Attributes:
        result: id of the gap result.
        source_id: cluster id of the source.
    """

    result: str
    source_id: str
    record_set: RecordSet


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive records with the same action.

    Attributes:
        through: source offset of the last record.
        gone: records that no longer existed on the source.
        to: the topic that they were appended to; empty if none.
        to_last: last offset in that topic; -1 if none.
        left: the records, if they stay missing on the target; None if not stored.
    """

    action: Action
    through: int
    records: int
    bytes: int
    gone: int = 0
    to: str = ""
    to_last: int = -1
    left: LeftMissing | None = None

    def __add__(self, other: "Segment") -> "Segment":
        """Extend by another segment with the same action and destination."""
        return replace(
            self,
            through=other.through,
            records=self.records + other.records,
            bytes=self.bytes + other.bytes,
            gone=self.gone + other.gone,
            to_last=max(self.to_last, other.to_last),
            left=joined(self.left, other.left),
        )


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a record set.

    Attributes:
        source_topic_id: topic id at the start: a recreated topic holds other records.
    """

    source_topic_id: str
    target_topic_id: str
    segments: tuple[Segment, ...] = ()

    @property
    def through(self) -> int:
        """The last source offset that is done; -1 if none is."""
        return self.segments[-1].through if self.segments else -1

    @property
    def records(self) -> int:
        """Number of records that are done, including deleted ones."""
        return sum(s.records + s.gone for s in self.segments)

    def after(self, done: Segment) -> "Progress":
        """Return the progress after one more segment.

        Raises:
            ValueError: it does not follow what is done.
        """
        if done.through <= self.through:
            raise ValueError(f"{done.through} is not after {self.through}")
        last = self.segments[-1] if self.segments else None
        if last is not None and (last.action, last.to) == (done.action, done.to):
            return replace(self, segments=(*self.segments[:-1], last + done))
        return replace(self, segments=(*self.segments, done))


Kept = Mapping[Key, Progress]
Change = tuple[bytes, bytes]


def encode(key: Key, progress: Progress) -> Change:
    """Encode a record of the progress topic."""
    place, order = key.record_set
    name = {
        "drctl": _VERSION,
        "result": key.result,
        "cluster": key.source_id,
        "topic": place.topic,
        "partition": place.partition,
        "order": order.value,
    }
    value = {
        "source_topic_id": progress.source_topic_id,
        "target_topic_id": progress.target_topic_id,
        "segments": [_written(segment) for segment in progress.segments],
    }
    return compact_json(name), compact_json(value)


def decode(records: Iterable[tuple[bytes, bytes]]) -> dict[Key, Progress]:
    """Decode the records of the progress topic.

    Raises:
        Unknown: a record has an unknown format.
    """
    found = {}
    for key, value in records:
        try:
            known, progress = _key(parse_json(_FORMAT, key)), _progress(parse_json(_FORMAT, value))
            if encode(known, progress) != (key, value):
                raise ValueError("not in the form that drctl writes")
            found[known] = progress
        except (Undecodable, KeyError, TypeError, ValueError) as wrong:
            raise Unknown(
                f"cannot read progress: topic {TOPIC}: a record has an unknown format: {wrong!r}",
                "use the version of drctl that wrote it",
            ) from None
    return found


def _key(data: Any) -> Key:
    if data["drctl"] != _VERSION:
        raise ValueError(f"version {data['drctl']}")
    place = TopicPartition(str(data["topic"]), int(data["partition"]))
    return Key(data["result"], data["cluster"], RecordSet(place, OrderVerdict(data["order"])))


def _written(s: Segment) -> list[Any]:
    reported: list[Any] = [s.action.value, s.through, s.records, s.bytes, s.gone, s.to, s.to_last]
    return [*reported, *s.left] if s.action in LEFT_MISSING and s.left is not None else reported


def _progress(data: Any) -> Progress:
    segments = tuple(_segment(*each) for each in data["segments"])
    return Progress(data["source_topic_id"], data["target_topic_id"], segments)


def _segment(
    action: str,
    through: int,
    records: int,
    size: int,
    gone: int,
    to: str,
    to_last: int,
    runs: Iterable[tuple[int, int]] = (),
    newest_ms: int | None = None,
) -> Segment:
    whole = tuple((int(first), int(last)) for first, last in runs)
    left = None if newest_ms is None else LeftMissing(whole, int(newest_ms))
    return Segment(
        Action(action), int(through), int(records), int(size), int(gone), to, int(to_last), left
    )


LeftMissingBefore = Mapping[TopicPartition, tuple[LeftMissing, ...]]
"""By partition of the source."""


class At(NamedTuple):
    """A missing record on the source."""

    place: TopicPartition
    offset: int
    timestamp_ms: int


def left_missing_before(kept: Kept, found: GapResult) -> LeftMissingBefore:
    """Return the records left missing on purpose, for the topics of a gap result.

    Args:
        kept: progress stored on the target, of any gap result.
    """
    return left_missing_of(
        kept, found.source_id, {each.topic: each.topic_id for each in found.topics}
    )


def left_missing_of(kept: Kept, source_id: str, topic_ids: Mapping[str, str]) -> LeftMissingBefore:
    """Return the records left missing on purpose, if they are stored one by one.

    Args:
        topic_ids: current topic ids on the source: a recreated topic holds other records. Topics
            without an id are skipped.
    """
    by_place: dict[TopicPartition, tuple[LeftMissing, ...]] = {}
    for key, progress in kept.items():
        place = key.record_set.place
        topic_id = topic_ids.get(place.topic, "")
        if key.source_id == source_id and topic_id and progress.source_topic_id == topic_id:
            of_it = (s.left for s in progress.segments if s.action in LEFT_MISSING)
            by_place[place] = (*by_place.get(place, ()), *(each for each in of_it if each))
    return {place: lefts for place, lefts in by_place.items() if lefts}


def counted(missing: Iterable[At], before: LeftMissingBefore) -> Mapping[TopicPartition, int]:
    """Count how many missing records were left missing on purpose, by partition."""
    return Counter(
        each.place
        for each in missing
        if any(left.holds(each.offset, each.timestamp_ms) for left in before.get(each.place, ()))
    )
