"""Appends copies of records and the progress that they make, in one transaction.

Whoever opens it fences whoever had it before: init_transactions returns once every earlier
transaction of the name is decided, so that progress read afterwards is final.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import cast

from confluent_kafka import KafkaError, KafkaException, Producer

from drctl.model import errors
from drctl.model.errors import ConfigError, DrctlError, Stopped, Unknown
from drctl.model.topology import TopicPartition
from drctl.reconcile.progress import TOPIC, Change
from drctl.reconcile.rows import Copy
from drctl.systems.kafka import transactions
from drctl.systems.kafka.connection import Connection, client_properties
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.reconcile_producer import CopyingProducer, Untaken
from drctl.systems.kafka.reconcile_topics import RECONCILE
from drctl.systems.kafka.transactions import LIFETIME_S, TransactionalWriter
from drctl.wire import provenance

_STEP_S = 1.0
_ABORT_S = 10.0
_PROGRESS = 0
"""The partition of its topic."""


def transactional_id(link: str) -> str:
    """Whoever uses it last fences all others."""
    return f"drctl-reconcile-{link}"


class TransactionalCopier(TransactionalWriter):
    """Implements `drctl.reconcile.rows.Copier`; a context manager.

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
        """Append copies of raw records, each with its provenance header behind its own headers.

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
