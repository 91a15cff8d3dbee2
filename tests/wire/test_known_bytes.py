"""Bytes observed or computed by hand, and their values."""

import pytest

from drctl.formats import (
    connect_offsets,
    consumer_offsets,
    consumer_timestamps,
    migrator_headers,
    offset_syncs,
    provenance,
    replicator_headers,
    tracked_offsets,
    tracking_passes,
)
from drctl.formats.connect_offsets import (
    ConnectKey,
    CopiedPartition,
    copied_offset,
    copied_partition,
)
from drctl.formats.consumer_offsets import GroupKey, OffsetCommit, RecordType, UnknownKey
from drctl.formats.consumer_timestamps import ConsumerTimestamp, GroupPartition
from drctl.formats.offset_syncs import OffsetSync
from drctl.formats.primitives import Undecodable
from drctl.formats.tracked_offsets import ConsumedRecord, Milestone, OffsetKey, TrackedOffset
from drctl.formats.tracking_passes import Pass, PassKey, Scope

NOON = 1_700_000_000_000


def test_a_key_of_consumer_timestamps() -> None:
    data = bytes.fromhex(
        "00000011" + b"my-consumer-group".hex() + "00000005" + b"sales".hex() + "00000000"
    )
    assert consumer_timestamps.decode_key(data) == ("my-consumer-group", "sales", 0)
    assert consumer_timestamps.encode_key(GroupPartition("my-consumer-group", "sales", 0)) == data


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0000018bcfe56800", ConsumerTimestamp(NOON)),
        ("0000018bcfe5680000000007", ConsumerTimestamp(NOON, 7, 4)),
        ("0000018bcfe568000000000000000007", ConsumerTimestamp(NOON, 7, 8)),
        ("0000018bcfe56800ffffffff", ConsumerTimestamp(NOON, -1, 4)),
    ],
)
def test_values_of_consumer_timestamps(text: str, value: ConsumerTimestamp) -> None:
    assert consumer_timestamps.decode_value(bytes.fromhex(text)) == value


@pytest.mark.parametrize("length", [0, 1, 7, 9, 11, 13, 15, 17, 24])
def test_other_lengths_are_undecodable(length: int) -> None:
    data = bytes(length)
    with pytest.raises(
        Undecodable, match=f"{length} bytes; known lengths are 8, 12 and 16"
    ) as caught:
        consumer_timestamps.decode_value(data)
    assert caught.value.hex == data.hex()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "4 bytes too few"),
        ("00000001", "1 byte too few"),
        ("ffffffff", "length -1"),
        ("7fffffff61", "too few"),
        ("0000000161" + "0000000162" + "00000000" + "00", "1 byte too many"),
        ("0000000161" + "0000000162" + "ffffffff", "partition -1"),
        ("00000001ff" + "0000000162" + "00000000", "not UTF-8"),
    ],
)
def test_keys_of_consumer_timestamps_are_exact(text: str, reason: str) -> None:
    with pytest.raises(Undecodable, match=reason):
        consumer_timestamps.decode_key(bytes.fromhex(text))


def test_an_offset_sync_is_one_pair_and_nothing_else() -> None:
    assert offset_syncs.decode_value(bytes.fromhex("00" * 6 + "03e8" + "00" * 6 + "03e6")) == (
        OffsetSync(1000, 998)
    )
    with pytest.raises(Undecodable):
        offset_syncs.decode_value(bytes(17))


CLUSTER = "4L6g3nShT-eMCtK--X86sw"
ORIGIN = replicator_headers.Origin(CLUSTER, "orders.v1", NOON)


@pytest.mark.parametrize("layout", replicator_headers.LAYOUTS)
def test_an_origin_is_read_in_every_layout(layout: replicator_headers.Layout) -> None:
    data = replicator_headers.encode(ORIGIN, layout)
    assert replicator_headers.decode(data) == ORIGIN
    assert replicator_headers.origin_cluster(data, (CLUSTER, "another")) == CLUSTER


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"mm",
        CLUSTER.encode(),
        replicator_headers.encode(ORIGIN)[:-1],
        replicator_headers.encode(ORIGIN) + b"\0",
        b"\x10" + replicator_headers.encode(ORIGIN),
        replicator_headers.encode(ORIGIN._replace(topic="")),
        replicator_headers.encode(ORIGIN._replace(topic="a/b")),
        replicator_headers.encode(ORIGIN._replace(cluster_id="one two")),
        replicator_headers.encode(ORIGIN._replace(copied_ms=7)),
    ],
)
def test_an_origin_with_an_extra_byte_is_undecodable(data: bytes | None) -> None:
    with pytest.raises(Undecodable, match="Replicator's provenance: "):
        replicator_headers.decode(data)


