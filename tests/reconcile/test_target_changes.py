"""Records added to the target since the gap result, which may block copying."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from drctl.formats import provenance
from drctl.model.errors import Unknown
from drctl.model.gap import OrderVerdict
from drctl.model.topology import (
    Chunk,
    OffsetRange,
    PartitionOffsets,
    Row,
    TopicPartition,
    TopicRanges,
    TopicState,
)
from drctl.reconcile import target_changes
from drctl.reconcile.cluster_state import ClusterStates
from drctl.reconcile.planning import ReconcilePlan, build_plan, with_appended
from drctl.reconcile.policy import Action, Policies
from drctl.reconcile.prechecks import Precheck
from drctl.reconcile.target_changes import Sameness, TargetChanges
from tests.reconcile.world import FakeSource, T, World, copies, row

PLACE, OTHER = TopicPartition(T, 0), TopicPartition(T, 1)
SAFE, CONFLICTING, UNKEYED = OrderVerdict.SAFE, OrderVerdict.CONFLICTING, OrderVerdict.UNKEYED
NOTE = "appended to the target since"


def wanted(n: int, key: bytes | None = None) -> Row:
    """Return the source's record at this offset."""
    return row(n, key if key is not None else b"k%d" % n, b"v%d" % n)


def copy(of: Row, cluster: str = "A") -> Row:
    offset, time, key, value, headers = of
    stamp = provenance.encode(provenance.Provenance(cluster, T, 0, offset, time))
    return (offset, time, key, value, (*headers, (b"__drctl_provenance", stamp)))


def at(offset: int, of: Row, **changes: Any) -> Row:
    """Return the record at this offset of the target."""
    names = ("offset", "time", "key", "value", "headers")
    held = {**dict(zip(names, of, strict=True)), "offset": offset, **changes}
    return (held["offset"], held["time"], held["key"], held["value"], held["headers"])


def digest(timed: bool) -> Any:
    return lambda time, key, value, headers: (time if timed else 0, key, value, headers)


@dataclass
class Stage:
    """Five records are missing in each partition; the target had ten and has some more."""

    came: dict[int, list[Row]]
    orders: Sequence[OrderVerdict] = (SAFE,) * 5
    log_start: int = 0
    open: int = 0
    config: dict[str, str] = field(default_factory=dict)
    by_partition: bool = True
    per_partition: bool = False
    fails: bool = False
    read: list[tuple[int, int, int]] = field(default_factory=list)
    partitions: int = 2
    newer: bool = False
    overrides: Mapping[Precheck, str] = field(default_factory=dict)
    growth: TargetChanges = field(init=False)

    def __post_init__(self) -> None:
        rows = {p: [wanted(n) for n in range(5)] for p in (PLACE, OTHER)}
        verdicts = {(p, n): order for p in rows for n, order in enumerate(self.orders)}
        self.world = World(rows, verdicts, rows)
        self.growth = TargetChanges(
            "A",
            self.world.rows(),
            FakeSource(rows),
            self._read,
            Sameness(self.by_partition, True, True, digest),
            lambda _done, _total: None,
            per_partition=self.per_partition,
        )

    def _read(self, ranges: TopicRanges) -> Iterator[Chunk]:
        for number, runs in ranges[T].items():
            for start, end in runs:
                self.read.append((number, start, end))
                rows = [r for r in self.came.get(number, ()) if start <= r[0] < end]
                yield Chunk(T, number, rows)
        if self.fails:
            raise Unknown("a broker is silent", "")

    def reader(self) -> ClusterStates:
        seen = self.world.reader(**self.config)
        ends = {p: 10 + len(self.came.get(p.partition, ())) for p in (PLACE, OTHER)}
        logs = {p: self._log(end) for p, end in ends.items()}
        state = TopicState(T, dict.fromkeys(range(self.partitions), 1), self.config, topic_id="t")
        return replace(seen, target=replace(seen.target, logs=logs, states={T: state}))

    def _log(self, end: int) -> PartitionOffsets:
        return PartitionOffsets(log_start=self.log_start, end=end, last_stable=end - self.open)

    def plan(self, policies: Policies | None = None, *, last: bool = True) -> ReconcilePlan:
        gap, target_range = self.world.gap, OffsetRange(0, 10)
        parts = tuple(
            replace(p, target_range=target_range, newer_on_target=self.newer)
            for p in gap.partitions
        )
        if policies is None:
            policies = Policies(Action.COPY, per_partition=self.per_partition)
        reader = self.reader()
        gap = replace(gap, partitions=parts)
        plan = build_plan(gap, policies, self.world.rows(), reader, {}, self.overrides)
        return with_appended(plan, self.growth.look(plan, reader, last=last))


