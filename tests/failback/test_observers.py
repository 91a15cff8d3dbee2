"""Observers on ports: what they conclude from responses of clusters and workers."""

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from drctl.config.schema import ConnectorsConfig
from drctl.engine.failback_state import drops_copies
from drctl.engine.ports import CommandResult
from drctl.failback.facts import Cluster, ReverseStart, Stopped
from drctl.failback.gap_results import GapEvidence
from drctl.failback.observers import boundaries
from drctl.failback.observers import copies as pieces
from drctl.failback.observers.boundaries import (
    divergence,
    find_out_of_order,
    observe_boundaries,
    observe_reverse_start,
)
from drctl.failback.observers.clusters import observe_fence, observe_stopped
from drctl.failback.observers.copies import MOST, forwarded_headers, observe_copies, observe_pending
from drctl.failback.observers.records import RecordIdentity, copied_since, source_mismatch
from drctl.failback.observers.replication import observe_replication
from drctl.formats import provenance
from drctl.model.errors import Refused, Unreachable
from drctl.model.fencing import Enforcement, FenceProof, NoWrites
from drctl.model.ports import ClusterReader
from drctl.model.repairs import Acl, Acls
from drctl.model.replication import Connector
from drctl.model.topology import OffsetRange, Record, TopicPartition, Unavailable
from tests.failback.failback_orders import (
    BOUNDARY,
    DROP,
    HERE,
    LOST_END,
    PLACE,
    PRIMARY,
    SILENT,
    connector,
    copying,
    gap,
    partition,
)
from tests.failback.observed import SUCCEEDED, Log, Looks, link, origin, reader, record

OTHER = TopicPartition("orders", 1)
RULE = Acl("orders", "LITERAL", "User:app", "*", "WRITE", "DENY")


@dataclass
class Closed:
    """A cluster's ACLs, and whether its brokers enforce them."""

    rules: tuple[Acl, ...] = ()
    enforced: bool = True
    doubt: Unavailable | None = None
    proven: list[Collection[Acl]] = field(default_factory=list)

    def acls(self) -> Acls:
        return Acls(self.enforced, self.rules)

    def prove(self, rules: Collection[Acl], topics: Collection[str]) -> FenceProof:
        self.proven.append(rules)
        return FenceProof(Enforcement({1: self.doubt}, len(rules), 1), NoWrites(2, {PLACE: 1}))

    def enforcement(self, rules: Collection[Acl], topics: Collection[str]) -> Enforcement:
        raise AssertionError("enforcement is read by the prover")

    lifted = enforcement


def fence(closed: Closed, result: CommandResult = SUCCEEDED, **settings: Any) -> Any:
    asked = link(**({"fence": settings} if settings else {}))
    return observe_fence(asked, ["orders"], cast(Any, Looks(rules=closed, command_result=result)))


@pytest.mark.parametrize(
    "rule",
    [
        RULE,
        RULE._replace(name="*"),
        RULE._replace(name="ord", pattern="PREFIXED"),
        RULE._replace(principal="User:*", operation="ALL"),
    ],
)
def test_a_fence_may_be_wider_than_the_link(rule: Acl) -> None:
    closed = Closed((rule,))
    assert fence(closed).held is True
    assert closed.proven == [(rule,)], "brokers were asked about other rules than the existing ones"


@pytest.mark.parametrize(
    "rule",
    [
        RULE._replace(permission="ALLOW"),
        RULE._replace(operation="READ"),
        RULE._replace(name="order"),
        RULE._replace(principal="User:other"),
        RULE._replace(host="10.0.0.1"),
        RULE._replace(name="orders-eu", pattern="PREFIXED"),
    ],
)
def test_acls_that_are_not_a_fence(rule: Acl) -> None:
    closed = Closed((rule,))
    found = fence(closed)
    assert found.held is False
    assert "User:app on orders" in found.message
    assert not closed.proven


def test_an_unreadable_fence_is_unknown() -> None:
    assert fence(Closed(), method="none").held is None
    assert fence(Closed(), method="command", command=["x"], verify=[]).held is None
    assert fence(Closed(enforced=False)).held is False
    late = fence(Closed((RULE,), doubt=Unavailable("it hung up")))
    assert late.held is False
    assert "not every broker" in late.message


def test_a_user_supplied_fence_check() -> None:
    settings: dict[str, Any] = {"method": "command", "command": ["x"], "verify": ["y"]}
    assert fence(Closed(), **settings).held is True
    assert fence(Closed(), CommandResult(1, "port 9092 is open"), **settings).held is False
    with pytest.raises(Refused, match="`y` could not be started"):
        fence(Closed(), CommandResult(None, "no such file"), **settings)


