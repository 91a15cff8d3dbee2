"""Positions of very many groups, with little work for each: over connections of our own.

librdkafka asks for one group at a time. Here a coordinator is asked for hundreds at once, and takes
commits one behind the other without a wait in between. What this way does not answer plainly is
left to `GroupClients`: brokers that are too old, logins that sockets of our own do not have,
coordinators that move.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import KafkaError

from drctl.kafka.broker_socket import Address, BrokerSocket
from drctl.kafka.brokers import Brokers
from drctl.kafka.connection import Connection, in_chunks
from drctl.kafka.deadline import Deadline
from drctl.kafka.faults import Fault
from drctl.kafka.group_requests import WAVE, Replied
from drctl.kafka.protocol_groups import (
    COMMIT,
    FETCH,
    FIND_COORDINATOR,
    Coordinator,
    GroupHeld,
    To,
    commit,
    fetch,
    find_coordinators,
    read_committed,
    read_coordinators,
    read_fetched,
)
from drctl.model.errors import ConfigError, DrctlError, Unreachable
from drctl.model.groups import Committed, Positions
from drctl.model.topology import TopicPartition, Unavailable

WORTH = 20
"""Fewer groups than that are quicker with a client that is connected already."""

LANES = 8
"""Connections to a broker: it takes one request of each at a time, and waits for its replicas."""

_NAMES_A_REQUEST = 500
_GROUPS_A_REQUEST = 100
_COMMITS_AT_ONCE = 20
_COMMITS_A_LANE = 30
_MOST_LANES = 32
"""A coordinator of Kafka 4 gathers commits for some milliseconds, and answers them then."""

_HEALTHY = 0.25
"""The share of a deadline within which coordinators answer that are well."""

_LOST = Fault(KafkaError._TIMED_OUT, "no answer within the deadline")


class GroupBatches:
    """Asks the coordinators of groups, all of them side by side."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._brokers = Brokers(connection)

    def committed(self, names: Sequence[str]) -> dict[str, Replied]:
        """What groups have committed; those of which nothing certain was said are left out."""
        deadline = self._deadline(len(names), _HEALTHY)
        lanes, addresses = self._lanes(names, deadline, 1)
        tasks = {lane: partial(_fetched, groups) for lane, groups in lanes.items()}
        try:
            answers = self._brokers.ask(tasks, addresses, deadline)
        except ConfigError:
            return {}
        told = (each for rows in answers.values() if isinstance(rows, list) for each in rows)
        return {each.group: _held(each) for each in told if _is_plain(each)}

    def commit(self, wanted: Sequence[tuple[str, Positions]]) -> dict[int, Replied]:
        """Have groups stand at positions; by number what became of it.

        What is left out was not sent. What was sent and not answered says so: it may be done.
        """
        deadline = self._deadline(len(wanted))
        numbers: dict[str, list[int]] = defaultdict(list)
        for number, (group, _) in enumerate(wanted):
            numbers[group].append(number)
        width = min(_MOST_LANES, max(LANES, len(wanted) // _COMMITS_A_LANE))
        healthy = deadline.sooner(self._connection.timeout_s * _HEALTHY)
        lanes, addresses = self._lanes(tuple(numbers), healthy, width)
        batches = {
            lane: _Batch([(n, *wanted[n]) for group in groups for n in numbers[group]])
            for lane, groups in lanes.items()
        }
        try:
            self._brokers.ask({lane: b.run for lane, b in batches.items()}, addresses, deadline)
        except ConfigError:
            return {}
        return {n: reply for batch in batches.values() for n, reply in batch.replies().items()}

    def _deadline(self, requests: int, share: float = 1.0) -> Deadline:
        return Deadline.after(self._connection.timeout_s * share * -(-requests // WAVE))

    def _lanes(
        self, names: Sequence[str], deadline: Deadline, width: int
    ) -> tuple[dict[tuple[int, int], list[str]], dict[tuple[int, int], Address]]:
        """The groups of each coordinator, over so many connections; nothing where none is known."""
        lanes: dict[tuple[int, int], list[str]] = defaultdict(list)
        try:
            addresses = self._brokers.addresses(deadline)
            _, coordinated = coordinators(self._brokers, names, addresses, deadline)
        except (Unreachable, ConfigError):
            return {}, {}
        for node, groups in coordinated.items():
            for at, name in enumerate(groups):
                lanes[node, at % width].append(name)
        return lanes, {lane: addresses[lane[0]] for lane in lanes if lane[0] in addresses}


def coordinators(
    brokers: Brokers, names: Sequence[str], addresses: Mapping[int, Address], deadline: Deadline
) -> tuple[dict[str, Coordinator | Unavailable], dict[int, list[str]]]:
    """Why groups have no coordinator, and the groups of each: one broker after another is asked.

    Raises:
        ConfigError: the properties cannot be used for connections of our own.
    """

    def ask(opened: BrokerSocket) -> list[Coordinator]:
        rows: list[Coordinator] = []
        for chunk in in_chunks(names, _NAMES_A_REQUEST):
            body = find_coordinators(chunk)
            rows += opened.exchange(FIND_COORDINATOR, body, read_coordinators)
        return rows

    without: dict[str, Coordinator | Unavailable] = {}
    coordinated: dict[int, list[str]] = defaultdict(list)
    for (node, address), timeout in zip(
        sorted(addresses.items()), deadline.attempts(), strict=False
    ):
        soon = deadline.sooner(timeout)
        rows = brokers.ask({node: ask}, {node: address}, soon)[node]
        if isinstance(rows, Unavailable):
            without = dict.fromkeys(names, rows)
            continue
        without = {row.group: row for row in rows if row.error}
        for row in rows:
            if not row.error:
                coordinated[row.node].append(row.group)
        break
    return without, coordinated


@dataclass(slots=True)
class _Batch:
    """Commits over one connection; tells also of those that were under way when it was lost.

    Attributes:
        wanted: number, group and positions.
    """

    wanted: Sequence[tuple[int, str, Positions]]
    _over: bool = False
    _sent: list[int] = field(default_factory=list)
    _answered: dict[int, Replied] = field(default_factory=dict)

    def run(self, opened: BrokerSocket) -> None:
        for chunk in in_chunks(self.wanted, _COMMITS_AT_ONCE):
            for number, group, positions in chunk:
                body = commit(group, _by_topic(positions))
                if self._over:
                    # Nobody waits any more: what is left may be under way in another way.
                    return
                if COMMIT in opened:
                    # Part of it may have gone out where sending fails.
                    self._sent.append(number)
                opened.send(COMMIT, body)
            for number, _, _ in chunk:
                faults = {
                    TopicPartition(topic, partition): _fault(error)
                    for topic, partition, error in opened.receive(COMMIT, read_committed)
                    if error
                }
                self._answered[number] = Replied(number, None, faults, {})

    def replies(self) -> dict[int, Replied]:
        """What became of those that were sent; no more are sent from now on."""
        self._over = True
        sent = tuple(self._sent)
        return {n: self._answered.get(n) or Replied(n, _LOST, {}, {}) for n in sent}


def _fetched(groups: Sequence[str], opened: BrokerSocket) -> list[GroupHeld]:
    found: list[GroupHeld] = []
    try:
        for chunk in in_chunks(groups, _GROUPS_A_REQUEST):
            found += opened.exchange(FETCH, fetch(chunk), read_fetched)
    except DrctlError:
        # What has been told counts; the rest is asked in another way.
        return found
    return found


def _is_plain(each: GroupHeld) -> bool:
    return not each.error and not any(held.error for held in each.held)


def _held(each: GroupHeld) -> Replied:
    positions = {
        TopicPartition(held.topic, held.partition): Committed(
            held.offset, held.leader_epoch, held.metadata
        )
        for held in each.held
        if held.offset >= 0
    }
    return Replied(0, None, {}, positions)


def _by_topic(positions: Positions) -> dict[str, list[To]]:
    topics: dict[str, list[To]] = defaultdict(list)
    for place, at in positions.items():
        topics[place.topic].append(To(place.partition, at.offset, at.leader_epoch, at.metadata))
    return topics


def _fault(code: int) -> Fault:
    return Fault(code, KafkaError(code).str())
