"""Convert values of drctl.formats to the field names of Kafka's classes, and back."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from drctl.formats import checkpoints, consumer_offsets, group_metadata, heartbeats, offset_syncs
from drctl.formats.consumer_offsets import CommitKey, GroupKey, OffsetCommit, RecordType
from drctl.formats.group_metadata import GroupMetadata, Member
from drctl.formats.primitives import Tags

NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


@dataclass(frozen=True)
class Word:
    """How drctl encodes what a Kafka class encodes.

    Attributes:
        hex: encodes fields in a version.
        fields: decodes a hex string.
    """

    hex: Callable[[dict[str, Any], int], str]
    fields: Callable[[str], dict[str, Any]]


def camel(kind: RecordType) -> str:
    """The name of the class for keys of this type."""
    return "".join(part.capitalize() for part in kind.name.split("_")) + "Key"


def _key(kind: RecordType) -> Word:
    second = "regularExpression" if kind.name.endswith("REGULAR_EXPRESSION") else "memberId"
    first = "group" if kind is RecordType.GROUP_METADATA else "groupId"

    def to_hex(fields: dict[str, Any], _version: int) -> str:
        return consumer_offsets.encode_key(GroupKey(kind, fields[first], fields.get(second))).hex()

    def to_fields(text: str) -> dict[str, Any]:
        found = consumer_offsets.decode_key(bytes.fromhex(text))
        assert isinstance(found, GroupKey)
        assert found.type is kind
        return {first: found.group} | ({} if found.member is None else {second: found.member})

    return Word(to_hex, to_fields)


def _commit_key(legacy: bool) -> Word:
    def to_hex(fields: dict[str, Any], _version: int) -> str:
        return consumer_offsets.encode_key(CommitKey(**fields, legacy=legacy)).hex()

    def to_fields(text: str) -> dict[str, Any]:
        found = consumer_offsets.decode_key(bytes.fromhex(text))
        assert isinstance(found, CommitKey)
        assert found.legacy is legacy
        return {"group": found.group, "topic": found.topic, "partition": found.partition}

    return Word(to_hex, to_fields)


def _commit_hex(fields: dict[str, Any], version: int) -> str:
    tags: Tags = ()
    if fields.get("topicId", NO_ID) != NO_ID:
        tags = ((0, base64.urlsafe_b64decode(fields["topicId"] + "==")),)
    return consumer_offsets.encode_commit(
        OffsetCommit(
            version,
            fields["offset"],
            fields.get("leaderEpoch", -1),
            fields["metadata"],
            fields["commitTimestamp"],
            fields.get("expireTimestamp", -1),
            tags,
        )
    ).hex()


def _commit_fields(text: str) -> dict[str, Any]:
    found = consumer_offsets.decode_commit(bytes.fromhex(text))
    assert found is not None
    fields: dict[str, Any] = {"offset": found.offset}
    fields |= {"leaderEpoch": found.leader_epoch} if found.version >= 3 else {}
    fields |= {"metadata": found.metadata, "commitTimestamp": found.committed_ms}
    fields |= {"expireTimestamp": found.expires_ms} if found.version == 1 else {}
    return fields | ({"topicId": found.topic_id} if found.topic_id else {})


def _group_hex(fields: dict[str, Any], version: int) -> str:
    return group_metadata.encode_group(
        GroupMetadata(
            version,
            fields["protocolType"],
            fields["generation"],
            fields["protocol"],
            fields["leader"],
            fields.get("currentStateTimestamp", -1),
            tuple(map(_member, fields["members"])),
        )
    ).hex()


def _member(fields: dict[str, Any]) -> Member:
    return Member(
        fields["memberId"],
        fields.get("groupInstanceId"),
        fields["clientId"],
        fields["clientHost"],
        fields.get("rebalanceTimeout", -1),
        fields["sessionTimeout"],
        base64.b64decode(fields["subscription"]),
        base64.b64decode(fields["assignment"]),
    )


def _group_fields(text: str) -> dict[str, Any]:
    found = group_metadata.decode_group(bytes.fromhex(text))
    assert found is not None
    fields: dict[str, Any] = {
        "protocolType": found.protocol_type,
        "generation": found.generation,
        "protocol": found.protocol,
        "leader": found.leader,
    }
    fields |= {"currentStateTimestamp": found.state_changed_ms} if found.version >= 2 else {}
    return fields | {"members": [_member_fields(m, found.version) for m in found.members]}


def _member_fields(member: Member, version: int) -> dict[str, Any]:
    fields: dict[str, Any] = {"memberId": member.member_id}
    fields |= {"groupInstanceId": member.instance_id} if version >= 3 else {}
    fields |= {"clientId": member.client_id, "clientHost": member.client_host}
    fields |= {"rebalanceTimeout": member.rebalance_timeout_ms} if version >= 1 else {}
    return fields | {
        "sessionTimeout": member.session_timeout_ms,
        "subscription": base64.b64encode(member.subscription).decode(),
        "assignment": base64.b64encode(member.assignment).decode(),
    }


def _pair(key: bytes, value: bytes) -> str:
    return f"{key.hex()} {value.hex()}"


def _halves(text: str) -> tuple[bytes, bytes]:
    key, value = text.split(" ")
    return bytes.fromhex(key), bytes.fromhex(value)


def _sync_hex(fields: dict[str, Any], _version: int) -> str:
    key = offset_syncs.SyncedPartition(fields["topic"], fields["partition"])
    value = offset_syncs.OffsetSync(fields["upstreamOffset"], fields["offset"])
    return _pair(offset_syncs.encode_key(key), offset_syncs.encode_value(value))


def _sync_fields(text: str) -> dict[str, Any]:
    first, second = _halves(text)
    key, value = offset_syncs.decode_key(first), offset_syncs.decode_value(second)
    assert value is not None
    offsets = {"upstreamOffset": value.upstream, "offset": value.downstream}
    return {"topic": key.topic, "partition": key.partition, **offsets}


def _checkpoint_hex(fields: dict[str, Any], _version: int) -> str:
    key = checkpoints.CheckpointKey(fields["group"], fields["topic"], fields["partition"])
    offsets = fields["upstreamOffset"], fields["offset"]
    value = checkpoints.Checkpoint(*offsets, fields["metadata"])
    return _pair(checkpoints.encode_key(key), checkpoints.encode_value(value))


def _checkpoint_fields(text: str) -> dict[str, Any]:
    first, second = _halves(text)
    key, value = checkpoints.decode_key(first), checkpoints.decode_value(second)
    assert value is not None
    place = {"group": key.group, "topic": key.topic, "partition": key.partition}
    offsets = {"upstreamOffset": value.upstream, "offset": value.downstream}
    return {**place, **offsets, "metadata": value.metadata}


def _heartbeat_hex(fields: dict[str, Any], _version: int) -> str:
    key = heartbeats.Flow(fields["sourceClusterAlias"], fields["targetClusterAlias"])
    return _pair(heartbeats.encode_key(key), heartbeats.encode_value(fields["timestamp"]))


def _heartbeat_fields(text: str) -> dict[str, Any]:
    first, second = _halves(text)
    key, value = heartbeats.decode_key(first), heartbeats.decode_value(second)
    aliases = {"sourceClusterAlias": key.source, "targetClusterAlias": key.target}
    return {**aliases, "timestamp": value}


WORDS: dict[str, Word] = {
    "LegacyOffsetCommitKey": _commit_key(legacy=True),
    "OffsetCommitKey": _commit_key(legacy=False),
    **{camel(kind): _key(kind) for kind in RecordType if kind > 1},
    "OffsetCommitValue": Word(_commit_hex, _commit_fields),
    "LegacyOffsetCommitValue": Word(_commit_hex, _commit_fields),
    "GroupMetadataValue": Word(_group_hex, _group_fields),
    "OffsetSync": Word(_sync_hex, _sync_fields),
    "Checkpoint": Word(_checkpoint_hex, _checkpoint_fields),
    "Heartbeat": Word(_heartbeat_hex, _heartbeat_fields),
}
"""Encoders and decoders by the name of Kafka's class."""
