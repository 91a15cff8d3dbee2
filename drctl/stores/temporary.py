"""Data that exceeds memory, in unnamed temporary files that the system deletes.

Consumer timestamps in a database, and records of a gap result, grouped by offset range.
"""

import marshal
import sqlite3
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import itemgetter, lt
from tempfile import TemporaryFile
from typing import Any

from drctl.model.errors import Refused, Unknown
from drctl.model.gap import OrderVerdict
from drctl.model.topology import TopicPartition
from drctl.offsets.consumer_timestamps import Entry
from drctl.reconcile.gap_result import Tally, WantedRow
from drctl.reconcile.progress import RecordSet

_TABLE = """
CREATE TABLE entries (
    "group" TEXT, topic TEXT, partition INTEGER,
    at_partition INTEGER, at_offset INTEGER, written_at_ms INTEGER, value BLOB,
    PRIMARY KEY ("group", topic, partition, at_partition)
) WITHOUT ROWID
"""
_PUT = "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)"
_ALL = 'SELECT * FROM entries ORDER BY "group", topic, partition'
_SETTINGS = (
    "PRAGMA journal_mode = OFF",
    "PRAGMA synchronous = OFF",
    "PRAGMA cache_size = -65536",  # KiB
)


class TemporaryEntries:
    """Implements `EntryStore` of `drctl.offsets`; the file is deleted with this object.

    Raises:
        Unknown: the disk is full.
    """

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        for statement in (*_SETTINGS, _TABLE):
            self._database.execute(statement)

    def put(self, entries: Iterable[Entry]) -> None:
        """Insert or replace each entry by its key and partition.

        Raises:
            Unknown: the disk is full.
        """
        try:
            self._database.execute("BEGIN")
            self._database.executemany(_PUT, entries)
            self._database.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise Unknown(
                f"records fit neither into memory nor on disk: {error}",
                "free space in the temporary directory, or set SQLITE_TMPDIR to another one",
            ) from None

    def entries(self) -> Iterator[Entry]:
        """All entries; those of one group, topic and partition are consecutive."""
        return (Entry(*row) for row in self._database.execute(_ALL))


_SPAN = 14
"""Bits of the offset within one bucket, the range of offsets that is stored together."""

_HELD = 50_000
"""Number of rows in memory before they are written to buckets."""

_CODES = {verdict.value: code for code, verdict in enumerate(OrderVerdict)}
_VERDICTS = tuple(OrderVerdict)
_OFFSET, _TIMESTAMP, _SIZE, _ORDER = map(itemgetter, (0, 1, 3, 4))

Row = tuple[str, int, int, int, bytes | None, int, str]
"""Topic, partition, offset, timestamp, digest of the key, size, order verdict."""


@dataclass(slots=True)
class _Bucket:
    """Where the rows of a range of offsets are in the file.

    Attributes:
        parts: position and length of each part.
        last: highest offset.
        ascending: whether the rows are in strictly ascending order.
    """

    parts: list[tuple[int, int]] = field(default_factory=list)
    last: int = -1
    ascending: bool = True