@pytest.mark.parametrize(
    ("data", "cluster"),
    [
        (b"?" + CLUSTER.encode() + b"?", CLUSTER),
        (b"another one", "another"),
        (b"another " + CLUSTER.encode(), None),
        (b"neither", None),
        (None, None),
    ],
)
def test_a_header_of_unknown_layout_names_a_known_cluster(
    data: bytes | None, cluster: str | None
) -> None:
    assert replicator_headers.origin_cluster(data, (CLUSTER, "another", "")) == cluster


def test_the_headers_of_a_migrated_record() -> None:
    assert migrator_headers.decode_offset(bytes.fromhex("00000000000f4240")) == 1_000_000
    assert migrator_headers.decode_origin(b"4L6g3nShT-eMCtK--X86sw") == "4L6g3nShT-eMCtK--X86sw"
    for data, reason in ((bytes(7), "7 bytes, not 8"), (b"\xff" * 8, "negative")):
        with pytest.raises(Undecodable, match=reason):
            migrator_headers.decode_offset(data)
    for data, reason in ((b"", "empty"), (b"\xff", "not UTF-8")):
        with pytest.raises(Undecodable, match=reason):
            migrator_headers.decode_origin(data)


@pytest.mark.parametrize("number", [-1, 9, 18, 24, 32_767])
def test_unknown_types_are_kept(number: int) -> None:
    data = number.to_bytes(2, "big", signed=True) + b"\x00\x01g\xff"
    found = consumer_offsets.decode_key(data)
    assert found == UnknownKey(number, b"\x00\x01g\xff")
    assert consumer_offsets.encode_key(found) == data


def test_all_types_that_kafka_uses_have_a_name() -> None:
    assert {int(kind) for kind in RecordType} == set(range(24)) - {9, 18}
    found = consumer_offsets.decode_key(bytes.fromhex("0010000167" + "0002612a"))
    assert found == GroupKey(RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION, "g", "a*")


def test_a_commit_with_a_topic_id_and_a_tag_of_the_future() -> None:
    start = "0004" + "00000000000003e8" + "00000007" + "026d" + "0000018bcfe56800"
    tagged = start + "02" + "0010" + "45" * 16 + "05" + "02" + "abcd"
    found = consumer_offsets.decode_commit(bytes.fromhex(tagged))
    assert found == OffsetCommit(
        4, 1000, 7, "m", NOON, -1, ((0, b"E" * 16), (5, bytes.fromhex("abcd")))
    )
    assert found.topic_id == "RUVFRUVFRUVFRUVFRUVFRQ"
    untagged = consumer_offsets.decode_commit(bytes.fromhex(start + "00"))
    assert untagged is not None
    assert (untagged.tags, untagged.topic_id) == ((), "")


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        ("01" + "000f" + "45" * 15, "topic id"),
        ("02" + "0500" + "0500", "tag 5 after tag 5"),
        ("02" + "0500" + "0400", "tag 4 after tag 5"),
        ("8000", "more bytes than it needs"),
        ("ffffffff10", "more than 32 bits"),
        ("ffffffffff00", "more than 32 bits"),
        ("ffffffff0f", "too few"),
    ],
)
def test_tagged_fields_are_exact(tail: str, reason: str) -> None:
    start = "0004" + "00" * 8 + "00" * 4 + "01" + "00" * 8
    with pytest.raises(Undecodable, match=reason):
        consumer_offsets.decode_commit(bytes.fromhex(start + tail))


def test_unknown_versions() -> None:
    for text in ("0005" + "00" * 40, "ffff" + "00" * 40):
        with pytest.raises(Undecodable, match="known versions are 0 to 4"):
            consumer_offsets.decode_commit(bytes.fromhex(text))


