"""Appends copies of records and the progress that they make, in one transaction.

Whoever opens it fences whoever had it before: init_transactions returns once every earlier
transaction of the name is decided, so that progress read afterwards is final.
"""

import ctypes as c
from collections.abc import Mapping, Sequence
from contextlib import suppress
from struct import Struct
from typing import cast

from confluent_kafka import KafkaError, KafkaException, Producer

from drctl.formats import provenance
from drctl.kafka import transactions
from drctl.kafka.connection import Connection, client_properties
from drctl.kafka.deadline import Deadline
from drctl.kafka.reconcile_client import POLL_S, Tell, TransactionalClient
from drctl.kafka.reconcile_topics import RECONCILE
from drctl.kafka.transactions import LIFETIME_S, TransactionalWriter
from drctl.model import errors
from drctl.model.errors import ConfigError, DrctlError, Stopped, Unknown
from drctl.model.topology import TopicPartition
from drctl.reconcile.gap_result import Copy
from drctl.reconcile.progress import TOPIC, Change

# rd_kafka_vtype_t, and rd_kafka_vu_t: a tag, and a union that is padded to 64 bytes.
_HANDLE, _PARTITION, _VALUE, _KEY, _FLAGS, _TIME, _HEADER, _HEADERS = 2, 3, 4, 5, 7, 8, 9, 10
_ORDER = (_FLAGS, _HANDLE, _PARTITION, _VALUE, _KEY, _TIME, _HEADER)
_COPY = 2  # RD_KAFKA_MSG_F_COPY
_WORD, _TOLD_WORDS = 8, 9
_TOLD_BYTES = _WORD * _TOLD_WORDS
_TAG, _INT, _ADDRESS = Struct("@i"), Struct("@i"), Struct("@P")

TOLD = len(_ORDER)
"""How many things it is told."""

VALUE, VALUE_SIZE = (_TOLD_WORDS * _ORDER.index(_VALUE) + n for n in (1, 2))
KEY, KEY_SIZE = (_TOLD_WORDS * _ORDER.index(_KEY) + n for n in (1, 2))
TIME = _TOLD_WORDS * _ORDER.index(_TIME) + 1
LAST, _CONTENT, STAMP_SIZE = (_TOLD_WORDS * _ORDER.index(_HEADER) + n for n in (1, 2, 3))
"""Words that change from record to record; the last thing told is one header, or all of them."""

_LONGEST_STAMP = 2048
"""Names of topics have 249 characters at most, and the rest of a stamp some 120."""


class Route:
    """The way to one partition of the target.

    Attributes:
        words: of a record whose only header is the new one; `address` is where they lie.
        more_words: of a record that has headers already; `more_address` is where they lie.
        stamp: room for the value of the new header.
    """

    def __init__(self, topic: int, partition: int, header: bytes) -> None:
        self.topic, self.partition = topic, partition
        self._room = c.create_string_buffer(2 * _TOLD_BYTES * TOLD + _LONGEST_STAMP)
        self._name = c.create_string_buffer(header)
        self.address = c.addressof(self._room)
        self.more_address = self.address + _TOLD_BYTES * TOLD
        view = memoryview(self._room).cast("B")
        first, second = (view[n * _TOLD_BYTES * TOLD :][: _TOLD_BYTES * TOLD] for n in (0, 1))
        self.stamp = view[2 * _TOLD_BYTES * TOLD :]
        self._lay_out(first, _ORDER)
        self._lay_out(second, (*_ORDER[:-1], _HEADERS))
        self.words, self.more_words = first.cast("q"), second.cast("q")
        self.words[LAST] = c.addressof(self._name)
        self.words[_CONTENT] = self.address + 2 * _TOLD_BYTES * TOLD

    def _lay_out(self, told: memoryview, order: tuple[int, ...]) -> None:
        for number, tag in enumerate(order):
            _TAG.pack_into(told, number * _TOLD_BYTES, tag)
        for tag, layout, value in (
            (_FLAGS, _INT, _COPY),
            (_HANDLE, _ADDRESS, self.topic),
            (_PARTITION, _INT, self.partition),
        ):
            layout.pack_into(told, order.index(tag) * _TOLD_BYTES + _WORD, value)


class Untaken(Exception):
    """librdkafka does not take a record.

    Attributes:
        copy: what was given.
    """

    def __init__(self, error: KafkaError, copy: Copy) -> None:
        super().__init__(error, copy)
        self.error, self.copy = error, copy


