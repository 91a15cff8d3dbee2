"""Topic `__consumer_timestamps`: its rows, and the newest one of each group and partition.

Within a partition of the topic, the later record wins. If a key is in several partitions (after
their number was changed), the record written last wins; with equal times, the higher partition.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Literal, NamedTuple, NotRequired, Protocol, TypedDict

from drctl.formats.consumer_timestamps import (
    TOPIC,
    VALUE_LENGTHS,
    GroupPartition,
    decode_key,
    decode_value,
    encode_key,
)
from drctl.formats.primitives import Undecodable
from drctl.model.document import Count, Name
from drctl.model.errors import Unknown
from drctl.model.ports import ClusterReader
from drctl.model.text import plural
from drctl.model.topology import Chunk, OffsetRange, TopicPartition, TopicState, Unavailable
from drctl.offsets.consumed import RangeReader

_KEYS_REMEMBERED = 100_000


class TimestampRow(NamedTuple):
    """One record.

    Attributes:
        group: None (as are topic and partition) if the key cannot be decoded.
        timestamp_ms: timestamp of the last consumed record; None for a tombstone, or if the value
            cannot be decoded.
        written_at_ms: timestamp of this record; None if it has none.
        at: its partition and offset in `__consumer_timestamps`.
        error: why it cannot be decoded; empty if it can.
    """

    group: str | None
    topic: str | None
    partition: int | None
    timestamp_ms: int | None
    delta: int | None
    value: bytes | None
    written_at_ms: int | None
    at: tuple[int, int]
    key: bytes | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The rows to keep; all if empty. Keys that cannot be decoded are always kept."""

    groups: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()

    def takes(self, place: GroupPartition) -> bool:
        """Return whether a group and topic match."""
        named = not self.groups or place.group in self.groups
        return named and (not self.topics or place.topic in self.topics)


