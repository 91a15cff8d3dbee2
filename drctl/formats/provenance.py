"""The header that drctl adds to each record that it copies: the origin of the record.

JSON, for example `{"drctl":1,"cluster":"...","topic":"orders","partition":0,"offset":5,
"timestamp":1700000000000}`.
"""

from typing import NamedTuple

from drctl.formats.primitives import Undecodable, compact_json, is_count, parse_json

HEADER = "__drctl_provenance"

_NAME = "provenance"
_VERSION = 1
_FIELDS = ("cluster", "topic", "partition", "offset", "timestamp")


class Provenance(NamedTuple):
    """The origin of a record.

    Attributes:
        cluster_id: Kafka's id of the cluster.
        timestamp_ms: the original timestamp; -1 if there was none.
    """

    cluster_id: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int


def decode(data: bytes | None) -> Provenance:
    """Decode the header's value.

    Raises:
        Undecodable: it is invalid or of an unknown version.
    """
    found = parse_json(_NAME, data)
    if not isinstance(found, dict) or "drctl" not in found:
        raise Undecodable(_NAME, "not drctl's", data)
    version, where = found["drctl"], Provenance._make(map(found.get, _FIELDS))
    if type(version) is not int or version != _VERSION:
        raise Undecodable(_NAME, f"a version that is not {_VERSION}", data)
    if found.keys() != {"drctl", *_FIELDS} or not _is_valid(where):
        raise Undecodable(_NAME, "not the fields of its version", data)
    return where


def encode(where: Provenance) -> bytes:
    """Encode the header's value."""
    return compact_json({"drctl": _VERSION, **dict(zip(_FIELDS, where, strict=True))})


def _is_valid(where: Provenance) -> bool:
    names = isinstance(where.cluster_id, str) and isinstance(where.topic, str)
    time = where.timestamp_ms
    timed = type(time) is int and -(1 << 63) <= time < 1 << 63
    return names and timed and is_count(where.partition) and is_count(where.offset)