def test_connect_offsets_of_mirror_maker_and_of_replicator() -> None:
    mirror = b'["mm2-source",{"cluster":"A","partition":0,"topic":"t"}]'
    key = connect_offsets.decode_key(mirror)
    assert key == ConnectKey("mm2-source", {"cluster": "A", "partition": 0, "topic": "t"})
    assert copied_partition(key) == CopiedPartition("A", "t", 0)
    assert connect_offsets.encode_key(key) == mirror
    replicator = connect_offsets.decode_key(b'["rep", {"topic": "topic1", "partition": 3}]')
    assert copied_partition(replicator) == CopiedPartition(None, "topic1", 3)
    value = connect_offsets.decode_value(b'{"offset":5}')
    assert value is not None
    assert copied_offset(value) == 5


@pytest.mark.parametrize(
    "partition",
    [
        {},
        {"server": "shop"},
        {"group": "g", "topic": "t", "partition": 0},
        {"cluster": "A", "topic": "t", "partition": -1},
        {"cluster": "A", "topic": "t", "partition": True},
        {"cluster": "A", "topic": "t", "partition": 1.0},
        {"cluster": None, "topic": "t", "partition": 1},
        {"cluster": "A", "topic": 1, "partition": 1},
        {"topic": "t", "partition": "0"},
    ],
)
def test_source_partitions_of_others(partition: dict[str, object]) -> None:
    key = connect_offsets.decode_key(connect_offsets.encode_key(ConnectKey("c", partition)))
    assert copied_partition(key) is None


@pytest.mark.parametrize(
    "value", [{}, {"offset": -1}, {"offset": True}, {"offset": 1, "more": 2}, {"lsn": 4}]
)
def test_source_offsets_of_others(value: dict[str, object]) -> None:
    assert copied_offset(value) is None


def test_provenance_is_readable_by_people() -> None:
    where = provenance.Provenance("RFj2XSUOSdiT9QqwHGckjA", "aufträge", 7, 5, NOON)
    text = (
        '{"drctl":1,"cluster":"RFj2XSUOSdiT9QqwHGckjA","topic":"aufträge","partition":7,"offset":5'
        ',"timestamp":1700000000000}'
    )
    assert provenance.encode(where).decode() == text
    assert provenance.decode(text.replace(",", ", ").encode()) == where


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"drctl":2,"cluster":"c","topic":"t","partition":0,"offset":0,"timestamp":0}',
        '{"drctl":true,"cluster":"c","topic":"t","partition":0,"offset":0,"timestamp":0}',
        '{"drctl":1,"cluster":"c","topic":"t","partition":0,"offset":0}',
        '{"drctl":1,"cluster":"c","topic":"t","partition":0,"offset":0,"timestamp":0,"more":0}',
        '{"drctl":1,"cluster":1,"topic":"t","partition":0,"offset":0,"timestamp":0}',
        '{"drctl":1,"cluster":"c","topic":"t","partition":-1,"offset":0,"timestamp":0}',
        '{"drctl":1,"cluster":"c","topic":"t","partition":0,"offset":0.0,"timestamp":0}',
        '{"drctl":1,"cluster":"c","topic":"t","partition":0,"offset":0,"timestamp":1e3}',
        '{"drctl":1,"cluster":"c","topic":"t","partition":0,"offset":0,"timestamp":9223372036854775808}',
    ],
)
def test_foreign_provenance(text: str) -> None:
    with pytest.raises(Undecodable):
        provenance.decode(text.encode())


def test_key_of_a_tracked_offset_has_one_readable_encoding() -> None:
    key = OffsetKey("RFj2XSUOSdiT9QqwHGckjA", 'bill"ing', "aufträge", 7)
    data = tracked_offsets.encode_key(key)
    assert data.decode() == r'["offset","RFj2XSUOSdiT9QqwHGckjA","bill\"ing","aufträge",7]'
    assert tracked_offsets.decode_key(data) == key
    for other in (data.replace(b",", b", "), data.replace("ä".encode(), b"\\u00e4")):
        with pytest.raises(Undecodable, match="not in drctl's encoding"):
            tracked_offsets.decode_key(other)
    for other in (b'["other","c","g","t",0]', b'["offset","c","g","t",-1]', b'["offset","c","g"]'):
        with pytest.raises(Undecodable, match="wrong structure"):
            tracked_offsets.decode_key(other)


