"""The newest timestamp of each group and partition, however many there are and were.

Within a partition of the topic the later record counts. Where the same key stands in several
partitions, as after their number was changed, the one that was written later does.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from drctl.model.rows import Chunk
from drctl.offsets.timestamp_rows import RowDecoder, TimestampRow
from drctl.wire.consumer_timestamps import VALUE_LENGTHS, GroupPartition, encode_key

HELD = 200_000
"""How many keys are kept in memory."""

_Seen = tuple[int, int, int, bytes | None]
"""Partition and offset of the record, its timestamp and value."""


class Entry(NamedTuple):
    """What is known of one key.

    Attributes:
        at_partition: in which partition of the topic its newest record stands.
        at_offset: where in it.
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
    """Keeps what memory should not."""

    def put(self, entries: Iterable[Entry]) -> None:
        """Keep the newer one of each key: by the rules above."""

    def entries(self) -> Iterator[Entry]:
        """All of them, by group, topic and partition."""


class NewestTimestamps:
    """Takes the records of the topic, those of a partition in order, and gives the newest rows."""

    def __init__(
        self, decoder: RowDecoder, open_store: Callable[[], EntryStore], held: int = HELD
    ) -> None:
        self._decoder = decoder
        self._open_store = open_store
        self._held = held
        self._store: EntryStore | None = None
        self._newest: dict[bytes | None, _Seen] = {}

    def take(self, chunk: Chunk) -> Iterator[TimestampRow]:
        """Remember what decodes; gives the rows of what does not."""
        newest, here = self._newest, chunk.partition
        for offset, time, key, value, _ in chunk.rows:
            known = newest.get(key)
            sound = value is None or len(value) in VALUE_LENGTHS
            if known is None or not sound:
                row = self._decoder.row((here, offset), time, key, value)
                if row is None:
                    continue
                if row.error:
                    yield row
                    if row.group is None:
                        continue
                    value = None  # nobody knows what it was to say: the older one is void
            if known is None or known[0] == here or known[2] <= time:
                newest[key] = (here, offset, time, value)
        if len(newest) > self._held:
            self._spill()

    def rows(self) -> Iterator[TimestampRow]:
        """The newest row of each key, by group, topic and partition; deleted ones are left out."""
        entries: Iterable[Entry]
        if self._store is None:
            entries = sorted(self._entries())
        else:
            self._spill()
            entries = self._store.entries()
        for entry in entries:
            if entry.value is not None:
                at = entry.at_partition, entry.at_offset
                key = encode_key(GroupPartition(*entry[:3]))
                row = self._decoder.row(at, entry.written_at_ms, key, entry.value)
                if row is not None:
                    yield row

    def _spill(self) -> None:
        if self._store is None:
            self._store = self._open_store()
        self._store.put(self._entries())
        self._newest.clear()

    def _entries(self) -> Iterator[Entry]:
        for key, seen in self._newest.items():
            place, (partition, offset, time, value) = self._decoder.place(key), seen
            yield Entry(*place, partition, offset, time, value)
