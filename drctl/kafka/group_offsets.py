"""What a group has committed: asked, changed and removed over connections of our own.

confluent-kafka cannot remove a committed offset; where it writes one it adds a NUL to the metadata,
and where it reads one without that NUL, as Java clients write it, it reads on in memory after it.
Here what is read is what was written. A coordinator is asked for hundreds of groups at once, and
takes commits one after the other without a wait in between.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid5

from confluent_kafka import KafkaError

from drctl.formats.primitives import Cursor
from drctl.kafka import protocol_groups as wire
from drctl.kafka.broker_socket import Address, BrokerSocket
from drctl.kafka.brokers import Brokers, ClusterClient, NotRetriable, by_topic
from drctl.kafka.connection import Connection, in_chunks, in_rounds
from drctl.kafka.deadline import Deadline
from drctl.kafka.faults import Fault
from drctl.kafka.protocol import Api
from drctl.model.errors import ConfigError, Unreachable
from drctl.model.groups import Committed, GroupActive, Positions
from drctl.model.topology import TopicPartition, Unanswered, Unavailable

_MOVING = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)
_OCCUPIED = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.NON_EMPTY_GROUP,
        KafkaError.GROUP_SUBSCRIBED_TO_TOPIC,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.STALE_MEMBER_EPOCH,
    }
)
_NO_ANSWER = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        # Also what a coordinator says whose own write was appended and not replicated in time.
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.UNKNOWN,
    }
)


def moving(fault: Fault) -> bool:
    """Whether the group is about to have another coordinator."""
    return fault.code in _MOVING


def occupied(fault: Fault) -> bool:
    """Whether the coordinator refuses because the group has members."""
    return fault.code in _OCCUPIED


def unanswered(fault: Fault) -> bool:
    """Whether a write may have happened, or may happen yet."""
    return fault.code in _NO_ANSWER


def reason(group: str, fault: Fault) -> str:
    """Why, for a person."""
    if fault.code == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return f"not authorized for group {group}"
    return fault.text


class Replied(NamedTuple):
    """How a request ended.

    Attributes:
        failed: why there is no answer for any partition; None where there is one for each.
        faults: of the partitions for which it did not work.
        positions: what was committed, where that was asked.
        sent: whether a coordinator may have got it.
    """

    failed: Fault | None = None
    faults: Mapping[TopicPartition, Fault] = MappingProxyType({})
    positions: Positions = MappingProxyType({})
    sent: bool = True

    @property
    def silent(self) -> bool:
        """Whether nobody answered."""
        return self.failed is not None and unanswered(self.failed)

    @property
    def put_off(self) -> bool:
        """Whether to send it again: nobody got it, or the group gets another coordinator."""
        if self.failed is not None:
            return moving(self.failed) or (not self.sent and unanswered(self.failed))
        return any(map(moving, self.faults.values()))


WAVE = 500
"""Groups for which a deadline is meant; more of them have as much more time."""

_NAMES_A_REQUEST = 500
_GROUPS_A_REQUEST = 100
_REQUESTS_AT_ONCE = 20
_REQUESTS_A_LANE = 30
_LANES, _MOST_LANES = 8, 32
"""Connections to a coordinator. It takes one request of each at a time, and waits for its replicas;
one of Kafka 4 gathers commits for some milliseconds, and answers them then."""

_LOST = Fault(KafkaError._TIMED_OUT, "no answer within the deadline")
_UNSENT = Replied(_LOST, sent=False)


class Lane:
    """Requests over one connection; tells also of those that were under way when it was lost.

    Attributes:
        numbers: of the requests.
        sent: those that the coordinator may have got.
        replies: by number, as they come.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = numbers
        self.sent: set[int] = set()
        self.replies: dict[int, Replied] = {}
        self._over = False

    def sending(
        self, opened: BrokerSocket, api: Api, write: Callable[[int], bytes]
    ) -> Iterator[int]:
        """Send all requests, some ahead; each number when its answer is next to be received."""
        for chunk in in_chunks(self.numbers, _REQUESTS_AT_ONCE):
            for number in chunk:
                body = write(number)
                if self._over:
                    return  # nobody waits any more: what is left may be sent in another round
                if api in opened:
                    # Part of it may have gone out where sending fails.
                    self.sent.add(number)
                opened.send(api, body)
            yield from chunk

    def ended(self, lost: Fault) -> dict[int, Replied]:
        """What became of each; nothing more is sent from now on."""
        self._over = True
        sent, replies = set(self.sent), dict(self.replies)
        gone, unsent = Replied(_LOST), Replied(lost, sent=False)
        return {n: replies.get(n) or (gone if n in sent else unsent) for n in self.numbers}


