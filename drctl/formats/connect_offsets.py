"""Kafka Connect's offsets topic: how far each source connector got.

What stands in it is each connector's own affair; those that copy topics are understood here.
"""

from dataclasses import dataclass
from typing import NamedTuple

from drctl.formats.primitives import Object, Undecodable, is_count, parsed, written

_KEY, _VALUE = "Connect offset key", "Connect offset"
_OF_MIRROR_MAKER = frozenset({"cluster", "topic", "partition"})
_OF_REPLICATOR = frozenset({"topic", "partition"})


@dataclass(frozen=True, slots=True)
class ConnectKey:
    """A connector, and which of the things that it reads.

    Attributes:
        partition: the source partition, in the connector's own words.
    """

    connector: str
    partition: Object


class CopiedPartition(NamedTuple):
    """A Kafka partition as a source partition.

    Attributes:
        cluster: MirrorMaker 2's alias of the source; None for Confluent Replicator.
    """

    cluster: str | None
    topic: str
    partition: int


def decode_key(data: bytes | None) -> ConnectKey:
    """Read a key.

    Raises:
        Undecodable: it is none.
    """
    match parsed(_KEY, data):
        case [str() as connector, dict() as partition]:
            return ConnectKey(connector, partition)
        case _:
            raise Undecodable(_KEY, "not a connector's name and an object", data)


def encode_key(key: ConnectKey) -> bytes:
    """Write a key."""
    return written([key.connector, key.partition])


def decode_value(data: bytes | None) -> Object | None:
    """Read a value: the source offset in the connector's own words; None for a tombstone.

    Raises:
        Undecodable: it is none.
    """
    if data is None:
        return None
    match parsed(_VALUE, data):
        case dict() as offset:
            return offset
        case _:
            raise Undecodable(_VALUE, "not an object", data)


def encode_value(value: Object) -> bytes:
    """Write a value."""
    return written(value)


def copied_partition(key: ConnectKey) -> CopiedPartition | None:
    """Which Kafka partition the key is about; None where it is about none.

    MirrorMaker 2's other connectors (checkpoints, heartbeats) have keys too, but copy nothing.
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
    """The number in `{"offset": number}`; None where the value is something else.

    For MirrorMaker 2 it is the last record that was copied, for Replicator the next one.
    """
    found = value.get("offset")
    return found if len(value) == 1 and isinstance(found, int) and is_count(found) else None
