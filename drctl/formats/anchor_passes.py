"""Beside the anchors: when a tracker last looked at all positions, and at which ones.

An anchor is written when its position moves; that it is still true afterwards is what passes say.
Key and value are JSON and written in one way only: `["pass","CLUSTER ID","SCOPE"]`, where SCOPE is
a digest of the value's patterns, so that trackers of the same configuration share a key.
"""

import re
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NamedTuple

from drctl.formats.primitives import Undecodable, is_count, parsed, written

_KIND = "pass"
_KEY, _VALUE = "pass key", "pass"
_VERSION = 1
_BEGINNING = b'["pass",'
_DIGITS = 16
_INTERNAL = "__"
_EVERYTHING = ".*"
_NAME = re.compile(r"[A-Za-z0-9._-]+")


class PassKey(NamedTuple):
    """Which cluster was looked at, and by which patterns.

    Attributes:
        cluster_id: Kafka's id of the source.
    """

    cluster_id: str
    scope: str


@dataclass(frozen=True, slots=True)
class Scope:
    """What a tracker looks at: the patterns of its link, matched against whole names.

    Attributes:
        source: what drctl.yaml calls the source.
    """

    source: str
    topics: tuple[str, ...]
    exclude: tuple[str, ...]
    groups: tuple[str, ...]

    @property
    def digest(self) -> str:
        """The same for the same patterns."""
        return sha256(written(_patterns(self))).hexdigest()[:_DIGITS]

    def covers_group(self, group: str) -> bool:
        """Whether a group is looked at; runs the patterns, so never of a scope that was read."""
        return _any_matches(self.groups, group)

    def covers_topic(self, topic: str) -> bool:
        """Whether positions in a topic are looked at; internal ones only where they are named.

        It runs the patterns, so never of a scope that was read.
        """
        if _any_matches(self.exclude, topic):
            return False
        if topic in self.topics:
            return True
        return not topic.startswith(_INTERNAL) and _any_matches(self.topics, topic)

    def looks_as(self, other: "Scope") -> bool:
        """Whether the patterns are the same, letter by letter."""
        return replace(self, source=other.source) == other

    def names_group(self, group: str) -> bool:
        """Whether a group is looked at, as far as the text of the patterns alone tells."""
        return _EVERYTHING in self.groups or (_is_name(group) and group in self.groups)

    def names_topic(self, topic: str) -> bool:
        """Likewise of positions in a topic."""
        if topic in self.exclude or not all(map(_is_name, self.exclude)):
            return False
        if _is_name(topic) and topic in self.topics:
            return True
        return not topic.startswith(_INTERNAL) and _EVERYTHING in self.topics


@dataclass(frozen=True, slots=True)
class Pass:
    """A look at all positions.

    Attributes:
        at_ms: when it began, in milliseconds since 1970 UTC.
        groups: how many it saw.
        positions: likewise.
    """

    at_ms: int
    scope: Scope
    groups: int
    positions: int


def is_key(data: bytes | None) -> bool:
    """Whether this begins as such a key does; an anchor's never does."""
    return data is not None and data.startswith(_BEGINNING)


def decode_key(data: bytes | None) -> PassKey:
    """Read a key.

    Raises:
        Undecodable: it is none.
    """
    match parsed(_KEY, data):
        case [kind, str() as cluster, str() as scope] if kind == _KIND:
            found = PassKey(cluster, scope)
        case _:
            raise Undecodable(_KEY, "not a pass's", data)
    if encode_key(found) != data:
        raise Undecodable(_KEY, "not as drctl writes it", data)
    return found


def encode_key(key: PassKey) -> bytes:
    """Write a key."""
    return written([_KIND, *key])


def decode_value(data: bytes | None) -> Pass | None:
    """Read a value; None for a tombstone.

    Raises:
        Undecodable: it is none, or of a version that is not known.
    """
    if data is None:
        return None
    match parsed(_VALUE, data):
        case {
            "version": int() as version,
            "at_ms": int() as at_ms,
            "source": str() as source,
            "topics": list() as topics,
            "exclude": list() as exclude,
            "groups": list() as groups,
            "groups_seen": int() as groups_seen,
            "positions_seen": int() as positions_seen,
        } if version == _VERSION and all(map(is_count, (at_ms, groups_seen, positions_seen))):
            patterns = tuple(_strings(data, each) for each in (topics, exclude, groups))
            found = Pass(at_ms, Scope(source, *patterns), groups_seen, positions_seen)
        case _:
            raise Undecodable(_VALUE, "not a pass, or of another version", data)
    if encode_value(found) != data:
        raise Undecodable(_VALUE, "not as drctl writes it", data)
    return found


def encode_value(value: Pass) -> bytes:
    """Write a value."""
    counts = {"groups_seen": value.groups, "positions_seen": value.positions}
    head = {"version": _VERSION, "at_ms": value.at_ms}
    return written({**head, **_patterns(value.scope), **counts})


def _patterns(scope: Scope) -> dict[str, object]:
    return {
        "source": scope.source,
        "topics": list(scope.topics),
        "exclude": list(scope.exclude),
        "groups": list(scope.groups),
    }


def _strings(data: bytes, found: list[object]) -> tuple[str, ...]:
    strings = tuple(each for each in found if isinstance(each, str))
    if len(strings) < len(found):
        raise Undecodable(_VALUE, "a pattern that is no text", data)
    return strings


def _is_name(pattern: str) -> bool:
    """Whether it is text that matches itself; a dot in it may match more."""
    return bool(_NAME.fullmatch(pattern))


def _any_matches(patterns: tuple[str, ...], name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)
