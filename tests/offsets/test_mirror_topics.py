"""Reading MirrorMaker 2's offset-sync and checkpoint topics."""

from drctl.formats import checkpoints, offset_syncs
from drctl.model.topology import Row, TopicPartition, Unavailable
from drctl.offsets.checkpoints import Checkpoint, Sync
from drctl.offsets.mirror_topics import (
    Aliases,
    Mirrored,
    aliases_of,
    guessed_aliases,
    read_mirrored,
    read_syncs,
)
from tests.fakes import FakeCluster, FakeLog

NAMES = Aliases("primary", "secondary")
ORDERS = TopicPartition("orders", 0)


def sync(offset: int, *pair: int, at_ms: int, partition: int = 0) -> Row:
    """Return an offset sync of these source and target offsets; a tombstone without them."""
    key = offset_syncs.encode_key(offset_syncs.SyncedPartition("orders", partition))
    value = offset_syncs.encode_value(offset_syncs.OffsetSync(*pair)) if pair else None
    return offset, at_ms, key, value, ()


def checkpoint(offset: int, *pair: int, at_ms: int, group: str = "app") -> Row:
    key = checkpoints.encode_key(checkpoints.CheckpointKey(group, "orders", 0))
    value = checkpoints.encode_value(checkpoints.Checkpoint(*pair, "")) if pair else None
    return offset, at_ms, key, value, ()


def undecodable(offset: int) -> Row:
    return offset, 1, b"\xff", b"\xff", ()


def cluster(name: str, **topics: list[Row] | Unavailable) -> FakeCluster:
    """Create a cluster; keyword arguments are attributes of `NAMES`."""
    logs = {
        TopicPartition(getattr(NAMES, topic), 0): rows
        if isinstance(rows, Unavailable)
        else FakeLog(rows)
        for topic, rows in topics.items()
    }
    return FakeCluster(logs, name)


def syncs_of(source: FakeCluster | None, target: FakeCluster) -> Mirrored:
    known = None if source is None else (source, source)
    return read_syncs(NAMES, known, (target, target), lambda _phase: None)


def mirrored(target: FakeCluster) -> Mirrored:
    return read_mirrored(NAMES, None, (target, target), lambda _phase: None)


def test_syncs_of_a_partition_stay_in_their_order() -> None:
    rows = [sync(0, 5, 3, at_ms=10), sync(1, 7, 4, at_ms=20), sync(2, 1, 1, at_ms=5, partition=1)]
    found = syncs_of(cluster("source", syncs_on_source=rows), cluster("target"))
    assert found.syncs == {
        ORDERS: (Sync(5, 3, 10), Sync(7, 4, 20)),
        TopicPartition("orders", 1): (Sync(1, 1, 5),),
    }
    assert (found.recreated_ms, found.undecodable, found.unread) == ({}, 0, {})


def test_the_topic_that_was_written_last_is_used() -> None:
    """The offset-sync topic of a connector can be moved to the other cluster."""
    source = cluster("source", syncs_on_source=[sync(0, 5, 3, at_ms=10)])
    target = cluster("target", syncs_on_target=[sync(0, 9, 8, at_ms=20)])
    assert syncs_of(source, target).syncs == {ORDERS: (Sync(9, 8, 20),)}
    assert syncs_of(None, target).syncs == {ORDERS: (Sync(9, 8, 20),)}
    older = cluster("target", syncs_on_target=[sync(0, 9, 8, at_ms=5)])
    assert syncs_of(source, older).syncs == {ORDERS: (Sync(5, 3, 10),)}


def test_a_tombstone_removes_the_syncs_before_it() -> None:
    rows = [sync(0, 5, 3, at_ms=10), sync(1, at_ms=20)]
    assert syncs_of(None, cluster("target", syncs_on_target=rows)).syncs == {}
    rows.append(sync(2, 6, 4, at_ms=30))
    found = syncs_of(None, cluster("target", syncs_on_target=rows))
    assert found.syncs == {ORDERS: (Sync(6, 4, 30),)}


def test_smaller_target_offsets_show_that_the_target_partition_was_recreated() -> None:
    rows = [sync(0, 5, 300, at_ms=10), sync(1, 7, 2, at_ms=20), sync(2, 9, 4, at_ms=30)]
    found = syncs_of(None, cluster("target", syncs_on_target=rows))
    assert found.recreated_ms == {ORDERS: 20}


def test_the_newest_checkpoint_of_a_group_and_partition() -> None:
    rows = [
        checkpoint(0, 5, 3, at_ms=10),
        checkpoint(1, 7, 4, at_ms=20),
        checkpoint(2, 1, 1, at_ms=30, group="other"),
        checkpoint(3, at_ms=40, group="other"),
    ]
    found = mirrored(cluster("target", checkpoints=rows))
    assert found.checkpoints == {("app", ORDERS): Checkpoint(7, 4, 20)}


def test_records_that_cannot_be_decoded_are_counted() -> None:
    target = cluster(
        "target",
        checkpoints=[undecodable(0), checkpoint(1, 5, 3, at_ms=10)],
        syncs_on_target=[undecodable(0), sync(1, 5, 3, at_ms=10), undecodable(2)],
    )
    found = mirrored(target)
    assert found.undecodable == 3
    assert found.checkpoints == {("app", ORDERS): Checkpoint(5, 3, 10)}
    assert found.syncs == {ORDERS: (Sync(5, 3, 10),)}


def test_a_topic_that_cannot_be_read_is_named_with_the_reason() -> None:
    target = cluster("target", checkpoints=Unavailable("not authorized"), syncs_on_target=[])
    assert mirrored(target).unread == {NAMES.checkpoints: "not authorized"}


def test_a_topic_that_may_not_be_described_is_not_reported_as_missing() -> None:
    target = cluster("target", checkpoints=[], syncs_on_target=[])
    target.hidden[NAMES.checkpoints] = Unavailable("not authorized to describe it")
    assert mirrored(target).unread == {NAMES.checkpoints: "not authorized to describe it"}


def test_nothing_is_read_before_the_log_start_or_after_the_last_stable_offset() -> None:
    rows = [sync(n, n + 5, n + 3, at_ms=10 + n) for n in range(4)]
    target = cluster("target", syncs_on_target=rows)
    log = target.log(TopicPartition(NAMES.syncs_on_target, 0))
    log.start, log.stable = 1, 3
    assert syncs_of(None, target).syncs == {ORDERS: (Sync(6, 4, 11), Sync(7, 5, 12))}


def test_aliases_and_separator_are_those_of_the_connector() -> None:
    given = {"source.cluster.alias": "east", "replication.policy.separator": "_"}
    found = aliases_of(given)
    assert found == Aliases("east", "target", "_")
    assert found.checkpoints == "east_checkpoints_internal"
    assert found.syncs_on_source == "mm2-offset-syncs_target_internal"
    assert found.heartbeats == "east_heartbeats"
    dots = {**given, "replication.policy.internal.topic.separator.enabled": "false"}
    assert aliases_of(dots) == Aliases("east", "target")


def test_aliases_are_guessed_only_if_one_checkpoint_topic_fits() -> None:
    topics = ["orders", "east.checkpoints.internal"]
    assert guessed_aliases("primary", "secondary", []) == NAMES
    assert guessed_aliases("primary", "secondary", topics) == Aliases("east", "secondary")
    topics.append("west.checkpoints.internal")
    assert guessed_aliases("primary", "secondary", topics) is None
    assert guessed_aliases("west", "secondary", topics) == Aliases("west", "secondary")
