"""librdkafka's transactional producer, through its C interface.

It has what `TransactionalWriter` needs of confluent-kafka's Producer, under the same names.
"""

import ctypes as c
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, cimpl

from drctl.kafka.deadline import Deadline, uninterrupted
from drctl.kafka.reconcile_source import ADDRESSES
from drctl.kafka.simple_consumer import MESSAGE, bound
from drctl.model.topology import TopicPartition

_CHARS, _POINTER, _INT, _SIZE = c.c_char_p, c.c_void_p, c.c_int, c.c_size_t

WAITING: Mapping[str, tuple[Any, ...]] = {
    "conf_new": (_POINTER,),
    "conf_set": (
        _INT,
        _POINTER,
        _CHARS,
        _CHARS,
        _CHARS,
        _SIZE,
    ),
    "conf_set_log_cb": (None, _POINTER, _POINTER),
    "conf_set_events": (None, _POINTER, _INT),
    "conf_destroy": (None, _POINTER),
    "new": (_POINTER, _INT, _POINTER, _CHARS, _SIZE),
    "destroy": (None, _POINTER),
    "topic_new": (_POINTER, _POINTER, _CHARS, _POINTER),
    "topic_destroy": (None, _POINTER),
    "init_transactions": (_POINTER, _POINTER, _INT),
    "begin_transaction": (_POINTER, _POINTER),
    "commit_transaction": (_POINTER, _POINTER, _INT),
    "abort_transaction": (_POINTER, _POINTER, _INT),
    "flush": (_INT, _POINTER, _INT),
    "queue_get_main": (_POINTER, _POINTER),
    "queue_destroy": (None, _POINTER),
    "queue_poll": (_POINTER, _POINTER, _INT),
    "fatal_error": (_INT, _POINTER, _CHARS, _SIZE),
}
"""Those that may wait: Python's lock is let go of meanwhile."""

QUICK: Mapping[str, tuple[Any, ...]] = {
    "produceva": (_POINTER, _POINTER, _POINTER, _SIZE),
    "produce": (
        _INT,
        _POINTER,
        c.c_int32,
        _INT,
        _CHARS,
        _SIZE,
        _CHARS,
        _SIZE,
        _POINTER,
    ),
    "last_error": (_INT,),
    "outq_len": (_INT, _POINTER),
    "message_detach_headers": (_INT, _POINTER, _POINTER),
    "header_add": (
        _INT,
        _POINTER,
        _CHARS,
        c.c_ssize_t,
        _CHARS,
        c.c_ssize_t,
    ),
    "topic_name": (_CHARS, _POINTER),
    "headers_destroy": (None, _POINTER),
    "event_type": (_INT, _POINTER),
    "event_error": (_INT, _POINTER),
    "event_error_string": (_CHARS, _POINTER),
    "event_message_count": (_SIZE, _POINTER),
    "event_message_array": (_SIZE, _POINTER, _POINTER, _SIZE),
    "event_destroy": (None, _POINTER),
    "error_code": (_INT, _POINTER),
    "error_string": (_CHARS, _POINTER),
    "error_is_fatal": (_INT, _POINTER),
    "error_is_retriable": (_INT, _POINTER),
    "error_txn_requires_abort": (_INT, _POINTER),
    "error_destroy": (None, _POINTER),
}
"""Those that do not."""


Tell = Callable[[KafkaError], object]

_PRODUCER = 0
_TEXT = 512
_DELIVERIES, _ERRORS = 0x1, 0x8
_COPIED = 2  # RD_KAFKA_MSG_F_COPY
POLL_S = 0.1
_FLUSH_MS, _ABORT_MS = 5, 100


