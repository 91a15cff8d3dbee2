"""Whether this user may use a transactional id; asked without beginning anything."""

from functools import partial

from confluent_kafka import KafkaError

from drctl.model.errors import ConfigError
from drctl.model.topology import Unavailable
from drctl.systems.kafka.broker_socket import BrokerSocket
from drctl.systems.kafka.brokers import Brokers
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.own_topics import Purpose
from drctl.wire.open_transactions import (
    DESCRIBE_TRANSACTIONS,
    describe_transactions,
    read_described,
)

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