Work = Callable[[Lane, BrokerSocket], object]
"""Asks a coordinator everything of a lane."""


class GroupRequests:
    """Asks the coordinators of groups, all of them side by side."""

    def __init__(self, connection: Connection, brokers: Brokers) -> None:
        self._connection = connection
        self._brokers = brokers

    def committed(self, names: Sequence[str]) -> dict[str, Replied]:
        """What groups have committed.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        replies = self.ask(names, partial(_fetched, names), lambda reply: reply.silent)
        return dict(zip(names, replies, strict=True))

    def commit(self, wanted: Sequence[tuple[str, Positions]]) -> list[Replied]:
        """Have groups stand at positions; what may have been done is not sent again."""

        def write(number: int) -> bytes:
            group, positions = wanted[number]
            return wire.commit(group, _by_topic(positions))

        read = lambda cursor: (0, wire.read_committed(cursor))  # noqa: E731
        return self._write([group for group, _ in wanted], wire.COMMIT, write, read)

    def delete(self, unwanted: Sequence[tuple[str, Collection[TopicPartition]]]) -> list[Replied]:
        """Have groups stand nowhere in partitions."""

        def write(number: int) -> bytes:
            group, places = unwanted[number]
            return wire.delete(group, by_topic(places))

        return self._write([group for group, _ in unwanted], wire.DELETE, write, wire.read_deleted)

    def ask(
        self,
        groups: Sequence[str],
        work: Work,
        again: Callable[[Replied], bool],
        *,
        whole: bool = False,
    ) -> list[Replied]:
        """How a request about each of these groups ended; what is put off is sent again.

        Args:
            again: whether another reply is asked for, too.
            whole: whether a coordinator may take all of the time to answer.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        deadline = Deadline.after(self._connection.timeout_s * -(-len(groups) // WAVE))
        found = in_rounds(
            self._connection,
            range(len(groups)),
            lambda some, timeout: self._round(groups, some, work, deadline.sooner(timeout)),
            lambda reply: reply.put_off or again(reply),
            deadline,
            _whole(deadline) if whole else None,
        )
        return [found.get(number, _UNSENT) for number in range(len(groups))]

    def _write(
        self,
        groups: Sequence[str],
        api: Api,
        write: Callable[[int], bytes],
        read: Callable[[Cursor], tuple[int, list[wire.Answered]]],
    ) -> list[Replied]:
        def work(lane: Lane, opened: BrokerSocket) -> None:
            for number in lane.sending(opened, api, write):
                error, rows = opened.receive(api, read)
                faults = {TopicPartition(t, p): fault_of(code) for t, p, code in rows if code}
                lane.replies[number] = Replied(fault_of(error) if error else None, faults)

        try:
            return self.ask(groups, work, lambda _: False, whole=True)
        except Unreachable:
            return [_UNSENT] * len(groups)

    def _round(
        self, groups: Sequence[str], pending: Collection[int], work: Work, deadline: Deadline
    ) -> dict[int, Replied]:
        numbers: dict[str, list[int]] = defaultdict(list)
        for number in pending:
            numbers[groups[number]].append(number)
        addresses = self._brokers.addresses(deadline)
        try:
            without, coordinated = self._coordinators(tuple(numbers), addresses, deadline)
            lanes = _lanes(coordinated, numbers, len(pending))
            tasks = {key: partial(work, lane) for key, lane in lanes.items()}
            places = {key: addresses[key[0]] for key in lanes if key[0] in addresses}
            answers = self._brokers.ask(tasks, places, deadline)
        except ConfigError as cannot:
            # Connections of our own are not possible with every way to log in.
            hopeless = Fault(KafkaError._NOT_CONFIGURED, cannot.message)
            return {number: Replied(hopeless) for number in pending}
        found = {n: Replied(f, sent=False) for name, f in without.items() for n in numbers[name]}
        for key, lane in lanes.items():
            answer = answers[key]
            found |= lane.ended(lost(answer) if isinstance(answer, Unavailable) else _LOST)
        for number, reply in found.items():
            if reply.put_off or reply.silent:
                self._connection.coordinators.pop(groups[number], None)
        return found

    def _coordinators(
        self, names: Sequence[str], addresses: Mapping[int, Address], deadline: Deadline
    ) -> tuple[dict[str, Fault], dict[int, list[str]]]:
        """Why groups have no coordinator, and the groups of each: one broker after another.

        One that was told before is believed: a broker that is it no more says so.
        """
        without: dict[str, Fault] = {}
        coordinated: dict[int, list[str]] = defaultdict(list)
        known = self._connection.coordinators
        unknown = []
        for name in names:
            if (node := known.get(name, -1)) in addresses:
                coordinated[node].append(name)
            else:
                unknown.append(name)
        if not unknown:
            return without, coordinated
        ask = partial(_found_coordinators, unknown)
        for (node, address), timeout in zip(
            sorted(addresses.items()), deadline.attempts(), strict=False
        ):
            soon = deadline.sooner(timeout)
            rows = self._brokers.ask({node: ask}, {node: address}, soon)[node]
            if isinstance(rows, Unavailable):
                without = dict.fromkeys(unknown, lost(rows))
                continue
            without = {row.group: fault_of(row.error, row.text) for row in rows if row.error}
            for row in rows:
                if not row.error:
                    coordinated[row.node].append(row.group)
                    known[row.group] = row.node
            break
        return without, coordinated


def fault_of(code: int, text: str = "") -> Fault:
    """A coordinator's refusal."""
    return Fault(code, text or KafkaError(code).str())


def lost(why: Unavailable) -> Fault:
    """That a coordinator was not asked."""
    code = (
        KafkaError._UNSUPPORTED_FEATURE if isinstance(why, NotRetriable) else KafkaError._TIMED_OUT
    )
    return Fault(code, why.reason)


def _whole(deadline: Deadline) -> Iterator[float]:
    while not deadline.expired:
        yield deadline.remaining


def _lanes(
    coordinated: Mapping[int, Sequence[str]], numbers: Mapping[str, Sequence[int]], requests: int
) -> dict[tuple[int, int], Lane]:
    """The requests for each coordinator, over several connections."""
    width = min(_MOST_LANES, max(min(_LANES, -(-requests // 3)), requests // _REQUESTS_A_LANE))
    held: dict[tuple[int, int], list[int]] = defaultdict(list)
    for node, names in coordinated.items():
        for at, name in enumerate(names):
            held[node, at % width] += numbers[name]
    return {key: Lane(mine) for key, mine in held.items()}


def _found_coordinators(names: Sequence[str], opened: BrokerSocket) -> list[wire.Coordinator]:
    rows: list[wire.Coordinator] = []
    for chunk in in_chunks(names, _NAMES_A_REQUEST):
        rows += opened.exchange(
            wire.FIND_COORDINATOR, wire.find_coordinators(chunk), wire.read_coordinators
        )
    return rows


def _fetched(names: Sequence[str], lane: Lane, opened: BrokerSocket) -> None:
    for chunk in in_chunks(lane.numbers, _GROUPS_A_REQUEST):
        numbers = {names[number]: number for number in chunk}
        for each in opened.exchange(wire.FETCH, wire.fetch(numbers), wire.read_fetched):
            lane.replies[numbers[each.group]] = _held(each)


def _held(each: wire.GroupHeld) -> Replied:
    if each.error:
        return Replied(fault_of(each.error))
    faults = {TopicPartition(h.topic, h.partition): h.error for h in each.held if h.error}
    positions = {
        TopicPartition(held.topic, held.partition): Committed(
            held.offset, held.leader_epoch, held.metadata
        )
        for held in each.held
        if held.offset >= 0 and not held.error
    }
    return Replied(None, {place: fault_of(code) for place, code in faults.items()}, positions)


def _by_topic(positions: Positions) -> dict[str, list[wire.To]]:
    topics: dict[str, list[wire.To]] = defaultdict(list)
    for place, at in positions.items():
        topics[place.topic].append(
            wire.To(place.partition, at.offset, at.leader_epoch, at.metadata)
        )
    return topics


_AT_ONCE = 20
_REBALANCE_MS = 60_000
# A commit becomes one batch of records, which a broker takes up to message.max.bytes (1 MB).
_REQUEST_BYTES = 400_000
_POSITION_BYTES = 120

Answers = Mapping[str, Mapping[TopicPartition, Unavailable | None]]


class KafkaGroupWriter(ClusterClient):
    """Implements `GroupWriter` of `drctl.model.ports`, and `GroupCreator` of `drctl.model.groups`.

    Connects on first use. Every call ends within `timeout_s` for each 500 groups (and a moment).
    """

    def commit(self, wanted: Mapping[str, Positions]) -> Answers:
        """Commit these positions; by group and partition None where it was, or why it was not."""
        parts = [
            (group, part) for group, places in wanted.items() for part in _parts(group, places)
        ]
        return self._done(parts, GroupRequests(self._connection, self._brokers).commit(parts))

    def delete(self, unwanted: Mapping[str, Collection[TopicPartition]]) -> Answers:
        """Remove positions; by group and partition None where it was, or why it was not."""
        parts = [
            (group, part)
            for group, places in unwanted.items()
            for part in _parts(group, dict.fromkeys(places))
        ]
        return self._done(parts, GroupRequests(self._connection, self._brokers).delete(parts))

    def create(self, names: Collection[str]) -> Mapping[str, Unavailable | None]:
        """Make each known, and leave it empty; by group None where it is, or why it is not.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        wanted = list(dict.fromkeys(names))

        def visit(lane: Lane, opened: BrokerSocket) -> None:
            for chunk in in_chunks(lane.numbers, _AT_ONCE):
                beats = _beats(opened, {n: wanted[n] for n in chunk}, wire.JOIN)
                members = {n: wanted[n] for n, beat in beats.items() if not beat.error}
                beats |= _beats(opened, members, wire.LEAVE)
                for number, beat in beats.items():
                    fault = fault_of(beat.error, beat.text) if beat.error else None
                    lane.replies[number] = Replied(fault)

        requests = GroupRequests(self._connection, self._brokers)
        replies = requests.ask(wanted, visit, _passing, whole=True)
        return {
            name: self._told(name, reply.failed)
            for name, reply in zip(wanted, replies, strict=True)
        }

    def _told(self, name: str, fault: Fault | None) -> Unavailable | None:
        if fault is None:
            return None
        text = self._connection.redacted(reason(name, fault))
        return Unanswered(text) if fault.unanswered else Unavailable(text)

    def _done(
        self, parts: Sequence[tuple[str, Collection[TopicPartition]]], replies: Sequence[Replied]
    ) -> Answers:
        found: dict[str, dict[TopicPartition, Unavailable | None]] = {}
        for (group, places), reply in zip(parts, replies, strict=True):
            answers = found.setdefault(group, {})
            for place in places:
                answers[place] = self._answer(group, reply.failed or reply.faults.get(place))
        return found

    def _answer(self, group: str, fault: Fault | None) -> Unavailable | None:
        if fault is None:
            return None
        if occupied(fault):
            return GroupActive("the coordinator refused: the group has active members")
        text = self._connection.redacted(reason(group, fault))
        return Unanswered(text) if unanswered(fault) else Unavailable(text)


def _parts(
    group: str, positions: Mapping[TopicPartition, Any]
) -> Iterator[dict[TopicPartition, Any]]:
    """The positions in requests that a broker takes."""
    part: dict[TopicPartition, Any] = {}
    size = 0
    for place, position in positions.items():
        metadata = len(position.metadata) if position else 0
        size += _POSITION_BYTES + len(group) + len(place.topic) + 4 * metadata
        part[place] = position
        if size >= _REQUEST_BYTES:
            yield part
            part, size = {}, 0
    if part:
        yield part


def _beats(opened: BrokerSocket, groups: Mapping[int, str], epoch: int) -> dict[int, wire.Beat]:
    for name in groups.values():
        opened.send(wire.HEARTBEAT, wire.heartbeat(name, _member(name), epoch, _REBALANCE_MS))
    return {number: opened.receive(wire.HEARTBEAT, wire.read_heartbeat) for number in groups}


def _member(group: str) -> str:
    """Always the same: one that could not leave is not left behind by the next attempt."""
    return str(uuid5(NAMESPACE_OID, f"drctl {group}"))


def _passing(reply: Replied) -> bool:
    return reply.failed is not None and reply.failed.retried
