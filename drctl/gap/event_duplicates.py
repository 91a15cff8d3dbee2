"""Finds change events that a connector sent twice, by their position in the database log."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from xxhash import xxh3_128_intdigest

from drctl.gap.comparison import Place, Progress
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
from drctl.model.strict_json import is_too_deep
from drctl.model.text import plural
from drctl.model.topology import (
    Chunk,
    OffsetRange,
    Record,
    TopicPartition,
    TopicRanges,
    TopicState,
    Unavailable,
)

NOTHING = "\x00"
"""Placeholder for a field that is null or absent."""

COMMON = ("connector", "name")
ENVELOPE = ("before", "after", "updateDescription", "message", "op")


@dataclass(frozen=True, slots=True)
class Source:
    """What identifies an event of one kind of database.

    Attributes:
        place: fields of the source block with the position in the log; all are required.
        more: further fields of the source block.
        content: parts of the envelope that stay the same when the log is read again: several
            events may have the same position.
    """

    place: tuple[str, ...]
    more: tuple[str, ...]
    content: tuple[str, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """All fields that are read from the source block."""
        return (*COMMON, *self.place, *self.more)


_ROW = ("op", "before", "after", "message")
_BINLOG = Source(("file", "pos"), ("row", "server_id", "gtid", "db", "table"), _ROW)

SOURCES: Mapping[str, Source] = {
    "postgresql": Source(("lsn",), ("txId", "db", "schema", "table"), _ROW),
    "mysql": _BINLOG,
    "mariadb": _BINLOG,
    # `after` may be looked up when the event is read: not the same a second time.
    "mongodb": Source(
        ("ord",),
        ("sec", "ts_ms", "h", "tord", "stxnid", "lsid", "txnNumber", "rs", "db", "collection"),
        ("op", "updateDescription"),
    ),
}
"""By the connector name in the source block."""

FIELDS = tuple(dict.fromkeys(name for source in SOURCES.values() for name in source.fields))
"""All fields that are read from source blocks."""


@dataclass(frozen=True, slots=True)
class Event:
    """A change event.

    Attributes:
        digest: 128-bit digest of its identity.
        position: its position in the database log.
    """

    digest: int
    position: str


def event_of(key: bytes | None, value: bytes | None) -> Event | None:
    """Parse the event in a record, JSON with or without schema; None if it has no identity."""
    envelope = _envelope(value)
    block = envelope.get("source")
    if not isinstance(block, dict):
        return None
    source = SOURCES.get(_text(block.get("connector")))
    if source is None:
        return None
    reported = {name: _text(block.get(name)) for name in source.fields}
    if any(reported[name] == NOTHING for name in source.place):
        return None
    content = (_text(envelope.get(name)) for name in source.content)
    parts = (*reported.values(), *content, "" if key is None else key.hex(), str(key is None))
    digest = xxh3_128_intdigest("\x01".join(parts).encode("utf-8", "surrogatepass"))
    return Event(digest, _position(reported, _text(envelope.get("op"))))


def _envelope(value: bytes | None) -> Mapping[str, Any]:
    try:
        if value and is_too_deep(value.decode()):
            return {}
        reported = json.loads(value or b"null", parse_int=str, parse_float=str, parse_constant=str)
    except ValueError:
        return {}
    if not isinstance(reported, dict):
        return {}
    payload = reported.get("payload")
    return payload if isinstance(payload, dict) else reported


def _text(value: Any) -> str:
    if value is None:
        return NOTHING
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _position(reported: Mapping[str, str], op: str) -> str:
    known = {**reported, "op": op}
    return " ".join(f"{name}={text}" for name, text in known.items() if text != NOTHING)


OFFSET_BITS = 63
Ranges = Mapping[Place, OffsetRange]
"""Offsets to read, by partition."""


@dataclass(frozen=True, slots=True)
class FoundEvents:
    """The events of a partition.

    Attributes:
        first: the first duplicate event.
        last: offset of the last duplicate event.
    """

    counts: EventCounts = field(default_factory=EventCounts)
    first: Repeat | None = None
    last: int | None = None


class EventCounter(Protocol):
    """Reads events and finds duplicates."""

    def count(self, ranges: Ranges, progress: Progress) -> Mapping[Place, FoundEvents]:
        """Count the events of every partition with records.

        Raises:
            ScanFailed: the records could not be read completely.
        """


OpenCounter = Callable[[int], EventCounter]
"""Opens a counter; takes the maximum number of offsets to read."""


@dataclass(frozen=True, slots=True)
class EventAnalysis:
    """Finds duplicate events in topics of one cluster.

    Attributes:
        now: the clock, UTC.
    """

    format: EventFormat
    reader: ClusterReader
    open_counter: OpenCounter
    progress: Progress
    now: Callable[[], datetime]

    def run(self, topics: Collection[str]) -> EventDuplicates:
        """Find duplicate events.

        Raises:
            UsageError: a topic does not exist.
            Unreachable: the cluster did not answer.
            ScanFailed: the records could not be read completely.
        """
        began = self.now()
        self.progress("reading topics and offsets", 0, 0)
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
            self._with_identity(partitions),
            tuple(left_out),
        )

    def _freeze(
        self, topics: Collection[str]
    ) -> tuple[dict[Place, OffsetRange], list[NotCompared]]:
        states = self.reader.topics(tuple(topics))
        for name, state in states.items():
            if state is None:
                raise UsageError(
                    f"topic {name!r} does not exist on {self.reader.name}",
                    "check --topic and --cluster",
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
                reason = f"open transaction: {plural(waiting, 'offset')} cannot be read"
                left_out.append(NotCompared(*place, reason))
        return ranges, left_out

    def _with_identity(self, partitions: Sequence[PartitionEvents]) -> tuple[PartitionEvents, ...]:
        """Add the identity of the first duplicate event to each partition."""
        asked = {
            (TopicPartition(each.topic, each.partition), each.first.offset): each
            for each in partitions
            if each.first is not None
        }
        records = self.reader.records(list(asked)) if asked else {}
        positions = {}
        for (place, _), record in ((at, records.get(at)) for at in asked):
            event = event_of(record.key, record.value) if isinstance(record, Record) else None
            positions[place.topic, place.partition] = event.position if event else ""
        return tuple(
            replace(each, identity=positions.get((each.topic, each.partition), ""))
            for each in partitions
        )


@dataclass(slots=True)
class DirectEventCounter:
    """Counts events in this process: about 200 bytes of memory per event.

    Args:
        read: reads the committed records of ranges.
    """

    read: Callable[[TopicRanges], Iterator[Chunk]]
    _first: dict[tuple[str, int], int] = field(default_factory=dict, init=False)

    def count(self, ranges: Ranges, progress: Progress) -> Mapping[Place, FoundEvents]:
        """Count the events of every partition.

        Raises:
            ScanFailed: the records could not be read completely.
        """
        counts: dict[Place, Counter[str]] = {place: Counter() for place in ranges}
        repeats: dict[Place, list[Repeat]] = {place: [] for place in ranges}
        topics: dict[str, dict[int, tuple[OffsetRange, ...]]] = {}
        for (topic, partition), whole in ranges.items():
            topics.setdefault(topic, {})[partition] = (whole,)
        done, total = 0, sum(each.span for each in ranges.values())
        progress("reading events", 0, total)
        for chunk in self.read(topics):
            self._take(chunk, counts[chunk.topic, chunk.partition], repeats)
            done += len(chunk.rows)
            progress("reading events", done, total)
        self._first = {}
        return {place: _found(counts[place], again) for place, again in repeats.items()}

    def _take(
        self, chunk: Chunk, counts: Counter[str], repeats: Mapping[Place, list[Repeat]]
    ) -> None:
        topic, partition, first = chunk.topic, chunk.partition, self._first
        counts["records"] += len(chunk.rows)
        for offset, _, key, value, _ in chunk.rows:
            if value is None:
                counts["tombstones"] += 1
                continue
            event = event_of(key, value)
            if event is None:
                continue
            counts["events"] += 1
            # Partitions come in any order: the lower position counts as the original.
            name, here = (topic, event.digest), partition << OFFSET_BITS | offset
            known = first.setdefault(name, here)
            if known != here:
                first[name], later = sorted((known, here))
                again, at = divmod(later, 1 << OFFSET_BITS)
                repeat = Repeat(at, *divmod(first[name], 1 << OFFSET_BITS))
                repeats[topic, again].append(repeat)


def _found(counts: Counter[str], again: Sequence[Repeat]) -> FoundEvents:
    records, events, tombstones = (counts[name] for name in ("records", "events", "tombstones"))
    reported = EventCounts(records, events, len(again), tombstones, records - events - tombstones)
    offsets = [repeat.offset for repeat in again]
    first = min(again, key=lambda repeat: repeat.offset, default=None)
    return FoundEvents(reported, first, max(offsets, default=None))