class RowDecoder:
    """Converts records to rows."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._places: dict[bytes | None, GroupPartition] = {}

    def rows(self, chunk: Chunk) -> Iterator[TimestampRow]:
        """Yield the rows of a chunk."""
        for offset, time, key, value, _ in chunk.rows:
            row = self.row((chunk.partition, offset), time, key, value)
            if row is not None:
                yield row

    def row(
        self, at: tuple[int, int], time: int, key: bytes | None, value: bytes | None
    ) -> TimestampRow | None:
        """Return the row of a record; None if it is not wanted."""
        place: GroupPartition | None = None
        written = None if time < 0 else time
        try:
            place = self.place(key)
            if not self._wanted.takes(place):
                return None
            noted = decode_value(value)
        except Undecodable as error:
            group, topic, partition = place or (None, None, None)
            return TimestampRow(
                group, topic, partition, None, None, value, written, at, key, error.reason
            )
        if noted is None:
            return TimestampRow(*place, None, None, None, written, at)
        return TimestampRow(*place, noted.timestamp_ms, noted.delta, value, written, at)

    def place(self, key: bytes | None) -> GroupPartition:
        """Decode a key.

        Raises:
            Undecodable: it is invalid.
        """
        found = self._places.get(key)
        if found is None:
            found = decode_key(key)
            if len(self._places) >= _KEYS_REMEMBERED:
                self._places.clear()
            self._places[key] = found
        return found


Hex = Annotated[str, ("pattern", "^([0-9a-f]{2})*$")]


class RecordDocument(TypedDict):
    """The position of a record."""

    partition: Count
    offset: Count


class TimestampDocument(TypedDict):
    """A record of __consumer_timestamps.

    Attributes:
        group: null (as are topic and partition) if the key cannot be decoded.
        timestamp_ms: of the last record that the group had consumed when it committed, in
            milliseconds since 1970 UTC; null for a tombstone, or if the value cannot be decoded.
        delta: as written; its meaning is not documented. null if there is none.
        value_hex: the value; null for a tombstone.
        written_at_ms: timestamp of this record; null if it has none.
        record: its position in __consumer_timestamps.
        error: why the record cannot be decoded; only present if it cannot.
        key_hex: the key of a record that cannot be decoded; null if it has none.
    """

    schema: Literal["drctl/consumer-timestamp/1"]
    group: str | None
    topic: str | None
    partition: Count | None
    timestamp_ms: int | None
    delta: int | None
    value_hex: Hex | None
    written_at_ms: Count | None
    record: RecordDocument
    error: NotRequired[Name]
    key_hex: NotRequired[Hex | None]


def row_json(row: TimestampRow) -> TimestampDocument:
    """Build the document `drctl/consumer-timestamp/1`; there may be millions."""
    found: TimestampDocument = {
        "schema": "drctl/consumer-timestamp/1",
        "group": row.group,
        "topic": row.topic,
        "partition": row.partition,
        "timestamp_ms": row.timestamp_ms,
        "delta": row.delta,
        "value_hex": None if row.value is None else row.value.hex(),
        "written_at_ms": row.written_at_ms,
        "record": {"partition": row.at[0], "offset": row.at[1]},
    }
    if row.error:
        found["error"] = row.error
        found["key_hex"] = None if row.key is None else row.key.hex()
    return found


HELD = 200_000
"""Maximum number of keys in memory, counted per partition of the topic."""

_Seen = tuple[int, int, bytes | None]
"""Offset of the record, its timestamp and value."""


class Entry(NamedTuple):
    """The newest record of one key in one partition of the topic.

    Attributes:
        at_partition: its partition in the topic.
        at_offset: its offset there.
        value: None for a tombstone.
    """

    group: str
    topic: str
    partition: int
    at_partition: int
    at_offset: int
    written_at_ms: int
    value: bytes | None


class EntryStore(Protocol):
    """Stores entries on disk."""

    def put(self, entries: Iterable[Entry]) -> None:
        """Store entries; each replaces the one with the same key and partition of the topic."""

    def entries(self) -> Iterator[Entry]:
        """Yield all entries, grouped by group, topic and partition."""


class NewestTimestamps:
    """Collects the newest row per key from the records of the topic."""

    def __init__(
        self, decoder: RowDecoder, open_store: Callable[[], EntryStore], held: int = HELD
    ) -> None:
        self._decoder = decoder
        self._open_store = open_store
        self._held = held
        self._store: EntryStore | None = None
        self._newest: dict[int, dict[bytes | None, _Seen]] = {}

    def take(self, chunk: Chunk) -> Iterator[TimestampRow]:
        """Take the records of a chunk; yield rows of those that cannot be decoded."""
        here = chunk.partition
        newest = self._newest.setdefault(here, {})
        for offset, time, key, value, _ in chunk.rows:
            sound = value is None or len(value) in VALUE_LENGTHS
            if not sound or key not in newest:
                row = self._decoder.row((here, offset), time, key, value)
                if row is None:
                    continue
                if row.error:
                    yield row
                    if row.group is None:
                        continue
                    value = None  # It cannot be decoded; it still replaces the older one.
            newest[key] = (offset, time, value)
        if sum(map(len, self._newest.values())) > self._held:
            self._move_to_store()

    def rows(self) -> Iterator[TimestampRow]:
        """Yield the newest row of each key, by group, topic and partition, without deleted ones."""
        entries: Iterable[Entry]
        if self._store is None:
            entries = sorted(self._entries(), key=_key)
        else:
            self._move_to_store()
            entries = self._store.entries()
        for _, of_one_key in groupby(entries, _key):
            entry = max(of_one_key, key=lambda e: (e.written_at_ms, e.at_partition))
            if entry.value is not None:
                at = entry.at_partition, entry.at_offset
                key = encode_key(GroupPartition(*entry[:3]))
                row = self._decoder.row(at, entry.written_at_ms, key, entry.value)
                if row is not None:
                    yield row

    def _move_to_store(self) -> None:
        if self._store is None:
            self._store = self._open_store()
        self._store.put(self._entries())
        self._newest.clear()

    def _entries(self) -> Iterator[Entry]:
        for partition, newest in self._newest.items():
            for key, (offset, time, value) in newest.items():
                yield Entry(*self._decoder.place(key), partition, offset, time, value)


def _key(entry: Entry) -> tuple[str, str, int]:
    return entry[:3]


_MISSING = (
    "use --cluster with the cluster that the consumers read from; the topic is created by consumers"
    " with Confluent's ConsumerTimestampsInterceptor, or with drctl.consumer"
    " (docs/howto/python-consumer.md)"
)
_FORBIDDEN = f"grant READ and DESCRIBE on topic {TOPIC}"
_RUN_AGAIN = "check that all brokers are up, then run the command again"


@dataclass(frozen=True, slots=True)
class Extent:
    """The content of the topic at one moment.

    Attributes:
        ranges: offsets to read, by partition.
        incomplete: what cannot be read, and why.
    """

    topic: TopicState
    ranges: Mapping[int, OffsetRange]
    incomplete: tuple[str, ...]

    @property
    def offsets(self) -> int:
        """Maximum number of records."""
        return sum(held.span for held in self.ranges.values())

    @property
    def ends(self) -> dict[int, int]:
        """Offsets at which to continue reading."""
        return {partition: held.end for partition, held in self.ranges.items()}


def freeze(cluster: ClusterReader) -> Extent:
    """Read the offsets of the topic.

    Raises:
        Unknown: it does not exist, or cannot be read, or none of its partitions can be read.
        Unreachable: no broker answered within the deadline.
    """
    where = f"topic {TOPIC} of {cluster.name}"
    state = cluster.topics([TOPIC])[TOPIC]
    if state is None:
        raise Unknown(f"topic {TOPIC} does not exist on {cluster.name}", _MISSING)
    if isinstance(state, Unavailable):
        forbidden = "authorized" in state.reason
        raise Unknown(f"{where}: {state.reason}", _FORBIDDEN if forbidden else _RUN_AGAIN)
    if not state.readable:
        raise Unknown(f"not authorized to read {where}", _FORBIDDEN)
    offsets = cluster.offsets([TopicPartition(TOPIC, number) for number in state.partitions])
    ranges, incomplete = {}, []
    for (_, number), found in sorted(offsets.items()):
        if isinstance(found, Unavailable):
            incomplete.append(f"partition {number} cannot be read: {found.reason}")
            continue
        ranges[number] = OffsetRange(found.log_start, found.last_stable)
        if found.last_stable < found.end:
            incomplete.append(
                f"partition {number}: open transaction:"
                f" {plural(found.end - found.last_stable, 'offset')}"
                f" from {found.last_stable} on cannot be read yet"
            )
    if not ranges:
        raise Unknown(f"{where} cannot be read: {incomplete[0]}", _RUN_AGAIN)
    return Extent(state, ranges, tuple(incomplete))


def read_frozen(
    reader: RangeReader, extent: Extent, progress: Callable[[int], None]
) -> Iterator[Chunk]:
    """Yield all committed records, in order within a partition.

    Args:
        progress: called with the number of offsets done.

    Raises:
        ScanFailed: the records could not be read completely.
    """
    ranges = {number: held for number, held in extent.ranges.items() if held.span}
    done, position = 0, {number: held.start for number, held in ranges.items()}
    wanted = {number: (held,) for number, held in ranges.items()}
    for chunk in reader.read({TOPIC: wanted}) if wanted else ():
        after = chunk.rows[-1][0] + 1
        done, position[chunk.partition] = done + after - position[chunk.partition], after
        progress(done)
        yield chunk
