"""Kafka Connect's offsets topic: the source offsets of source connectors.

Each connector has its own format; this module knows those of connectors that replicate topics.
"""

from dataclasses import dataclass
from typing import NamedTuple

from drctl.formats.primitives import Object, Undecodable, compact_json, is_count, parse_json

_KEY, _VALUE = "Connect offset key", "Connect offset"
_OF_MIRROR_MAKER = frozenset({"cluster", "topic", "partition"})
_OF_REPLICATOR = frozenset({"topic", "partition"})


@dataclass(frozen=True, slots=True)
class ConnectKey:
    """A connector and a source partition.

    Attributes:
        partition: the source partition, in the connector's own format.
    """

    connector: str
    partition: Object


class CopiedPartition(NamedTuple):
    """A Kafka partition that a connector replicates.

    Attributes:
        cluster: MirrorMaker 2's alias of the source; None for Confluent Replicator.
    """

    cluster: str | None
    topic: str
    partition: int


def decode_key(data: bytes | None) -> ConnectKey:
    """Decode a key.

    Raises:
        Undecodable: it is invalid.
    """
    match parse_json(_KEY, data):
        case [str() as connector, dict() as partition]:
            return ConnectKey(connector, partition)
        case _:
            raise Undecodable(_KEY, "not a connector's name and an object", data)


def encode_key(key: ConnectKey) -> bytes:
    """Encode a key."""
    return compact_json([key.connector, key.partition])


def decode_value(data: bytes | None) -> Object | None:
    """Decode a value: the source offset in the connector's own format; None for a tombstone.

    Raises:
        Undecodable: it is invalid.
    """
    if data is None:
        return None
    match parse_json(_VALUE, data):
        case dict() as offset:
            return offset
        case _:
            raise Undecodable(_VALUE, "not an object", data)


def encode_value(value: Object) -> bytes:
    """Encode a value."""
    return compact_json(value)


def copied_partition(key: ConnectKey) -> CopiedPartition | None:
    """The Kafka partition of a key; None if the key is not about a Kafka partition.

    MirrorMaker 2's other connectors (checkpoints, heartbeats) also have keys, but copy no records.
    """
    names, found = key.partition.keys(), key.partition
    if names not in (_OF_MIRROR_MAKER, _OF_REPLICATOR):
        return None
    cluster, topic, partition = found.get("cluster"), found["topic"], found["partition"]
    if not isinstance(topic, str) or not isinstance(partition, int) or not is_count(partition):
        return None
    if not isinstance(cluster, str | None) or ("cluster" in names and cluster is None):
        return None
    return CopiedPartition(cluster, topic, partition)


def copied_offset(value: Object) -> int | None:
    """The number in `{"offset": number}`; None for any other value.

    For MirrorMaker 2 it is the last copied record, for Replicator the next one.
    """
    found = value.get("offset")
    return found if len(value) == 1 and isinstance(found, int) and is_count(found) else None
