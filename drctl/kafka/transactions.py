"""Writing to one topic in transactions: a change is whole, or did not happen."""

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
"""After this time brokers abort a transaction whose writer is gone."""

_BEGIN_S = 30.0
_STEP_S = 1.0
"""How long one call may take: in between Ctrl-C is heard."""
_LEAST_S = 0.1
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
    """Another writer of the same name began, upon which this one may not write any more."""


class Undecided(Unknown):
    """A commit was sent and not answered: whether it counts is not known."""


class TransactionalWriter(TopicWriter):
    """The one writer of its name: whoever had that name before is fenced; a context manager.

    Its writes may come from two threads.

    Args:
        lifetime_s: after this time brokers abort a transaction; until then readers see nothing
            after it.
        timeout_s: how long a write may take, if that is less.

    Raises:
        Fenced: another one began in the same moment.
        ConfigError: this user may not write, or librdkafka does not take the properties.
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
        """All of it, in this order, as one transaction.

        Raises:
            Fenced: another writer of this name began; nothing of it is written.
            Undecided: nobody can say whether it is written.
            ConfigError: this user may not write; nothing of it is written.
            Unreachable: the cluster did not answer; nothing of it is written.
            Unknown: it failed otherwise; likewise.
        """
        with self._lock:
            self._write(changes, Deadline.after(timeout_s or self._write_s))

    def try_write(self, changes: Iterable[Change]) -> bool:
        """The same, unless something is just being written.

        Raises:
            Fenced, Undecided, ConfigError, Unreachable, Unknown: as above.
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
            self._stored(deadline)
            self._commit(deadline)
        except KafkaException as failed:
            raise self._ended(failed.args[0]) from failed
        finally:
            if not self._committing:
                self._abort()

    def _begin(self, deadline: Deadline) -> None:
        """Begin a transaction, after what an earlier call had to leave is at its end."""
        self._errors.clear()
        self._failed.clear()
        if self._committing:
            try:
                self._commit(deadline)
            except Undecided as still:
                raise Unreachable(still.message, still.hint) from still
        elif self._begun:
            self._call(self._producer.abort_transaction, _ABORT_S)
            self._begun = False
        self._call(self._producer.begin_transaction)
        self._begun = True

    def _stored(self, deadline: Deadline) -> None:
        """Wait until all that was appended is stored."""
        while self._call(self._producer.flush, _step(deadline)):
            if deadline.expired:
                raise self._ended(KafkaError(KafkaError._TIMED_OUT))
        if self._failed:
            if self._failed[0].code() in PURGED:
                # Why it failed is told with the transaction alone, which cannot be committed.
                self._call(self._producer.commit_transaction, _step(deadline))
            raise self._ended(self._failed[0])

    def _commit(self, deadline: Deadline) -> None:
        """Make the transaction count."""
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
        """Make nothing of it count; where even that fails, brokers abort it in a while."""
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
            return Fenced(f"another drctl process writes to {self._where} as {self._name}")
        if _DENIED in codes:
            return not_usable(self._where, self._name, self._purpose)
        return super()._ended(last)

    def _call(self, function: Callable[..., Any], *arguments: object) -> Any:
        """As of `TopicWriter`; here what is fatal can be asked for again."""
        try:
            return function(*arguments)
        except SystemError:
            self._producer.begin_transaction()  # raises what is fatal, and calls nothing back
            raise


def _step(deadline: Deadline) -> float:
    return max(_LEAST_S, min(_STEP_S, deadline.remaining))


_DENIED = KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def check_usable(connection: Connection, where: str, name: str, purpose: Purpose) -> None:
    """Ask for the transaction of this name, as whoever may WRITE may; the first broker tells.

    Where none does, and for a user who may only DESCRIBE, writing will tell.

    Args:
        where: what it is for is written.

    Raises:
        ConfigError: this user may not use it.
        Unreachable: no broker answered within the deadline.
    """
    try:
        found = Brokers(connection).first(partial(_asked, name), connection.deadline())
    except ConfigError:
        # Connections of our own are not possible with every way to log in.
        return
    if found and not isinstance(found, Unavailable):
        raise not_usable(where, name, purpose)


def warm_up(connection: Connection, name: str) -> None:
    """Ask who coordinates this transactional id.

    A cluster that never had a transaction makes its topic for them then, and whoever begins the
    first one waits 0.6 s for that.

    Raises:
        Unreachable: no broker answered within the deadline.
    """

    def ask(opened: BrokerSocket) -> None:
        opened.exchange(FIND_COORDINATOR, find_transaction_coordinator(name), read_coordinators)

    # Connections of our own are not possible with every way to log in.
    with suppress(ConfigError):
        Brokers(connection).first(ask, connection.deadline())


def not_usable(where: str, name: str, purpose: Purpose) -> ConfigError:
    """That it may not be used, and what to grant."""
    return ConfigError(
        f"{where}: this user may not use the transactional id {name}",
        f"grant WRITE on {purpose.ids or f'the transactional id {name}'} ({purpose.page})",
    )


def _asked(name: str, opened: BrokerSocket) -> bool:
    """Whether it is denied: every broker looks at that first, its coordinator or not."""
    described = opened.exchange(
        DESCRIBE_TRANSACTIONS, describe_transactions([name]), read_described
    )
    return any(each.error == _DENIED for each in described)
