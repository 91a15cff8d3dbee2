"""Kafka's topic `__consumer_offsets`, or a copy of it: keys, and the values of commits.

The values of classic groups are in `group_metadata`. Records of newer group types are recognized by
their keys; their values contain no offsets and are not decoded.
"""

import base64
from enum import IntEnum
from typing import NamedTuple

from drctl.formats import primitives
from drctl.formats.primitives import Cursor, Tags

TOPIC = "__consumer_offsets"

_KEY, _COMMIT = "consumer offsets key", "offset commit"
_NEWEST = 4
_WITH_EXPIRY, _WITH_EPOCH, _FLEXIBLE = 1, 3, 4
_TOPIC_ID, _UUID_BYTES = 0, 16


class RecordType(IntEnum):
    """The type of a record: the number with which its key starts.

    No release used the numbers 9 and 18.
    """

    LEGACY_OFFSET_COMMIT = 0
    OFFSET_COMMIT = 1
    GROUP_METADATA = 2
    CONSUMER_GROUP_METADATA = 3
    CONSUMER_GROUP_PARTITION_METADATA = 4
    CONSUMER_GROUP_MEMBER_METADATA = 5
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8
    SHARE_GROUP_MEMBER_METADATA = 10
    SHARE_GROUP_METADATA = 11
    SHARE_GROUP_TARGET_ASSIGNMENT_METADATA = 12
    SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER = 13
    SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT = 14
    SHARE_GROUP_STATE_PARTITION_METADATA = 15
    CONSUMER_GROUP_REGULAR_EXPRESSION = 16
    STREAMS_GROUP_METADATA = 17
    STREAMS_GROUP_MEMBER_METADATA = 19
    STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA = 20
    STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER = 21
    STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT = 22
    STREAMS_GROUP_TOPOLOGY = 23


_COMMITS = frozenset({RecordType.LEGACY_OFFSET_COMMIT, RecordType.OFFSET_COMMIT})
TYPES_WITH_MEMBER = frozenset(
    {
        RecordType.CONSUMER_GROUP_MEMBER_METADATA,
        RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
        RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
        RecordType.SHARE_GROUP_MEMBER_METADATA,
        RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER,
        RecordType.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT,
        RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION,
        RecordType.STREAMS_GROUP_MEMBER_METADATA,
        RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER,
        RecordType.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    }
)
_KNOWN = frozenset(RecordType)


class CommitKey(NamedTuple):
    """The key of a commit.

    Attributes:
        legacy: whether it is of type 0, which is equivalent to type 1.
    """

    group: str
    topic: str
    partition: int
    legacy: bool = False


class GroupKey(NamedTuple):
    """The key of a record about a group.

    Attributes:
        member: the member's id, or the expression of a CONSUMER_GROUP_REGULAR_EXPRESSION; None if
            the type has no such field.
    """

    type: RecordType
    group: str
    member: str | None = None


class UnknownKey(NamedTuple):
    """A key of an unknown type; count it, but do not interpret it."""

    type: int
    rest: bytes


Key = CommitKey | GroupKey | UnknownKey


class OffsetCommit(NamedTuple):
    """The value of a commit.

    Attributes:
        offset: the next offset to consume.
        leader_epoch: of the last consumed record; -1 before version 3.
        metadata: the client's own text.
        committed_ms: commit time.
        expires_ms: expiry time; only in version 1.
        tags: tagged fields; none before version 4.
    """

    version: int
    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int = -1
    tags: Tags = ()

    @property
    def topic_id(self) -> str:
        """Kafka's topic UUID as its tools print it; empty if there is none."""
        found = dict(self.tags).get(_TOPIC_ID, bytes(_UUID_BYTES))
        return base64.urlsafe_b64encode(found).decode().rstrip("=") if any(found) else ""


def decode_key(data: bytes | None) -> Key:
    """Decode a key of any type.

    Raises:
        Undecodable: it is invalid.
    """
    cursor = Cursor(_KEY, data)
    number = cursor.int16()
    if number not in _KNOWN:
        return UnknownKey(number, cursor.rest())
    kind = RecordType(number)
    found: Key
    if kind in _COMMITS:
        legacy = kind is RecordType.LEGACY_OFFSET_COMMIT
        found = CommitKey(cursor.string(), cursor.string(), cursor.partition(), legacy)
    else:
        found = GroupKey(
            kind, cursor.string(), cursor.string() if kind in TYPES_WITH_MEMBER else None
        )
    cursor.end()
    return found


def encode_key(key: Key) -> bytes:
    """Encode a key."""
    if isinstance(key, CommitKey):
        number = primitives.int16(int(not key.legacy))
        return (
            number
            + primitives.string(key.group)
            + primitives.string(key.topic)
            + primitives.int32(key.partition)
        )
    if isinstance(key, GroupKey):
        member = b"" if key.member is None else primitives.string(key.member)
        return primitives.int16(key.type) + primitives.string(key.group) + member
    return primitives.int16(key.type) + key.rest


def decode_commit(data: bytes | None) -> OffsetCommit | None:
    """Decode the value of a commit; None for a tombstone.

    Raises:
        Undecodable: it is invalid or of an unknown version.
    """
    if data is None:
        return None
    cursor = Cursor(_COMMIT, data)
    version = cursor.version(_NEWEST)
    found = OffsetCommit(
        version,
        cursor.int64(),
        cursor.int32() if version >= _WITH_EPOCH else -1,
        cursor.compact_string() if version >= _FLEXIBLE else cursor.string(),
        cursor.int64(),
        cursor.int64() if version == _WITH_EXPIRY else -1,
        cursor.tags() if version >= _FLEXIBLE else (),
    )
    cursor.end()
    if any(tag == _TOPIC_ID and len(content) != _UUID_BYTES for tag, content in found.tags):
        cursor.fail("a topic id that is not of 16 bytes")
    return found


def encode_commit(value: OffsetCommit) -> bytes:
    """Encode the value of a commit."""
    flexible = value.version >= _FLEXIBLE
    return b"".join(
        (
            primitives.int16(value.version),
            primitives.int64(value.offset),
            primitives.int32(value.leader_epoch) if value.version >= _WITH_EPOCH else b"",
            (primitives.compact_string if flexible else primitives.string)(value.metadata),
            primitives.int64(value.committed_ms),
            primitives.int64(value.expires_ms) if value.version == _WITH_EXPIRY else b"",
            primitives.tags(value.tags) if flexible else b"",
        )
    )
