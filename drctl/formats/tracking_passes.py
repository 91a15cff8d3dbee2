"""Passes of `drctl offsets track`: when it last read all committed offsets, and which ones.

A tracked offset is written only when it changes; a later pass confirms that it has not changed.
Key and value are JSON with exactly one encoding. The key is `["pass","CLUSTER ID","SCOPE"]`, where
SCOPE is a digest of the value's patterns, so that trackers of the same configuration share a key.
"""

import re
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NamedTuple

from drctl.formats.primitives import Undecodable, compact_json, is_count, parse_json

_KIND = "pass"
_KEY, _VALUE = "pass key", "pass"
_VERSION = 1
_BEGINNING = b'["pass",'
_DIGITS = 16
_INTERNAL = "__"
_EVERYTHING = ".*"
_NAME = re.compile(r"[A-Za-z0-9._-]+")


class PassKey(NamedTuple):
    """A source and a scope.

    Attributes:
        cluster_id: Kafka's id of the source.
        scope: digest of the patterns.
    """

    cluster_id: str
    scope: str


@dataclass(frozen=True, slots=True)
class Scope:
    """Patterns of a link, which must match whole names.

    Attributes:
        source: name of the source in drctl.yaml.
    """

    source: str
    topics: tuple[str, ...]
    exclude: tuple[str, ...]
    groups: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Digest of the patterns."""
        return sha256(compact_json(_patterns(self))).hexdigest()[:_DIGITS]

    def covers_group(self, group: str) -> bool:
        """Match the group. Executes the patterns: never call this on a scope from a topic."""
        return _any_matches(self.groups, group)

    def covers_topic(self, topic: str) -> bool:
        """Match the topic; internal topics only by their full name.

        Executes the patterns: never call this on a scope from a topic.
        """
        if _any_matches(self.exclude, topic):
            return False
        if topic in self.topics:
            return True
        return not topic.startswith(_INTERNAL) and _any_matches(self.topics, topic)

    def same_patterns(self, other: "Scope") -> bool:
        """Compare the patterns as text."""
        return replace(self, source=other.source) == other

    def names_group(self, group: str) -> bool:
        """Return whether the group is certain to match, without executing patterns."""
        return _EVERYTHING in self.groups or (_is_name(group) and group in self.groups)

    def names_topic(self, topic: str) -> bool:
        """Return whether the topic is certain to match, without executing patterns."""
        if topic in self.exclude or not all(map(_is_name, self.exclude)):
            return False
        if _is_name(topic) and topic in self.topics:
            return True
        return not topic.startswith(_INTERNAL) and _EVERYTHING in self.topics


@dataclass(frozen=True, slots=True)
class Pass:
    """One reading of all committed offsets.

    Attributes:
        at_ms: start, in milliseconds since 1970 UTC.
        groups: number of groups.
        offsets: number of committed offsets.
    """

    at_ms: int
    scope: Scope
    groups: int
    offsets: int


def is_key(data: bytes | None) -> bool:
    """Return whether the bytes are the start of a pass's key, not of a tracked offset's."""
    return data is not None and data.startswith(_BEGINNING)


def decode_key(data: bytes | None) -> PassKey:
    """Decode a key.

    Raises:
        Undecodable: it is not the key of a pass.
    """
    match parse_json(_KEY, data):
        case [kind, str() as cluster, str() as scope] if kind == _KIND:
            found = PassKey(cluster, scope)
        case _:
            raise Undecodable(_KEY, "wrong structure", data)
    if encode_key(found) != data:
        raise Undecodable(_KEY, "not in drctl's encoding", data)
    return found


def encode_key(key: PassKey) -> bytes:
    """Encode a key."""
    return compact_json([_KIND, *key])


def decode_value(data: bytes | None) -> Pass | None:
    """Decode a value; None for a tombstone.

    Raises:
        Undecodable: it is invalid or of an unknown version.
    """
    if data is None:
        return None
    match parse_json(_VALUE, data):
        case {
            "version": int() as version,
            "at_ms": int() as at_ms,
            "source": str() as source,
            "topics": list() as topics,
            "exclude": list() as exclude,
            "groups": list() as groups,
            "groups_seen": int() as groups_seen,
            "offsets_seen": int() as offsets_seen,
        } if version == _VERSION and all(map(is_count, (at_ms, groups_seen, offsets_seen))):
            patterns = tuple(_strings(data, each) for each in (topics, exclude, groups))
            found = Pass(at_ms, Scope(source, *patterns), groups_seen, offsets_seen)
        case _:
            raise Undecodable(_VALUE, "wrong structure or unknown version", data)
    if encode_value(found) != data:
        raise Undecodable(_VALUE, "not in drctl's encoding", data)
    return found


def encode_value(value: Pass) -> bytes:
    """Encode a value."""
    counts = {"groups_seen": value.groups, "offsets_seen": value.offsets}
    head = {"version": _VERSION, "at_ms": value.at_ms}
    return compact_json({**head, **_patterns(value.scope), **counts})


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
        raise Undecodable(_VALUE, "a pattern that is not a string", data)
    return strings


def _is_name(pattern: str) -> bool:
    """Return whether the pattern is a plain name, which matches itself (a dot may match more)."""
    return bool(_NAME.fullmatch(pattern))


def _any_matches(patterns: tuple[str, ...], name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)
