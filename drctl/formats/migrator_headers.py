"""The headers that Redpanda Migrator adds to the records that it copies, by their default names.

One is the record's offset on the cluster that it was copied from: 8 bytes, big-endian. The other is
the id of the cluster where the record was produced; further copies keep it.
"""

from struct import Struct

from drctl.formats.primitives import Undecodable

OFFSET_HEADER = "redpanda-migrator-offset"
ORIGIN_HEADER = "redpanda-migrator-provenance"

_OFFSET, _ORIGIN = "migrated offset", "migrated record's origin"
_NUMBER = Struct(">q")


def decode_offset(data: bytes | None) -> int:
    """Decode the offset.

    Raises:
        Undecodable: it is invalid.
    """
    if data is None:
        raise Undecodable(_OFFSET, "null", None)
    if len(data) != _NUMBER.size:
        raise Undecodable(_OFFSET, f"{len(data)} bytes, not {_NUMBER.size}", data)
    found: int = _NUMBER.unpack(data)[0]
    if found < 0:
        raise Undecodable(_OFFSET, "negative", data)
    return found


def encode_offset(offset: int) -> bytes:
    """Encode the offset."""
    return _NUMBER.pack(offset)


def decode_origin(data: bytes | None) -> str:
    """Decode the cluster's id.

    Raises:
        Undecodable: it is invalid.
    """
    if not data:
        raise Undecodable(_ORIGIN, "null" if data is None else "empty", data)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Undecodable(_ORIGIN, "text that is not UTF-8", data) from None


def encode_origin(cluster_id: str) -> bytes:
    """Encode the cluster's id."""
    return cluster_id.encode()
