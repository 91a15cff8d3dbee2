"""Kafka's wire format: headers, and fields from which requests and responses are built.

A message is declared as in Kafka's message definitions: its fields, in order. Flexible versions
have compact fields and tags (KIP-482). Each declaration is in the module that uses it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import takewhile
from struct import Struct, calcsize
from typing import Any, NamedTuple, TypeVar

from drctl.formats import primitives
from drctl.formats.primitives import Cursor, compact_nullable_string, int16, int32, varint
from drctl.model.topology import TopicPartition

CLIENT_ID = "drctl"
NO_TAGS = primitives.tags(())
_NULL, _NOT_NULL = 0xFF, b"\x01"

R = TypeVar("R")
Read = Callable[[Cursor], R]
"""Reads the body of a response; raises `Undecodable` if it is malformed."""


class Api(NamedTuple):
    """A kind of request, in the version that drctl uses.

    Attributes:
        flexible: whether this version has compact fields and tags (KIP-482).
        since: the first Kafka version that supports it.
    """

    name: str
    key: int
    version: int
    flexible: bool
    since: str


API_VERSIONS = Api("ApiVersions", 18, 0, False, "0.10")


def write_request(api: Api, correlation: int, body: bytes) -> bytes:
    """Encode a request with its length and header."""
    client = primitives.nullable_string(CLIENT_ID)
    header = int16(api.key) + int16(api.version) + int32(correlation) + client
    data = header + (NO_TAGS if api.flexible else b"") + body
    return int32(len(data)) + data


def read_response(api: Api, data: bytes) -> tuple[int, Cursor]:
    """Return the correlation id of a response, and its body.

    Raises:
        Undecodable: the header is malformed.
    """
    cursor = Cursor(f"response to {api.name}", data)
    correlation = cursor.int32()
    if api.flexible:
        cursor.tags()
    return correlation, cursor


class Field(NamedTuple):
    """How to encode and decode the value of a field.

    Attributes:
        format: its `struct` format if the field has a fixed length.
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
SHORT_STRING = Field(primitives.string, Cursor.string)
TEXT = Field(compact_nullable_string, lambda cursor: cursor.compact_nullable_string() or "")
"""A nullable string; null is read as an empty one."""


def array(item: Field, *, flexible: bool = True) -> Field:
    """An array. None is written as null; null is read as an empty array."""
    read = item.read

    def write(values: Iterable[Any] | None) -> bytes:
        if values is None:
            return b"\0"
        items = list(map(item.write, values))
        return (varint(len(items) + 1) if flexible else int32(len(items))) + b"".join(items)

    if flexible:
        return Field(
            write, lambda cursor: tuple([read(cursor) for _ in range(cursor.varint() - 1)])
        )
    return Field(write, lambda cursor: tuple([read(cursor) for _ in range(cursor.int32())]))


_SKIPPED = object()


def skipped(field: Field) -> Field:
    """A field of a response that is read and dropped."""

    def read(cursor: Cursor) -> object:
        field.read(cursor)
        return _SKIPPED

    return Field(field.write, read, field.format and f"{calcsize('>' + field.format)}x")


def struct(*fields: Field, into: Callable[..., Any] | None = None, flexible: bool = True) -> Field:
    """A struct: read as a tuple of its fields, or as `into(*fields)`; tags are skipped."""
    # Responses can have very many rows: the leading fields of fixed length are unpacked at once.
    fixed = list(takewhile(lambda field: field.format, fields))
    layout = Struct(">" + "".join(field.format for field in fixed))
    count, size, rest = len(fixed), layout.size, fields[len(fixed) :]
    end = NO_TAGS if flexible else b""

    def write(values: Iterable[Any]) -> bytes:
        row = tuple(values)
        if not rest:
            return layout.pack(*row) + end
        parts = [f.write(value) for f, value in zip(rest, row[count:], strict=True)]
        return b"".join((layout.pack(*row[:count]), *parts, end))

    def read(cursor: Cursor) -> Any:
        found: tuple[Any, ...] = layout.unpack(cursor.take(size))
        if rest:
            found += tuple([v for field in rest if (v := field.read(cursor)) is not _SKIPPED])
        if flexible:
            cursor.tags()
        return into(*found) if into else found

    return Field(write, read)


def rows(*fields: Field, into: Callable[..., Any] | None = None, flexible: bool = True) -> Field:
    """An array of structs."""
    return array(struct(*fields, into=into, flexible=flexible), flexible=flexible)


def topic_rows(*fields: Field, into: Callable[..., Any], flexible: bool = True) -> Field:
    """Rows grouped by topic, read as one flat tuple of `into(topic, *row)`."""
    topic = STRING if flexible else SHORT_STRING
    topics = rows(topic, rows(*fields, flexible=flexible), flexible=flexible)

    def read(cursor: Cursor) -> tuple[Any, ...]:
        return tuple([into(name, *row) for name, found in topics.read(cursor) for row in found])

    return topics._replace(read=read)


def nullable(item: Field) -> Field:
    """A struct, or None."""
    return Field(
        lambda value: bytes((_NULL,)) if value is None else _NOT_NULL + item.write(value),
        lambda cursor: None if cursor.int8() == _NULL else item.read(cursor),
    )


def body_writer(*fields: Field, flexible: bool = True) -> Callable[..., bytes]:
    """Return a function that encodes the body of a request from one argument per field."""
    write = struct(*fields, flexible=flexible).write
    return lambda *values: write(values)


def body_reader(into: Callable[..., R], *fields: Field, flexible: bool = True) -> Read[R]:
    """Return a function that decodes the body of a response to `into(*fields)`."""
    body = struct(*fields, flexible=flexible)

    def read(cursor: Cursor) -> R:
        found = body.read(cursor)
        cursor.end()
        return into(*found)

    return read


def only_field(value: R) -> R:
    """Return the value: for `body_reader`, if a response has a single field."""
    return value


def by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, as requests list them."""
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in places:
        topics[topic].append(partition)
    return topics


THROTTLE = skipped(INT32)
"""The throttle time in most responses: drctl sends too few requests to need it."""

_RANGES = rows(INT16, INT16, INT16, flexible=False)


def read_versions(cursor: Cursor) -> dict[int, tuple[int, int]]:
    """The oldest and newest version that a broker supports, by API key.

    Raises:
        Undecodable: it is not a response to ApiVersions.
    """
    error = cursor.int16()
    if error:
        cursor.fail(f"error {error}")
    return {key: (oldest, newest) for key, oldest, newest in _RANGES.read(cursor)}