def test_a_user_supplied_replication_check() -> None:
    def stopped(result: CommandResult, **replicator: Any) -> Any:
        asked = link(replicator={"kind": "none", "stop": ["x"], **replicator})
        return observe_stopped(asked, cast(Any, Looks(command_result=result)))

    assert stopped(CommandResult(0)) is None
    prefix = "user-supplied command: it is"
    ended = CommandResult(0, "task 4711 ended")
    assert stopped(ended, stopped=["y"]) == Stopped(True, f"{prefix} stopped (task 4711 ended)")
    assert stopped(CommandResult(1), stopped=["y"]) == Stopped(False, f"{prefix} not stopped")
    with pytest.raises(Refused, match="`y` could not be started"):
        stopped(CommandResult(None, "no such file"), stopped=["y"])


@dataclass
class Connect:
    """Workers with these connectors."""

    known: Mapping[str, Connector]
    kept: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    def kafka_cluster_id(self) -> str:
        return "id-of-the-worker's"

    def all(self) -> Mapping[str, Connector]:
        return self.known

    def offsets(self, name: str) -> Sequence[Mapping[str, Any]]:
        return self.kept.get(name, ())


MIRROR = {
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "source.cluster.alias": "primary",
    "target.cluster.alias": "secondary",
    "source.cluster.bootstrap.servers": "one:9092",
    "target.cluster.bootstrap.servers": "two:9092",
}
ENDS = (frozenset({"one:9092"}), frozenset({"two:9092"}))
ORDERS = lambda: ("orders",)  # noqa: E731


def test_an_unconfigured_replicator_is_found() -> None:
    """The classic unnoticed connector, under another name."""
    backwards = {**MIRROR, "source.cluster.bootstrap.servers": "two:9092"}
    workers = Connect(
        {
            "named": connector("named", "STOPPED", MIRROR),
            "forgotten": connector("forgotten", "RUNNING", MIRROR),
            "elsewhere": connector("elsewhere", "RUNNING", backwards),
        }
    )
    named = ConnectorsConfig(source="named", heartbeat="gone")
    found = observe_replication(workers, named, ENDS, ORDERS)
    assert [each.name for each in found.found] == ["named", "forgotten"]
    assert found.runs
    assert found.missing == ("gone",)
    assert (found.workers, found.out_of, found.into) == ("id-of-the-worker's", *ENDS)


def test_a_replicator_of_other_topics_is_ignored() -> None:
    """Two clusters with topics of their own replicate to each other all the time."""
    workers = Connect(
        {
            "flights": connector("flights", "RUNNING", {**MIRROR, "topics": "flights"}),
            "ours": connector("ours", "RUNNING", {**MIRROR, "topics": "ord.*,x"}),
            "java": connector("java", "RUNNING", {**MIRROR, "topics": "(?<java>x)"}),
            "except": connector("except", "RUNNING", {**MIRROR, "topics.exclude": "orders"}),
        }
    )
    found = observe_replication(workers, ConnectorsConfig(), ENDS, ORDERS)
    assert [each.name for each in found.found] == ["java", "ours"]
    named = observe_replication(workers, ConnectorsConfig(source="flights"), ENDS, ORDERS)
    assert "flights" in [each.name for each in named.found]
    unknown = observe_replication(workers, ConnectorsConfig(), ENDS, tuple)
    assert len(unknown.found) == 4, "with unknown topics every connector may belong to the link"


def test_connect_is_read_while_clusters_are_awaited() -> None:
    """Offsets come from a cluster that may be frozen: the two waits must not add up."""
    asked: list[str] = []

    class Watched(Connect):
        def kafka_cluster_id(self) -> str:
            asked.append("cluster id")
            return super().kafka_cluster_id()

        def offsets(self, name: str) -> Sequence[Mapping[str, Any]]:
            asked.append(f"positions of {name}")
            return super().offsets(name)

    def topics() -> tuple[str, ...]:
        asked.append("topics")
        return ("orders",)

    workers = Watched({name: connector(name, "RUNNING", MIRROR) for name in ("one", "two")})
    observe_replication(workers, ConnectorsConfig(source="one"), ENDS, topics)
    assert asked == ["cluster id", "positions of one", "positions of two", "topics"]


def test_positions_are_the_next_offset() -> None:
    entry = {
        "partition": {"cluster": "primary", "topic": "orders", "partition": 0},
        "offset": {"offset": 96},
    }
    replicator = {"connector.class": "io.confluent.connect.replicator.ReplicatorSourceConnector"}
    plain = {**entry, "partition": {"topic": "orders", "partition": 0}}
    for config, kept, expected in ((MIRROR, entry, 97), (replicator, plain, 96)):
        workers = Connect({"one": connector("one", "STOPPED", config)}, {"one": [kept, {}]})
        found = observe_replication(workers, ConnectorsConfig(source="one"), ENDS, tuple)
        assert found.found[0].positions == {PLACE: expected}