def against(plan: ReconcilePlan) -> list[tuple[Precheck, int | None]]:
    return [(o.precheck, o.place.partition if o.place else None) for o in plan.blocked]


def test_a_record_that_arrived_since_is_not_copied_again() -> None:
    plan = Stage({0: [at(10, wanted(3))]}).plan()
    assert against(plan) == [(Precheck.ALREADY_ON_TARGET, 0)]
    assert "offset 3 was missing and is now on the target" in plan.blocked[0].reason
    assert not plan.acting
    assert not Precheck.ALREADY_ON_TARGET.overridable


@pytest.mark.parametrize(
    ("came", "prechecks"),
    [
        (at(10, wanted(3), value=b"other"), [(Precheck.TARGET_MOVED, 0)]),
        (at(10, wanted(3), value=b"other", time=9_999_999_999_999), [(Precheck.TARGET_MOVED, 0)]),
        (at(10, wanted(3), time=1), []),
        (at(10, wanted(3), key=b"another"), []),
        (at(10, wanted(3), key=None), []),
        (at(10, copy(wanted(3))), []),
        (at(10, copy(wanted(3), "elsewhere")), [(Precheck.TARGET_MOVED, 0)]),
    ],
)
def test_only_newer_records_of_copied_keys_block(
    came: Row, prechecks: list[tuple[Precheck, int]]
) -> None:
    plan = Stage({0: [came]}).plan()
    assert against(plan) == prechecks
    assert NOTE in plan.notes[-1]


def test_older_records_are_counted_and_can_be_copied_with_a_reason() -> None:
    stage = Stage({1: [at(9 + n, wanted(n), value=b"new") for n in (1, 2)]})
    (moved,) = stage.plan().blocked
    assert (moved.precheck, moved.place) == (Precheck.TARGET_MOVED, OTHER)
    assert moved.reason.startswith(
        "records that were safe to copy but have newer ones on the target now: 2."
    )
    stage.overrides = {Precheck.TARGET_MOVED: "known"}
    plan = stage.plan()
    assert not plan.blocked
    assert sum(line.due.records for line in plan.acting) == 10
    assert plan.appended.newer == {OTHER: 2}


def test_records_that_are_not_copied_need_no_order() -> None:
    newer, there = at(10, wanted(3), value=b"new"), at(11, wanted(4))
    assert against(Stage({0: [newer]}).plan(copies(Action.QUARANTINE))) == []
    assert against(Stage({0: [newer, there]}).plan(copies(Action.QUARANTINE))) == [
        (Precheck.ALREADY_ON_TARGET, 0)
    ]
    known = Stage({0: [newer]}, (SAFE, SAFE, SAFE, CONFLICTING, SAFE))
    assert against(known.plan(copies())) == []
    exported = Stage({0: [newer, there]})
    assert against(exported.plan(copies(Action.EXPORT, Action.EXPORT))) == []
    assert exported.read == []


def test_with_order_by_partition_any_newer_record_blocks() -> None:
    late = {0: [at(10, wanted(3), key=None, value=b"new")]}
    (moved,) = Stage(late, per_partition=True).plan().blocked
    assert "newer ones on the target now: 4." in moved.reason, (
        "the fifth record is newer than the target's"
    )
    both = Policies(Action.COPY, conflicting=Action.COPY, per_partition=True)
    assert against(Stage(late, per_partition=True, newer=True).plan(both)) == []


