"""Writing to one topic in transactions: a change is whole, or did not happen."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException

from drctl.kafka.broker_socket import BrokerSocket
from drctl.kafka.brokers import Brokers
from drctl.kafka.connection import Connection
from drctl.kafka.deadline import Deadline
from drctl.kafka.own_topics import LEDGER, Change, Purpose, TopicWriter
from drctl.kafka.protocol_groups import (
    FIND_COORDINATOR,
    find_transaction_coordinator,
    read_coordinators,
)
from drctl.kafka.protocol_producers import (
    DESCRIBE_TRANSACTIONS,
    describe_transactions,
    read_described,
)
from drctl.model.errors import ConfigError, DrctlError, Unknown
from drctl.model.topology import Unavailable

LIFETIME_S = 60
"""After this time brokers abort a transaction whose writer is gone."""

_BEGIN_S = 30.0
_STEP_S = 1.0
"""How long one call may take: in between Ctrl-C is heard."""

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


class TransactionalWriter(TopicWriter):
    """The one writer of its name: whoever had that name before is fenced; a context manager.

    Args:
        lifetime_s: after this time brokers abort a transaction.

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
    ) -> None:
        super().__init__(connection, topic, purpose, lifetime_s)
        self._name = name
        self._lifetime_s = lifetime_s

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

    def write(self, changes: Iterable[Change]) -> None:
        """All of it, in this order, as one transaction.

        Raises:
            Fenced: another writer of this name began; nothing of it is written.
            ConfigError: this user may not write; nothing of it is written.
            Unreachable: the cluster did not answer.
            Unknown: it failed otherwise.
        """
        committed = False
        try:
            self._producer.begin_transaction()
            for key, value in changes:
                self._produce(key, value)
            self._flush()
            self.commit()
            committed = True
        except KafkaException as failed:
            raise self._ended(failed.args[0]) from failed
        finally:
            if not committed:
                # Where even that fails, brokers abort it in a while.
                with suppress(KafkaException):
                    self._call(self._producer.abort_transaction, self._connection.timeout_s)

    def commit(self) -> None:
        """Make the transaction count."""
        deadline = Deadline.after(LIFETIME_S)
        while True:
            try:
                self._call(self._producer.commit_transaction, deadline.remaining)
            except KafkaException as failed:
                if not failed.args[0].retriable() or deadline.expired:
                    raise
            else:
                return

    def _settings(self) -> dict[str, Any]:
        return {"transactional.id": self._name, "transaction.timeout.ms": self._lifetime_s * 1000}

    def _ended(self, last: KafkaError) -> DrctlError:
        codes = {error.code() for error in (*self._errors, last)}
        if codes & _FENCED:
            return Fenced(f"another drctl writes to {self._where} under the name {self._name}")
        if KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED in codes:
            return ConfigError(
                f"{self._where}: this user may not use the transactional id {self._name}",
                "grant WRITE on transactional ids that begin with drctl-ledger- (docs/gap.md)",
            )
        return super()._ended(last)

    def _call(self, function: Callable[..., Any], *arguments: object) -> Any:
        """As of `TopicWriter`; here what is fatal can be asked for again."""
        try:
            return function(*arguments)
        except SystemError:
            self._producer.begin_transaction()  # raises what is fatal, and calls nothing back
            raise


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
        f"grant WRITE on the transactional id {name} ({purpose.page})",
    )


def _asked(name: str, opened: BrokerSocket) -> bool:
    """Whether it is denied: every broker looks at that first, its coordinator or not."""
    described = opened.exchange(
        DESCRIBE_TRANSACTIONS, describe_transactions([name]), read_described
    )
    return any(each.error == _DENIED for each in described)
