"""Read the consumer groups of one cluster without joining or creating any."""

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import chain, count, repeat
from typing import Any, TypeVar

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicCollection,
)

from drctl.kafka.brokers import ClusterClient
from drctl.kafka.connection import GRACE_S, Connection, gather, in_chunks, outcome, pauses
from drctl.kafka.deadline import Deadline
from drctl.kafka.faults import Fault
from drctl.kafka.group_requests import (
    GROUPS_PER_TIMEOUT,
    GroupRequests,
    Reply,
    coordinator_moves,
    reason,
)
from drctl.model.errors import Unreachable
from drctl.model.groups import OFFSETS_TOPIC, Group, GroupProtocol, GroupState, Member, Positions
from drctl.model.health import Silent
from drctl.model.topology import Unavailable

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
"""The state that Kafka reports if a group of another protocol is described as a classic group."""

_WITHOUT_OFFSETS = frozenset({"connect", "sr"})
"""Protocol types of the groups of Connect workers and Schema Registry: they commit no offsets."""

_ASK_S = 2.0


@dataclass(frozen=True, slots=True)
class Listing:
    """The groups that this user may see.

    Attributes:
        names: the names of all groups.
        known: groups that the listing describes completely.
        consumers: KIP-848 groups, listed without their members.
        foreign: groups of Connect workers and of Schema Registry, which commit no offsets.
    """

    names: frozenset[str]
    known: Mapping[str, Group]
    consumers: frozenset[str]
    foreign: frozenset[str] = frozenset()

    @property
    def others(self) -> frozenset[str]:
        """Share groups and streams groups: librdkafka cannot tell them apart."""
        return self.names - self.known.keys() - self.consumers


