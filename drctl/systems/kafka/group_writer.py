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
from drctl.systems.kafka.group_clients import GroupClients, Request
from drctl.systems.kafka.group_faults import occupied, reason, unanswered
from drctl.systems.kafka.group_requests import GroupRequests

# A commit becomes one batch of records, which a broker takes up to message.max.bytes (1 MB).
_REQUEST_BYTES = 400_000
_POSITION_BYTES = 120

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

    def commit(self, wanted: Mapping[str, Positions]) -> Answers:
        """Commit these positions; by group and partition None where it was, or why it was not."""
        parts = [
            _Part(group, tuple(part), partial(_alter, group, part))
            for group, positions in wanted.items()
            for part in _parts(group, positions)
        ]
        return self._done(parts)

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

    def _done(self, parts: Sequence[_Part]) -> Answers:
        found: dict[str, dict[TopicPartition, Unavailable | None]] = {}
        replies = self._clients.write([part.send for part in parts])
        for part, reply in zip(parts, replies, strict=True):
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
