"""Progress of reconciling a gap result: values, their arithmetic, and how they are stored.

The records of one order verdict of one partition are decided together. `through` is the source
offset up to which all of them are done. It is written in the transaction that holds the records
themselves, so that neither counts without the other.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from drctl.formats.primitives import Undecodable, parsed, written
from drctl.model.errors import Unknown
from drctl.model.gap import GapResult, OrderVerdict
from drctl.model.topology import TopicPartition
from drctl.reconcile.policy import LEFT_MISSING, Action

Run = tuple[int, int]
"""First and last of consecutive offsets; both belong to it."""

MOST_RUNS = 2_000
"""That are kept with the progress of a record set: some 40 KB."""


class LeftMissing(NamedTuple):
    """Records of one partition of the source.

    Attributes:
        runs: their offsets, ascending.
        newest_ms: their newest timestamp: something newer at such an offset is another record, of
            a log that was truncated and written again.
    """

    runs: tuple[Run, ...]
    newest_ms: int

    def holds(self, offset: int, timestamp_ms: int) -> bool:
        """Whether a record is one of these."""
        return timestamp_ms <= self.newest_ms and self.among(offset)

    def among(self, offset: int) -> bool:
        """Whether one of these has this offset."""
        at = bisect_right(self.runs, offset, key=lambda run: run[0]) - 1
        return at >= 0 and offset <= self.runs[at][1]


@dataclass(slots=True)
class LeftMissingBuilder:
    """Takes records in ascending order, as far as few runs hold them."""

    _runs: list[Run] = field(default_factory=list)
    _newest_ms: int = -1

    def add(self, offset: int, timestamp_ms: int) -> None:
        """One more, after those before."""
        self._newest_ms = max(self._newest_ms, timestamp_ms)
        if self._runs and self._runs[-1][1] == offset - 1:
            self._runs[-1] = (self._runs[-1][0], offset)
        elif len(self._runs) <= MOST_RUNS:
            self._runs.append((offset, offset))

    @property
    def left(self) -> LeftMissing | None:
        """All of them; None where their runs are too many."""
        return (
            LeftMissing(tuple(self._runs), self._newest_ms)
            if len(self._runs) <= MOST_RUNS
            else None
        )


def joined(these: LeftMissing | None, out_of_order: LeftMissing | None) -> LeftMissing | None:
    """Both; None where one is not known, or their runs are too many together."""
    if these is None or out_of_order is None:
        return None
    first, second = list(these.runs), list(out_of_order.runs)
    if first and second and first[-1][1] == second[0][0] - 1:
        second[0] = (first.pop()[0], second[0][1])
    runs = (*first, *second)
    newest_ms = max(these.newest_ms, out_of_order.newest_ms)
    return LeftMissing(runs, newest_ms) if len(runs) <= MOST_RUNS else None


TOPIC = "__drctl_reconcile"
"""Compacted, on the cluster that is written to."""

_VERSION = 1
_FORMAT = "reconcile"


class RecordSet(NamedTuple):
    """The records of one order verdict of one partition of the source."""

    place: TopicPartition
    order: OrderVerdict


class Key(NamedTuple):
    """The key of progress.

    Attributes:
        result: the id of the gap result.
        source_id: Kafka's id of the cluster that the records come from.
    """

    result: str
    source_id: str
    record_set: RecordSet


@dataclass(frozen=True, slots=True)
class Segment:
    """Records that were treated alike.

    Attributes:
        through: the source offset of the last of them.
        gone: how many of the records were not there any more.
        to: the topic they went to; empty where to none.
        to_last: the last offset there; -1 where none.
        left: which records these are that stay missing; None where that is not kept.
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
        """This one, continued by another of the same action and destination."""
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
    """What became of a record set so far.

    Attributes:
        source_topic_id: of the topic at the first step: a recreated topic holds other records.
    """

    source_topic_id: str
    target_topic_id: str
    segments: tuple[Segment, ...] = ()

    @property
    def through(self) -> int:
        """The last source offset that is done; -1 where none is."""
        return self.segments[-1].through if self.segments else -1

    @property
    def records(self) -> int:
        """How many are done, those that were gone included."""
        return sum(s.records + s.gone for s in self.segments)

    def after(self, done: Segment) -> "Progress":
        """The progress once this is done, too.

        Raises:
            ValueError: it does not come after what is done.
        """
        if done.through <= self.through:
            raise ValueError(f"{done.through} is not behind {self.through}")
        last = self.segments[-1] if self.segments else None
        if last is not None and (last.action, last.to) == (done.action, done.to):
            return replace(self, segments=(*self.segments[:-1], last + done))
        return replace(self, segments=(*self.segments, done))


Kept = Mapping[Key, Progress]
Change = tuple[bytes, bytes]


def encode(key: Key, progress: Progress) -> Change:
    """A record of the topic of progress."""
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
    return written(name), written(value)


def decode(records: Iterable[tuple[bytes, bytes]]) -> dict[Key, Progress]:
    """What the topic of progress holds.

    Raises:
        Unknown: a record is not what this drctl writes.
    """
    found = {}
    for key, value in records:
        try:
            known, progress = _key(parsed(_FORMAT, key)), _progress(parsed(_FORMAT, value))
        except (Undecodable, KeyError, TypeError, ValueError) as wrong:
            raise Unknown(
                f"topic {TOPIC} holds a record that this drctl does not understand: {wrong!r}",
                "use the drctl that wrote it: what is done is not known otherwise",
            ) from None
        found[known] = progress
    return found


def _key(data: Any) -> Key:
    if data["drctl"] != _VERSION:
        raise ValueError(f"version {data['drctl']}")
    place = TopicPartition(str(data["topic"]), int(data["partition"]))
    return Key(data["result"], data["cluster"], RecordSet(place, OrderVerdict(data["order"])))


def _written(s: Segment) -> list[Any]:
    told: list[Any] = [s.action.value, s.through, s.records, s.bytes, s.gone, s.to, s.to_last]
    return [*told, *s.left] if s.action in LEFT_MISSING and s.left is not None else told


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
    """Where a missing record is on the source."""

    place: TopicPartition
    offset: int
    timestamp_ms: int


def left_missing_before(kept: Kept, found: GapResult) -> LeftMissingBefore:
    """The same of the topics that were compared, as they are now.

    Args:
        kept: the decisions that the target keeps, of any result.
    """
    return left_missing_of(
        kept, found.source_id, {each.topic: each.topic_id for each in found.topics}
    )


def left_missing_of(kept: Kept, source_id: str, topic_ids: Mapping[str, str]) -> LeftMissingBefore:
    """The records that any result has left missing on purpose, as far as they are known one by one.

    Args:
        topic_ids: of the source's topics now: a recreated topic holds other records, and without
            an id that is unknown.
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
    """How many of these are among them, by partition."""
    return Counter(
        each.place
        for each in missing
        if any(left.holds(each.offset, each.timestamp_ms) for left in before.get(each.place, ()))
    )
