"""Moves what groups have committed; only where nobody reads in them: the coordinator sees to it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from drctl.kafka.broker_socket import BrokerSocket
from drctl.kafka.brokers import ClusterClient
from drctl.kafka.connection import in_chunks
from drctl.kafka.faults import Fault
from drctl.kafka.group_requests import (
    GroupRequests,
    Lane,
    Replied,
    fault_of,
    occupied,
    reason,
    unanswered,
)
from drctl.kafka.protocol_groups import HEARTBEAT, JOIN, LEAVE, Beat, heartbeat, read_heartbeat
from drctl.model.groups import Occupied, Positions
from drctl.model.topology import TopicPartition, Unanswered, Unavailable

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
                beats = _beats(opened, {n: wanted[n] for n in chunk}, JOIN)
                members = {n: wanted[n] for n, beat in beats.items() if not beat.error}
                beats |= _beats(opened, members, LEAVE)
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
            return Occupied("the coordinator refused: somebody reads in the group")
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


def _beats(opened: BrokerSocket, groups: Mapping[int, str], epoch: int) -> dict[int, Beat]:
    for name in groups.values():
        opened.send(HEARTBEAT, heartbeat(name, _member(name), epoch, _REBALANCE_MS))
    return {number: opened.receive(HEARTBEAT, read_heartbeat) for number in groups}


def _member(group: str) -> str:
    """Always the same: one that could not leave is not left behind by the next attempt."""
    return str(uuid5(NAMESPACE_OID, f"drctl {group}"))


def _passing(reply: Replied) -> bool:
    return reply.failed is not None and reply.failed.retried
