"""Source positions of connectors, exported by `drctl offsets track` to the tracked offsets topic.

Key and value are JSON with exactly one encoding. The key is `["connector","CLUSTER ID","NAME"]`;
the positions are as Connect's REST interface returns them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from drctl.formats.primitives import Undecodable, compact_json, is_count, parse_json

_KIND = "connector"
_KEY, _VALUE = "tracked position key", "tracked position"
_VERSION = 1
_BEGINNING = b'["connector",'


class ConnectorKey(NamedTuple):
    """A connector that writes to a cluster.

    Attributes:
        cluster_id: Kafka's id of that cluster.
        name: its name on the workers from which it was exported.
    """

    cluster_id: str
    name: str


@dataclass(frozen=True, slots=True)
class TrackedPositions:
    """The source positions of a connector at one moment.

    Attributes:
        at_ms: when the positions were read, in milliseconds since 1970 UTC.
        workers: host and port of the first worker.
        workers_cluster_id: Kafka's id of the workers' own cluster.
        plugin: the connector's class.
        state: the connector's state.
        about: configuration keys that identify what the connector reads, without secrets.
        positions: source partition and offset; the offset is None if there is none.
    """

    at_ms: int
    workers: str
    workers_cluster_id: str
    plugin: str
    state: str
    about: Mapping[str, str]
    positions: tuple[tuple[Mapping[str, Any], Mapping[str, Any] | None], ...]


def is_key(data: bytes | None) -> bool:
    """Return whether the bytes are the start of a tracked position's key."""
    return data is not None and data.startswith(_BEGINNING)


def decode_key(data: bytes | None) -> ConnectorKey:
    """Decode a key.

    Raises:
        Undecodable: it is not the key of a tracked position.
    """
    match parse_json(_KEY, data):
        case [kind, str() as cluster, str() as name] if kind == _KIND:
            found = ConnectorKey(cluster, name)
        case _:
            raise Undecodable(_KEY, "wrong structure", data)
    if encode_key(found) != data:
        raise Undecodable(_KEY, "not in drctl's encoding", data)
    return found


def encode_key(key: ConnectorKey) -> bytes:
    """Encode a key."""
    return compact_json([_KIND, *key])


def decode_value(data: bytes | None) -> TrackedPositions | None:
    """Decode a value; None for a tombstone.

    Raises:
        Undecodable: it is invalid or of an unknown version.
    """
    if data is None:
        return None
    match parse_json(_VALUE, data):
        case {
            "version": int() as version,
            "at_ms": int() as at_ms,
            "workers": str() as workers,
            "workers_cluster_id": str() as cluster_id,
            "plugin": str() as plugin,
            "state": str() as state,
            "about": dict() as about,
            "positions": list() as positions,
        } if version == _VERSION and is_count(at_ms):
            known = at_ms, workers, cluster_id, plugin, state
            found = TrackedPositions(
                *known, _texts(data, about), tuple(_position(data, each) for each in positions)
            )
        case _:
            raise Undecodable(_VALUE, "wrong structure or unknown version", data)
    if encode_value(found) != data:
        raise Undecodable(_VALUE, "not in drctl's encoding", data)
    return found


def encode_value(value: TrackedPositions) -> bytes:
    """Encode a value."""
    return compact_json(
        {
            "version": _VERSION,
            "at_ms": value.at_ms,
            "workers": value.workers,
            "workers_cluster_id": value.workers_cluster_id,
            "plugin": value.plugin,
            "state": value.state,
            "about": dict(value.about),
            "positions": [[dict(p), None if o is None else dict(o)] for p, o in value.positions],
        }
    )


def _texts(data: bytes, found: Mapping[str, object]) -> dict[str, str]:
    texts = {key: text for key, text in found.items() if isinstance(text, str)}
    if len(texts) < len(found):
        raise Undecodable(_VALUE, "a setting that is not text", data)
    return texts


def _position(data: bytes, found: object) -> tuple[dict[str, Any], dict[str, Any] | None]:
    match found:
        case [dict() as partition, dict() | None as offset]:
            return partition, offset
        case _:
            raise Undecodable(_VALUE, "a position of another structure", data)
