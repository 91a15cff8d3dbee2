"""Write to one topic in transactions: all of a change, or nothing."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException

from drctl.kafka.brokers import Brokers, BrokerSocket
from drctl.kafka.connection import Connection
from drctl.kafka.deadline import Deadline
from drctl.kafka.group_requests import (
    FIND_COORDINATOR,
    find_transaction_coordinator,
    read_coordinators,
)
from drctl.kafka.own_topics import LEDGER, PURGED, Change, Purpose, TopicWriter
from drctl.kafka.producer_ids import DESCRIBE_TRANSACTIONS, describe_transactions, read_described
from drctl.model import errors
from drctl.model.errors import ConfigError, DrctlError, Unknown, Unreachable
from drctl.model.topology import Unavailable

LIFETIME_S = 60
"""After this time brokers abort a transaction whose writer has died."""

_BEGIN_S = 30.0
_STEP_S = 1.0
"""How long one call may take: Ctrl-C works only between calls."""
_MIN_STEP_S = 0.1
_ABORT_S = 10.0

_FENCED = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.TRANSACTION_COORDINATOR_FENCED,
    }
)


class Fenced(Unknown):
    """Another writer with the same transactional id has started, so this one must stop."""


class Undecided(Unknown):
    """A commit was sent but not answered: whether it succeeded is unknown."""


class TransactionalWriter(TopicWriter):
    """The only writer with its transactional id: fences earlier ones. A context manager.

    Usable from two threads.

    Args:
        name: the transactional id.
        lifetime_s: after this time brokers abort a transaction; until then readers see nothing
            after it.
        timeout_s: how long a write may take, if that is less.

    Raises:
        Fenced: another writer was started at the same moment.
        ConfigError: this user may not write, or librdkafka rejects the properties.
        Unreachable: the cluster did not answer.
    """

    def __init__(
        self,
        connection: Connection,
        name: str,
        topic: str,
        purpose: Purpose = LEDGER,
        lifetime_s: int = LIFETIME_S,
        timeout_s: float = LIFETIME_S,
    ) -> None:
        super().__init__(connection, topic, purpose, lifetime_s)
        self._name = name
        self._lifetime_s = lifetime_s
        self._write_s = min(timeout_s, lifetime_s)
        self._lock = Lock()
        self._committing = False
        self._begun = False

    def __enter__(self) -> Self:
        super().__enter__()
        deadline = Deadline.after(_BEGIN_S)
        while True:
            try:
                self._call(self._producer.init_transactions, min(_STEP_S, deadline.remaining))
            except KafkaException as failed:
                if not failed.args[0].retriable() or deadline.expired:
                    raise self._ended(failed.args[0]) from failed
            else:
                return self

    def write(self, changes: Iterable[Change], timeout_s: float | None = None) -> None:
        """Write all changes in order, as one transaction.

        Raises:
            Fenced: another writer has started; nothing is written.
            Undecided: whether it is written is unknown.
            ConfigError: this user may not write; nothing is written.
            Unreachable: the cluster did not answer; nothing is written.
            Unknown: another error; nothing is written.
        """
        with self._lock:
            self._write(changes, Deadline.after(timeout_s or self._write_s))

    def try_write(self, changes: Iterable[Change]) -> bool:
        """Like `write`, unless a write is in progress; return whether it was done.

        Raises:
            Fenced, Undecided, ConfigError, Unreachable, Unknown: as for `write`.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._write(changes, Deadline.after(self._write_s))
        finally:
            self._lock.release()
        return True

    def _write(self, changes: Iterable[Change], deadline: Deadline) -> None:
        try:
            self._begin(deadline)
            for key, value in changes:
                self._produce(key, value)
            self._flush_all(deadline)
            self._commit(deadline)
        except KafkaException as failed:
            raise self._ended(failed.args[0]) from failed
        finally:
            if not self._committing:
                self._abort()

    def _begin(self, deadline: Deadline) -> None:
        """Begin a transaction, after committing or aborting one that an earlier call left open."""
        self._errors.clear()
        self._failed.clear()
        if self._committing:
            try:
                self._commit(deadline)
            except Undecided as undecided:
                raise Unreachable(undecided.message, undecided.hint) from undecided
        elif self._begun:
            self._call(self._producer.abort_transaction, _ABORT_S)
            self._begun = False
        self._call(self._producer.begin_transaction)
        self._begun = True

    def _flush_all(self, deadline: Deadline) -> None:
        """Wait until all records are stored."""
        while self._call(self._producer.flush, _step(deadline)):
            if deadline.expired:
                raise self._ended(KafkaError(KafkaError._TIMED_OUT))
        if self._failed:
            if self._failed[0].code() in PURGED:
                # Only the commit, which must fail, reports the reason.
                self._call(self._producer.commit_transaction, _step(deadline))
            raise self._ended(self._failed[0])

    def _commit(self, deadline: Deadline) -> None:
        self._committing = True
        while True:
            try:
                self._call(self._producer.commit_transaction, _step(deadline))
            except KafkaException as failed:
                error = failed.args[0]
                if error.txn_requires_abort():
                    self._committing = False
                    raise
                if not error.retriable():
                    ended = self._ended(error)
                    final = isinstance(ended, Fenced | ConfigError | errors.Fenced)
                    raise (ended if final else self._undecided(error)) from failed
                if deadline.expired:
                    raise self._undecided(error) from failed
            else:
                self._committing = self._begun = False
                return

    def _abort(self) -> None:
        """Abort the transaction; if that fails, brokers abort it after `lifetime_s`."""
        if self._begun:
            with suppress(KafkaException):
                self._call(self._producer.abort_transaction, _ABORT_S)
                self._begun = False

    def _undecided(self, error: KafkaError) -> Undecided:
        reason = self._connection.redacted(error.str())
        return Undecided(
            f"cannot tell whether the write to {self._where} was committed: {reason}",
            self._purpose.undecided,
        )

    def _settings(self) -> dict[str, Any]:
        return {
            "transactional.id": self._name,
            "transaction.timeout.ms": self._lifetime_s * 1000,
            "compression.type": "lz4",
        }

    def _ended(self, last: KafkaError) -> DrctlError:
        codes = {error.code() for error in (*self._errors, last)}
        if codes & _FENCED:
            return Fenced(
                f"another drctl process writes to {self._where} with transactional id {self._name}"
            )
        if _DENIED in codes:
            return not_usable(self._where, self._name, self._purpose)
        if last.code() == KafkaError.CONCURRENT_TRANSACTIONS:
            return Unknown(
                f"could not write to {self._where}: the last transaction with transactional id"
                f" {self._name} has not ended yet",
                "run the command again; if this persists for minutes, restart the broker that"
                f" coordinates {self._name} (kafka-transactions.sh describe names it): it may be"
                " unable to reach the leaders of the transaction's partitions",
            )
        return super()._ended(last)

    def _call(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Like `TopicWriter._call`; here a fatal error can be obtained again."""
        try:
            return function(*arguments)
        except SystemError:
            self._producer.begin_transaction()  # raises the fatal error, and runs no callbacks
            raise


def _step(deadline: Deadline) -> float:
    return max(_MIN_STEP_S, min(_STEP_S, deadline.remaining))


_DENIED = KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def check_usable(connection: Connection, where: str, name: str, purpose: Purpose) -> None:
    """Check that this user may use a transactional id, by describing its transaction.

    If no broker answers the request, or the user has only DESCRIBE, only a write shows whether the
    user may use the id.

    Args:
        where: the topic, for messages.

    Raises:
        ConfigError: this user may not use it.
        Unreachable: no broker answered within the deadline.
    """
    try:
        found = Brokers(connection).first(partial(_is_denied, name), connection.deadline())
    except ConfigError:
        # drctl's own connections do not support every SASL mechanism.
        return
    if found and not isinstance(found, Unavailable):
        raise not_usable(where, name, purpose)


def warm_up(connection: Connection, name: str) -> None:
    """Look up the coordinator of a transactional id.

    A cluster without any transaction yet then creates its internal topic, for which the first
    transaction would otherwise wait 0.6 s.

    Raises:
        Unreachable: no broker answered within the deadline.
    """

    def ask(broker: BrokerSocket) -> None:
        broker.exchange(FIND_COORDINATOR, find_transaction_coordinator(name), read_coordinators)

    # drctl's own connections do not support every SASL mechanism.
    with suppress(ConfigError):
        Brokers(connection).first(ask, connection.deadline())


def not_usable(where: str, name: str, purpose: Purpose) -> ConfigError:
    """The error if this user may not use a transactional id."""
    return ConfigError(
        f"{where}: this user may not use the transactional id {name}",
        f"grant WRITE on {purpose.ids or f'the transactional id {name}'} ({purpose.page})",
    )


def _is_denied(name: str, broker: BrokerSocket) -> bool:
    """Whether access is denied: every broker checks permissions first, coordinator or not."""
    described = broker.exchange(
        DESCRIBE_TRANSACTIONS, describe_transactions([name]), read_described
    )
    return any(each.error == _DENIED for each in described)
