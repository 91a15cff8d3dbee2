"""Events that a connector sent twice: found within topics of one cluster, by their own identity."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

from drctl.gap.comparison import Place, Progress
from drctl.gap.event_identity import event_of
from drctl.model.errors import UsageError
from drctl.model.event_duplicates import (
    EventCounts,
    EventDuplicates,
    EventFormat,
    PartitionEvents,
    Repeat,
)
from drctl.model.gap import NotCompared
from drctl.model.ports import ClusterReader
from drctl.model.rows import Chunk, TopicRanges
from drctl.model.topology import OffsetRange, Record, TopicPartition, TopicState, Unavailable

OFFSET_BITS = 63
Ranges = Mapping[Place, OffsetRange]
"""What is read of each partition."""


@dataclass(frozen=True, slots=True)
class FoundEvents:
    """What a partition holds.

    Attributes:
        first: the first event that is there again; last: the offset of the last one.
    """

    counts: EventCounts = field(default_factory=EventCounts)
    first: Repeat | None = None
    last: int | None = None


class EventCounter(Protocol):
    """Reads events and finds those that are there twice."""

    def count(self, ranges: Ranges, progress: Progress) -> Mapping[Place, FoundEvents]:
        """Of every partition that holds records.

        Raises:
            ScanFailed: something could not be read to its end.
        """


OpenCounter = Callable[[int], EventCounter]
"""Told how many offsets there are to read at most."""


@dataclass(frozen=True, slots=True)
class EventAnalysis:
    """Looks for repeated events in topics of one cluster.

    Attributes:
        now: the clock, UTC.
    """

    format: EventFormat
    reader: ClusterReader
    open_counter: OpenCounter
    progress: Progress
    now: Callable[[], datetime]

    def run(self, topics: Collection[str]) -> EventDuplicates:
        """Find them.

        Raises:
            UsageError: there is no such topic.
            Unreachable: the cluster did not answer.
            ScanFailed: something could not be read to its end.
        """
        began = self.now()
        self.progress("looking at the cluster", 0, 0)
        ranges, left_out = self._freeze(topics)
        counter = self.open_counter(sum(each.span for each in ranges.values()))
        found = counter.count(ranges, self.progress)
        partitions = tuple(
            PartitionEvents(*place, whole, seen.counts, seen.first, seen.last)
            for place, whole in sorted(ranges.items())
            for seen in [found.get(place, FoundEvents())]
        )
        return EventDuplicates(
            self.format,
            self.reader.name,
            self.reader.cluster_id(),
            began.astimezone(UTC),
            (self.now() - began).total_seconds(),
            self._in_words(partitions),
            tuple(left_out),
        )

    def _freeze(
        self, topics: Collection[str]
    ) -> tuple[dict[Place, OffsetRange], list[NotCompared]]:
        states = self.reader.topics(tuple(topics))
        for name, state in states.items():
            if state is None:
                raise UsageError(
                    f"{self.reader.name} has no topic {name!r}",
                    "name one with --topic, and its cluster with --cluster",
                )
        left_out = [
            NotCompared(name, None, state.reason)
            for name, state in states.items()
            if isinstance(state, Unavailable)
        ]
        places = [
            TopicPartition(name, number)
            for name, state in sorted(states.items())
            if isinstance(state, TopicState)
            for number in sorted(state.partitions)
        ]
        ranges: dict[Place, OffsetRange] = {}
        for place, offsets in self.reader.offsets(places).items():
            if isinstance(offsets, Unavailable):
                left_out.append(NotCompared(*place, offsets.reason))
                continue
            ranges[place.topic, place.partition] = OffsetRange(
                offsets.log_start, offsets.last_stable
            )
            if waiting := offsets.end - offsets.last_stable:
                reason = f"an open transaction keeps {waiting} offsets from being read"
                left_out.append(NotCompared(*place, reason))
        return ranges, left_out

    def _in_words(self, partitions: Sequence[PartitionEvents]) -> tuple[PartitionEvents, ...]:
        """Each with the identity of its first repeated event."""
        asked = {
            (TopicPartition(each.topic, each.partition), each.first.offset): each
            for each in partitions
            if each.first is not None
        }
        records = self.reader.records(list(asked)) if asked else {}
        words = {}
        for (place, _), record in ((at, records.get(at)) for at in asked):
            event = event_of(record.key, record.value) if isinstance(record, Record) else None
            words[place.topic, place.partition] = event.words if event else ""
        return tuple(
            replace(each, identity=words.get((each.topic, each.partition), ""))
            for each in partitions
        )


@dataclass(slots=True)
class _Tally:
    records: int = 0
    events: int = 0
    tombstones: int = 0
    repeated: int = 0
    first: Repeat | None = None
    last: int | None = None

    def again(self, repeat: Repeat) -> None:
        """One more."""
        self.repeated += 1
        if self.first is None or repeat.offset < self.first.offset:
            self.first = repeat
        self.last = max(repeat.offset, self.last or 0)

    def found(self) -> FoundEvents:
        """What it comes to."""
        rest = self.records - self.events - self.tombstones
        counts = EventCounts(self.records, self.events, self.repeated, self.tombstones, rest)
        return FoundEvents(counts, self.first, self.last)


@dataclass(slots=True)
class DirectEventCounter:
    """Counts in this process, for few events: keeps some 200 bytes of each.

    Args:
        read: gives the committed records of ranges.
    """

    read: Callable[[TopicRanges], Iterator[Chunk]]
    _first: dict[tuple[str, int], int] = field(default_factory=dict, init=False)

    def count(self, ranges: Ranges, progress: Progress) -> Mapping[Place, FoundEvents]:
        """Of every partition.

        Raises:
            ScanFailed: something could not be read to its end.
        """
        tallies = {place: _Tally() for place in ranges}
        topics: dict[str, dict[int, tuple[OffsetRange, ...]]] = {}
        for (topic, partition), whole in ranges.items():
            topics.setdefault(topic, {})[partition] = (whole,)
        done, total = 0, sum(each.span for each in ranges.values())
        progress("reading events", 0, total)
        for chunk in self.read(topics):
            self._take(chunk, tallies)
            done += len(chunk.rows)
            progress("reading events", done, total)
        self._first = {}
        return {place: tally.found() for place, tally in tallies.items()}

    def _take(self, chunk: Chunk, tallies: Mapping[Place, _Tally]) -> None:
        topic, partition = chunk.topic, chunk.partition
        tally, first = tallies[topic, partition], self._first
        for offset, _, key, value, _ in chunk.rows:
            tally.records += 1
            if value is None:
                tally.tombstones += 1
                continue
            event = event_of(key, value)
            if event is None:
                continue
            tally.events += 1
            # Partitions come in no order: of two places the lower one counts as the first.
            name, here = (topic, event.digest), partition << OFFSET_BITS | offset
            known = first.setdefault(name, here)
            if known != here:
                first[name], later = sorted((known, here))
                again, at = divmod(later, 1 << OFFSET_BITS)
                tallies[topic, again].again(Repeat(at, *divmod(first[name], 1 << OFFSET_BITS)))
