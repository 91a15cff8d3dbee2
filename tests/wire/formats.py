"""All formats in one table: how to generate, encode and decode values.

A format added to `drctl.formats` gets a line here; the tests of this folder use the table.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from drctl.formats import (
    checkpoints,
    connect_offsets,
    consumer_offsets,
    consumer_timestamps,
    group_metadata,
    heartbeats,
    journal_records,
    migrator_headers,
    offset_syncs,
    provenance,
    replicator_headers,
    tracked_offsets,
    tracked_positions,
    tracking_passes,
)
from drctl.formats.consumer_offsets import RecordType
from drctl.formats.primitives import Undecodable
from drctl.model.journal import Holder


@dataclass(frozen=True)
class Format:
    """One kind of key or value.

    Attributes:
        canonical: whether what decodes encodes back to the same bytes.
        tombstone: whether null decodes to None; else it is undecodable.
    """

    name: str
    values: st.SearchStrategy[Any]
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes | None], Any]
    canonical: bool = True
    tombstone: bool = False

    def made(self, count: int) -> list[bytes]:
        """Return at most this many valid values."""
        return list(map(self.encode, made(self.values, count)))

    def refusal(self, data: bytes) -> str | None:
        """Why it is undecodable; None if it decodes. Other exceptions propagate."""
        try:
            self.decode(data)
        except Undecodable as error:
            if error.hex != data.hex():
                raise AssertionError(f"{error.hex} is not {data.hex()}") from error
            return error.reason
        return None


def made(values: st.SearchStrategy[Any], count: int) -> list[Any]:
    """Return at most this many values."""
    found: list[Any] = []

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(values)
    def keep(value: Any) -> None:
        found.append(value)

    keep()
    return found


TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
BYTES = st.binary(max_size=40)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
COUNT = st.integers(0, 2**63 - 1)
PARTITION = st.integers(0, 2**31 - 1)
TAGS = st.dictionaries(st.integers(1, 2**30), BYTES, max_size=3).map(
    lambda found: tuple(sorted(found.items()))
)
_ID = st.binary(min_size=16, max_size=16)
COMMIT_TAGS = st.one_of(TAGS, st.builds(lambda topic, rest: ((0, topic), *rest), _ID, TAGS))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | TEXT
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=4)


def commits(version: int) -> st.SearchStrategy[consumer_offsets.OffsetCommit]:
    return st.builds(
        consumer_offsets.OffsetCommit,
        version=st.just(version),
        offset=INT64,
        leader_epoch=INT32 if version >= 3 else st.just(-1),
        metadata=TEXT,
        committed_ms=INT64,
        expires_ms=INT64 if version == 1 else st.just(-1),
        tags=COMMIT_TAGS if version >= 4 else st.just(()),
    )


def groups(version: int) -> st.SearchStrategy[group_metadata.GroupMetadata]:
    tags = TAGS if version >= 4 else st.just(())
    member = st.builds(
        group_metadata.Member,
        member_id=TEXT,
        instance_id=st.none() | TEXT if version >= 3 else st.none(),
        client_id=TEXT,
        client_host=TEXT,
        rebalance_timeout_ms=INT32 if version >= 1 else st.just(-1),
        session_timeout_ms=INT32,
        subscription=BYTES,
        assignment=BYTES,
        tags=tags,
    )
    return st.builds(
        group_metadata.GroupMetadata,
        version=st.just(version),
        protocol_type=TEXT,
        generation=INT32,
        protocol=st.none() | TEXT,
        leader=st.none() | TEXT,
        state_changed_ms=INT64 if version >= 2 else st.just(-1),
        members=st.lists(member, max_size=3).map(tuple),
        tags=tags,
    )


def _group_key(kind: RecordType) -> st.SearchStrategy[consumer_offsets.GroupKey]:
    member = TEXT if kind in consumer_offsets.TYPES_WITH_MEMBER else st.none()
    return st.builds(consumer_offsets.GroupKey, st.just(kind), TEXT, member)


KEYS = st.one_of(
    st.builds(consumer_offsets.CommitKey, TEXT, TEXT, PARTITION, st.booleans()),
    st.sampled_from([kind for kind in RecordType if kind > 1]).flatmap(_group_key),
    st.builds(
        consumer_offsets.UnknownKey,
        st.integers(-(2**15), 2**15 - 1).filter(lambda number: number not in set(RecordType)),
        BYTES,
    ),
)
TIMESTAMPS = st.one_of(
    st.builds(consumer_timestamps.ConsumerTimestamp, INT64, st.none(), st.just(0)),
    st.builds(consumer_timestamps.ConsumerTimestamp, INT64, INT32, st.just(4)),
    st.builds(consumer_timestamps.ConsumerTimestamp, INT64, INT64, st.just(8)),
)
_CONSUMED_RECORDS = st.lists(
    st.builds(tracked_offsets.ConsumedRecord, st.integers(0, 2**64 - 1), INT64),
    max_size=tracked_offsets.MOST_RECORDS,
).map(tuple)
TRACKED_OFFSETS = st.builds(
    tracked_offsets.TrackedOffset,
    offset=INT64,
    leader_epoch=INT32,
    topic_id=TEXT,
    observed_ms=INT64,
    records=_CONSUMED_RECORDS,
    unverified=st.booleans(),
)


@st.composite
def tracked_offsets_with_uncommitted(draw: st.DrawFn) -> tracked_offsets.TrackedOffset:
    tracked = draw(st.one_of(TRACKED_OFFSETS, tracked_offsets_with_milestones()))
    others = range(1, len(tracked.records))
    marked = draw(st.frozensets(st.sampled_from(others))) if others else frozenset()
    return replace(tracked, passed=draw(COUNT.filter(bool)), uncommitted=marked)


@st.composite
def tracked_offsets_with_milestones(draw: st.DrawFn) -> tracked_offsets.TrackedOffset:
    offset, *positions = draw(
        st.lists(COUNT, min_size=2, max_size=1 + tracked_offsets.MOST_MILESTONES, unique=True).map(
            lambda found: sorted(found, reverse=True)
        )
    )
    milestones = tuple(
        tracked_offsets.Milestone(position, draw(st.integers(0, 2**64 - 1)), draw(INT64))
        for position in positions
    )
    return tracked_offsets.TrackedOffset(
        offset, 3, "id", 7, draw(_CONSUMED_RECORDS), milestones=milestones
    )


_PATTERNS = st.lists(st.sampled_from([".*", "orders", "a|b", "ä+", r"\d", ""]), max_size=3).map(
    tuple
)
PASSES = st.builds(
    tracking_passes.Pass,
    at_ms=COUNT,
    scope=st.builds(tracking_passes.Scope, TEXT, _PATTERNS, _PATTERNS, _PATTERNS),
    groups=COUNT,
    offsets=COUNT,
)

_JSON = st.dictionaries(TEXT, st.one_of(TEXT, INT64, st.booleans(), st.none()), max_size=4)
POSITIONS = st.builds(
    tracked_positions.TrackedPositions,
    at_ms=COUNT,
    workers=TEXT,
    workers_cluster_id=TEXT,
    plugin=TEXT,
    state=TEXT,
    about=st.dictionaries(TEXT, TEXT, max_size=4),
    positions=st.lists(st.tuples(_JSON, st.one_of(st.none(), _JSON)), max_size=3).map(tuple),
)

HOLDERS = st.builds(
    Holder, TEXT, TEXT, TEXT, PARTITION, st.datetimes(timezones=st.sampled_from([UTC]))
)
JOURNAL = st.one_of(
    st.builds(journal_records.Claim, TEXT, HOLDERS),
    st.builds(journal_records.Withdrawn, TEXT),
    st.builds(journal_records.Taken, TEXT, HOLDERS, TEXT, TEXT),
    st.builds(journal_records.Beat, TEXT, st.booleans()),
    st.integers(1, 9).flatmap(
        lambda parts: st.builds(
            journal_records.Part, TEXT, st.integers(0, parts - 1), st.just(parts), BYTES, TEXT
        )
    ),
)

FORMATS = (
    Format(
        "consumer-timestamps-key",
        st.builds(consumer_timestamps.GroupPartition, TEXT, TEXT, PARTITION),
        consumer_timestamps.encode_key,
        consumer_timestamps.decode_key,
    ),
    Format(
        "consumer-timestamps-value",
        TIMESTAMPS,
        consumer_timestamps.encode_value,
        consumer_timestamps.decode_value,
        tombstone=True,
    ),
    Format(
        "offset-syncs-key",
        st.builds(offset_syncs.SyncedPartition, TEXT, PARTITION),
        offset_syncs.encode_key,
        offset_syncs.decode_key,
    ),
    Format(
        "offset-syncs-value",
        st.builds(offset_syncs.OffsetSync, INT64, INT64),
        offset_syncs.encode_value,
        offset_syncs.decode_value,
        tombstone=True,
    ),
    Format(
        "checkpoints-key",
        st.builds(checkpoints.CheckpointKey, TEXT, TEXT, PARTITION),
        checkpoints.encode_key,
        checkpoints.decode_key,
    ),
    Format(
        "checkpoints-value",
        st.builds(checkpoints.Checkpoint, INT64, INT64, TEXT),
        checkpoints.encode_value,
        checkpoints.decode_value,
        tombstone=True,
    ),
    Format(
        "heartbeats-key",
        st.builds(heartbeats.Flow, TEXT, TEXT),
        heartbeats.encode_key,
        heartbeats.decode_key,
    ),
    Format(
        "heartbeats-value", INT64, heartbeats.encode_value, heartbeats.decode_value, tombstone=True
    ),
    Format("consumer-offsets-key", KEYS, consumer_offsets.encode_key, consumer_offsets.decode_key),
    Format(
        "offset-commit",
        st.integers(0, 4).flatmap(commits),
        consumer_offsets.encode_commit,
        consumer_offsets.decode_commit,
        tombstone=True,
    ),
    Format(
        "group-metadata",
        st.integers(0, 4).flatmap(groups),
        group_metadata.encode_group,
        group_metadata.decode_group,
        tombstone=True,
    ),
    Format(
        "connect-offsets-key",
        st.builds(connect_offsets.ConnectKey, TEXT, OBJECT),
        connect_offsets.encode_key,
        connect_offsets.decode_key,
        canonical=False,
    ),
    Format(
        "connect-offsets-value",
        OBJECT,
        connect_offsets.encode_value,
        connect_offsets.decode_value,
        canonical=False,
        tombstone=True,
    ),
    Format(
        "provenance",
        st.builds(provenance.Provenance, TEXT, TEXT, COUNT, COUNT, INT64),
        provenance.encode,
        provenance.decode,
        canonical=False,
    ),
    Format(
        "replicator-origin",
        st.builds(
            replicator_headers.Origin,
            st.from_regex(r"[A-Za-z0-9_-]{22}", fullmatch=True),
            st.from_regex(r"[A-Za-z0-9._-]{1,40}", fullmatch=True),
            st.integers(1_500_000_000_000, 4_000_000_000_000),
        ),
        replicator_headers.encode,
        replicator_headers.decode,
        canonical=False,
    ),
    Format(
        "migrated-offset", COUNT, migrator_headers.encode_offset, migrator_headers.decode_offset
    ),
    Format(
        "migrated-origin",
        TEXT.filter(bool),
        migrator_headers.encode_origin,
        migrator_headers.decode_origin,
    ),
    Format(
        "tracked-offsets-key",
        st.builds(tracked_offsets.OffsetKey, TEXT, TEXT, TEXT, COUNT),
        tracked_offsets.encode_key,
        tracked_offsets.decode_key,
    ),
    Format(
        "tracked-positions-key",
        st.builds(tracked_positions.ConnectorKey, TEXT, TEXT),
        tracked_positions.encode_key,
        tracked_positions.decode_key,
    ),
    Format(
        "tracked-positions-value",
        POSITIONS,
        tracked_positions.encode_value,
        tracked_positions.decode_value,
        tombstone=True,
    ),
    Format(
        "tracking-passes-key",
        st.builds(tracking_passes.PassKey, TEXT, TEXT),
        tracking_passes.encode_key,
        tracking_passes.decode_key,
    ),
    Format(
        "tracking-passes-value",
        PASSES,
        tracking_passes.encode_value,
        tracking_passes.decode_value,
        tombstone=True,
    ),
    Format(
        "tracked-offsets-value",
        TRACKED_OFFSETS,
        tracked_offsets.encode_value,
        tracked_offsets.decode_value,
        tombstone=True,
    ),
    Format(
        "tracked-offsets-value-2",
        tracked_offsets_with_milestones(),
        tracked_offsets.encode_value,
        tracked_offsets.decode_value,
        tombstone=True,
    ),
    Format(
        "tracked-offsets-value-3",
        tracked_offsets_with_uncommitted(),
        tracked_offsets.encode_value,
        tracked_offsets.decode_value,
        tombstone=True,
    ),
    Format("journal-records", JOURNAL, journal_records.encode, journal_records.decode),
)
