"""Kafka's primitive types, big-endian.

Encoding a value that does not fit raises `ValueError` or `struct.error`.
"""

import json
from collections.abc import Mapping
from struct import Struct
from struct import error as StructError
from typing import NoReturn

from drctl.model.strict_json import read_json
from drctl.model.text import plural

INT16, INT32, INT64, UINT64 = Struct(">h"), Struct(">i"), Struct(">q"), Struct(">Q")
MAX_STRING_BYTES = 2**15 - 1
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
    """Text after an INT32 with its length."""
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
    if len(encoded) > MAX_STRING_BYTES:
        raise ValueError(f"a string of {len(encoded)} bytes; Kafka allows {MAX_STRING_BYTES}")
    return encoded


_SHOWN = 64


class Undecodable(ValueError):
    """The bytes do not have the expected format.

    Attributes:
        reason: what is wrong.
        hex: all bytes; may be empty.
    """

    def __init__(self, format_name: str, reason: str, data: bytes | None) -> None:
        self.reason = f"{format_name}: {reason}"
        self.hex = (data or b"").hex()
        shown = self.hex[:_SHOWN] + ("..." if len(self.hex) > _SHOWN else "")
        super().__init__(f"{self.reason}: {shown or 'no bytes'}")


_ONE_BYTE = tuple((number >> 1) ^ -(number & 1) for number in range(0x80))
"""The value of a VARLONG of one byte."""