OLDEST, NEW = record(0, "first", 1), record(BOUNDARY, "new", 50)


def came(back: Record | None, *target: Record) -> Any:
    grown = Cluster(HERE, {PLACE: OffsetRange(0, LOST_END + 1)})
    source = reader(*([back] if back else []))
    return observe_reverse_start(
        gap(), {PLACE: BOUNDARY}, grown, source, reader(*(target or (OLDEST, NEW)))
    )[PLACE]


def test_the_first_replicated_record_shows_the_start_offset() -> None:
    assert came(record(LOST_END, "new", 50, ("added", b""))) is ReverseStart.BOUNDARY
    assert came(record(LOST_END, "first", 1)) is ReverseStart.START
    assert came(record(LOST_END, "another", 50)) is ReverseStart.ELSEWHERE
    assert came(record(LOST_END, "new", 51)) is ReverseStart.ELSEWHERE
    assert came(None) is ReverseStart.NOTHING, "a transaction marker counts as a record"


def test_compaction_may_have_removed_the_first_replicated_record() -> None:
    """Seen in the soak test: each further failback was refused, because nobody could tell."""
    newer = record(BOUNDARY + 3, "new", 53)
    there = OLDEST, record(BOUNDARY + 1, "other", 51), newer
    here = record(LOST_END, "new", 50), record(LOST_END + 1, "other", 51)
    grown = Cluster(HERE, {PLACE: OffsetRange(0, LOST_END + 2)})

    def judged(own: Sequence[Record], **more: Any) -> ReverseStart:
        compacted = more.pop("compacted", frozenset({PLACE.topic}))
        found = observe_reverse_start(
            gap(), {PLACE: BOUNDARY}, grown, reader(*own), reader(*there), compacted, **more
        )
        return found[PLACE]

    assert judged(here) is ReverseStart.BOUNDARY
    assert judged(here, compacted=frozenset()) is ReverseStart.ELSEWHERE
    assert judged(here[:1]) is ReverseStart.ELSEWHERE, "no record is on both clusters"
    assert judged(here[:1], ours=True) is ReverseStart.BOUNDARY
    assert judged([record(LOST_END, "unknown", 9), here[1]]) is ReverseStart.ELSEWHERE


def test_equal_records_prove_nothing() -> None:
    alike = record(BOUNDARY, "first", 1)
    assert isinstance(came(record(LOST_END, "first", 1), OLDEST, alike), Unavailable)


def test_provenance_headers_name_the_originals() -> None:
    log = (
        record(100, "a", 5, origin(HERE, 7)),
        record(101, "b", 5, origin("another", 8)),
        record(102, "c", 5, (provenance.HEADER, b"damaged")),
        record(103, "d", 5, ("x", b"y"), origin(HERE, 9)),
    )
    there = Cluster("two", {PLACE: OffsetRange(0, 104)})
    found = observe_copies({PLACE: 100}, there, reader(*log), HERE)
    assert not isinstance(found, Unavailable)
    assert found.offsets == {PLACE: frozenset({7, 9})}
    assert found.others == {PLACE: 2}
    assert found.whole


def processed() -> tuple[Record, ...]:
    """Return records of stream processors, which follow copies in other partitions."""
    return (
        record(100, "a", 5, origin(HERE, 7)),
        record(101, "b", 5, origin(HERE, 7, TopicPartition("payments", 0))),
        record(102, "c", 5, origin(HERE, 7, TopicPartition("orders", 1))),
        record(103, "d", 5, origin(HERE, 7, TopicPartition("payments", 0)), origin(HERE, 8)),
    )


def test_output_of_a_stream_processor_is_not_a_copy() -> None:
    """It forwards headers, which name a record of another partition."""
    there = Cluster("two", {PLACE: OffsetRange(0, 104)})
    found = observe_copies({PLACE: 100}, there, reader(*processed()), HERE)
    assert not isinstance(found, Unavailable)
    assert (found.offsets, found.others) == ({PLACE: frozenset({7, 8})}, {PLACE: 2})
    elsewhere = TopicPartition("primary.orders", 0)
    there = Cluster("two", {elsewhere: OffsetRange(0, 104)})
    source_partitions = {elsewhere: PLACE}
    found = observe_copies(
        {elsewhere: 100}, there, reader(*processed()), HERE, source_partitions=source_partitions
    )
    assert not isinstance(found, Unavailable)
    assert found.offsets == {PLACE: frozenset({7, 8})}


def test_output_of_a_stream_processor_is_new() -> None:
    """It was counted as new: treating it as a copy would count an old record instead."""
    whole = [record(n, f"r{n}", n) for n in range(100)]
    found = gap(partition(only_on_target=2, target=OffsetRange(0, 104)))
    log = reader(*whole, *processed())
    assert observe_boundaries(found, PRIMARY, reader(), log, 10) == {PLACE: 101}


