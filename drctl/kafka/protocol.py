"""Requests to a broker and their answers, as they go over a connection.

The messages themselves are in modules of their own; here is what stands around each of them.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from drctl.formats.primitives import Cursor, int16, int32, nullable_string, tags, varint

T = TypeVar("T")

CLIENT_ID = "drctl"
NO_TAGS = tags(())


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
    header = int16(api.key) + int16(api.version) + int32(correlation) + nullable_string(CLIENT_ID)
    data = header + (NO_TAGS if api.flexible else b"") + body
    return int32(len(data)) + data


def answer(api: Api, data: bytes) -> tuple[int, Cursor]:
    """The number of the request that was answered, and what was answered to it.

    Raises:
        Undecodable: it is no answer.
    """
    cursor = Cursor(f"answer to {api.name}", data)
    correlation = cursor.int32()
    if api.flexible:
        cursor.tags()
    return correlation, cursor


def compact_array(items: Iterable[bytes]) -> bytes:
    """COMPACT_ARRAY of what is written already."""
    held = list(items)
    return varint(len(held) + 1) + b"".join(held)


def each(cursor: Cursor, read: Callable[[Cursor], T]) -> tuple[T, ...]:
    """A COMPACT_ARRAY, one item after the other; nothing for a null one."""
    return tuple(read(cursor) for _ in range(cursor.varint() - 1))


def read_versions(cursor: Cursor) -> dict[int, tuple[int, int]]:
    """By kind of request, the oldest and the newest version that a broker takes.

    Raises:
        Undecodable: it is no answer to ApiVersions.
    """
    error = cursor.int16()
    if error:
        cursor.fail(f"error {error}")
    found = {}
    for _ in range(cursor.int32()):
        key = cursor.int16()
        found[key] = (cursor.int16(), cursor.int16())
    return found