def test_encoding_of_a_tracked_offset_is_compact_and_never_changes() -> None:
    records = tuple(ConsumedRecord(n, NOON - n) for n in range(tracked_offsets.MOST_RECORDS))
    tracked = TrackedOffset(1000, 7, "RUVFRUVFRUVFRUVFRUVFRQ", NOON, records)
    data = tracked_offsets.encode_value(tracked)
    assert len(data) == 2 + 8 + 8 + 4 + 23 + 1 + 33 * 8 + 8 + 32
    small = tracked_offsets.encode_value(TrackedOffset(1000, 7, "id", NOON, records[:2]))
    assert small.hex() == (
        "0100" + "0000018bcfe56800" + "00000000000003e8" + "00000007" + "036964" + "02"
        "0000000000000000" + "0000018bcfe56800" + "0000000000000001" + "02"
    )  # fmt: skip
    unverified = TrackedOffset(1000, 7, "id", NOON, records[:2], unverified=True)
    assert tracked_offsets.encode_value(unverified) == small[:1] + b"\x01" + small[2:]
    assert tracked_offsets.decode_head(small) == (1000, 7, "id", NOON, False)
    with pytest.raises(Undecodable, match="flags 2; the only known flag is 1"):
        tracked_offsets.decode_value(small[:1] + b"\x02" + small[2:])
    with pytest.raises(ValueError, match="34 records; at most 33"):
        tracked_offsets.encode_value(TrackedOffset(0, 0, "", 0, (*records, records[0])))


def test_encoding_of_milestones_is_version_2_and_never_changes() -> None:
    record, far = ConsumedRecord(1, NOON), Milestone(200, 2, NOON - 1)
    plain = tracked_offsets.encode_value(TrackedOffset(1000, 7, "id", NOON, (record,)))
    more = TrackedOffset(
        1000, 7, "id", NOON, (record,), milestones=(far, Milestone(0, 3, NOON - 2))
    )
    data = tracked_offsets.encode_value(more)
    assert data.hex() == "02" + plain[1:].hex() + (
        "02" + "0000000000000002" + "02" + "a006" + "0000000000000003" + "02" + "c801"
    )
    assert tracked_offsets.decode_head(data) == tracked_offsets.decode_head(plain)
    alone = tracked_offsets.encode_value(TrackedOffset(1000, 7, "id", NOON, (), milestones=(far,)))
    assert alone.hex().endswith("00" + "01" + "0000000000000002" + "0000018bcfe567ff" + "a006")
    for wrong, reason in (
        (b"\x02" + plain[1:] + b"\x00", "0 milestones"),
        (b"\x02" + plain[1:] + b"\x19", "25 milestones"),
        (data[:-2] + b"\xc9\x01", "a milestone 201 offsets before 200"),
        (data[:-2] + b"\x00", "a milestone 0 offsets before 200"),
        (data + b"\x00", "1 byte too many"),
        (b"\x01" + data[1:], "bytes too many"),
    ):
        with pytest.raises(Undecodable, match=reason):
            tracked_offsets.decode_value(wrong)
    for bad, reason in (
        ((far, far), "milestone at 200 is not before 200"),
        ((Milestone(1000, 2, 0),), "milestone at 1000 is not before 1000"),
        ((Milestone(-1, 2, 0),), "milestone at -1"),
        (tuple(Milestone(99 - n, 2, 0) for n in range(25)), "25 milestones; at most 24"),
    ):
        with pytest.raises(ValueError, match=reason):
            tracked_offsets.encode_value(TrackedOffset(1000, 7, "id", NOON, (), milestones=bad))