def test_the_first_record_that_a_filter_would_drop_is_found() -> None:
    there = Cluster("two", {PLACE: OffsetRange(0, 104)})
    log = processed()

    def first(*records: Record, since: int = 100) -> dict[TopicPartition, int]:
        return forwarded_headers({PLACE: since}, {}, HERE, there, reader(*records))

    assert first(*log) == {PLACE: 101}
    assert first(*log, since=102) == {PLACE: 102}
    assert first(*log, since=103) == {}, "a record whose copy has its own header was reported"
    assert first(log[0], record(101, "n", 6), log[3]) == {}
    assert first(record(101, "n", 6, (provenance.HEADER, b"damaged"))) == {PLACE: 101}
    elsewhere = TopicPartition("primary.orders", 0)
    there = Cluster("two", {elsewhere: OffsetRange(0, 104)})
    asked = {elsewhere: 100}, {elsewhere: PLACE}, HERE, there
    assert forwarded_headers(*asked, reader(log[0], log[3])) == {}
    assert forwarded_headers(*asked, reader(*log)) == {elsewhere: 101}


def test_copies_after_the_connectors_offset_are_not_awaited() -> None:
    log = (
        record(101, "b", 3, origin(HERE, 7)),
        record(102, "c", 4, origin(HERE, 8)),
        record(103, "new", 5),
    )
    there = Cluster("two", {PLACE: OffsetRange(0, 104)})
    found = observe_pending(
        copying("back", "RUNNING", {PLACE: 101}), {PLACE: 90}, HERE, there, reader(*log), {}
    )
    assert not isinstance(found, Unavailable)
    assert found.others == {PLACE: 1}
    assert observe_pending(SILENT, SILENT, HERE, there, reader(), {}) is SILENT


def test_too_many_records_to_search_is_reported() -> None:
    there = Cluster("two", {PLACE: OffsetRange(0, MOST + 1)})
    found = observe_copies({PLACE: 0}, there, reader(), HERE)
    assert isinstance(found, Unavailable)
    assert "50,001 offsets" in found.reason


def test_a_recreated_topic_is_recognized_by_its_records() -> None:
    sample = gap().samples[0]
    same = Record(0, sample.offset, sample.timestamp_ms, sample.key, b"v")
    assert source_mismatch(gap(), reader(same)) == ""
    assert source_mismatch(gap(), reader()) == "", "a deleted record counts as a recreated topic"
    other = record(sample.offset, "k", sample.timestamp_ms + 1)
    assert "recreated" in source_mismatch(gap(), reader(other))
    assert source_mismatch(gap(partition(), samples=()), reader(other)) == ""


def test_only_a_filter_on_drctls_header_excludes_copies() -> None:
    config = DROP["config"]
    assert drops_copies(config)
    assert not drops_copies({**config, "transforms.ours.negate": "true"})
    assert not drops_copies({**config, "predicates.copied.name": "another"})
    assert not drops_copies({k: v for k, v in config.items() if k != "transforms"})