class Cursor:
    """Decodes bytes from start to end.

    Every method raises `Undecodable` if the bytes do not contain what it reads.
    """

    __slots__ = ("_at", "_data", "_name")

    def __init__(self, format_name: str, data: bytes | None) -> None:
        self._name = format_name
        if data is None:
            raise Undecodable(format_name, "null", None)
        self._data = data
        self._at = 0

    def fail(self, reason: str) -> NoReturn:
        """Raise `Undecodable` with this reason."""
        raise Undecodable(self._name, reason, self._data)

    def end(self) -> None:
        """Check that no bytes are left."""
        left = len(self._data) - self._at
        if left:
            self.fail(f"{plural(left, 'byte')} too many")

    def rest(self) -> bytes:
        """The remaining bytes."""
        return self.take(len(self._data) - self._at)

    def take(self, length: int) -> bytes:
        """The next `length` bytes."""
        start = self._pass(length)
        return self._data[start : self._at]

    def int8(self) -> int:
        """INT8, but unsigned."""
        return self._data[self._pass(1)]

    def int16(self) -> int:
        """INT16."""
        found: int = INT16.unpack_from(self._data, self._pass(2))[0]
        return found

    def int32(self) -> int:
        """INT32."""
        found: int = INT32.unpack_from(self._data, self._pass(4))[0]
        return found

    def int64(self) -> int:
        """INT64."""
        found: int = INT64.unpack_from(self._data, self._pass(8))[0]
        return found

    def uint64(self) -> int:
        """An unsigned INT64."""
        found: int = UINT64.unpack_from(self._data, self._pass(8))[0]
        return found

    def uint64_varlongs(self, count: int) -> tuple[list[int], list[int]]:
        """`count` pairs of an unsigned INT64 and a VARLONG; fast, since there can be very many."""
        numbers: list[int] = []
        longs: list[int] = []
        data, at, unpack = self._data, self._at, UINT64.unpack_from
        for _ in range(count):
            try:
                numbers += unpack(data, at)
                byte = data[at + 8]
                if byte < 0x80:
                    longs.append(_ONE_BYTE[byte])
                    at += 9
                    continue
                last = data[at + 9]
            except (StructError, IndexError):
                self._at = at
                self._pass(9)
                last = 0
            if 0 < last < 0x80:
                byte += (last - 1) << 7
                longs.append((byte >> 1) ^ -(byte & 1))
                at += 10
            else:
                self._at = at + 8
                longs.append(self.signed_varlong())
                at = self._at
        self._at = at
        return numbers, longs

    def partition(self) -> int:
        """A partition number: INT32, not negative."""
        found = self.int32()
        if found < 0:
            self.fail(f"partition {found}")
        return found

    def version(self, newest: int) -> int:
        """A version: INT16 from 0 to `newest`."""
        found = self.int16()
        if not 0 <= found <= newest:
            self.fail(f"version {found}; known versions are 0 to {newest}")
        return found

    def varint(self) -> int:
        """UNSIGNED_VARINT."""
        return self._varied(VARINT_BITS)

    def varlong(self) -> int:
        """UNSIGNED_VARLONG."""
        return self._varied(VARLONG_BITS)

    def signed_varlong(self) -> int:
        """VARLONG: zigzag."""
        found = self._varied(VARLONG_BITS)
        return (found >> 1) ^ -(found & 1)

    def text(self, length: int) -> str:
        """UTF-8 text of `length` bytes."""
        try:
            return self.take(length).decode()
        except UnicodeDecodeError:
            self.fail("text that is not UTF-8")

    def string(self) -> str:
        """STRING."""
        found = self.nullable_string()
        if found is None:
            self.fail("null where text must be")
        return found

    def nullable_string(self) -> str | None:
        """NULLABLE_STRING."""
        length = self.int16()
        if length < -1:
            self.fail(f"a string of length {length}")
        return None if length == -1 else self.text(length)

    def long_string(self) -> str:
        """Text after an INT32 with its length."""
        length = self.int32()
        if length < 0:
            self.fail(f"a string of length {length}")
        return self.text(length)

    def bytes32(self) -> bytes:
        """BYTES."""
        length = self.int32()
        if length < 0:
            self.fail(f"bytes of length {length}")
        return self.take(length)

    def compact_string(self) -> str:
        """COMPACT_STRING."""
        found = self.compact_nullable_string()
        if found is None:
            self.fail("null where text must be")
        return found

    def compact_nullable_string(self) -> str | None:
        """COMPACT_NULLABLE_STRING."""
        length = self.varint() - 1
        if length > MAX_STRING_BYTES:
            self.fail(f"a string of length {length}")
        return None if length == -1 else self.text(length)

    def compact_bytes(self) -> bytes:
        """COMPACT_BYTES."""
        length = self.varint() - 1
        if length == -1:
            self.fail("null where bytes must be")
        return self.take(length)

    def tags(self) -> Tags:
        """Tagged fields (KIP-482), ascending by tag."""
        found: list[tuple[int, bytes]] = []
        for _ in range(self.varint()):
            tag = self.varint()
            if found and tag <= found[-1][0]:
                self.fail(f"tag {tag} after tag {found[-1][0]}")
            found.append((tag, self.take(self.varint())))
        return tuple(found)

    def _pass(self, length: int) -> int:
        """Advance by `length` bytes; return where they start."""
        start, self._at = self._at, self._at + length
        if self._at > len(self._data):
            self.fail(f"{plural(self._at - len(self._data), 'byte')} too few")
        return start

    def _varied(self, bits: int) -> int:
        data, at = self._data, self._at
        value = shift = 0
        while True:
            try:
                byte = data[at]
            except IndexError:
                self._at = at
                self._pass(1)  # fails
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift >= bits:
                self.fail(f"a number of more than {bits} bits")
        self._at = at
        if value >> bits:
            self.fail(f"a number of more than {bits} bits")
        if not byte and shift > 7:
            self.fail("a number in more bytes than it needs")
        return value


Object = Mapping[str, object]


def parse_json(format_name: str, data: bytes | None) -> object:
    """Decode JSON.

    Raises:
        Undecodable: it is invalid.
    """
    if data is None:
        raise Undecodable(format_name, "null", None)
    try:
        found: object = read_json(data)
        if b"\\u" in data:
            # Reject unpaired surrogates in escapes, which are not text.
            compact_json(found)
    except ValueError as error:
        raise Undecodable(format_name, f"invalid JSON: {error}", data) from None
    return found


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def compact_json(value: object) -> bytes:
    """Encode JSON without whitespace and without escaping text."""
    return _COMPACT.encode(value).encode()


def is_count(value: object) -> bool:
    """Whether this is an integer from 0, such as an offset or a partition."""
    return type(value) is int and 0 <= value < 1 << 63
