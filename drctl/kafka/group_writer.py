"""Moves what groups have committed; only where nobody reads in them: the coordinator sees to it."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid5

from confluent_kafka import KafkaError

from drctl.host.connections import Closing
from drctl.kafka.broker_socket import Address, BrokerSocket
from drctl.kafka.brokers import Brokers, Hopeless, Task
from drctl.kafka.connection import Connection, in_chunks, pauses
from drctl.kafka.deadline import Deadline
from drctl.kafka.faults import Fault
from drctl.kafka.group_batches import LANES, WORTH, GroupBatches, coordinators
from drctl.kafka.group_requests import (
    GroupClients,
    GroupRequests,
    Replied,
    Request,
    moving,
    occupied,
    put_off,
    reason,
    unanswered,
)
from drctl.kafka.protocol_groups import HEARTBEAT, JOIN, LEAVE, Beat, heartbeat, read_heartbeat
from drctl.model.groups import Committed, Occupied, Positions
from drctl.model.topology import TopicPartition, Unanswered, Unavailable

# A commit becomes one batch of records, which a broker takes up to message.max.bytes (1 MB).
_REQUEST_BYTES = 400_000
_POSITION_BYTES = 120

_NONE: Mapping[int, Replied] = {}

Answers = Mapping[str, Mapping[TopicPartition, Unavailable | None]]


class _Part(NamedTuple):
    group: str
    places: tuple[TopicPartition, ...]
    send: Request


class KafkaGroupWriter(Closing):
    """Implements `GroupWriter` of `drctl.model.ports`.

    Connects on first use. Every call ends within `timeout_s` for each 500 groups (and a moment).
    """

    def __init__(self, name: str, properties: Mapping[str, str], *, timeout_s: float = 10) -> None:
        self._connection = Connection(name, properties, timeout_s)
        self._clients = GroupClients(self._connection)
        self._batches = GroupBatches(self._connection)

    def commit(self, wanted: Mapping[str, Positions]) -> Answers:
        """Commit these positions; by group and partition None where it was, or why it was not."""
        positions = [(group, p) for group, places in wanted.items() for p in _parts(group, places)]
        parts = [_Part(group, tuple(p), partial(_alter, group, p)) for group, p in positions]
        # Where many are sent at once, a coordinator that moves is asked again one by one.
        batched = self._batches.commit(positions) if len(positions) >= WORTH else {}
        return self._done(parts, {n: r for n, r in batched.items() if not put_off(r)})

    def delete(self, unwanted: Mapping[str, Collection[TopicPartition]]) -> Answers:
        """Remove positions; by group and partition None where it was, or why it was not."""
        parts = [
            _Part(group, tuple(part), partial(_delete, group, tuple(part)))
            for group, places in unwanted.items()
            for part in _parts(group, dict.fromkeys(places))
        ]
        return self._done(parts)

    def close(self) -> None:
        """Release connections; may be called again."""
        self._clients.close()
        self._connection.close()

    def _done(self, parts: Sequence[_Part], known: Mapping[int, Replied] = _NONE) -> Answers:
        found: dict[str, dict[TopicPartition, Unavailable | None]] = {}
        left = [number for number in range(len(parts)) if number not in known]
        replies = {**known}
        replies |= zip(left, self._clients.write([parts[n].send for n in left]), strict=True)
        for number, part in enumerate(parts):
            reply = replies[number]
            answers = found.setdefault(part.group, {})
            for place in part.places:
                fault = reply.failed or reply.faults.get(place)
                answers[place] = self._answer(part.group, fault)
        return found

    def _answer(self, group: str, fault: Fault | None) -> Unavailable | None:
        if fault is None:
            return None
        if occupied(fault):
            return Occupied("the coordinator refused: somebody reads in the group")
        text = self._connection.redacted(reason(group, fault))
        return Unanswered(text) if unanswered(fault) else Unavailable(text)


def _alter(group: str, positions: Positions, client: GroupRequests, number: int) -> None:
    client.alter(number, group, positions)


def _delete(
    group: str,
    places: Collection[TopicPartition],
    client: GroupRequests,
    number: int,
) -> None:
    client.delete(number, group, places)


def _parts(
    group: str, positions: Mapping[TopicPartition, Committed | None]
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


_AT_ONCE = 20
_REBALANCE_MS = 60_000

CreatorAnswers = dict[str, Fault | None]
Lane = tuple[int, int]


class KafkaGroupCreator(Closing):
    """Implements `GroupCreator` of `drctl.model.groups`.

    Connects on first use. A call ends within `timeout_s` (and a moment).
    """

    def __init__(self, name: str, properties: Mapping[str, str], *, timeout_s: float = 10) -> None:
        self._connection = Connection(name, properties, timeout_s)
        self._brokers = Brokers(self._connection)

    def create(self, names: Collection[str]) -> Mapping[str, Unavailable | None]:
        """Make each known, and leave it empty; by group None where it is, or why it is not.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for connections of our own.
        """
        deadline, waits = self._connection.deadline(), pauses()
        wanted = list(dict.fromkeys(names))
        answers: CreatorAnswers = dict.fromkeys(wanted, _SILENT)
        pending = wanted
        while pending:
            answers |= self._round(pending, deadline)
            pending = [name for name in pending if _again(answers[name])]
            if deadline.expired:
                break
            self._connection.wait(min(next(waits), deadline.remaining) if pending else 0)
        return {name: self._told(name, answers[name]) for name in wanted}

    def close(self) -> None:
        """Release connections; may be called again."""
        self._connection.close()

    def _round(self, names: Sequence[str], deadline: Deadline) -> CreatorAnswers:
        addresses = self._brokers.addresses(deadline)
        answers, coordinated = self._coordinators(names, addresses, deadline)
        lanes: dict[Lane, list[str]] = defaultdict(list)
        for node, groups in coordinated.items():
            for at, name in enumerate(groups):
                lanes[node, at % LANES].append(name)
        tasks = {lane: _visits(groups) for lane, groups in lanes.items()}
        places = {lane: addresses[lane[0]] for lane in lanes if lane[0] in addresses}
        for lane, found in self._brokers.ask(tasks, places, deadline).items():
            if isinstance(found, Unavailable):
                answers |= dict.fromkeys(lanes[lane], _lost(found))
            else:
                answers |= found
        return answers

    def _coordinators(
        self, names: Sequence[str], addresses: Mapping[int, Address], deadline: Deadline
    ) -> tuple[CreatorAnswers, dict[int, list[str]]]:
        found, coordinated = coordinators(self._brokers, names, addresses, deadline)
        answers: CreatorAnswers = dict.fromkeys(names, _SILENT)
        for name, why in found.items():
            answers[name] = (
                _lost(why) if isinstance(why, Unavailable) else _fault(why.error, why.text)
            )
        return answers, coordinated

    def _told(self, name: str, fault: Fault | None) -> Unavailable | None:
        if fault is None:
            return None
        text = self._connection.redacted(reason(name, fault))
        return Unanswered(text) if fault.unanswered else Unavailable(text)


def _visits(groups: Sequence[str]) -> Task[CreatorAnswers]:
    def run(opened: BrokerSocket) -> CreatorAnswers:
        answers: CreatorAnswers = {}
        for chunk in in_chunks(groups, _AT_ONCE):
            joined = _beats(opened, chunk, JOIN)
            answers |= {name: _judged(beat) for name, beat in joined.items()}
            members = [name for name, beat in joined.items() if not beat.error]
            left = _beats(opened, members, LEAVE)
            answers |= {name: _judged(beat) for name, beat in left.items()}
        return answers

    return run


def _beats(opened: BrokerSocket, groups: Sequence[str], epoch: int) -> dict[str, Beat]:
    for name in groups:
        opened.send(HEARTBEAT, heartbeat(name, _member(name), epoch, _REBALANCE_MS))
    return {name: opened.receive(HEARTBEAT, read_heartbeat) for name in groups}


def _member(group: str) -> str:
    """Always the same: one that could not leave is not left behind by the next attempt."""
    return str(uuid5(NAMESPACE_OID, f"drctl {group}"))


def _judged(beat: Beat) -> Fault | None:
    return _fault(beat.error, beat.text) if beat.error else None


def _fault(code: int, text: str) -> Fault:
    return Fault(code, text or KafkaError(code).str())


def _lost(why: Unavailable) -> Fault:
    code = KafkaError._FAIL if isinstance(why, Hopeless) else KafkaError._TIMED_OUT
    return Fault(code, why.reason)


def _again(fault: Fault | None) -> bool:
    return fault is not None and (moving(fault) or fault.retried)


_SILENT = Fault(KafkaError._TIMED_OUT, "no answer within the deadline")
