"""Kafka's requests and responses as they go over a connection: headers, and tables of fields.

A message is written down as Kafka's message definitions do it: its fields, in their order. Only
flexible versions are (compact fields and tags, KIP-482); the few older ones are written by hand.
"""

from collections.abc import Callable, Iterable
from itertools import takewhile
from struct import Struct
from typing import Any, NamedTuple

from drctl.formats import primitives
from drctl.formats.primitives import Cursor, compact_nullable_string, int16, int32, varint

CLIENT_ID = "drctl"
NO_TAGS = primitives.tags(())
_NULL, _NOT_NULL = 0xFF, b"\x01"


class Api(NamedTuple):
    """A kind of request, in the version that is spoken here.

    Attributes:
        flexible: whether this version has compact fields and tags (KIP-482).
        since: the first Kafka whose brokers know it.
    """

    name: str
    key: int
    version: int
    flexible: bool
    since: str


API_VERSIONS = Api("ApiVersions", 18, 0, False, "0.10")


def request(api: Api, correlation: int, body: bytes) -> bytes:
    """A request with its headers and its length."""
    client = primitives.nullable_string(CLIENT_ID)
    header = int16(api.key) + int16(api.version) + int32(correlation) + client
    data = header + (NO_TAGS if api.flexible else b"") + body
    return int32(len(data)) + data


def answer(api: Api, data: bytes) -> tuple[int, Cursor]:
    """The correlation id of a response, and its body.

    Raises:
        Undecodable: it is not a response.
    """
    cursor = Cursor(f"answer to {api.name}", data)
    correlation = cursor.int32()
    if api.flexible:
        cursor.tags()
    return correlation, cursor


def read_versions(cursor: Cursor) -> dict[int, tuple[int, int]]:
    """The oldest and the newest version that a broker supports, by the request's key.

    Raises:
        Undecodable: it is not a response to ApiVersions.
    """
    error = cursor.int16()
    if error:
        cursor.fail(f"error {error}")
    found = {}
    for _ in range(cursor.int32()):
        key = cursor.int16()
        found[key] = (cursor.int16(), cursor.int16())
    return found


class Field(NamedTuple):
    """How a field's value is written and read.

    Attributes:
        format: of `struct`, where the field always has the same length.
    """

    write: Callable[[Any], bytes]
    read: Callable[[Cursor], Any]
    format: str = ""


INT8 = Field(lambda value: bytes((value,)), Cursor.int8, "B")
INT16 = Field(int16, Cursor.int16, "h")
INT32 = Field(int32, Cursor.int32, "i")
INT64 = Field(primitives.int64, Cursor.int64, "q")
STRING = Field(primitives.compact_string, Cursor.compact_string)
NULLABLE_STRING = Field(compact_nullable_string, Cursor.compact_nullable_string)
TEXT = Field(compact_nullable_string, lambda cursor: cursor.compact_nullable_string() or "")
"""A nullable string; null is read as empty."""


def compact_array(items: Iterable[bytes]) -> bytes:
    """COMPACT_ARRAY of encoded items."""
    held = list(items)
    return varint(len(held) + 1) + b"".join(held)


def long_array(items: Iterable[bytes]) -> bytes:
    """ARRAY of encoded items, of versions that are not flexible."""
    held = list(items)
    return int32(len(held)) + b"".join(held)


def array(item: Field) -> Field:
    """An array. None is written as null; null is read as an empty one."""
    read = item.read

    def write(values: Iterable[Any] | None) -> bytes:
        return b"\0" if values is None else compact_array(map(item.write, values))

    return Field(write, lambda cursor: [read(cursor) for _ in range(cursor.varint() - 1)])


def struct(*fields: Field) -> Field:
    """Fields that belong together, as a tuple; tags are skipped."""
    # There are very many rows of some: what has a fixed length in front is packed at once.
    fixed = list(takewhile(lambda field: field.format, fields))
    layout = Struct(">" + "".join(field.format for field in fixed))
    count, size, rest = len(fixed), layout.size, fields[len(fixed) :]

    def write(values: Iterable[Any]) -> bytes:
        held = tuple(values)
        if not rest:
            return layout.pack(*held) + NO_TAGS
        parts = [f.write(value) for f, value in zip(rest, held[count:], strict=True)]
        return b"".join((layout.pack(*held[:count]), *parts, NO_TAGS))

    def read(cursor: Cursor) -> tuple[Any, ...]:
        found: tuple[Any, ...] = layout.unpack(cursor.take(size))
        if rest:
            found += tuple([field.read(cursor) for field in rest])
        cursor.tags()
        return found

    return Field(write, read)


def rows(*fields: Field) -> Field:
    """An array of structs."""
    return array(struct(*fields))


def nullable(item: Field) -> Field:
    """A struct, or None."""
    return Field(
        lambda value: bytes((_NULL,)) if value is None else _NOT_NULL + item.write(value),
        lambda cursor: None if cursor.int8() == _NULL else item.read(cursor),
    )


class Message:
    """The body of a request or of a response."""

    def __init__(self, *fields: Field) -> None:
        self._struct = struct(*fields)

    def write(self, *values: object) -> bytes:
        """The encoded body, from the value of each field."""
        return self._struct.write(values)

    def read(self, cursor: Cursor) -> Any:
        """The value of each field.

        Raises:
            Undecodable: it is not such a body.
        """
        found = self._struct.read(cursor)
        cursor.end()
        return found


def by_topic(topics: Iterable[tuple[str, Iterable[tuple[Any, ...]]]]) -> list[tuple[Any, ...]]:
    """Rows with their topic in front, from topics with their rows."""
    return [(topic, *row) for topic, rows in topics for row in rows]
