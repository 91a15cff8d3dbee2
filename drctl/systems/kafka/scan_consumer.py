"""The simple consumer for very many records: as few and as cheap calls for each as can be.

Messages are read as raw structs, into plain tuples; whatever cannot block is called without letting
go of Python's lock.
"""

import ctypes as c
import sys
from collections.abc import Mapping
from struct import Struct
from typing import Any, Self

from confluent_kafka import cimpl

from drctl.model.rows import Headers, Row
from drctl.model.topology import TopicPartition
from drctl.systems.kafka.interrupts import uninterrupted
from drctl.systems.kafka.simple_consumer import SimpleConsumer

Came = tuple[TopicPartition, int, list[Row]]
"""Where from, 0 and records in order; or librdkafka's error code and the offset it came at."""

FETCH_BYTES = 1 << 20
BATCH, _FIRST_BATCH, BATCH_BYTES = 1000, 10, 4 << 20
MESSAGE = Struct("@iPiPNPNqP")
"""rd_kafka_message_t, as rdkafka.h declares it: error, topic, partition, value and its length, key
and its length, offset, private."""

MEMORY: Any = (c.c_char * sys.maxsize).from_address(0)
"""All of this process's memory: slicing it is the cheapest way to copy bytes out of a message."""

# The user's word comes before these. Little is queued: records may be large, and all of them are
# taken at once.
_SETTINGS = {
    "fetch.min.bytes": "1",
    "fetch.wait.max.ms": "100",
    "fetch.max.bytes": str(16 << 20),
    "queued.min.messages": "50000",
    "queued.max.messages.kbytes": "32768",
}
_SECURE = {
    "auto.offset.reset": "error",  # an offset that is gone must not be skipped
    "fetch.queue.backoff.ms": "2",
    "check.crcs": "true",
}
_WAITING: Mapping[str, tuple[Any, ...]] = {
    "consume_queue": (c.c_void_p, c.c_void_p, c.c_int),
    "consume_batch_queue": (c.c_ssize_t, c.c_void_p, c.c_int, c.c_void_p, c.c_size_t),
}
_QUICK: Mapping[str, tuple[Any, ...]] = {
    "message_timestamp": (c.c_int64, c.c_void_p, c.c_void_p),
    "message_headers": (c.c_int, c.c_void_p, c.c_void_p),
    "message_destroy": (None, c.c_void_p),
    "header_get_all": (c.c_int, c.c_void_p, c.c_size_t, c.c_void_p, c.c_void_p, c.c_void_p),
}


class ScanConsumer(SimpleConsumer):
    """Reads partitions from given offsets on, in bulk; a context manager.

    Args:
        uncommitted: whether to read records whose transaction was aborted or is open, too.

    Raises:
        ConfigError: librdkafka does not take the properties.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        fetch_bytes: int = FETCH_BYTES,
        *,
        uncommitted: bool = False,
    ) -> None:
        super().__init__(properties, fetch_bytes)
        chosen = {name: properties.get(name, value) for name, value in _SETTINGS.items()}
        self._properties |= {**chosen, **_SECURE}
        if uncommitted:
            self._properties["isolation.level"] = "read_uncommitted"

    def __enter__(self) -> Self:
        super().__enter__()
        self._waiting = bound(c.CDLL(cimpl.__file__), _WAITING)
        self._quick = bound(c.PyDLL(cimpl.__file__), _QUICK)
        self._batch = _FIRST_BATCH
        self._pointers = (c.c_void_p * BATCH)()
        self._found = c.c_void_p(), c.c_char_p(), c.c_void_p(), c.c_size_t()
        return self

    def poll_rows(self, timeout_s: float) -> list[Came]:
        """What has come, of each partition in order; waits for something where nothing has."""
        # A message that is not given back keeps librdkafka from ending, for ever.
        with uninterrupted():
            pointers = self._take(timeout_s)
            came = self._read(pointers)
            destroy = self._quick["message_destroy"]
            for pointer in pointers:
                destroy(pointer)
        return came

    def jump(self, partition: TopicPartition, offset: int) -> None:
        """Go on reading a partition from there."""
        self.stop(partition)
        self.start(partition, offset)

    def text_of(self, error: int) -> str:
        """An error code in librdkafka's words."""
        text: bytes = self._call["err2str"](error)
        return text.decode()

    def _take(self, timeout_s: float) -> list[int]:
        first = self._waiting["consume_queue"](self._queue, max(1, int(timeout_s * 1000)))
        if not first:
            return []
        # A batch waits until it is full, unless it must not wait at all.
        take = self._waiting["consume_batch_queue"]
        count = take(self._queue, 0, self._pointers, self._batch)
        return [first, *(p for p in self._pointers[: max(0, count)] if p)]

    def _read(self, pointers: list[int]) -> list[Came]:
        time_of, headers_of = self._quick["message_timestamp"], self._quick["message_headers"]
        unpack, found = MESSAGE.unpack_from, c.byref(self._found[0])
        memory, size = MEMORY, 1
        came: list[Came] = []
        growing: dict[tuple[int, int], list[Row]] = {}
        for pointer in pointers:
            error, topic, number, value, value_size, key, key_size, offset, _ = unpack(
                memory, pointer
            )
            if error:
                growing.pop((topic, number), None)
                came.append((self._place(topic, number), error, [(offset, 0, None, None, ())]))
                continue
            rows = growing.get((topic, number))
            if rows is None:
                rows = growing[topic, number] = []
                came.append((self._place(topic, number), 0, rows))
            rows.append(
                (
                    offset,
                    time_of(pointer, None),
                    memory[key : key + key_size] if key else None,
                    memory[value : value + value_size] if value else None,
                    () if headers_of(pointer, found) else self._headers_found(),
                )
            )
            size += key_size + value_size
        self._batch = max(1, min(BATCH, BATCH_BYTES * len(pointers) // size))
        return came

    def _place(self, topic: int, number: int) -> TopicPartition:
        name: bytes = self._call["topic_name"](topic)
        return TopicPartition(name.decode(), number)

    def _headers_found(self) -> Headers:
        headers, name, value, size = self._found
        where = c.byref(name), c.byref(value), c.byref(size)
        held: list[tuple[bytes, bytes | None]] = []
        while not self._quick["header_get_all"](headers, len(held), *where):
            at = value.value
            content = None if at is None else MEMORY[at : at + size.value]
            held.append((name.value or b"", content))
        return tuple(held)


def bound(library: c.CDLL, functions: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Librdkafka's functions with their types, by name without `rd_kafka_`."""
    found = {}
    for name, (result, *arguments) in functions.items():
        function = getattr(library, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments
        found[name] = function
    return found
