"""Kafka's primitive types, written; numbers are big-endian.

Values that do not fit raise `ValueError` or `struct.error`: nothing is cut.
"""

from struct import Struct

INT16, INT32, INT64, UINT64 = Struct(">h"), Struct(">i"), Struct(">q"), Struct(">Q")
LONGEST_STRING = 2**15 - 1
VARINT_BITS = 32
VARLONG_BITS = 64

Tags = tuple[tuple[int, bytes], ...]
"""Tagged fields: tag and content."""


def int16(value: int) -> bytes:
    """INT16."""
    return INT16.pack(value)


def int32(value: int) -> bytes:
    """INT32."""
    return INT32.pack(value)


def int64(value: int) -> bytes:
    """INT64."""
    return INT64.pack(value)


def varint(value: int) -> bytes:
    """UNSIGNED_VARINT."""
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def signed_varlong(value: int) -> bytes:
    """VARLONG: zigzag."""
    return varint((value << 1) ^ (value >> (VARLONG_BITS - 1)))


def string(value: str) -> bytes:
    """STRING."""
    return int16(len(encoded := _short(value))) + encoded


def nullable_string(value: str | None) -> bytes:
    """NULLABLE_STRING."""
    return int16(-1) if value is None else string(value)


def long_string(value: str) -> bytes:
    """Text behind an INT32 with its length."""
    return bytes32(value.encode())


def bytes32(value: bytes) -> bytes:
    """BYTES."""
    return int32(len(value)) + value


def compact_string(value: str) -> bytes:
    """COMPACT_STRING."""
    return varint(len(encoded := _short(value)) + 1) + encoded


def compact_nullable_string(value: str | None) -> bytes:
    """COMPACT_NULLABLE_STRING."""
    return b"\0" if value is None else compact_string(value)


def compact_bytes(value: bytes) -> bytes:
    """COMPACT_BYTES."""
    return varint(len(value) + 1) + value


def tags(value: Tags) -> bytes:
    """Tagged fields."""
    return varint(len(value)) + b"".join(
        varint(tag) + varint(len(content)) + content for tag, content in value
    )


def _short(value: str) -> bytes:
    encoded = value.encode()
    if len(encoded) > LONGEST_STRING:
        raise ValueError(f"a string of {len(encoded)} bytes; Kafka's hold {LONGEST_STRING}")
    return encoded
