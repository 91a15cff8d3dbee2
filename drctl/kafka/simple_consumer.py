"""librdkafka's simple consumer, through its C API: it has no consumer group.

The Consumer of confluent-kafka requires a group and looks up its coordinator at once, which makes
brokers create `__consumer_offsets` if it does not exist. A read-only command must not do that.
"""

import ctypes as c
import sys
from collections import deque
from collections.abc import Container, Mapping
from itertools import repeat
from struct import Struct
from typing import Any, Self

from confluent_kafka import cimpl

from drctl.host.connections import Closing
from drctl.kafka.connection import client_properties
from drctl.kafka.deadline import uninterrupted
from drctl.model.errors import ConfigError
from drctl.model.topology import Headers, Row, TopicPartition

_CONSUMER = 1
_TEXT = 512

_ALWAYS = {
    "isolation.level": "read_committed",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "check.crcs": "true",
}
# For a few bytes of many partitions: low latency instead of throughput.
_FEW = {
    "auto.offset.reset": "earliest",
    "fetch.min.bytes": "1",
    "fetch.wait.max.ms": "100",
    "fetch.queue.backoff.ms": "1",
    "queued.min.messages": "1000",
    "queued.max.messages.kbytes": "16384",
}
# The user's settings take precedence. The queue is small, because records may be large and are all
# copied at once.
_MANY = {
    "fetch.min.bytes": "1",
    "fetch.wait.max.ms": "100",
    "fetch.max.bytes": str(16 << 20),
    "queued.min.messages": "50000",
    "queued.max.messages.kbytes": "32768",
}
_SECURE = {
    "auto.offset.reset": "error",  # a deleted offset must not be skipped
    "fetch.queue.backoff.ms": "2",
}
_GROUP = "group."


MESSAGE = Struct("@iPiPNPNqP")
"""rd_kafka_message_t in rdkafka.h: error, topic, partition, value, its length, key, its length,
offset, private."""

MEMORY: Any = (c.c_char * sys.maxsize).from_address(0)
"""The memory of this process: slicing it is the fastest way to copy bytes out of a message."""

_BLOCKING: Mapping[str, tuple[Any, ...]] = {
    "conf_new": (c.c_void_p,),
    "conf_set": (c.c_int, c.c_void_p, c.c_char_p, c.c_char_p, c.c_char_p, c.c_size_t),
    "conf_set_log_cb": (None, c.c_void_p, c.c_void_p),
    "conf_destroy": (None, c.c_void_p),
    "new": (c.c_void_p, c.c_int, c.c_void_p, c.c_char_p, c.c_size_t),
    "destroy": (None, c.c_void_p),
    "metadata": (c.c_int, c.c_void_p, c.c_int, c.c_void_p, c.POINTER(c.c_void_p), c.c_int),
    "metadata_destroy": (None, c.c_void_p),
    "topic_new": (c.c_void_p, c.c_void_p, c.c_char_p, c.c_void_p),
    "topic_name": (c.c_char_p, c.c_void_p),
    "topic_destroy": (None, c.c_void_p),
    "queue_new": (c.c_void_p, c.c_void_p),
    "queue_destroy": (None, c.c_void_p),
    "consume_start_queue": (c.c_int, c.c_void_p, c.c_int32, c.c_int64, c.c_void_p),
    "consume_stop": (c.c_int, c.c_void_p, c.c_int32),
    "consume_queue": (c.c_void_p, c.c_void_p, c.c_int),
    "consume_batch_queue": (c.c_ssize_t, c.c_void_p, c.c_int, c.c_void_p, c.c_size_t),
    "err2str": (c.c_char_p, c.c_int),
}
"""Functions that may block: called without Python's global lock."""

_QUICK: Mapping[str, tuple[Any, ...]] = {
    "message_timestamp": (c.c_int64, c.c_void_p, c.c_void_p),
    "message_leader_epoch": (c.c_int32, c.c_void_p),
    "message_headers": (c.c_int, c.c_void_p, c.c_void_p),
    "message_destroy": (None, c.c_void_p),
    "header_get_all": (c.c_int, c.c_void_p, c.c_size_t, c.c_void_p, c.c_void_p, c.c_void_p),
}
"""Functions that do not block."""