class CopyingProducer(TransactionalClient):
    """A transactional client that copies raw records, each with one more header.

    Args:
        header: its name.

    Raises:
        KafkaException: librdkafka does not take the settings.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        header: str,
        on_error: Tell,
        on_failed: Tell,
        patience_s: float,
    ) -> None:
        super().__init__(settings, on_error, on_failed, patience_s)
        self._header = header.encode()
        self._routes: dict[TopicPartition, Route] = {}

    def copy(self, copies: Sequence[Copy]) -> None:
        """Queue copies of raw records.

        Raises:
            Untaken: librdkafka does not take one.
        """
        produce, handle = self._call["produceva"], self._handle
        last: TopicPartition | None = None
        for copy in copies:
            to, (_, time, _, _, (value, value_size, key, key_size, message)), stamp = copy
            if to is not last and to != last:
                last, route = to, self._route(to)
                words, room, address = route.words, route.stamp, route.address
            if message:
                self._copy_with_headers(copy, route)
                continue
            size = len(stamp)
            words[VALUE], words[VALUE_SIZE] = value, value_size
            words[KEY], words[KEY_SIZE] = key, key_size
            words[TIME] = time if time > 0 else 0  # 0 is "now" to librdkafka
            words[STAMP_SIZE] = size
            room[:size] = stamp
            if error := produce(handle, address, TOLD):
                self._insist(error, address, copy)
        self.poll(0)

    def _copy_with_headers(self, copy: Copy, route: Route) -> None:
        _, (_, time, _, _, (value, value_size, key, key_size, message)), stamp = copy
        headers = c.c_void_p()
        self._call["message_detach_headers"](message, c.byref(headers))
        self._call["header_add"](headers, self._header, len(self._header), stamp, len(stamp))
        words = route.more_words
        words[VALUE], words[VALUE_SIZE] = value, value_size
        words[KEY], words[KEY_SIZE] = key, key_size
        words[TIME], words[LAST] = max(0, time), headers.value or 0
        try:
            if error := self._call["produceva"](self._handle, route.more_address, TOLD):
                self._insist(error, route.more_address, copy)
        except Untaken:
            self._call["headers_destroy"](headers)  # they are librdkafka's only once it took them
            raise

    def _insist(self, error: int, address: int, copy: Copy) -> None:
        """Queue it again and again, as long as it is for want of room."""
        deadline = Deadline.after(self._patience_s)
        while error:
            failed = self._failure(error)
            if failed.code() != KafkaError._QUEUE_FULL:
                raise Untaken(failed, copy)
            if deadline.expired:
                raise Untaken(KafkaError(KafkaError._TIMED_OUT), copy)
            self.poll(POLL_S)
            error = self._call["produceva"](self._handle, address, TOLD)

    def _route(self, to: TopicPartition) -> Route:
        route = self._routes.get(to)
        if route is None:
            topic = self._topic(to.topic)
            route = self._routes[to] = Route(topic, to.partition, self._header)
        return route


_STEP_S = 1.0
_ABORT_S = 10.0
_PROGRESS = 0
"""The partition of its topic."""


def transactional_id(link: str) -> str:
    """Whoever uses it last fences all others."""
    return f"drctl-reconcile-{link}"


class TransactionalCopier(TransactionalWriter):
    """Implements `drctl.reconcile.gap_result.Copier`; a context manager.

    Raises:
        Fenced: another one began in the same moment.
        ConfigError: this user may not write, or librdkafka does not take the properties.
        Unreachable: the cluster did not answer.
    """

    def __init__(self, connection: Connection, link: str) -> None:
        super().__init__(connection, transactional_id(link), TOPIC, RECONCILE)
        self._open_transaction = False

    def begin(self) -> None:
        """Begin a transaction.

        Raises:
            DrctlError: it cannot begin.
        """
        self._errors.clear()
        self._failed.clear()
        try:
            self._call(self._producer.begin_transaction)
        except KafkaException as failed:
            raise self._ended(failed.args[0]) from failed
        self._open_transaction = True

    def append(self, copies: Sequence[Copy]) -> None:
        """Append copies of raw records, each with its provenance header after its own headers.

        Raises:
            Stopped: one cannot be written, or another run took over.
            DrctlError: the cluster does not take it.
        """
        try:
            self._copying.copy(copies)
        except Untaken as refused:
            to, seen, _ = refused.copy
            raise self._unwritten(refused.error, to, seen[0]) from refused

    def settle(self) -> Mapping[TopicPartition, int]:
        """Wait until all of it is stored; the last offset in each partition.

        Raises:
            DrctlError: some of it was not.
        """
        deadline = Deadline.after(self._patience_s)
        while self._copying.flush(min(_STEP_S, deadline.remaining)):
            if deadline.expired:
                raise self._ended(KafkaError(KafkaError._TIMED_OUT))
        if self._failed:
            raise self._ended(self._failed[0])
        return dict(self._copying.stored)

    def keep(self, changes: Sequence[Change]) -> None:
        """Append progress; the commit sends it, and fails where it is not stored.

        Raises:
            DrctlError: it cannot be appended.
        """
        try:
            for key, value in changes:
                self._copying.put(TOPIC, _PROGRESS, key, value)
        except KafkaException as failed:
            raise self._ended(failed.args[0]) from failed

    def commit(self) -> None:
        """Make all of it count.

        Raises:
            Unknown: no answer came; whether it counts is not known.
            DrctlError: it does not count.
        """
        deadline = Deadline.after(LIFETIME_S)
        while True:
            try:
                self._call(self._producer.commit_transaction, min(_STEP_S, deadline.remaining))
            except KafkaException as failed:
                error = failed.args[0]
                if error.txn_requires_abort():
                    raise self._ended(error) from failed
                if not error.retriable() or deadline.expired:
                    self._open_transaction = False  # an abort could not undo a commit
                    raise self._undecided(error) from failed
            else:
                self._open_transaction = False
                return

    def abort(self) -> None:
        """Make nothing of it count; where even that fails, brokers abort it in a while."""
        if self._open_transaction:
            self._open_transaction = False
            with suppress(KafkaException):
                self._call(self._producer.abort_transaction, _ABORT_S)

    @property
    def _copying(self) -> CopyingProducer:
        return cast("CopyingProducer", self._producer)

    def _open(self) -> Producer:
        settings = {
            **client_properties(self._connection.properties),
            **self._settings(),
            "delivery.timeout.ms": str(int(self._patience_s * 1000)),
        }
        try:
            copying = CopyingProducer(
                settings,
                provenance.HEADER,
                self._errors.append,
                lambda error: self._told(error, None),
                self._patience_s,
            )
            return cast("Producer", copying)
        except KafkaException as refused:
            name = self._connection.name
            raise ConfigError(
                f"cluster {name}: {self._connection.redacted(refused.args[0].str())}",
                f"Correct clusters.{name}.properties: librdkafka's names and values go there.",
            ) from None

    def _settings(self) -> dict[str, str]:
        return {
            **{name: str(value) for name, value in super()._settings().items()},
            "enable.idempotence": "true",
            "acks": "all",
            "compression.type": "lz4",
            "linger.ms": "20",
            "message.max.bytes": "1000000000",
            # What is queued must be stored within a transaction's life, over slow links too.
            "queue.buffering.max.kbytes": "32768",
        }

    def _unwritten(self, error: KafkaError, to: TopicPartition, offset: int) -> DrctlError:
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return Stopped(
                f"the record at source offset {offset} is too large for {to}",
                "raise max.message.bytes of the topic, or use --policy export",
            )
        return self._ended(error)

    def _undecided(self, error: KafkaError) -> DrctlError:
        ended = self._ended(error)
        if isinstance(ended, errors.Fenced | ConfigError):
            return ended
        reason = self._connection.redacted(error.str())
        return Unknown(
            f"no answer whether the last records for {self._connection.name} count: {reason}",
            "run it again: it looks first at what counts",
        )

    def _ended(self, last: KafkaError) -> DrctlError:
        codes = {error.code() for error in (*self._errors, last)}
        if KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED in codes:
            return ConfigError(
                f"this user may not use the transactional id {self._name}",
                f"grant WRITE and DESCRIBE on it ({RECONCILE.page})",
            )
        if KafkaError.MSG_SIZE_TOO_LARGE in codes:
            return Stopped(
                f"{self._connection.name} takes no record as large as one of these",
                "raise max.message.bytes of the topic, or use --policy export",
            )
        if KafkaError.INVALID_TIMESTAMP in codes:
            return Stopped(
                f"{self._connection.name} refuses the timestamp of one of these records",
                "see message.timestamp.before.max.ms and message.timestamp.after.max.ms of the"
                " topic, or use --policy export",
            )
        ended = super()._ended(last)
        if isinstance(ended, transactions.Fenced):
            return errors.Fenced(
                f"another drctl began to reconcile as {self._name}: this one stopped",
                "see that only one of you goes on; nothing was written twice",
            )
        return ended
