"""Which groups a cluster has, of every protocol, without asking for any coordinator.

Asking for the coordinator of a group makes a broker create `__consumer_offsets`. A listing goes to
every broker instead, and whether that topic exists is asked in a way that does not create it.
"""

import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupType,
    KafkaException,
    TopicCollection,
)

from drctl.model.groups import POSITIONS_TOPIC, Group, GroupProtocol, GroupState, Member
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.faults import Fault
from drctl.systems.kafka.requests import GRACE_S, outcome, pauses

PROTOCOLS = {
    ConsumerGroupType.CLASSIC: GroupProtocol.CLASSIC,
    ConsumerGroupType.CONSUMER: GroupProtocol.CONSUMER,
}
STATES = {
    ConsumerGroupState.EMPTY: GroupState.EMPTY,
    ConsumerGroupState.DEAD: GroupState.DEAD,
    ConsumerGroupState.STABLE: GroupState.STABLE,
    ConsumerGroupState.PREPARING_REBALANCING: GroupState.PREPARING,
    ConsumerGroupState.COMPLETING_REBALANCING: GroupState.COMPLETING,
}

_CLASSIC_STATES = {
    "Empty": GroupState.EMPTY,
    "Stable": GroupState.STABLE,
    "PreparingRebalance": GroupState.PREPARING,
    "CompletingRebalance": GroupState.COMPLETING,
}
_NOT_CLASSIC = "Dead"
"""What a coordinator says of a group of another protocol that is described as a classic one."""

_ASK_S = 2.0


@dataclass(frozen=True, slots=True)
class Listing:
    """The groups that this user may see.

    Attributes:
        names: of all of them.
        known: those of which the listing says all there is to say.
        consumers: those of KIP-848; their members stand nowhere here.
    """

    names: frozenset[str]
    known: Mapping[str, Group]
    consumers: frozenset[str]

    @property
    def others(self) -> frozenset[str]:
        """Share groups and streams groups: librdkafka cannot tell them apart."""
        return self.names - self.known.keys() - self.consumers


def list_groups(connection: Connection, deadline: Deadline) -> Listing:
    """Ask every broker, twice: no one question shows all groups with what they are.

    Raises:
        Unreachable: not every broker answered within the deadline.
    """
    failure: KafkaException | None = None
    for timeout, pause in zip(deadline.attempts(), pauses(), strict=False):
        try:
            asked = connection.admin().list_consumer_groups(request_timeout=timeout)
            return _listing(_every_group(connection, timeout), _consumers(asked, timeout))
        except KafkaException as error:
            failure = error
            connection.wait(min(pause, deadline.remaining))
            connection.nodes(deadline)
    raise connection.unreachable(failure)


def coordinators_exist(connection: Connection, deadline: Deadline) -> bool | None:
    """Whether coordinators may be asked for without creating anything; None: it cannot be seen.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    connection.nodes(deadline)
    asked = connection.admin().describe_topics(
        TopicCollection([POSITIONS_TOPIC]), request_timeout=min(_ASK_S, deadline.remaining)
    )
    described = outcome(asked[POSITIONS_TOPIC], deadline.remaining)
    if not isinstance(described, Fault):
        return True
    if described.missing:
        return False
    # What may not be seen exists all the same where there are groups.
    return True if list_groups(connection, deadline).names else None


def _every_group(connection: Connection, timeout: float) -> Sequence[Any]:
    # Its successor leaves out share groups, streams groups and whatever else is no consumer.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return connection.admin().list_groups(timeout=timeout)


def _consumers(asked: "Future[Any]", timeout: float) -> Sequence[Any]:
    found = asked.result(timeout + GRACE_S)
    if found.errors:
        raise KafkaException(*found.errors[:1])  # they are no exceptions, whatever is documented
    listed: Sequence[Any] = found.valid
    return listed


def _listing(described: Sequence[Any], consumers: Sequence[Any]) -> Listing:
    known = {each.id: _classic(each) for each in described if _is_classic(each)}
    newer = {g.group_id: g for g in consumers if g.type is ConsumerGroupType.CONSUMER}
    for name, each in newer.items():
        # Nobody is in an empty group: it need not be asked who.
        if each.state is ConsumerGroupState.EMPTY:
            known[name] = Group(name, GroupProtocol.CONSUMER, GroupState.EMPTY)
    names = frozenset(each.id for each in described) | newer.keys()
    return Listing(names, known, frozenset(newer.keys() - known.keys()))


def _is_classic(each: Any) -> bool:
    return each.error is None and each.state != _NOT_CLASSIC


def _classic(each: Any) -> Group:
    members = tuple(Member(member.client_id, member.client_host) for member in each.members)
    state = _CLASSIC_STATES.get(each.state, GroupState.UNKNOWN)
    return Group(each.id, GroupProtocol.CLASSIC, state, members)