class TemporaryWantedRows:
    """Rows in a file that is deleted with this object.

    Args:
        rows: rows of a gap result, in any order.

    Raises:
        Refused: an offset occurs twice.
        Unknown: the disk is full.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self._file = TemporaryFile()  # noqa: SIM115
        self._buckets: dict[TopicPartition, dict[int, _Bucket]] = {}
        self._tallies: dict[RecordSet, Tally] = {}
        try:
            coming = iter(rows)
            while some := list(islice(coming, _HELD)):
                self._take(some)
            self._sort()
        except OSError as error:
            raise Unknown(
                f"the gap result does not fit on disk: {error}",
                "free space in the temporary directory, or set TMPDIR to another one",
            ) from None

    def tallies(self) -> Mapping[RecordSet, Tally]:
        """The tally of each record set."""
        return dict(self._tallies)

    def done(self, record_set: RecordSet, through: int) -> Tally:
        """The tally of a record set up to this offset."""
        done = Tally()
        for number, bucket in sorted(self._buckets.get(record_set.place, {}).items()):
            if number << _SPAN <= through:
                rows = self._rows(bucket)
                done = _sum(done, [r for r in rows if r[4] is record_set.order and r[0] <= through])
        return done

    def after(
        self, place: TopicPartition, through: Mapping[OrderVerdict, int]
    ) -> Iterator[WantedRow]:
        """Yield the rows of these record sets, each after its offset, in offset order."""
        return chain.from_iterable(self._after(place, through))

    def offsets_after(
        self, place: TopicPartition, through: Mapping[OrderVerdict, int]
    ) -> Iterator[int]:
        """The offsets of these rows."""
        return chain.from_iterable(self._offsets_after(place, through))

    def close(self) -> None:
        """Close the file; idempotent."""
        self._file.close()

    def __del__(self) -> None:
        self.close()

    def _after(
        self, place: TopicPartition, through: Mapping[OrderVerdict, int]
    ) -> Iterator[Sequence[WantedRow]]:
        for bucket, whole in self._open(place, through):
            rows = self._rows(bucket)
            yield rows if whole else [r for r in rows if r[0] > through.get(r[4], r[0])]

    def _offsets_after(
        self, place: TopicPartition, through: Mapping[OrderVerdict, int]
    ) -> Iterator[Iterable[int]]:
        for bucket, whole in self._open(place, through):
            if whole and len(bucket.parts) == 1:
                yield array("q", self._part(*bucket.parts[0])[0])
            else:
                rows = self._rows(bucket)
                yield [r[0] for r in rows if r[0] > through.get(r[4], r[0])]

    def _open(
        self, place: TopicPartition, through: Mapping[OrderVerdict, int]
    ) -> Iterator[tuple[_Bucket, bool]]:
        """The buckets with any of these offsets, and whether all their rows are selected."""
        first, last = min(through.values()), max(through.values())
        record_sets = {
            record_set.order for record_set in self._tallies if record_set.place == place
        } <= through.keys()
        for number, bucket in sorted(self._buckets.get(place, {}).items()):
            if bucket.last > first:
                yield bucket, record_sets and number << _SPAN > last

    def _take(self, rows: Iterable[Row]) -> None:
        """Write rows to their buckets."""
        held = defaultdict[tuple[str, int, int], list[WantedRow]](list)
        for topic, partition, at, timestamp, key, size, verdict in rows:
            row = at, timestamp, key, size, _VERDICTS[_CODES[verdict]]
            held[topic, partition, at >> _SPAN].append(row)
        for (topic, partition, number), some in held.items():
            place = TopicPartition(topic, partition)
            for order in set(map(_ORDER, some)):
                record_set = RecordSet(place, order)
                before = self._tallies.get(record_set, Tally())
                self._tallies[record_set] = _sum(before, [row for row in some if row[4] is order])
            self._put(self._buckets.setdefault(place, {}).setdefault(number, _Bucket()), some)

    def _put(self, bucket: _Bucket, rows: Sequence[WantedRow]) -> None:
        offsets, times, keys, sizes, orders = zip(*rows, strict=True)
        codes = bytes(_CODES[order] for order in orders)
        numbers = [array("q", each).tobytes() for each in (offsets, times, sizes)]
        part = marshal.dumps((*numbers, keys, codes))
        later = offsets[0] > bucket.last and all(map(lt, offsets, offsets[1:]))
        bucket.ascending = bucket.ascending and later
        bucket.last = max(bucket.last, *offsets)
        bucket.parts.append((self._file.seek(0, 2), len(part)))
        self._file.write(part)

    def _sort(self) -> None:
        """Sort buckets whose rows are not in order."""
        for bucket in chain.from_iterable(map(dict.values, self._buckets.values())):
            if bucket.ascending:
                continue
            rows = sorted(self._rows(bucket), key=_OFFSET)
            bucket.parts, bucket.last, bucket.ascending = [], -1, True
            self._put(bucket, rows)
            if not bucket.ascending:
                raise Refused(
                    "the gap result is damaged: it contains a record twice", "run `drctl gap` again"
                )

    def _rows(self, bucket: _Bucket) -> list[WantedRow]:
        rows: list[WantedRow] = []
        for position, length in bucket.parts:
            offsets, times, sizes, keys, codes = self._part(position, length)
            numbers = [array("q", each) for each in (offsets, times, sizes)]
            orders = map(_VERDICTS.__getitem__, codes)
            rows += zip(numbers[0], numbers[1], keys, numbers[2], orders, strict=True)
        return rows

    def _part(self, position: int, length: int) -> tuple[bytes, bytes, bytes, Any, bytes]:
        self._file.seek(position)
        part: tuple[bytes, bytes, bytes, Any, bytes] = marshal.loads(self._file.read(length))
        return part


def _sum(tally: Tally, rows: Sequence[WantedRow]) -> Tally:
    """The tally including these rows."""
    return Tally(
        tally.records + len(rows),
        tally.bytes + sum(map(_SIZE, rows)),
        tally.untimed + sum(time <= 0 for time in map(_TIMESTAMP, rows)),
        max(tally.last, *map(_OFFSET, rows)) if rows else tally.last,
    )