def list_groups(connection: Connection, deadline: Deadline) -> Listing:
    """List the groups of every broker with two requests: neither lists all groups with their types.

    Raises:
        Unreachable: not every broker answered within the deadline.
    """
    # Fails at once if the cluster is known to be unreachable.
    connection.nodes(deadline)
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
    """Whether coordinators can be looked up without creating __consumer_offsets; None if unknown.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    connection.nodes(deadline)
    described = _offsets_topic(connection, deadline)
    if not isinstance(described, Fault):
        return True
    if described.missing:
        return False
    # If there are groups, the topic exists even if this user may not see it.
    return True if list_groups(connection, deadline).names else None


def _offsets_topic(connection: Connection, deadline: Deadline) -> Any:
    asked = connection.admin().describe_topics(
        TopicCollection([OFFSETS_TOPIC]), request_timeout=min(_ASK_S, deadline.remaining)
    )
    return outcome(asked[OFFSETS_TOPIC], deadline.remaining)


def _every_group(connection: Connection, timeout: float) -> Sequence[Any]:
    # The newer request leaves out share groups, streams groups and other types.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return connection.admin().list_groups(timeout=timeout)


def _consumers(asked: "Future[Any]", timeout: float) -> Sequence[Any]:
    found = asked.result(timeout + GRACE_S)
    if found.errors:
        raise KafkaException(*found.errors[:1])  # not exceptions, contrary to the documentation
    listed: Sequence[Any] = found.valid
    return listed


def _listing(described: Sequence[Any], consumers: Sequence[Any]) -> Listing:
    known = {each.id: _classic(each) for each in described if _is_classic(each)}
    newer = {g.group_id: g for g in consumers if g.type is ConsumerGroupType.CONSUMER}
    for name, each in newer.items():
        # An empty group has no members to request.
        if each.state is ConsumerGroupState.EMPTY:
            known[name] = Group(name, GroupProtocol.CONSUMER, GroupState.EMPTY)
    names = frozenset(each.id for each in described) | newer.keys()
    foreign = frozenset(
        each.id
        for each in described
        if _is_classic(each) and each.protocol_type in _WITHOUT_OFFSETS
    )
    return Listing(names, known, frozenset(newer.keys() - known.keys()), foreign)


def _is_classic(each: Any) -> bool:
    return each.error is None and each.state != _NOT_CLASSIC


def _classic(each: Any) -> Group:
    members = tuple(Member(member.client_id, member.client_host) for member in each.members)
    state = _CLASSIC_STATES.get(each.state, GroupState.UNKNOWN)
    return Group(each.id, GroupProtocol.CLASSIC, state, members)


_CHUNK = 50
# A response that arrives while its request times out crashes the process, so requests never time
# out; drctl stops waiting for them instead.
_NO_TIMEOUT_S = 3_600.0
# Fewer groups are described one by one: a listing returns all groups of the cluster.
_WORTH_LISTING = 50
_SHARE_OF_ALL = 20
_UNSEEN = Unavailable(
    "it does not exist, or this user may not see it; to find out which, grant this user DESCRIBE on"
    " the group or on topic __consumer_offsets"
)

_NO_SUCH_GROUP = frozenset({KafkaError.GROUP_ID_NOT_FOUND, KafkaError.GROUP_AUTHORIZATION_FAILED})
"""Errors about a made-up group that do not show that its coordinator is missing."""

_NO_ANSWER = "its coordinator did not answer"

_NONE: Positions = {}

T = TypeVar("T")


def _changing(why: str) -> KafkaException:
    why = f"the groups of a partition of {OFFSETS_TOPIC} have no coordinator: {why}"
    return KafkaException(KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE, why))


def coordinated_by(group: str, partitions: int) -> int:
    """Return the partition of __consumer_offsets whose leader coordinates a group.

    Kafka takes the absolute value of the name's Java hash, modulo the number of partitions.
    """
    code = 0
    for each in group:  # only ASCII
        code = (31 * code + ord(each)) % 2**32
    return min(code, 2**32 - code) % partitions


def groups_in_each(partitions: int) -> list[str]:
    """Return a group name for each partition of __consumer_offsets."""
    found: dict[int, str] = {}
    names = (f"drctl-{number}" for number in count())
    while len(found) < partitions:
        name = next(names)
        found.setdefault(coordinated_by(name, partitions), name)
    return list(found.values())


class KafkaGroupReader(ClusterClient):
    """Implements `GroupReader` of `drctl.model.ports`.

    Connects on first use. Every call ends within about `timeout_s` per 500 groups.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._asks: bool | None = None
        self._all = 0

    def groups(self, *, incomplete: bool = False) -> tuple[str, ...]:
        """The names of all groups of all protocols that this user may see.

        Groups of Connect workers and of Schema Registry are left out.

        Args:
            incomplete: whether groups without a coordinator may be left out.

        Raises:
            Unreachable: not every broker answered within the deadline, or groups have no
                coordinator.
        """
        listing = self._list() if incomplete else self._list_all()
        return tuple(sorted(listing.names - listing.foreign))

    def described(self, names: Collection[str]) -> Mapping[str, Group | Unavailable]:
        """Protocol, state and members of each group; one that does not exist is DEAD.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        wanted = list(dict.fromkeys(names))
        many = self._worth_listing(len(wanted))
        found = self._listed(wanted) if many else self._one_by_one(wanted)
        return {name: found[name] for name in wanted}

    def committed(self, names: Collection[str]) -> Mapping[str, Positions | Unavailable]:
        """The committed offsets of each group; empty for share groups.

        Kafka silently omits offsets in topics that this user may not describe.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        wanted = list(dict.fromkeys(names))
        unasked = self._without_coordinators(wanted, lambda _name: _NONE)
        if unasked or not wanted:
            return unasked
        # Fails here, with the reason, if the cluster is unreachable.
        self._connection.nodes(self._connection.deadline())
        replies = GroupRequests(self._connection, self._brokers).committed(wanted)
        if all(reply.unanswered for reply in replies.values()):
            raise self._connection.unreachable(None)
        return {name: self._positions(name, replies[name]) for name in wanted}

    def _list(self, deadline: Deadline | None = None) -> Listing:
        listing = list_groups(self._connection, deadline or self._connection.deadline())
        self._all = len(listing.names)
        return listing

    def _list_all(self) -> Listing:
        """List all groups, none without a coordinator.

        A broker lists the groups of those partitions of __consumer_offsets that it coordinates at
        this moment. While brokers start or partitions change their leader, no broker lists some
        groups, and none reports an error.

        Raises:
            Unreachable: not every broker answered within the deadline, or groups have no
                coordinator.
        """
        deadline = self._connection.deadline()
        self._connection.nodes(deadline)
        for pause in pauses():
            before = self._leaders(deadline)
            if before is not None:
                self._require_coordinators(len(before))
                listing = self._list(deadline)
                known = self._connection.nodes(deadline).brokers
                if before == self._leaders(deadline) and known.keys() >= set(before):
                    return listing
            if deadline.expired:
                break
            self._connection.wait(min(pause, deadline.remaining))
        raise self._connection.unreachable(_changing("leaders change"))

    def _leaders(self, deadline: Deadline) -> Sequence[int] | None:
        """The leaders of __consumer_offsets; empty if it does not exist or is not visible.

        None if they are not known at the moment.
        """
        described = _offsets_topic(self._connection, deadline)
        if isinstance(described, Fault):
            return () if described.missing or described.forbidden else None
        return [-1 if each.leader is None else each.leader.id for each in described.partitions]

    def _require_coordinators(self, partitions: int) -> None:
        """Check that each partition of __consumer_offsets has a coordinator; waits for them.

        Of groups that this user may not see, it is not known.

        Raises:
            Unreachable: a coordinator did not answer within the deadline.
        """
        names = groups_in_each(partitions)
        replies = GroupRequests(self._connection, self._brokers).committed(names) if names else {}
        for reply in replies.values():
            if reply.failed and reply.failed.code not in _NO_SUCH_GROUP:
                raise self._connection.unreachable(_changing(reply.failed.text))

    def _worth_listing(self, count: int) -> bool:
        return count >= _WORTH_LISTING and count * _SHARE_OF_ALL >= self._all

    def _listed(self, wanted: Sequence[str]) -> dict[str, Group | Unavailable]:
        """Describe groups from a listing, which contains most of the information."""
        listing = self._list()
        found: dict[str, Group | Unavailable] = {}
        found |= {name: listing.known[name] for name in wanted if name in listing.known}
        found |= self._described([name for name in wanted if name in listing.consumers])
        others = listing.others
        found |= self._others([name for name in wanted if name in others])
        # A group that no broker lists does not exist, or this user may not see it.
        unlisted = self._unlisted([name for name in wanted if name not in listing.names])
        for name, answer in unlisted.items():
            found[name] = answer if isinstance(answer, Unavailable) else _dead(name)
        return found

    def _unlisted(self, names: Sequence[str]) -> Mapping[str, Positions | Unavailable]:
        """The offsets of unlisted groups, which include the groups of unreachable coordinators."""
        try:
            return self.committed(names)
        except Unreachable:
            return dict.fromkeys(names, Silent(_NO_ANSWER))

    def _one_by_one(self, wanted: Sequence[str]) -> dict[str, Group | Unavailable]:
        found = self._described(wanted)
        dead = [name for name, group in found.items() if group == _dead(name)]
        if dead and self._asks:
            # Coordinators report groups of other protocols as dead.
            others = self._list().others
            found |= self._others([name for name in dead if name in others])
        return found

    def _others(self, names: Collection[str]) -> dict[str, Group | Unavailable]:
        """Distinguish streams groups, which have committed offsets, from share groups."""
        found: dict[str, Group | Unavailable] = {}
        for name, positions in self.committed(names).items():
            if isinstance(positions, Unavailable):
                found[name] = positions
            else:
                kind = GroupProtocol.STREAMS if positions else GroupProtocol.SHARE
                found[name] = Group(name, kind, GroupState.UNKNOWN)
        return found

    def _described(self, wanted: Sequence[str]) -> dict[str, Group | Unavailable]:
        if unasked := self._without_coordinators(wanted, _dead):
            return unasked
        found: dict[str, Group | Unavailable] = {}
        for wave in in_chunks(wanted, GROUPS_PER_TIMEOUT):
            deadline = self._connection.deadline()
            ask = partial(_describe, self._connection, chain((_CHUNK,), repeat(1)))
            answers = gather(self._connection, wave, ask, deadline, coordinator_moves)
            found |= {name: self._group(name, answers[name]) for name in wave}
        return found

    def _without_coordinators(
        self, wanted: Sequence[str], absent: Callable[[str], T]
    ) -> dict[str, T | Unavailable]:
        """The answer for groups if coordinators cannot be looked up; empty if they can."""
        if not wanted:
            return {}
        if not self._asks:
            self._asks = coordinators_exist(self._connection, self._connection.deadline())
        if self._asks is None:
            return dict.fromkeys(wanted, _UNSEEN)
        return {} if self._asks else {name: absent(name) for name in wanted}

    def _group(self, name: str, answer: Any) -> Group | Unavailable:
        if not isinstance(answer, Fault):
            return _group(name, answer)
        if answer.code == KafkaError.GROUP_ID_NOT_FOUND:
            return _dead(name)
        return self._why(name, answer)

    def _positions(self, name: str, reply: Reply) -> Positions | Unavailable:
        fault = reply.failed or next(iter(reply.faults.values()), None)
        if fault is None or fault.code == KafkaError.GROUP_ID_NOT_FOUND:
            return reply.positions
        return self._why(name, fault)

    def _why(self, name: str, fault: Fault) -> Unavailable:
        """Why there is no answer: `Silent` if the coordinator is unreachable."""
        text = self._connection.redacted(reason(name, fault))
        if fault.retried or coordinator_moves(fault):
            return Silent(_NO_ANSWER if fault.unanswered else f"{_NO_ANSWER}: {text}")
        return Unavailable(text)


def _describe(
    connection: Connection,
    sizes: Iterator[int],
    names: Collection[str],
    timeout: float,
    deadline: Deadline,
) -> Iterator[tuple[str, "Future[Any]"]]:
    """Describe groups.

    The answers to a request arrive together, so one silent coordinator delays all others. Groups
    without an answer are therefore requested one by one in the next round.

    Args:
        sizes: the number of groups per request in each round.
    """
    connection.nodes(deadline)
    admin = connection.admin()
    for chunk in in_chunks(names, next(sizes)):
        yield from admin.describe_consumer_groups(chunk, request_timeout=_NO_TIMEOUT_S).items()


def _group(name: str, described: Any) -> Group:
    if described.state is ConsumerGroupState.DEAD:
        return _dead(name)
    return Group(
        name,
        PROTOCOLS.get(described.type, GroupProtocol.UNKNOWN),
        STATES.get(described.state, GroupState.UNKNOWN),
        tuple(Member(member.client_id, member.host) for member in described.members),
    )


def _dead(name: str) -> Group:
    return Group(name, GroupProtocol.UNKNOWN, GroupState.DEAD)
