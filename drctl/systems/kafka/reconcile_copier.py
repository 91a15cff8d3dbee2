"""Appends copies of records and the progress that they make, in one transaction.

Whoever opens it fences whoever had it before: init_transactions returns once every earlier
transaction of the name is decided, so that progress read afterwards is final.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from drctl.model import errors
from drctl.model.errors import ConfigError, DrctlError, Stopped, Unknown
from drctl.model.rows import Row
from drctl.model.topology import TopicPartition
from drctl.reconcile.progress import TOPIC, Change
from drctl.systems.kafka import transactions
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.reconcile_topics import RECONCILE
from drctl.systems.kafka.transactions import LIFETIME_S, TransactionalWriter

_POLL_S = 0.1
_STEP_S = 1.0
_ABORT_S = 10.0
_POLL_EVERY = 500

Held = tuple[Row, tuple[str, bytes]]
Delivered = Callable[[KafkaError | None, Message], None]


def transactional_id(link: str) -> str:
    """Whoever uses it last fences all others."""
    return f"drctl-reconcile-{link}"


class TransactionalCopier(TransactionalWriter):
    """Implements `drctl.reconcile.rows.Copier`; a context manager.

    Of each partition the newest record is held back until the next one or the end: so only the last
    one needs to be told where it was stored.

    Raises:
        Fenced: another one began in the same moment.
        ConfigError: this user may not write, or librdkafka does not take the properties.
        Unreachable: the cluster did not answer.
    """

    def __init__(self, connection: Connection, link: str) -> None:
        super().__init__(connection, transactional_id(link), TOPIC, RECONCILE)
        self._held: dict[TopicPartition, Held] = {}
        self._stored: dict[TopicPartition, int] = {}
        self._open_transaction = False
        self._sent = 0

    def begin(self) -> None:
        """Begin a transaction.

        Raises:
            DrctlError: it cannot begin.
        """
        self._errors.clear()
        self._failed.clear()
        self._held.clear()
        self._stored.clear()
        try:
            self._call(self._producer.begin_transaction)
        except KafkaException as failed:
            raise self._ended(failed.args[0]) from failed
        self._open_transaction = True

    def append(self, to: TopicPartition, row: Row, header: tuple[str, bytes]) -> None:
        """Append a copy of a record, with one more header.

        Raises:
            Stopped: this record cannot be written, or another run took over.
            DrctlError: the cluster does not take it.
        """
        if (held := self._held.get(to)) is not None:
            self._send(to, held)
        self._held[to] = (row, header)

    def settle(self) -> Mapping[TopicPartition, int]:
        """Wait until all of it is stored; the last offset in each partition.

        Raises:
            DrctlError: some of it was not.
        """
        for to, held in self._held.items():
            self._send(to, held, on_delivery=self._stored_at)
        self._held.clear()
        self._flush_all()
        return dict(self._stored)

    def keep(self, changes: Sequence[Change]) -> None:
        """Append progress; the commit sends it, and fails where it is not stored.

        Raises:
            DrctlError: it cannot be appended.
        """
        try:
            for key, value in changes:
                self._produce(key, value)
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

    def _send(self, to: TopicPartition, held: Held, on_delivery: Delivered | None = None) -> None:
        (offset, timestamp_ms, key, value, headers), (name, told) = held
        try:
            copied: list[tuple[str, str | bytes | None]] = [(n.decode(), v) for n, v in headers]
        except UnicodeDecodeError:
            raise Stopped(
                f"the record at source offset {offset} for {to} has a header whose name is no text",
                "librdkafka's Python client cannot write it: use --policy export",
            ) from None
        copied.append((name, told))
        deadline: Deadline | None = None
        while True:
            try:
                self._producer.produce(
                    to.topic,
                    value=value,
                    key=key,
                    partition=to.partition,
                    headers=copied,
                    timestamp=max(0, timestamp_ms),  # 0 is "now" to librdkafka
                    on_delivery=on_delivery,
                )
                break
            except BufferError:
                deadline = deadline or Deadline.after(self._patience_s)
                if deadline.expired:
                    raise self._ended(KafkaError(KafkaError._TIMED_OUT)) from None
                self._call(self._producer.poll, _POLL_S)
            except KafkaException as failed:
                raise self._unwritten(failed.args[0], to, offset) from failed
        self._sent += 1
        if not self._sent % _POLL_EVERY:
            self._call(self._producer.poll, 0)

    def _flush_all(self) -> None:
        deadline = Deadline.after(self._patience_s)
        try:
            while self._call(self._producer.flush, min(_STEP_S, deadline.remaining)):
                if deadline.expired:
                    raise self._ended(KafkaError(KafkaError._TIMED_OUT))
        except KafkaException as failed:
            raise self._ended(failed.args[0]) from failed
        if self._failed:
            raise self._ended(self._failed[0])

    def _stored_at(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._errors.append(error)
            self._failed.append(error)
            return
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        self._stored[TopicPartition(topic, partition)] = offset

    def _settings(self) -> dict[str, Any]:
        return {
            **super()._settings(),
            "acks": "all",
            "compression.type": "lz4",
            "linger.ms": "20",
            "message.max.bytes": "1000000000",
            "queue.buffering.max.kbytes": "65536",
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
