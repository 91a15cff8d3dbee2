"""Moves what groups have committed; only where nobody reads in them: the coordinator sees to it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from drctl.model.groups import Committed, Positions
from drctl.model.topology import TopicPartition, Unavailable
from drctl.offsets.answers import Occupied, Unanswered
from drctl.systems.closing import Closing
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.faults import Fault
from drctl.systems.kafka.group_batches import WORTH, GroupBatches
from drctl.systems.kafka.group_clients import GroupClients, Request, put_off
from drctl.systems.kafka.group_faults import occupied, reason, unanswered
from drctl.systems.kafka.group_requests import GroupRequests, Replied

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
