"""The newest timestamp of each group and partition, however many there are and were.

Within a partition of the topic the later record counts. Where the same key stands in several
partitions, as after their number was changed, that of their newest ones counts which was written
later; of two that were written at once, that of the higher partition.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import NamedTuple, Protocol

from drctl.model.rows import Chunk
from drctl.offsets.timestamp_rows import RowDecoder, TimestampRow
from drctl.wire.consumer_timestamps import VALUE_LENGTHS, GroupPartition, encode_key

HELD = 200_000
"""How many keys are kept in memory, each once for every partition in which it stands."""

_Seen = tuple[int, int, bytes | None]
"""Offset of the record, its timestamp and value."""


class Entry(NamedTuple):
    """The newest record of one key in one partition of the topic.

    Attributes:
        at_partition: in which partition of the topic it stands.
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
        """Let each take the place of what is kept of its key and partition of the topic."""

    def entries(self) -> Iterator[Entry]:
        """All of them; those of one group, topic and partition one behind the other."""


class NewestTimestamps:
    """Takes the records of the topic, those of a partition in order, and gives the newest rows."""

    def __init__(
        self, decoder: RowDecoder, open_store: Callable[[], EntryStore], held: int = HELD
    ) -> None:
        self._decoder = decoder
        self._open_store = open_store
        self._held = held
        self._store: EntryStore | None = None
        self._newest: dict[int, dict[bytes | None, _Seen]] = {}

    def take(self, chunk: Chunk) -> Iterator[TimestampRow]:
        """Remember what decodes; gives the rows of what does not."""
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
                    value = None  # nobody knows what it was to say: the older one is void
            newest[key] = (offset, time, value)
        if sum(map(len, self._newest.values())) > self._held:
            self._spill()

    def rows(self) -> Iterator[TimestampRow]:
        """The newest row of each key, by group, topic and partition; deleted ones are left out."""
        entries: Iterable[Entry]
        if self._store is None:
            entries = sorted(self._entries(), key=_key)
        else:
            self._spill()
            entries = self._store.entries()
        for _, of_one_key in groupby(entries, _key):
            entry = max(of_one_key, key=lambda e: (e.written_at_ms, e.at_partition))
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
        for partition, newest in self._newest.items():
            for key, (offset, time, value) in newest.items():
                yield Entry(*self._decoder.place(key), partition, offset, time, value)


def _key(entry: Entry) -> tuple[str, str, int]:
    return entry[:3]
