"""Records of `__consumer_timestamps` as rows that can be shown, whether or not they decode."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from drctl.model.rows import Chunk
from drctl.wire.consumer_timestamps import GroupPartition, decode_key, decode_value
from drctl.wire.undecodable import Undecodable

_KEYS_REMEMBERED = 100_000


class TimestampRow(NamedTuple):
    """One record.

    Attributes:
        group: None, as topic and partition, where the key does not decode.
        timestamp_ms: of the last consumed record; None for a tombstone, and where the value does
            not decode.
        written_at_ms: the record's own timestamp; None where it has none.
        at: its partition and offset in `__consumer_timestamps`.
        error: why it does not decode; empty where it does.
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
    """Which rows: none named is all. What does not decode to a key is always wanted."""

    groups: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()

    def takes(self, place: GroupPartition) -> bool:
        """Whether a group and topic are among them."""
        named = not self.groups or place.group in self.groups
        return named and (not self.topics or place.topic in self.topics)


class RowDecoder:
    """Makes rows of records, as far as they are wanted."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._places: dict[bytes | None, GroupPartition] = {}

    def rows(self, chunk: Chunk) -> Iterator[TimestampRow]:
        """A row of each record."""
        for offset, time, key, value, _ in chunk.rows:
            row = self.row((chunk.partition, offset), time, key, value)
            if row is not None:
                yield row

    def row(
        self, at: tuple[int, int], time: int, key: bytes | None, value: bytes | None
    ) -> TimestampRow | None:
        """The row of a record; None where it is not wanted."""
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
        """What a key says.

        Raises:
            Undecodable: it is none.
        """
        found = self._places.get(key)
        if found is None:
            found = decode_key(key)
            if len(self._places) >= _KEYS_REMEMBERED:
                self._places.clear()
            self._places[key] = found
        return found


def row_json(row: TimestampRow) -> dict[str, Any]:
    """The document `drctl/consumer-timestamp/1`."""
    found: dict[str, Any] = {
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
        found |= {"error": row.error, "key_hex": None if row.key is None else row.key.hex()}
    return found