def test_the_boundary_is_counted_in_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the last 30 offsets two are transaction markers, and one is a later copy."""
    two_ends, copied = {110, 120}, record(125, "c", 5, origin(HERE, 3))
    log = [
        copied if offset == 125 else record(offset, str(offset), offset)
        for offset in range(130)
        if offset not in two_ends
    ]
    counted = gap(partition(only_on_target=27))
    assert counted_in(counted, *log) == {PLACE: 100}
    assert counted_in(gap(), *log) == {PLACE: 97}
    nothing = gap(partition(only_on_target=0))
    assert counted_in(nothing, *log) == {PLACE: 130}
    for step in (1, 3, 7, 27, 1_000):
        small(monkeypatch, step)
        assert counted_in(counted, *log) == {PLACE: 100}, step


def counted_in(found: GapEvidence, *log: Record) -> Any:
    return observe_boundaries(found, PRIMARY, reader(), reader(*log))


DELETED = OffsetRange(20, LOST_END)
"""Retention has deleted 20 records on the source and 5 on the target, whose segments differ."""


def with_leftovers(
    here: Sequence[Record], there: Sequence[Record], new: int, *, start: int = 20
) -> Any:
    on_source = Cluster(HERE, {PLACE: OffsetRange(start, LOST_END)})
    found = gap(partition(source=DELETED, target=OffsetRange(5, 130), only_on_target=new))
    return observe_boundaries(found, on_source, reader(*here), reader(*there))


def test_records_deleted_only_on_the_source_are_not_new() -> None:
    whole = [record(n, f"r{n}", n) for n in range(110)]
    there = [*whole[5:100], *(record(n, f"new-{n}", n) for n in range(100, 130))]
    assert with_leftovers(whole[20:], there, 30 + 15) == {PLACE: 100}
    held = [*whole[5:20], *(record(n, "c", 5, origin(HERE, n)) for n in (20, 21)), *whole[20:100]]
    moved = [replace(r, offset=5 + n) for n, r in enumerate([*held, *there[95:123]])]
    assert with_leftovers(whole[20:], moved, 28 + 15) == {PLACE: 102}, (
        "copies count as records deleted on the source"
    )


def test_records_of_unknown_origin_count_as_new() -> None:
    """Replicating too many makes the run refuse; too few would lose records."""
    whole = [record(n, f"r{n}", n) for n in range(110)]
    there = [*whole[5:100], *(record(n, f"new-{n}", n) for n in range(100, 130))]
    since = with_leftovers(whole[25:], there, 45, start=25)
    assert since == {PLACE: 85}, "records deleted since the comparison are not included"
    behind = [*there[:-1], record(129, "r99", 99)]
    assert with_leftovers(whole[20:], behind, 44) == {PLACE: 86}, (
        "a record of forward replication is not included"
    )
    other = [record(n, "own", n) if n < 20 else r for n, r in enumerate(there, 5)]
    assert with_leftovers(whole[20:], other, 43) == {PLACE: 87}, (
        "a record of unknown origin does not count as new"
    )


def small(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    """Limit the number of records in memory."""
    for module, name in ((pieces, "AT_ONCE"), (pieces, "_LEAST"), (boundaries, "AT_ONCE")):
        monkeypatch.setattr(module, name, at_once)


@pytest.mark.parametrize("at_once", [1, 4, 64, 50_000])
@pytest.mark.parametrize("holes", [1, 2, 5, 100])
def test_the_boundary_never_follows_the_first_new_record(
    monkeypatch: pytest.MonkeyPatch, at_once: int, holes: int
) -> None:
    """Each new record ends a transaction, or compaction removed those in between."""
    new = 90
    log = [record(n, f"old-{n}", n) for n in range(40)]
    log += [record(40 + holes * n, f"new-{n}", 1_000 + n) for n in range(new)]
    found = gap(
        partition(only_on_target=new, target=OffsetRange(0, 40 + holes * new)),
        partition(
            place=OTHER, copy=OTHER, only_on_target=1, target=OffsetRange(0, 40 + holes * 89 + 1)
        ),
    )
    small(monkeypatch, at_once)
    read = Log(tuple(log))
    assert observe_boundaries(found, PRIMARY, reader(), cast(ClusterReader, read), new + 1) == {
        PLACE: 40,
        OTHER: 40 + holes * 89,
    }
    assert read.most_at_once <= 2 * at_once, "too many records in memory"


def test_too_many_new_records_to_count_are_unknown() -> None:
    many = gap(partition(only_on_target=11, target=OffsetRange(0, 40)))
    log = [record(2 * n, str(n), n) for n in range(20)]
    boundaries_found = observe_boundaries(many, PRIMARY, reader(), reader(*log), 10)
    assert isinstance(boundaries_found, Unavailable)
    assert "11 new records" in boundaries_found.reason
    assert observe_boundaries(many, PRIMARY, reader(), reader(*log), 11) == {PLACE: 18}


def test_deleted_new_records_leave_no_boundary() -> None:
    few = gap(partition(only_on_target=21, target=OffsetRange(5, 40)))
    log = [record(n, str(n), n) for n in range(20, 40)]
    with pytest.raises(Unreachable, match="fewer records than the comparison found to be new"):
        counted_in(few, *log)


def test_if_no_record_was_copied_compaction_does_not_hide_the_boundary() -> None:
    """Seen in the soak test: the copy was compacted between comparison and count, every time."""
    new = gap(partition(only_on_target=21, target=OffsetRange(5, 40), none_copied=True))
    assert counted_in(new, *(record(n, str(n), n) for n in range(30, 40))) == {PLACE: 5}


@pytest.mark.parametrize(
    ("left", "boundary"),
    [
        ((0, 1, 2, 5, 6, 7, 8), 5),
        ((0, 1, 2, 6, 8), 6),
        ((2, 8), 8),
        ((8,), 8),
        ((0, 1, 2), 9),
        ((0, 3, 4, 8), 8),
    ],
    ids=[
        "nothing-removed-yet",
        "fewer-new-records-than-the-comparison-found",
        "most-removed",
        "no-copied-record-left",
        "all-new-ones-removed",
        "drctls-copies-are-not-new",
    ],
)
def test_new_records_of_a_compacted_partition_are_counted_again(
    left: tuple[int, ...], boundary: int
) -> None:
    """Seen in the soak test: the target was compacted between every comparison and its count."""
    whole = [record(n, f"k{n}", n) for n in range(5)]
    whole[3:] = [record(n, f"k{n}", n, origin(HERE, n)) for n in (3, 4)]
    whole += [record(n, f"new-{n}", n) for n in range(5, 9)]
    there = [each for each in whole if each.offset in left]
    here = [replace(each, headers=()) for each in whole[:5]]
    source, target = OffsetRange(0, 5), OffsetRange(0, 9)
    found = gap(partition(source=source, target=target, only_on_target=4))

    def located(most: int, identity: RecordIdentity) -> Any:
        return observe_boundaries(
            found, PRIMARY, reader(*here), reader(*there), most, {PLACE.topic}, identity
        )

    assert located(14, RecordIdentity()) == {PLACE: boundary}
    if boundary > 5:
        assert isinstance(located(13, RecordIdentity()), Unavailable)
    if len(left) < 4:
        with pytest.raises(Unreachable, match="fewer records than the comparison found"):
            located(14, RecordIdentity(own_time={PLACE.topic}))


def compacted_counted(here: str, there: str, new: int, ranges: Any = ()) -> Any:
    """Return the boundary.

    Words are keys and timestamps, - for a tombstone, * for another value; their places are offsets.
    A dot is no record.
    """
    values = {"": b"v", "*": b"w", "-": None}

    def log(text: str) -> list[Record]:
        words = [(n, each) for n, each in enumerate(text.split()) if each != "."]
        return [Record(0, n, int(w[1]), w[:1].encode(), values[w[2:]]) for n, w in words]

    ends = OffsetRange(0, len(here.split())), OffsetRange(0, len(there.split()))
    found = gap(
        partition(
            source=ends[0],
            target=ends[1],
            only_on_target=new,
            ranges=ranges,
            ranges_total=len(ranges),
        )
    )
    readers = reader(*log(here)), reader(*log(there))
    return observe_boundaries(found, PRIMARY, *readers, 100, {PLACE.topic})


@pytest.mark.parametrize("here", ["a1 b1 b2", "a1 . b2"], ids=["", "the source has compacted it"])
def test_a_record_that_was_copied_late_hides_no_new_one(here: str) -> None:
    """Forward replication copied b1 after n1."""
    with pytest.raises(Unreachable, match="forward replication copied them late"):
        compacted_counted(here, "a1 n3 b1 n4", 2, ((2, 2),))


def test_records_that_the_source_has_compacted_are_not_taken_for_new_ones() -> None:
    before = ("a1 b1 c1 d1 a2 c2", "a1 b1 c1 d1 x1 d2 y1", 3, ((4, 5),))
    assert compacted_counted(*before) == {PLACE: 4}
    assert compacted_counted(". b1 . d1 a2 c2", "a1 b1 c1 . . d2 y1", 4, ((4, 5),)) == {PLACE: 5}


@pytest.mark.parametrize(
    ("here", "there", "missing", "boundary"),
    [
        pytest.param(". b1 a2", "a1 b1 a2 n5", (), 3, id="a later record of its key is on both"),
        pytest.param(". . b1 a3", "a1 a2 b1 n5", (3,), 3, id="a later one is missing"),
        pytest.param("b1 . a2", "b1 a1 n5", (2,), 2, id="the last copied record"),
        pytest.param(". a2", "a1 n5", (1,), 1, id="all copied records"),
        pytest.param(". a1", "a1* n5", (1,), 1, id="the same timestamp"),
        pytest.param("b1 a2", "b1 a3 n5", (1,), 1, id="a new record of its key"),
        pytest.param("b1 a9", "b1 . a7 n9", (), None, id="a new record with a wrong timestamp"),
        pytest.param(". b1 a1", "a2 b1 a1 n5", (), None, id="the later record is older"),
        pytest.param(". b1", "a2 b1 n5", (), None, id="its key is unknown"),
        pytest.param(". b1", "a1- b1 n5", (), 2, id="its key was deleted"),
        pytest.param(". . b1", "a1 a2- b1 n5", (), 3, id="its key was deleted before"),
        pytest.param(". b1 .", "a2 b1 a3- n5", (), 2, id="its key was deleted later"),
        pytest.param(". . b1", "a1- a2 b1 n5", (), None, id="it follows a tombstone"),
        pytest.param("b1 .", "a9 b1 a2- n9", (), None, id="an older tombstone follows"),
        pytest.param(". a2 b3", "a1 a2 b3 a1 a2 b3 n9", (), 6, id="copied twice"),
        pytest.param(". a2 b3", "a1 a2 a1 b3 n9", (), None, id="copied again, out of order"),
    ],
)
def test_copies_whose_originals_are_compacted_away(
    here: str, there: str, missing: Sequence[int], boundary: int | None
) -> None:
    """Seen in the soak test (81000): a failback could only be finished by a rebuild."""
    ranges = [(offset, offset) for offset in missing]
    if boundary is not None:
        assert compacted_counted(here, there, 2, ranges) == {PLACE: boundary}
    else:
        with pytest.raises(Unreachable, match="the boundary is unknown"):
            compacted_counted(here, there, 2, ranges)


def test_a_partition_without_a_boundary_may_have_grown() -> None:
    grown = Cluster(HERE, {PLACE: OffsetRange(0, LOST_END + 1)})
    source, target = reader(record(LOST_END, "new", 50)), reader(OLDEST, NEW)
    found = observe_reverse_start(gap(), {}, grown, source, target, {PLACE.topic}, ours=True)
    assert found == {PLACE: ReverseStart.ELSEWHERE}


def test_after_the_last_copied_record_a_compacted_partition_is_not_counted_again() -> None:
    """A transaction of new records ended at offset 6."""
    here = [record(n, f"k{n}", n) for n in range(5)]
    there = [*here, *(record(n, f"new-{n}", n) for n in (5, 7, 8))]
    found = gap(
        partition(source=OffsetRange(0, 5), target=OffsetRange(0, 9), only_on_target=3, ranges=())
    )
    readers = reader(*here), reader(*there)
    assert observe_boundaries(found, PRIMARY, *readers, 3, {PLACE.topic}) == {PLACE: 5}


def test_without_a_boundary_the_first_record_is_unknown() -> None:
    grown = Cluster(HERE, {PLACE: OffsetRange(0, LOST_END + 1)})
    source, target = reader(record(LOST_END, "new", 50)), reader(OLDEST, NEW)
    silent = Unavailable("nobody has counted")
    assert observe_reverse_start(gap(), silent, grown, source, target) == {PLACE: silent}


@pytest.mark.parametrize(
    ("behind", "expected"),
    [
        ((record(100, "n1", 50), record(101, "n2", 51)), ()),
        ((record(100, "n1", 50), record(101, "last", 9)), (str(PLACE),)),
        ((record(100, "n1", 50), record(101, "last", 9, origin(HERE, 99))), ()),
    ],
)
def test_records_appended_by_forward_replication_are_found(
    behind: tuple[Record, ...], expected: tuple[str, ...]
) -> None:
    """The last record on both clusters reveals it: it precedes all new ones."""
    source = reader(record(99, "last", 9), record(109, "tail", 10))
    target = reader(record(99, "last", 9), *behind)
    assert find_out_of_order((gap(),), PRIMARY, {PLACE: BOUNDARY}, source, target) == expected


@pytest.mark.parametrize("left", [99, 95, 42, 0, None])
def test_compaction_may_leave_the_last_copied_record_anywhere(left: int | None) -> None:
    """Seen in the soak test: only records that were not replicated were left on the source."""
    last = () if left is None else (record(left, "last", 9),)
    source = reader(*last, record(109, "tail", 10))
    for behind, found in ((record(101, "n1", 50), ()), (record(101, "last", 9), (str(PLACE),))):
        target = reader(record(100, "n0", 49), behind)
        asked = (gap(),), PRIMARY, {PLACE: BOUNDARY}, source, target
        assert find_out_of_order(*asked, compacted={PLACE.topic}) == (found if last else ())
    if left is None:
        assert isinstance(find_out_of_order(*asked), Unavailable), "nothing removes it otherwise"


def test_missing_records_replicated_since() -> None:
    """Forward replication ran again for a while, which the source does not show."""
    missing = record(100, "tail", 7)
    end = partition().target
    assert end is not None
    there = Cluster("two", {PLACE: OffsetRange(0, end.end + 1)})

    def found(*behind: Record) -> Mapping[str, Any]:
        readers = reader(missing), reader(*behind)
        return copied_since((gap(),), HERE, there, *readers)

    assert "offset 100 of orders-0 was missing" in found(record(end.end, "tail", 7))["gap/main-1"]
    assert found(record(end.end, "tail", 8)) == {}
    assert found(record(end.end - 1, "tail", 7)) == {}, (
        "a record from before the comparison was reported"
    )
    assert found(record(end.end, "tail", 7, origin(HERE, 100))) == {}, (
        "a record that drctl copied was reported"
    )

    grown = Cluster("two", {PLACE: OffsetRange(0, end.end + 11)})
    readers = reader(missing), reader(record(end.end + 9, "tail", 7))
    (copied,) = copied_since((gap(),), HERE, grown, *readers, most=10).values()
    assert isinstance(copied, Unavailable), "too many records to read, but not reported as unknown"
    assert "11 offsets were written" in copied.reason
    assert copied_since((gap(partition(ranges=())),), HERE, grown, *readers, most=10) == {}


def test_an_old_result_does_not_hide_the_newest() -> None:
    """Its logs ended elsewhere: the records after it are not read, however long that would take."""
    there = Cluster("two", {PLACE: OffsetRange(0, 20_000_000)})
    end = OffsetRange(0, 19_999_990)
    newest = gap(partition(target=end))
    old = gap(partition(source=OffsetRange(0, 105), ranges=((101, 104),)), where="gap/old")
    readers = reader(record(100, "tail", 7)), reader(record(19_999_995, "tail", 7))
    found = copied_since((newest, old), HERE, there, *readers, most=10**9)
    assert isinstance(found["gap/old"], Unavailable)
    assert "offset 100 of orders-0 was missing" in str(found["gap/main-1"])


SOURCE, TARGET = (
    Cluster(HERE, {PLACE: OffsetRange(0, 105)}),
    Cluster("two", {PLACE: OffsetRange(0, 9)}),
)
SAME = gap(partition(source=OffsetRange(0, 100), target=OffsetRange(0, 100), only_on_target=0))


def parted(own: Sequence[Record], copies: Sequence[Record], *, new: int = 0) -> Any:
    result = gap(replace(SAME.partitions[0], only_on_target=new))
    return divergence(result, SOURCE, TARGET, reader(*own), reader(*copies))


def test_equal_clusters_may_have_diverged() -> None:
    before = [record(n, f"b{n}", n) for n in range(100)]
    here = [*before, *(record(100 + n, f"n{n}", 200 + n) for n in range(5))]
    there = [*before, *(record(107 + n, f"n{n}", 200 + n) for n in range(5))]
    assert parted(here, there) == ""
    assert parted(here, there[:-2]) == "", "two records in flight count as divergence"
    assert "offset 109 of orders-0" in parted(here[:-3], there), (
        "a record written to that cluster was not reported"
    )
    assert parted(here, [*before, *there[-3:]]), "a missing record in between was not reported"
    copied = [*before, record(105, "c", 5, origin(HERE, 3)), *there[100:]]
    assert parted(here, copied) == "", "a record that drctl copied counts as divergence"
    assert "offset 99 of orders-0" in parted(here, there, new=1), (
        "a record without an equal one was not reported"
    )
    many = Cluster(HERE, {PLACE: OffsetRange(0, MOST + 101)})
    assert isinstance(divergence(SAME, many, TARGET, reader(), reader()), Unavailable)
    more = Cluster(HERE, {**SOURCE.logs, OTHER: OffsetRange(0, 1)})
    assert isinstance(divergence(SAME, more, TARGET, reader(*here), reader(*there)), Unavailable)


def compact(log: Sequence[Record], chance: random.Random) -> list[Record]:
    """Remove some records that a later one of the same key supersedes."""
    last = {each.key: each.offset for each in log}
    return [e for e in log if last[e.key] == e.offset or chance.random() < 0.5]


NEW_SINCE = 1_000
"""The first timestamp of new records."""


def test_no_start_of_reverse_replication_that_does_harm_counts_as_the_boundary() -> None:
    """Started at the boundary, by drctl, or before or after it; compaction goes on meanwhile."""
    seen = Counter[tuple[bool, ReverseStart]]()
    for seed in range(3_000):
        chance = random.Random(seed)
        keys = "abcdefgh"[: chance.randint(1, 8)]
        old = [record(n, chance.choice(keys), n) for n in range(chance.randint(0, 12))]
        tail = [record(len(old) + n, chance.choice(keys), 500 + n) for n in range(2)]
        source = [*old, *tail]
        new = [
            record(len(old) + n, chance.choice(keys), NEW_SINCE + n)
            for n in range(chance.randint(1, 12))
        ]
        target, boundary = [*old, *new], len(old)
        start = max(0, min(len(target) - 1, boundary + chance.choice([0, 0, 0, -3, -1, 1, 3])))
        position = chance.randint(start + 1, len(target))
        end = len(source)
        came = [replace(each, offset=end + n) for n, each in enumerate(target[start:position])]
        here, there = compact([*source, *came], chance), compact(target, chance)
        found = partition(source=OffsetRange(0, end), target=OffsetRange(0, len(target)))
        grown = Cluster(HERE, {PLACE: OffsetRange(0, end + len(came))})
        readers = reader(*here), reader(*there)
        judged = observe_reverse_start(
            gap(found), {PLACE: boundary}, grown, *readers, {PLACE.topic}, ours=start == boundary
        )[PLACE]
        assert isinstance(judged, ReverseStart), seed
        seen[start == boundary, judged] += 1
        if judged is ReverseStart.BOUNDARY:
            at_end = {each.key: each.timestamp_ms for each in (*source, *came, *target[position:])}
            right = {each.key: each.timestamp_ms for each in (*source, *new)}
            assert at_end == right, seed
    assert seen[True, ReverseStart.BOUNDARY] > 1_300
    assert seen[False, ReverseStart.START] + seen[False, ReverseStart.ELSEWHERE] > 500