class TransactionalClient:
    """One producer of a transactional name.

    Args:
        on_error: hears what goes wrong with the connection.
        on_failed: hears why a record was not stored.
        patience_s: how long its queue may stay full.

    Attributes:
        stored: the last offset of this transaction in each partition, as far as is known.

    Raises:
        KafkaException: librdkafka does not take the settings.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        on_error: Tell,
        on_failed: Tell,
        patience_s: float,
    ) -> None:
        self._handle: Any = None
        self._call = bound(c.CDLL(cimpl.__file__), WAITING)
        self._call |= bound(c.PyDLL(cimpl.__file__), QUICK)
        self._patience_s = patience_s
        self._on_error, self._on_failed = on_error, on_failed
        self._topics: dict[str, int] = {}
        self.stored: dict[TopicPartition, int] = {}
        self._handle = self._open(settings)
        self._events = self._call["queue_get_main"](self._handle)

    def __len__(self) -> int:
        """How many records are not known to be stored, or not."""
        count: int = self._call["outq_len"](self._handle)
        return count

    def __del__(self) -> None:
        """Let go of the handle; an open transaction is left to whoever comes next."""
        if self._handle:
            self._call["queue_destroy"](self._events)
            for topic in self._topics.values():
                self._call["topic_destroy"](topic)
            self._call["destroy"](self._handle)
            self._handle = None

    def init_transactions(self, timeout_s: float) -> None:
        """Fence whoever had the name before."""
        self._check(self._call["init_transactions"](self._handle, _ms(timeout_s)))

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        self.stored.clear()
        self._check(self._call["begin_transaction"](self._handle))

    def commit_transaction(self, timeout_s: float) -> None:
        """Commit it, once all of its records are stored."""
        if self.flush(timeout_s):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, retriable=True))
        self._check(self._call["commit_transaction"](self._handle, _ms(timeout_s)))

    def abort_transaction(self, timeout_s: float) -> None:
        """Abort it; what became of its records must be heard meanwhile."""
        deadline = Deadline.after(timeout_s)
        while True:
            try:
                self._check(self._call["abort_transaction"](self._handle, _ABORT_MS))
            except KafkaException as failed:
                if not failed.args[0].retriable() or deadline.expired:
                    raise
                self.poll(0)
            else:
                return

    def put(self, topic: str, partition: int, key: bytes, value: bytes) -> None:
        """Queue a record of our own.

        Raises:
            KafkaException: librdkafka does not take it.
        """
        what = partition, _COPIED, value, len(value), key, len(key), None
        deadline = Deadline.after(self._patience_s)
        while self._call["produce"](self._topic(topic), *what):
            code = self._call["last_error"]()
            if code != KafkaError._QUEUE_FULL or deadline.expired:
                raise KafkaException(KafkaError(code))
            self.poll(POLL_S)

    def poll(self, timeout_s: float) -> None:
        """Hear what became of records; waits for something where nothing is told."""
        wait = _ms(timeout_s)
        # What is told and not given back keeps librdkafka from ending, forever.
        with uninterrupted():
            while event := self._call["queue_poll"](self._events, wait):
                try:
                    self._hear(event)
                finally:
                    self._call["event_destroy"](event)
                wait = 0

    def flush(self, timeout_s: float) -> int:
        """Have all of it stored by then; how many records are not."""
        deadline = Deadline.after(timeout_s)
        while (left := len(self)) and not deadline.expired:
            self._call["flush"](self._handle, _FLUSH_MS)
            self.poll(0)
        return left

    def _open(self, settings: Mapping[str, str]) -> Any:
        why = c.create_string_buffer(_TEXT)
        conf = self._call["conf_new"]()
        self._call["conf_set_log_cb"](conf, None)
        self._call["conf_set_events"](conf, _DELIVERIES | _ERRORS)
        for name, value in settings.items():
            if self._call["conf_set"](conf, name.encode(), value.encode(), why, _TEXT):
                self._call["conf_destroy"](conf)
                raise KafkaException(KafkaError(KafkaError._INVALID_ARG, _text(why)))
        handle = self._call["new"](_PRODUCER, conf, why, _TEXT)
        if not handle:
            self._call["conf_destroy"](conf)
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, _text(why)))
        return handle

    def _topic(self, name: str) -> int:
        if name not in self._topics:
            self._topics[name] = self._call["topic_new"](self._handle, name.encode(), None)
        return self._topics[name]

    def _hear(self, event: int) -> None:
        kind = self._call["event_type"](event)
        if kind == _DELIVERIES:
            self._hear_of_records(event)
        elif kind == _ERRORS:
            code, text = self._call["event_error"](event), self._call["event_error_string"](event)
            self._on_error(KafkaError(*self._reason(code, text or b"")))

    def _hear_of_records(self, event: int) -> None:
        """What is told at once is of one partition, and in order."""
        count = self._call["event_message_count"](event)
        messages = (c.c_void_p * count)()
        count = self._call["event_message_array"](event, messages, count)
        failed = {MESSAGE.unpack_from(ADDRESSES, messages[n])[0] for n in {0, count - 1}}
        for code in failed - {0}:
            self._on_failed(KafkaError(code))
        _, topic, partition, *_, offset, _ = MESSAGE.unpack_from(ADDRESSES, messages[count - 1])
        if failed == {0}:
            name = self._call["topic_name"](topic).decode()
            self.stored[TopicPartition(name, partition)] = offset

    def _check(self, error: int | None) -> None:
        """Raise what librdkafka answered, if it did."""
        if error:
            raise KafkaException(self._failure(error))

    def _reason(self, code: int, text: bytes) -> tuple[int, str]:
        """An error's code in words; of what is fatal, the one that it began with."""
        if code == KafkaError._FATAL:
            why = c.create_string_buffer(_TEXT)
            code, text = self._call["fatal_error"](self._handle, why, _TEXT), why.value
        return code, text.decode(errors="replace")

    def _failure(self, error: int) -> KafkaError:
        call = self._call
        failed = KafkaError(
            *self._reason(call["error_code"](error), call["error_string"](error)),
            fatal=bool(call["error_is_fatal"](error)),
            retriable=bool(call["error_is_retriable"](error)),
            txn_requires_abort=bool(call["error_txn_requires_abort"](error)),
        )
        call["error_destroy"](error)
        return failed


def _ms(seconds: float) -> int:
    return max(0, round(seconds * 1000))


def _text(why: Any) -> str:
    text: bytes = why.value
    return text.decode(errors="replace")
