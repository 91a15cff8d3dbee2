"""Kafka's requests and responses as they go over a connection: headers, and tables of fields.

A message is written down as Kafka's message definitions do it: its fields, in their order. Flexible
versions have compact fields and tags (KIP-482).
"""

from collections.abc import Callable, Iterable
from itertools import takewhile
from struct import Struct, calcsize
from typing import Any, NamedTuple, TypeVar

from drctl.formats import primitives
from drctl.formats.primitives import Cursor, compact_nullable_string, int16, int32, varint

CLIENT_ID = "drctl"
NO_TAGS = primitives.tags(())
_NULL, _NOT_NULL = 0xFF, b"\x01"

R = TypeVar("R")
Read = Callable[[Cursor], R]
"""Reads the body of a response; raises `Undecodable` where it is none."""


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
SHORT_STRING = Field(primitives.string, Cursor.string)
TEXT = Field(compact_nullable_string, lambda cursor: cursor.compact_nullable_string() or "")
"""A nullable string; null is read as empty."""


def array(item: Field, *, flexible: bool = True) -> Field:
    """An array. None is written as null; null is read as an empty one."""
    read = item.read

    def write(values: Iterable[Any] | None) -> bytes:
        if values is None:
            return b"\0"
        held = list(map(item.write, values))
        return (varint(len(held) + 1) if flexible else int32(len(held))) + b"".join(held)

    if flexible:
        return Field(
            write, lambda cursor: tuple([read(cursor) for _ in range(cursor.varint() - 1)])
        )
    return Field(write, lambda cursor: tuple([read(cursor) for _ in range(cursor.int32())]))


_SKIPPED = object()


def skipped(field: Field) -> Field:
    """A field of an answer that nobody wants to know."""

    def read(cursor: Cursor) -> object:
        field.read(cursor)
        return _SKIPPED

    return Field(field.write, read, field.format and f"{calcsize('>' + field.format)}x")


def struct(*fields: Field, into: Callable[..., Any] | None = None, flexible: bool = True) -> Field:
    """Fields that belong together, as a tuple or what is made of them; tags are skipped."""
    # There are very many rows of some: what has a fixed length in front is packed at once.
    fixed = list(takewhile(lambda field: field.format, fields))
    layout = Struct(">" + "".join(field.format for field in fixed))
    count, size, rest = len(fixed), layout.size, fields[len(fixed) :]
    end = NO_TAGS if flexible else b""

    def write(values: Iterable[Any]) -> bytes:
        held = tuple(values)
        if not rest:
            return layout.pack(*held) + end
        parts = [f.write(value) for f, value in zip(rest, held[count:], strict=True)]
        return b"".join((layout.pack(*held[:count]), *parts, end))

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


def placed(*fields: Field, into: Callable[..., Any], flexible: bool = True) -> Field:
    """Rows by topic, read as one list of what is made of a topic and a row of it."""
    topic = STRING if flexible else SHORT_STRING
    topics = rows(topic, rows(*fields, flexible=flexible), flexible=flexible)

    def read(cursor: Cursor) -> tuple[Any, ...]:
        return tuple([into(name, *row) for name, some in topics.read(cursor) for row in some])

    return topics._replace(read=read)


def nullable(item: Field) -> Field:
    """A struct, or None."""
    return Field(
        lambda value: bytes((_NULL,)) if value is None else _NOT_NULL + item.write(value),
        lambda cursor: None if cursor.int8() == _NULL else item.read(cursor),
    )


def request_of(*fields: Field, flexible: bool = True) -> Callable[..., bytes]:
    """What writes the body of a request, from the value of each field."""
    write = struct(*fields, flexible=flexible).write
    return lambda *values: write(values)


def answer_of(into: Callable[..., R], *fields: Field, flexible: bool = True) -> Read[R]:
    """What reads the body of a response, and makes something of its fields."""
    body = struct(*fields, flexible=flexible)

    def read(cursor: Cursor) -> R:
        found = body.read(cursor)
        cursor.end()
        return into(*found)

    return read


def alone(value: R) -> R:
    """The only field that an answer has."""
    return value


THROTTLE = skipped(INT32)
"""Milliseconds, in front of most answers: nobody here asks so often."""

_RANGES = rows(INT16, INT16, INT16, flexible=False)


def read_versions(cursor: Cursor) -> dict[int, tuple[int, int]]:
    """The oldest and the newest version that a broker supports, by the request's key.

    Raises:
        Undecodable: it is not a response to ApiVersions.
    """
    error = cursor.int16()
    if error:
        cursor.fail(f"error {error}")
    return {key: (oldest, newest) for key, oldest, newest in _RANGES.read(cursor)}
