"""librdkafka's simple consumer, through its C interface: it belongs to no group at all.

The Consumer of confluent-kafka insists on a group and looks its coordinator up at once, upon
which a broker that has no `__consumer_offsets` yet creates it. A command that promises to
change nothing must not do that.
"""

import ctypes as c
from collections.abc import Container, Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from confluent_kafka import cimpl

from drctl.model.errors import ConfigError
from drctl.model.topology import Record, TopicPartition
from drctl.systems.kafka.connection import client_properties
from drctl.systems.kafka.interrupts import uninterrupted

_CONSUMER = 1
_BATCH = 500
_TEXT = 512

# A few bytes of many partitions, soon: not the throughput that the defaults aim at.
_SETTINGS = {
    "isolation.level": "read_committed",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "earliest",
    "fetch.min.bytes": "1",
    "fetch.wait.max.ms": "100",
    "fetch.queue.backoff.ms": "1",
    "queued.min.messages": "1000",
    "queued.max.messages.kbytes": "16384",
}
_GROUP = "group."


class _Message(c.Structure):
    """rd_kafka_message_t, as rdkafka.h declares it."""

    _fields_ = (
        ("err", c.c_int),
        ("topic", c.c_void_p),
        ("partition", c.c_int32),
        ("payload", c.c_void_p),
        ("payload_size", c.c_size_t),
        ("key", c.c_void_p),
        ("key_size", c.c_size_t),
        ("offset", c.c_int64),
        ("private", c.c_void_p),
    )


_MessagePointer = c.POINTER(_Message)
_FUNCTIONS: Mapping[str, tuple[Any, ...]] = {
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
    "consume_queue": (_MessagePointer, c.c_void_p, c.c_int),
    "consume_batch_queue": (
        c.c_ssize_t,
        c.c_void_p,
        c.c_int,
        c.POINTER(_MessagePointer),
        c.c_size_t,
    ),
    "message_timestamp": (c.c_int64, _MessagePointer, c.POINTER(c.c_int)),
    "message_leader_epoch": (c.c_int32, _MessagePointer),
    "message_headers": (c.c_int, _MessagePointer, c.POINTER(c.c_void_p)),
    "message_destroy": (None, _MessagePointer),
    "header_get_all": (
        c.c_int,
        c.c_void_p,
        c.c_size_t,
        c.POINTER(c.c_char_p),
        c.POINTER(c.c_void_p),
        c.POINTER(c.c_size_t),
    ),
    "err2str": (c.c_char_p, c.c_int),
}


class Fetched(NamedTuple):
    """What came out of a partition: a record, or why there is none.

    Attributes:
        error: 0 with a record; librdkafka's code otherwise, `_PARTITION_EOF` among them.
        leader_epoch: the one in which the record was appended; -1 where the broker does not say.
    """

    partition: TopicPartition
    record: Record | None
    error: int
    text: str
    leader_epoch: int = -1


