"""Commit and delete the offsets of consumer groups, and create KIP-848 groups."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid5

from confluent_kafka import KafkaError

from drctl.formats.primitives import Cursor
from drctl.kafka.brokers import BrokerSocket, ClusterClient
from drctl.kafka.connection import in_chunks
from drctl.kafka.faults import Fault, protocol_fault
from drctl.kafka.group_requests import GroupRequests, Pipeline, Reply, reason, unanswered
from drctl.kafka.protocol import INT32, NULLABLE_STRING, STRING, Api, array, body_writer, rows
from drctl.model.groups import GroupActive, Positions
from drctl.model.topology import TopicPartition, Unanswered, Unavailable

HEARTBEAT = Api("ConsumerGroupHeartbeat", 68, 0, True, "4.0")
JOIN, LEAVE = 0, -1
"""Member epochs with a special meaning."""


class HeartbeatResponse(NamedTuple):
    """A coordinator's response to a member.

    Attributes:
        error: Kafka's error code; 0 for success.
        member: the id under which the group now has this member.
    """

    error: int
    text: str
    member: str
    epoch: int


_HEARTBEAT_REQUEST = body_writer(
    *(STRING, STRING, INT32, NULLABLE_STRING, NULLABLE_STRING, INT32),
    *(array(STRING), NULLABLE_STRING, rows()),
)


def write_heartbeat(group: str, member: str, epoch: int, rebalance_timeout_ms: int) -> bytes:
    """The heartbeat of a member without topics and partitions."""
    timeout_ms, nothing = (rebalance_timeout_ms, ()) if epoch == JOIN else (-1, None)
    return _HEARTBEAT_REQUEST(group, member, epoch, None, None, timeout_ms, nothing, None, nothing)


def read_heartbeat(cursor: Cursor) -> HeartbeatResponse:
    """Read a response, but not the assignment at its end, which is empty without topics.

    Raises:
        Undecodable: the response is malformed.
    """
    cursor.int32()
    error, text = cursor.int16(), cursor.compact_nullable_string()
    member, epoch = cursor.compact_nullable_string(), cursor.int32()
    return HeartbeatResponse(error, text or "", member or "", epoch)


_ACTIVE = frozenset(
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
_UNSUPPORTED = KafkaError.UNSUPPORTED_VERSION
_NO_SUCH_GROUPS = (
    "the cluster does not support KIP-848 groups (needs Kafka 4.0 or later with group.version=1)"
)
_PIPELINED = 20
_REBALANCE_MS = 60_000
# A commit becomes one record batch, which a broker accepts up to message.max.bytes (1 MB).
_REQUEST_BYTES = 400_000
_POSITION_BYTES = 120

Answers = Mapping[str, Mapping[TopicPartition, Unavailable | None]]


class KafkaGroupWriter(ClusterClient):
    """Implements `GroupWriter` of `drctl.model.ports`, and `GroupCreator` of `drctl.model.groups`.

    Connects on first use. Every call ends within about `timeout_s` per 500 groups.
    """

    def commit(self, wanted: Mapping[str, Positions]) -> Answers:
        """Commit these offsets; for each group and partition, return None or why it failed."""
        parts = [
            (group, part) for group, places in wanted.items() for part in _parts(group, places)
        ]
        return self._results(parts, GroupRequests(self._connection, self._brokers).commit(parts))

    def delete(self, unwanted: Mapping[str, Collection[TopicPartition]]) -> Answers:
        """Delete offsets; for each group and partition, return None or why it failed."""
        parts = [
            (group, part)
            for group, places in unwanted.items()
            for part in _parts(group, dict.fromkeys(places))
        ]
        return self._results(parts, GroupRequests(self._connection, self._brokers).delete(parts))

    def create(self, names: Collection[str]) -> Mapping[str, Unavailable | None]:
        """Create empty KIP-848 groups; for each group, return None or why it failed.

        A member joins each group and leaves it again.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        wanted = list(dict.fromkeys(names))

        def join_and_leave(pipeline: Pipeline, broker: BrokerSocket) -> None:
            for chunk in in_chunks(pipeline.numbers, _PIPELINED):
                answers = _heartbeats(broker, {n: wanted[n] for n in chunk}, JOIN)
                members = {n: wanted[n] for n, answer in answers.items() if not answer.error}
                answers |= _heartbeats(broker, members, LEAVE)
                for number, answer in answers.items():
                    text = _NO_SUCH_GROUPS if answer.error == _UNSUPPORTED else answer.text
                    fault = protocol_fault(answer.error, text) if answer.error else None
                    pipeline.replies[number] = Reply(fault)

        replies = GroupRequests(self._connection, self._brokers).ask(
            wanted,
            join_and_leave,
            lambda reply: reply.failed is not None and reply.failed.retried,
            whole=True,
        )
        found: dict[str, Unavailable | None] = {}
        for name, (fault, *_) in zip(wanted, replies, strict=True):
            found[name] = None
            if fault is not None:
                text = self._connection.redacted(reason(name, fault))
                found[name] = Unanswered(text) if fault.unanswered else Unavailable(text)
        return found

    def _results(
        self, parts: Sequence[tuple[str, Collection[TopicPartition]]], replies: Sequence[Reply]
    ) -> Answers:
        found: dict[str, dict[TopicPartition, Unavailable | None]] = {}
        for (group, places), reply in zip(parts, replies, strict=True):
            answers = found.setdefault(group, {})
            for place in places:
                answers[place] = self._result(group, reply.failed or reply.faults.get(place))
        return found

    def _result(self, group: str, fault: Fault | None) -> Unavailable | None:
        if fault is None:
            return None
        if fault.code in _ACTIVE:
            return GroupActive("the coordinator refused: the group has active members")
        text = self._connection.redacted(reason(group, fault))
        return Unanswered(text) if unanswered(fault) else Unavailable(text)


def _parts(
    group: str, positions: Mapping[TopicPartition, Any]
) -> Iterator[dict[TopicPartition, Any]]:
    """Split the positions into requests that a broker accepts."""
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


def _heartbeats(
    broker: BrokerSocket, groups: Mapping[int, str], epoch: int
) -> dict[int, HeartbeatResponse]:
    for name in groups.values():
        # The member id is always the same: if it could not leave, the next attempt removes it.
        member = str(uuid5(NAMESPACE_OID, f"drctl {name}"))
        broker.send(HEARTBEAT, write_heartbeat(name, member, epoch, _REBALANCE_MS))
    return {number: broker.receive(HEARTBEAT, read_heartbeat) for number in groups}