def test_encoding_of_uncommitted_records_is_version_3_and_never_changes() -> None:
    records = tuple(ConsumedRecord(n, NOON) for n in range(3))
    plain = tracked_offsets.encode_value(TrackedOffset(1000, 7, "id", NOON, records))
    tracked = TrackedOffset(1000, 7, "id", NOON, records, passed=300, uncommitted=frozenset({1, 2}))
    data = tracked_offsets.encode_value(tracked)
    assert data.hex() == "03" + plain[1:].hex() + "00" + "ac02" + "06"
    assert tracked_offsets.decode_value(data) == tracked
    for wrong, reason in (
        (data[:-1] + b"\x07", "uncommitted bitmap 111 for 3 records"),
        (data[:-1] + b"\x08", "uncommitted bitmap 1000 for 3 records"),
        (data[:-3] + b"\x00\x00", "without uncommitted records"),
    ):
        with pytest.raises(Undecodable, match=reason):
            tracked_offsets.decode_value(wrong)
    for bad in ({0}, {3}):
        with pytest.raises(ValueError, match="invalid indexes of uncommitted records"):
            tracked_offsets.encode_value(
                TrackedOffset(1000, 7, "id", NOON, records, uncommitted=frozenset(bad))
            )


def test_tracked_offset_of_an_unknown_version() -> None:
    data = b"\x04" + tracked_offsets.encode_value(TrackedOffset(0, 0, "", 0, ()))[1:]
    with pytest.raises(Undecodable, match="version 4; known versions are 1 to 3"):
        tracked_offsets.decode_value(data)


def test_tracked_offset_that_was_deleted_on_the_source() -> None:
    data = tracked_offsets.encode_value(TrackedOffset(5, -1, "", NOON, (), unverified=True))
    assert data[:2] == b"\x01\x01"
    found = tracked_offsets.decode_value(data)
    assert found is not None
    assert found.unverified
    assert tracked_offsets.decode_head(data) == (5, -1, "", NOON, True)
    with pytest.raises(Undecodable, match="flags 2"):
        tracked_offsets.decode_value(b"\x01\x02" + data[2:])


def test_pass_has_one_readable_encoding() -> None:
    scope = Scope("primary", ("orders", "pay.*"), ("pay-test",), (".*",))
    key = PassKey("RFj2XSUOSdiT9QqwHGckjA", scope.digest)
    data = tracking_passes.encode_key(key)
    assert data.decode() == f'["pass","RFj2XSUOSdiT9QqwHGckjA","{scope.digest}"]'
    assert scope.digest == "1bd017ba1d72a025"
    assert tracking_passes.decode_key(data) == key
    assert tracking_passes.is_key(data)
    assert not tracking_passes.is_key(tracked_offsets.encode_key(OffsetKey("c", "g", "t", 0)))
    value = tracking_passes.encode_value(Pass(NOON, scope, 12, 48))
    assert value.decode() == (
        '{"version":1,"at_ms":1700000000000,"source":"primary","topics":["orders","pay.*"],'
        '"exclude":["pay-test"],"groups":[".*"],"groups_seen":12,"offsets_seen":48}'
    )
    assert tracking_passes.decode_value(value) == Pass(NOON, scope, 12, 48)
    for wrong, why in (
        (value.replace(b"[", b"[ ", 1), "not in drctl's encoding"),
        (value.replace(b'"version":1', b'"version":2'), "unknown version"),
        (value.replace(b"1700000000000", b"true"), "unknown version"),
        (value.replace(b'"pay-test"', b"7"), "a pattern that is not a string"),
    ):
        with pytest.raises(Undecodable, match=why):
            tracking_passes.decode_value(wrong)


def test_the_scope_of_a_pass() -> None:
    scope = Scope("primary", ("orders", "pay.*", "__named", ".*audit"), ("pay-test",), ("a.*", "b"))
    topics = ("orders", "orders2", "payments", "pay-test", "__named", "__audit", "audit")
    covered = [name for name in topics if scope.covers_topic(name)]
    assert covered == ["orders", "payments", "__named", "audit"]
    assert [name for name in ("a", "ab", "b", "bc") if scope.covers_group(name)] == ["a", "ab", "b"]


def test_the_text_of_an_error() -> None:
    error = Undecodable("offset sync", "wrong", bytes(100))
    assert error.reason == "offset sync: wrong"
    assert error.hex == "00" * 100
    assert str(error) == "offset sync: wrong: " + "00" * 32 + "..."