class SimpleConsumer:
    """Reads partitions from given offsets; a context manager.

    Args:
        fetch_bytes: how much of each partition to ask for at once; a broker sends a larger batch
            whole, but then only one of them at a time.

    Raises:
        ConfigError: librdkafka does not take the properties.
    """

    def __init__(self, properties: Mapping[str, str], fetch_bytes: int) -> None:
        self._properties = {
            **{k: v for k, v in client_properties(properties).items() if not k.startswith(_GROUP)},
            **_SETTINGS,
            "fetch.message.max.bytes": str(fetch_bytes),
        }
        self._topics: dict[str, Any] = {}
        self._running: set[TopicPartition] = set()

    def __enter__(self) -> Self:
        self._call = _functions()
        self._handle = self._open()
        self._queue = self._call["queue_new"](self._handle)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for partition in tuple(self._running):
            self.stop(partition)
        for topic in self._topics.values():
            self._call["topic_destroy"](topic)
        self._call["queue_destroy"](self._queue)
        self._call["destroy"](self._handle)

    def connect(self, timeout_s: float) -> None:
        """Learn the brokers; without it the first leader look-up fails and waits a second."""
        found = c.c_void_p()
        if not self._call["metadata"](self._handle, 1, None, c.byref(found), int(timeout_s * 1000)):
            self._call["metadata_destroy"](found)

    def start(self, partition: TopicPartition, offset: int) -> None:
        """Read this partition from that offset on."""
        topic = self._topics.get(partition.topic)
        if topic is None:
            topic = self._call["topic_new"](self._handle, partition.topic.encode(), None)
            self._topics[partition.topic] = topic
        self._call["consume_start_queue"](topic, partition.partition, offset, self._queue)
        self._running.add(partition)

    def stop(self, partition: TopicPartition) -> None:
        """Read no more of this partition."""
        self._call["consume_stop"](self._topics[partition.topic], partition.partition)
        self._running.remove(partition)

    def poll(self, timeout_s: float, wanted: Container[TopicPartition]) -> Iterator[Fetched]:
        """What has come by then from a wanted partition; returns as soon as anything has."""
        first = self._call["consume_queue"](self._queue, max(1, int(timeout_s * 1000)))
        if not first:
            return
        # librdkafka does not end while a message was not given back.
        with uninterrupted():
            batch = self._taken(first, wanted)
        for fetched in batch:
            if fetched.partition in wanted:
                yield fetched

    def _taken(self, first: Any, wanted: Container[TopicPartition]) -> list[Fetched]:
        # A batch waits until it is full, unless it must not wait at all.
        rest = (_MessagePointer * _BATCH)()
        count = self._call["consume_batch_queue"](self._queue, 0, rest, _BATCH)
        batch = []
        for message in (first, *rest[: max(0, count)]):
            partition = self._partition(message)
            if partition in wanted:
                batch.append(self._fetched(partition, message))
            self._call["message_destroy"](message)
        return batch

    def _open(self) -> Any:
        why = c.create_string_buffer(_TEXT)
        conf = self._call["conf_new"]()
        self._call["conf_set_log_cb"](conf, None)
        for key, value in self._properties.items():
            if self._call["conf_set"](conf, key.encode(), value.encode(), why, _TEXT):
                self._call["conf_destroy"](conf)
                raise ConfigError(f"librdkafka refuses the property {key}")
        handle = self._call["new"](_CONSUMER, conf, why, _TEXT)
        if not handle:
            self._call["conf_destroy"](conf)
            raise ConfigError(f"librdkafka cannot start: {why.value.decode(errors='replace')}")
        return handle

    def _partition(self, pointer: Any) -> TopicPartition:
        message = pointer.contents
        return TopicPartition(self._call["topic_name"](message.topic).decode(), message.partition)

    def _fetched(self, partition: TopicPartition, pointer: Any) -> Fetched:
        message = pointer.contents
        if message.err:
            return Fetched(
                partition, None, message.err, self._call["err2str"](message.err).decode()
            )
        record = Record(
            message.partition,
            message.offset,
            self._call["message_timestamp"](pointer, None),
            _bytes(message.key, message.key_size),
            _bytes(message.payload, message.payload_size),
            self._headers(pointer),
        )
        epoch = self._call["message_leader_epoch"](pointer)
        return Fetched(partition, record, 0, "", epoch)

    def _headers(self, pointer: Any) -> tuple[tuple[str, bytes | None], ...]:
        headers, name, value, size = c.c_void_p(), c.c_char_p(), c.c_void_p(), c.c_size_t()
        if self._call["message_headers"](pointer, c.byref(headers)):
            return ()
        held: list[tuple[str, bytes | None]] = []
        where = c.byref(name), c.byref(value), c.byref(size)
        while not self._call["header_get_all"](headers, len(held), *where):
            text = (name.value or b"").decode(errors="replace")
            held.append((text, _bytes(value.value, size.value)))
        return tuple(held)


def _functions() -> dict[str, Any]:
    # Symbols of the librdkafka that confluent-kafka is linked to, wherever that is.
    library = c.CDLL(cimpl.__file__)
    bound = {}
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(library, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments
        bound[name] = function
    return bound


def _bytes(address: int | None, size: int) -> bytes | None:
    return None if address is None else c.string_at(address, size)
