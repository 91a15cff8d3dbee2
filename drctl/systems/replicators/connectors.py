"""How far a source connector got, from the offsets that Connect keeps for it (KIP-875).

They are on the Connect workers' cluster, mostly the target's: readable while the source is down.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from drctl.gap.tail import Position
from drctl.model.topology import TopicPartition
from drctl.wire.exact_json import is_count


class ConnectorOffsets(Protocol):
    """The part of Connect that this needs."""

    def offsets(self, name: str) -> Sequence[Mapping[str, Any]]:
        """A connector's offsets: `{"partition": ..., "offset": ...}` each."""


class ConnectorPositions:
    """Implements `drctl.gap.tail.PositionFinder` for MirrorMaker 2 and Confluent Replicator.

    Args:
        next_offset: whether the offset that is kept is the next one to read (Replicator), not the
            last one that was acknowledged (MirrorMaker 2).
    """

    def __init__(self, connect: ConnectorOffsets, connector: str, *, next_offset: bool) -> None:
        self._connect = connect
        self._connector = connector
        self._step = 0 if next_offset else 1

    @property
    def same_offsets(self) -> bool:
        """No: a copy has an offset of its own."""
        return False

    def positions(self, topics: Iterable[str]) -> Mapping[TopicPartition, Position]:
        """By source partition; without those of which the connector keeps nothing.

        Raises:
            NoSuchConnector: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """
        wanted = set(topics)
        found = {}
        for entry in self._connect.offsets(self._connector):
            place, offset = _place(entry), _offset(entry)
            if place is not None and offset is not None and place.topic in wanted:
                evidence = f"connector {self._connector} keeps offset {offset} as copied"
                found[place] = Position(offset + self._step, evidence)
        return found


def _place(entry: Mapping[str, Any]) -> TopicPartition | None:
    partition = entry.get("partition")
    if not isinstance(partition, Mapping):
        return None
    topic, number = partition.get("topic"), partition.get("partition")
    if not isinstance(topic, str) or not isinstance(number, int) or not is_count(number):
        return None
    return TopicPartition(topic, number)


def _offset(entry: Mapping[str, Any]) -> int | None:
    kept = entry.get("offset")
    offset = kept.get("offset") if isinstance(kept, Mapping) else None
    return offset if isinstance(offset, int) and is_count(offset) else None
