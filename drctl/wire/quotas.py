"""Client quotas (KIP-546): how much users and clients may do."""

from collections.abc import Mapping
from struct import Struct
from typing import NamedTuple

from drctl.wire.broker_requests import NO_TAGS, Api, compact_array, each
from drctl.wire.cursor import Cursor

DESCRIBE_QUOTAS = Api("DescribeClientQuotas", 48, 1, True, "2.8")

_FLOAT64 = Struct(">d")

Entity = tuple[tuple[str, str | None], ...]
"""Kind and name, as in (("user", "app"),); None for the default of its kind."""


class Quotas(NamedTuple):
    """What a broker answers.

    Attributes:
        error: Kafka's number; 0 where there is none.
        limits: by whom, the limits by their key.
    """

    error: int
    text: str
    limits: Mapping[Entity, Mapping[str, float]]


def describe_quotas() -> bytes:
    """Ask for all of them."""
    every = compact_array(())
    return every + b"\0" + NO_TAGS


def read_quotas(cursor: Cursor) -> Quotas:
    """The answer.

    Raises:
        Undecodable: it is no such answer.
    """
    cursor.int32()
    error, text = cursor.int16(), cursor.compact_nullable_string()
    limits = dict(each(cursor, _entry))
    cursor.tags()
    cursor.end()
    return Quotas(error, text or "", limits)


def _entry(cursor: Cursor) -> tuple[Entity, Mapping[str, float]]:
    entity, values = each(cursor, _part), dict(each(cursor, _limit))
    cursor.tags()
    return tuple(sorted(entity, key=str)), values


def _part(cursor: Cursor) -> tuple[str, str | None]:
    found = cursor.compact_string(), cursor.compact_nullable_string()
    cursor.tags()
    return found


def _limit(cursor: Cursor) -> tuple[str, float]:
    name = cursor.compact_string()
    value: float = _FLOAT64.unpack(cursor.take(8))[0]
    cursor.tags()
    return name, value
