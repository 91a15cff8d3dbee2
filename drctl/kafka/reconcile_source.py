"""The source's log as `drctl reconcile` reads it."""

import ctypes as c
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from types import TracebackType
from typing import Any, cast

from xxhash import xxh64_digest

from drctl.gap.comparison import ScanFailed
from drctl.host.processes import seldom_collected
from drctl.kafka.deadline import uninterrupted
from drctl.kafka.log_reader import PATIENCE_S, LogSource, Reading, Scan
from drctl.kafka.simple_consumer import (
    BATCH,
    BATCH_BYTES,
    FETCH_BYTES,
    MEMORY,
    MESSAGE,
    Came,
    ScanConsumer,
)
from drctl.model.errors import Unknown
from drctl.model.topology import OffsetRange, Row, TopicPartition
from drctl.reconcile.gap_result import Piece, Seen, seen_of

Raw = tuple[int, int, int, int, int]
"""Where value and key of a record lie, and how long they are, an address of 0 for null; then
librdkafka's message, or 0 where it has no headers."""

ADDRESSES = memoryview(MEMORY).cast("B")
"""All of this process's memory, for structs: quicker than as an array."""


class MessageConsumer(ScanConsumer):
    """Gives records as `Seen`, each with its `Raw`, which is good until more is asked for.

    Raises:
        ConfigError: librdkafka does not take the properties.
    """

    def __init__(self, properties: Mapping[str, str], fetch_bytes: int = FETCH_BYTES) -> None:
        super().__init__(properties, fetch_bytes)
        self._borrowed: list[int] = []

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()
        super().__exit__(exc_type, exc, traceback)

    def poll_rows(self, timeout_s: float) -> list[Came]:
        """What has come, of each partition in order; waits for something where nothing has."""
        self.release()
        # A message that is not given back keeps librdkafka from ending, forever.
        with uninterrupted():
            self._borrowed = self._take(timeout_s)
        # `log_reader` looks at nothing of a row but its offset.
        return cast("list[Came]", self._seen(self._borrowed))

    def release(self) -> None:
        """Give back what was taken."""
        destroy = self._quick["message_destroy"]
        with uninterrupted():
            deque(map(destroy, self._borrowed), maxlen=0)
            self._borrowed = []

    def _seen(self, pointers: list[int]) -> list[tuple[Any, int, list[Seen]]]:
        headers_of, found = self._quick["message_headers"], c.byref(self._found[0])
        memory, digest, size, last = MEMORY, xxh64_digest, 1, (0, 0)
        rows: list[Seen] = []
        came: list[tuple[Any, int, list[Seen]]] = []
        growing: dict[tuple[int, int], list[Seen]] = {}
        structs = map(MESSAGE.unpack_from, repeat(ADDRESSES), pointers)
        times = map(self._quick["message_timestamp"], pointers, repeat(None))
        for pointer, time, struct in zip(pointers, times, structs, strict=True):
            error, topic, number, value, value_size, key, key_size, offset, _ = struct
            if error:
                growing.pop((topic, number), None)
                came.append((self._place(topic, number), error, [(offset, 0, None, 0, None)]))
                last = 0, 0
                continue
            if (topic, number) != last:
                last = topic, number
                if last not in growing:
                    growing[last] = []
                    came.append((self._place(topic, number), 0, growing[last]))
                rows = growing[last]
            length = key_size + value_size
            size += length
            if headers_of(pointer, found):
                raw = value, value_size, key, key_size, 0
            else:
                raw = value, value_size, key, key_size, pointer
                length += self._headers_size()
            told = digest(memory[key : key + key_size]) if key else None
            rows.append((offset, time, told, length, raw))
        self._batch = max(1, min(BATCH, BATCH_BYTES * len(pointers) // size))
        return came

    def _headers_size(self) -> int:
        headers, name, value, size = self._found
        where = c.byref(name), c.byref(value), c.byref(size)
        number = found = 0
        while not self._quick["header_get_all"](headers, number, *where):
            found += len(name.value or b"") + size.value
            number += 1
        return found


_CONNECT_S = 1.0
_WAIT = "fetch.wait.max.ms"
_LITTLE = {"queued.max.messages.kbytes": "8192", "queued.min.messages": "50000"}

Ranges = Mapping[int, Sequence[OffsetRange]]


class KafkaSourceLog:
    """Implements `drctl.reconcile.gap_result.SourceLog`; little is held of each partition."""

    def __init__(self, cluster: str, properties: Mapping[str, str]) -> None:
        self._source = LogSource(cluster, {**_LITTLE, **properties})

    def read(self, topic: str, ranges: Ranges) -> Iterator[Piece]:
        """Every committed record of these ranges, those of a partition in order, as `Row`.

        Raises:
            Unknown: something could not be read to its end.
        """
        for piece in self._pieces(topic, ranges, ScanConsumer):
            rows = cast("Sequence[Row]", piece.rows)
            yield piece._replace(rows=[seen_of(row) for row in rows])

    def raw(self, topic: str, ranges: Ranges) -> Iterator[Piece]:
        """The same as a copier takes them; a piece is good until the next one is asked for.

        Raises:
            Unknown: likewise.
        """
        with seldom_collected():
            yield from self._pieces(topic, ranges, MessageConsumer)

    def _pieces(self, topic: str, ranges: Ranges, opened: type[ScanConsumer]) -> Iterator[Piece]:
        waiting = {
            TopicPartition(topic, partition): Reading(wanted)
            for partition, runs in ranges.items()
            if (wanted := [r for r in reversed(runs) if r.span])
        }
        source = self._source
        # A broker may wait that long for more bytes, if the user wants it to.
        patience_s = PATIENCE_S + int(source.properties.get(_WAIT, 0)) / 1000
        if not waiting:
            return
        try:
            with opened(source.properties) as consumer:
                consumer.connect(_CONNECT_S)
                for chunk in Scan(source.cluster, consumer, waiting, patience_s).chunks():
                    rows = cast("Sequence[Any]", chunk.rows)
                    yield Piece(TopicPartition(chunk.topic, chunk.partition), rows)
        except ScanFailed as failed:
            raise Unknown(
                f"the source could not be read to the end: {failed.cause}",
                "run it again: it goes on where it stopped",
            ) from failed