def test_records_without_a_key_are_recognized_and_have_no_order() -> None:
    plain = [at(n, wanted(n), key=None) for n in range(5)]
    stage = Stage({0: [at(10, wanted(3), key=None)]}, (UNKEYED,) * 5)
    stage.world.every = stage.world.held = {PLACE: plain, OTHER: plain}
    stage.growth = TargetChanges(
        "A",
        stage.world.rows(),
        FakeSource(stage.world.held),
        stage._read,
        Sameness(True, True, True, digest),
        lambda _done, _total: None,
        per_partition=False,
    )
    assert against(stage.plan()) == [(Precheck.ALREADY_ON_TARGET, 0)]


def test_with_append_times_timestamps_do_not_count() -> None:
    own = {"message.timestamp.type": "LogAppendTime"}
    there = at(10, wanted(3), time=1)
    assert against(Stage({0: [there]}, config=own).plan()) == [(Precheck.ALREADY_ON_TARGET, 0)]
    newer = at(10, wanted(3), time=1, value=b"new")
    assert against(Stage({0: [newer]}, config=own).plan()) == [(Precheck.TARGET_MOVED, 0)]


def test_repartitioned_copies_may_be_anywhere() -> None:
    assert against(Stage({1: [at(10, wanted(3))]}).plan()) == [(Precheck.ALREADY_ON_TARGET, 1)]
    rows = {1: [at(10, wanted(3))]}
    anywhere = Stage(rows, by_partition=False).plan()
    assert against(anywhere) == [(Precheck.ALREADY_ON_TARGET, 0), (Precheck.ALREADY_ON_TARGET, 1)]
    (more, _) = Stage({}, by_partition=False, partitions=4).plan().blocked
    assert more.precheck is Precheck.TARGET_UNREAD
    assert "does not cover partitions 2, 3" in more.reason


def test_unread_records_are_unknown_and_read_ones_count() -> None:
    (silent, _) = Stage({0: [at(10, wanted(3), key=b"x")]}, fails=True).plan().blocked
    assert silent.precheck is Precheck.TARGET_UNREAD
    assert "cannot be read: a broker is silent" in silent.reason
    assert silent.precheck.overridable
    seen = Stage({0: [at(10, wanted(3))]}, fails=True)
    seen.overrides = {Precheck.TARGET_UNREAD: "test"}
    assert against(seen.plan()) == [(Precheck.ALREADY_ON_TARGET, 0)]
    gone = Stage({0: [at(10, wanted(3)), at(11, wanted(4), key=b"x")]}, log_start=11)
    (lost, *_) = gone.plan().blocked
    assert (lost.precheck, lost.place) == (Precheck.TARGET_UNREAD, PLACE)
    assert "the target has already deleted offsets 10 to 10" in lost.reason


def test_open_transactions_are_awaited_before_any_write() -> None:
    stage = Stage({0: [at(10, wanted(1), key=b"x"), at(11, wanted(3))]}, open=1, partitions=1)
    first = stage.plan(last=False)
    assert first.blocked == ()
    assert first.notes[-1].startswith("1 of these offsets follows an open transaction")
    assert against(stage.plan()) == [(Precheck.ALREADY_ON_TARGET, 0)]
    assert stage.read == [(0, 10, 11), (0, 11, 12)], (
        "the second read does not continue after the first"
    )


def test_an_unchanged_target_is_not_read() -> None:
    stage = Stage({})
    plan = stage.plan()
    assert (plan.blocked, plan.notes, stage.read) == ((), (), [])


def test_memory_for_new_records_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_changes, "MOST_SUSPECTS", 1)
    monkeypatch.setattr(target_changes, "MOST_KEYS", 2)
    came = [at(10 + n, wanted(n), value=b"new") for n in range(4)]
    (moved,) = Stage({0: came}).plan().blocked
    assert "on the target now: at least 2." in moved.reason
    found = Stage({0: [*came, at(14, wanted(4))]}).plan()
    assert (Precheck.ALREADY_ON_TARGET, 0) in against(found)
