"""Records of classic groups in `__consumer_offsets`: generation and members."""

from dataclasses import dataclass

from drctl.formats import primitives
from drctl.formats.primitives import Cursor, Tags

_NAME = "group metadata"
_NEWEST = 4
_WITH_REBALANCE, _WITH_TIME, _WITH_INSTANCE, _FLEXIBLE = 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a classic group.

    Attributes:
        instance_id: of a static member; None before version 3.
        rebalance_timeout_ms: -1 before version 1.
        subscription: encoded by its protocol.
        assignment: encoded by its protocol.
        tags: tagged fields; none before version 4.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes
    tags: Tags = ()


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A classic group.

    Attributes:
        protocol: the assignor; None for an empty group.
        leader: a member's id; None for an empty group.
        state_changed_ms: -1 before version 2.
        tags: tagged fields; none before version 4.
    """

    version: int
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_changed_ms: int
    members: tuple[Member, ...]
    tags: Tags = ()


def decode_group(data: bytes | None) -> GroupMetadata | None:
    """Decode the value of a record of type GROUP_METADATA; None for a tombstone.

    Raises:
        Undecodable: it is invalid or of an unknown version.
    """
    if data is None:
        return None
    cursor = Cursor(_NAME, data)
    version = cursor.version(_NEWEST)
    flexible = version >= _FLEXIBLE
    nullable = cursor.compact_nullable_string if flexible else cursor.nullable_string
    found = GroupMetadata(
        version,
        cursor.compact_string() if flexible else cursor.string(),
        cursor.int32(),
        nullable(),
        nullable(),
        cursor.int64() if version >= _WITH_TIME else -1,
        tuple(_member(cursor, version) for _ in range(_count(cursor, flexible))),
        cursor.tags() if flexible else (),
    )
    cursor.end()
    return found


def encode_group(value: GroupMetadata) -> bytes:
    """Encode the value of a record of type GROUP_METADATA."""
    flexible = value.version >= _FLEXIBLE
    text = primitives.compact_string if flexible else primitives.string
    nullable = primitives.compact_nullable_string if flexible else primitives.nullable_string
    number = len(value.members)
    return b"".join(
        (
            primitives.int16(value.version),
            text(value.protocol_type),
            primitives.int32(value.generation),
            nullable(value.protocol),
            nullable(value.leader),
            primitives.int64(value.state_changed_ms) if value.version >= _WITH_TIME else b"",
            primitives.varint(number + 1) if flexible else primitives.int32(number),
            *(_encoded(member, value.version) for member in value.members),
            primitives.tags(value.tags) if flexible else b"",
        )
    )


def _count(cursor: Cursor, flexible: bool) -> int:
    found = cursor.varint() - 1 if flexible else cursor.int32()
    if found < 0:
        cursor.fail(f"{found} members")
    return found


def _member(cursor: Cursor, version: int) -> Member:
    flexible = version >= _FLEXIBLE
    text = cursor.compact_string if flexible else cursor.string
    nullable = cursor.compact_nullable_string if flexible else cursor.nullable_string
    content = cursor.compact_bytes if flexible else cursor.bytes32
    return Member(
        text(),
        nullable() if version >= _WITH_INSTANCE else None,
        text(),
        text(),
        cursor.int32() if version >= _WITH_REBALANCE else -1,
        cursor.int32(),
        content(),
        content(),
        cursor.tags() if flexible else (),
    )


def _encoded(member: Member, version: int) -> bytes:
    flexible = version >= _FLEXIBLE
    text = primitives.compact_string if flexible else primitives.string
    nullable = primitives.compact_nullable_string if flexible else primitives.nullable_string
    content = primitives.compact_bytes if flexible else primitives.bytes32
    return b"".join(
        (
            text(member.member_id),
            nullable(member.instance_id) if version >= _WITH_INSTANCE else b"",
            text(member.client_id),
            text(member.client_host),
            primitives.int32(member.rebalance_timeout_ms) if version >= _WITH_REBALANCE else b"",
            primitives.int32(member.session_timeout_ms),
            content(member.subscription),
            content(member.assignment),
            primitives.tags(member.tags) if flexible else b"",
        )
    )
