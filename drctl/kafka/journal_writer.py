"""Writing to the journal's topic: one transaction an append, and one holder of a link at a time."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from drctl.kafka.connection import Connection
from drctl.kafka.deadline import Deadline
from drctl.kafka.own_topics import JOURNAL, Change
from drctl.kafka.transactions import Fenced, TransactionalWriter, not_usable
from drctl.model.errors import ConfigError, DrctlError, Unknown, Unreachable

LIFETIME_S = 30
"""Brokers abort a transaction that is older; until then readers see nothing after it."""

_STEP_S = 1.0
"""How long one call may take: in between Ctrl-C is heard."""
_LEAST_S = 0.1
_ABORT_S = 5.0


class Undecided(Unknown):
    """A commit was sent and not answered: whether it counts is not known."""


def transactional_id(link: str) -> str:
    """Whoever uses it last fences all others."""
    return f"drctl.{link}"


class JournalWriter(TransactionalWriter):
    """Writes as the holder of a link; may be used by two threads.

    Args:
        patience_s: how long a write may take.

    Raises:
        Fenced: (of `transactions`) another one began in the same moment.
        ConfigError: this user may not write, or librdkafka does not take the properties.
        Unreachable: the cluster did not answer.
    """

    def __init__(
        self, connection: Connection, link: str, topic: str, patience_s: float = LIFETIME_S
    ) -> None:
        super().__init__(connection, transactional_id(link), topic, JOURNAL, LIFETIME_S)
        self._patience_s = min(patience_s, LIFETIME_S)
        self._lock = Lock()
        self._committing = False
        self._begun = False

    def write(self, changes: Iterable[Change], patience_s: float | None = None) -> None:
        """All of it, in this order, as one transaction.

        Raises:
            Fenced: (of `transactions`) another holder began.
            Undecided: nobody can say whether it is written.
            ConfigError: this user may not write; nothing of it is written.
            Unknown: nothing of it is written.
        """
        with self._lock:
            patience_s = self._patience_s if patience_s is None else patience_s
            self._write(tuple(changes), Deadline.after(patience_s))

    def try_write(self, changes: Iterable[Change]) -> bool:
        """The same, unless something is just being written.

        Raises:
            Fenced, Undecided, ConfigError, Unknown: as above.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._write(tuple(changes), Deadline.after(self._patience_s))
        finally:
            self._lock.release()
        return True

    def _write(self, changes: Sequence[Change], deadline: Deadline) -> None:
        self._errors.clear()
        self._failed.clear()
        try:
            self._finish(deadline)
            self._begin(changes, deadline)
            self._commit(deadline)
        except KafkaException as failed:
            raise self._ended(failed.args[0]) from failed
        finally:
            if self._begun and not self._committing:
                with suppress(KafkaException):
                    self._abort()

    def _begin(self, changes: Sequence[Change], deadline: Deadline) -> None:
        self._call(self._producer.begin_transaction)
        self._begun = True
        for key, value in changes:
            self._produce(key, value)
        while self._call(self._producer.flush, _step(deadline)):
            if deadline.expired:
                raise self._ended(KafkaError(KafkaError._TIMED_OUT))
        if self._failed:
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
                    raise self._lost(error) from failed
                if deadline.expired:
                    raise self._undecided(error) from failed
            else:
                self._committing = self._begun = False
                return

    def _finish(self, deadline: Deadline) -> None:
        """Bring to an end what an earlier call had to leave."""
        if self._committing:
            try:
                self._commit(deadline)
            except Undecided as still:
                raise Unreachable(still.message, still.hint) from still
        elif self._begun:
            self._abort()

    def _abort(self) -> None:
        self._call(self._producer.abort_transaction, _ABORT_S)
        self._begun = False

    def _lost(self, error: KafkaError) -> DrctlError:
        """Why it will never be answered."""
        ended = self._ended(error)
        return ended if isinstance(ended, Fenced | ConfigError) else self._undecided(error)

    def _undecided(self, error: KafkaError) -> Undecided:
        reason = self._connection.redacted(error.str())
        return Undecided(
            f"no answer whether what was written to {self._where} counts: {reason}",
            "`drctl journal` tells, as soon as the cluster answers",
        )

    def _settings(self) -> dict[str, Any]:
        return {
            **super()._settings(),
            "message.max.bytes": "1000000",
            "linger.ms": "0",
            # What was there before a failover of very many partitions is megabytes of JSON.
            "compression.type": "lz4",
        }

    def _ended(self, last: KafkaError) -> DrctlError:
        codes = {error.code() for error in (*self._errors, last)}
        if KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED in codes:
            return not_usable(self._where, self._name, JOURNAL)
        return super()._ended(last)


def _step(deadline: Deadline) -> float:
    return max(_LEAST_S, min(_STEP_S, deadline.remaining))