Received = tuple[TopicPartition, int, list[Row]]
"""A partition with 0 and its records, or with librdkafka's error code and a row with the offset."""

FETCH_BYTES = 1 << 20
BATCH, _FIRST_BATCH, BATCH_BYTES = 1000, 10, 4 << 20


class SimpleConsumer(Closing):
    """Reads partitions from given offsets; a context manager.

    Args:
        fetch_bytes: how much of each partition to fetch at once; a broker sends a larger batch
            whole, but only one per response.
        few: whether to optimize for a few records of each partition.
        uncommitted: whether to include records of aborted or open transactions.
        epochs: whether to record the leader epochs in which records were appended.

    Attributes:
        leader_epochs: by partition and offset; -1 if the broker does not report it.

    Raises:
        ConfigError: librdkafka rejects the properties.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        fetch_bytes: int = FETCH_BYTES,
        *,
        few: bool = False,
        uncommitted: bool = False,
        epochs: bool = False,
    ) -> None:
        chosen = {name: properties.get(name, value) for name, value in _MANY.items()}
        self._properties = {
            **{k: v for k, v in client_properties(properties).items() if not k.startswith(_GROUP)},
            **_ALWAYS,
            **(_FEW if few else chosen | _SECURE),
            "fetch.message.max.bytes": str(fetch_bytes),
        }
        if uncommitted:
            self._properties["isolation.level"] = "read_uncommitted"
        self._handle: Any = None
        self._topics: dict[str, Any] = {}
        self._running: set[TopicPartition] = set()
        self._epochs = epochs
        self.leader_epochs: dict[tuple[TopicPartition, int], int] = {}

    def __enter__(self) -> Self:
        # Symbols of the librdkafka to which confluent-kafka is linked.
        self._call = bound(c.CDLL(cimpl.__file__), _BLOCKING)
        self._quick = bound(c.PyDLL(cimpl.__file__), _QUICK)
        self._found = c.c_void_p(), c.c_char_p(), c.c_void_p(), c.c_size_t()
        self._handle = self._open()
        self._queue = self._call["queue_new"](self._handle)
        self._batch = _FIRST_BATCH
        self._pointers = (c.c_void_p * BATCH)()
        return self

    def close(self) -> None:
        """Release the consumer; waits for librdkafka's threads. Idempotent."""
        if self._handle is None:
            return
        for partition in tuple(self._running):
            self.stop(partition)
        for topic in self._topics.values():
            self._call["topic_destroy"](topic)
        self._call["queue_destroy"](self._queue)
        self._call["destroy"](self._handle)
        self._handle = None

    def connect(self, timeout_s: float) -> None:
        """Find the brokers; otherwise the first leader look-up would fail and wait a second."""
        found = c.c_void_p()
        if not self._call["metadata"](self._handle, 1, None, c.byref(found), int(timeout_s * 1000)):
            self._call["metadata_destroy"](found)

    def start(self, partition: TopicPartition, offset: int) -> None:
        """Start reading a partition at this offset."""
        topic = self._topics.get(partition.topic)
        if topic is None:
            topic = self._call["topic_new"](self._handle, partition.topic.encode(), None)
            self._topics[partition.topic] = topic
        self._call["consume_start_queue"](topic, partition.partition, offset, self._queue)
        self._running.add(partition)

    def stop(self, partition: TopicPartition) -> None:
        """Stop reading a partition."""
        self._call["consume_stop"](self._topics[partition.topic], partition.partition)
        self._running.remove(partition)

    def poll_rows(
        self, timeout_s: float, wanted: Container[TopicPartition] | None = None
    ) -> list[Received]:
        """The records and errors received so far; waits if there are none.

        Args:
            wanted: the partitions to return; None for all.
        """
        # A message that is not destroyed blocks the shutdown of librdkafka forever.
        with uninterrupted():
            pointers = self._take(timeout_s)
            received = self._read(pointers, wanted)
            deque(map(self._quick["message_destroy"], pointers), 0)
        return received

    def jump(self, partition: TopicPartition, offset: int) -> None:
        """Continue reading a partition at another offset."""
        self.stop(partition)
        self.start(partition, offset)

    def _take(self, timeout_s: float) -> list[int]:
        first = self._call["consume_queue"](self._queue, max(1, int(timeout_s * 1000)))
        if not first:
            return []
        # With a timeout above 0, the call waits until the batch is full.
        take = self._call["consume_batch_queue"]
        count = take(self._queue, 0, self._pointers, self._batch)
        return [first, *filter(None, self._pointers[: max(0, count)])]

    def _read(
        self, pointers: list[int], wanted: Container[TopicPartition] | None
    ) -> list[Received]:
        # As few calls as possible: this loop runs for every record.
        time_of, headers_of = self._quick["message_timestamp"], self._quick["message_headers"]
        memory, found, epochs, size = MEMORY, c.addressof(self._found[0]), self._epochs, 1
        received: list[Received] = []
        growing: dict[tuple[int, int], list[Row] | None] = {}
        before: tuple[int, int] | None = None
        rows: list[Row] | None = None
        unpacked = map(MESSAGE.unpack_from, repeat(memory), pointers)
        for pointer, message in zip(pointers, unpacked, strict=True):
            error, topic, number, value, value_size, key, key_size, offset, _ = message
            if error:
                growing.pop((topic, number), None)
                before = None
                received.append((self._place(topic, number), error, [(offset, 0, None, None, ())]))
                continue
            if before is None or number != before[1] or topic != before[0]:
                before = topic, number
                rows = growing.get(before, _UNSEEN)
                if rows is _UNSEEN:
                    place = self._place(topic, number)
                    rows = growing[before] = [] if wanted is None or place in wanted else None
                    if rows is not None:
                        received.append((place, 0, rows))
            if rows is None:
                continue
            rows.append(
                (
                    offset,
                    time_of(pointer, None),
                    memory[key : key + key_size] if key else None,
                    memory[value : value + value_size] if value else None,
                    () if headers_of(pointer, found) else self._headers_found(),
                )
            )
            if epochs:
                epoch = self._quick["message_leader_epoch"](pointer)
                self.leader_epochs[self._place(topic, number), offset] = epoch
            size += key_size + value_size
        self._batch = max(1, min(BATCH, BATCH_BYTES * len(pointers) // size))
        return received

    def text_of(self, error: int) -> str:
        """Librdkafka's text of an error code."""
        text: bytes = self._call["err2str"](error)
        return text.decode()

    def _open(self) -> Any:
        why = c.create_string_buffer(_TEXT)
        conf = self._call["conf_new"]()
        self._call["conf_set_log_cb"](conf, None)
        for key, value in self._properties.items():
            if self._call["conf_set"](conf, key.encode(), value.encode(), why, _TEXT):
                self._call["conf_destroy"](conf)
                raise ConfigError(f"librdkafka rejects property {key}")
        handle = self._call["new"](_CONSUMER, conf, why, _TEXT)
        if not handle:
            self._call["conf_destroy"](conf)
            raise ConfigError(f"librdkafka cannot start: {why.value.decode(errors='replace')}")
        return handle

    def _place(self, topic: int, number: int) -> TopicPartition:
        name: bytes = self._call["topic_name"](topic)
        return TopicPartition(name.decode(), number)

    def _headers_found(self) -> Headers:
        headers, name, value, size = self._found
        where = c.byref(name), c.byref(value), c.byref(size)
        found: list[tuple[bytes, bytes | None]] = []
        while not self._quick["header_get_all"](headers, len(found), *where):
            at = value.value
            content = None if at is None else MEMORY[at : at + size.value]
            found.append((name.value or b"", content))
        return tuple(found)


_UNSEEN: list[Row] = []
"""The rows of a partition of which the batch has no earlier message."""


def bound(library: c.CDLL, functions: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Librdkafka's functions with their types, by name without `rd_kafka_`."""
    found = {}
    for name, (result, *arguments) in functions.items():
        function = getattr(library, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments
        found[name] = function
    return found
