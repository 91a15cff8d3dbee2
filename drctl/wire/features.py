"""What a broker can do (KIP-584): the features that it knows, and what its cluster agreed on."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from drctl.wire.broker_requests import CLIENT_ID, NO_TAGS, Api, each
from drctl.wire.cursor import Cursor
from drctl.wire.primitives import compact_string

FEATURES = Api("ApiVersions", 18, 3, True, "2.4")

_SUPPORTED, _FINALIZED = 0, 2


@dataclass(frozen=True, slots=True)
class Features:
    """What one broker says.

    Attributes:
        supported: the highest level that it knows, by feature.
        finalized: the level that its cluster works at.
    """

    supported: Mapping[str, int] = field(default_factory=dict)
    finalized: Mapping[str, int] = field(default_factory=dict)


def ask_features() -> bytes:
    """Ask, and say who does."""
    return compact_string(CLIENT_ID) + compact_string("1") + NO_TAGS


def read_features(cursor: Cursor) -> Features:
    """The answer to `ask_features`.

    Raises:
        Undecodable: it is no such answer.
    """
    # This answer alone has no tags in its header (KIP-511): the first half of its error number,
    # always 0, was read in their place.
    error = cursor.int8()
    if error:
        cursor.fail(f"error {error}")
    for _ in range(cursor.varint() - 1):
        cursor.take(6)
        cursor.tags()
    cursor.int32()
    tagged = dict(cursor.tags())
    cursor.end()
    return Features(_levels(tagged.get(_SUPPORTED)), _levels(tagged.get(_FINALIZED)))


def _levels(data: bytes | None) -> dict[str, int]:
    if data is None:
        return {}
    return dict(each(Cursor("features", data), _level))


def _level(cursor: Cursor) -> tuple[str, int]:
    """One feature; of the two numbers behind its name one is the highest level."""
    name, numbers = cursor.compact_string(), (cursor.int16(), cursor.int16())
    cursor.tags()
    return name, max(numbers)
