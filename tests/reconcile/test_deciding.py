"""Decisions before anything changes: policies, prechecks, plans, documents."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drctl.model.errors import Refused, Stopped, UsageError
from drctl.model.gap import Counts, GapResult, OrderVerdict, PartitionGap, TopicGap
from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition
from drctl.reconcile.cluster_state import ClusterState, ClusterStates
from drctl.reconcile.documents import document
from drctl.reconcile.executing import Limits
from drctl.reconcile.gap_result import check_rows, ranges_of, read_gap
from drctl.reconcile.planning import build_plan
from drctl.reconcile.policy import Action, Policies, check_names, parse_policies
from drctl.reconcile.prechecks import OVERRIDABLE, Precheck, blockers, check_clusters
from drctl.reconcile.progress import Key, Progress, RecordSet, Segment
from drctl.reconcile.results import ReconcileResult, planned
from tests.cli.documents import check
from tests.depth import examples
from tests.reconcile.world import FakeCopier, T, World, copies, row

PLACE = TopicPartition(T, 0)
SAFE, CONFLICTING, UNKEYED = OrderVerdict.SAFE, OrderVerdict.CONFLICTING, OrderVerdict.UNKEYED


def world(*orders: OrderVerdict) -> World:
    rows = [row(offset) for offset in range(len(orders))]
    return World({PLACE: rows}, {(PLACE, n): o for n, o in enumerate(orders)}, {PLACE: rows})


_DISCARD = "discard requires --topic: records are lost only where a topic is named"


@pytest.mark.parametrize(
    ("policy", "topics", "conflicting", "message"),
    [
        (None, (), Action.REFUSE, "no policy given"),
        (Action.DISCARD, (), Action.REFUSE, f"--policy {_DISCARD}"),
        (Action.COPY, (), Action.DISCARD, f"--conflicting {_DISCARD}"),
        (None, ("orders",), Action.REFUSE, "--topic 'orders': no policy"),
        (Action.COPY, ("orders=refuse",), Action.REFUSE, "--topic 'orders=refuse': no policy"),
    ],
)
def test_policies_that_do_not_go_together(
    policy: Action | None, topics: tuple[str, ...], conflicting: Action, message: str
) -> None:
    with pytest.raises(UsageError) as refused:
        parse_policies(policy, topics, conflicting)
    assert refused.value.message == message


def test_named_topics_are_the_only_ones() -> None:
    found = parse_policies(Action.COPY, ("a=discard", "b"), Action.EXPORT)
    assert found.by_topic == {"a": Action.DISCARD, "b": Action.COPY}
    assert (found.chooses("a"), found.chooses("c")) == (True, False)
    assert found.of("a", found.out_of_order(SAFE, False)) is Action.DISCARD
    assert found.of("b", found.out_of_order(CONFLICTING, False)) is Action.EXPORT
    with pytest.raises(UsageError):
        check_names(found, ["a"])


def test_with_order_by_partition_all_older_records_conflict() -> None:
    found = parse_policies(Action.COPY, (), Action.QUARANTINE, per_partition=True)
    assert found.of("a", found.out_of_order(UNKEYED, True)) is Action.QUARANTINE
    assert found.of("a", found.out_of_order(UNKEYED, False)) is Action.COPY


def moved(seen: World, **log: int) -> set[Precheck]:
    """Return the prechecks that fail if the source's log has changed like this."""
    reader = seen.reader()
    offsets = replace(reader.source.logs[PLACE], **log)
    changed = ClusterStates(replace(reader.source, logs={PLACE: offsets}), reader.target)
    return {o.precheck for o in blockers(seen.gap, seen.gap.partitions, changed, {})}


def test_a_result_is_stale_once_the_source_changed() -> None:
    seen = world(SAFE, SAFE)
    assert moved(seen, end=2) == set()
    assert moved(seen, end=3) == {Precheck.SOURCE_MOVED}
    assert moved(seen, log_start=1) == {Precheck.SOURCE_MOVED}
    assert moved(seen, end=1) == {Precheck.RECREATED}


def test_other_clusters_are_refused() -> None:
    seen = world(SAFE)
    for side in ("source", "target"):
        reader = seen.reader()
        other = replace(getattr(reader, side), cluster_id="other")
        with pytest.raises(Refused):
            check_clusters(seen.gap, replace(reader, **{side: other}))
    check_clusters(seen.gap, seen.reader())


def key(result: str = "g1") -> Key:
    return Key(result, "A", RecordSet(PLACE, SAFE))


@pytest.mark.parametrize(
    ("kept", "prechecks"),
    [
        ({key(): Progress("s", "t", (Segment(Action.COPY, 0, 1, 1, 0, T, 5),))}, set()),
        ({key(): Progress("old", "t")}, {Precheck.RECREATED}),
        ({key(): Progress("s", "old")}, {Precheck.RECREATED}),
        (
            {key("g2"): Progress("s", "t", (Segment(Action.COPY, 0, 1, 1, 0, T, 5),))},
            {Precheck.COPIED_SINCE},
        ),
        ({key("g2"): Progress("s", "t", (Segment(Action.COPY, 0, 1, 1, 0, T, 4),))}, set()),
        ({key("g2"): Progress("s", "old", (Segment(Action.COPY, 0, 1, 1, 0, T, 5),))}, set()),
        ({key("g2"): Progress("s", "t", (Segment(Action.DISCARD, 0, 1, 1),))}, set()),
    ],
)
def test_evidence_of_earlier_runs(kept: dict[Key, Progress], prechecks: set[Precheck]) -> None:
    seen = world(SAFE)
    (partition,) = seen.gap.partitions
    partition = replace(partition, target_range=OffsetRange(0, 5))
    reader = seen.reader()
    logs = {PLACE: PartitionOffsets(0, 9, 9)}
    reader = replace(reader, target=replace(reader.target, logs=logs))
    assert {o.precheck for o in blockers(seen.gap, [partition], reader, kept)} == prechecks


def test_a_target_with_a_lower_end_is_refused() -> None:
    seen = world(SAFE)
    partition = replace(seen.gap.partitions[0], target_range=OffsetRange(0, 5))
    (found,) = blockers(seen.gap, [partition], seen.reader(), {})
    assert found.precheck is Precheck.TARGET_MOVED_BACK


@pytest.mark.parametrize(
    ("topic_ids", "reasons"),
    [
        (("s", "t"), []),
        (("", ""), []),
        (("old", "t"), ["topic orders on the source was recreated: its id was old"]),
        (("s", "old"), ["topic orders on the target was recreated: its id was old"]),
    ],
)
def test_recreated_topics_are_recognized_by_their_ids(
    topic_ids: tuple[str, str], reasons: list[str]
) -> None:
    seen = world(SAFE)
    (partition,) = seen.gap.partitions
    partition = replace(partition, source_topic_id=topic_ids[0], target_topic_id=topic_ids[1])
    found = list(blockers(seen.gap, [partition], seen.reader(), {}))
    assert [o.reason.partition(",")[0] for o in found] == reasons
    assert {o.precheck for o in found} <= {Precheck.RECREATED}


def test_an_incomplete_result_blocks_unless_overridden() -> None:
    seen = world(SAFE)
    seen.not_compared = ("orders-3: no leader",)
    assert seen.plan(copies()).blocked
    assert not seen.plan(copies()).acting
    overridden = build_plan(
        seen.gap, copies(), seen.rows(), seen.reader(), {}, {Precheck.INCOMPLETE: "known"}
    )
    assert (overridden.blocked, len(overridden.acting)) == ((), 1)


def test_conflicting_records_are_refused_without_a_decision() -> None:
    plan = world(SAFE, CONFLICTING, UNKEYED).plan(Policies(Action.COPY))
    assert {ln.record_set.order: ln.precheck for ln in plan.lines} == {
        SAFE: None,
        CONFLICTING: Precheck.CONFLICTING,
        UNKEYED: None,
    }
    assert [line.record_set.order for line in plan.acting] == [SAFE, UNKEYED]


def test_records_without_a_timestamp_are_not_copied_if_it_matters() -> None:
    seen = world(SAFE)
    untimed = [(0, 0, b"k", b"v", ())]
    seen.held = seen.every = {PLACE: untimed}
    assert seen.plan(copies()).lines[0].precheck is Precheck.NO_TIMESTAMP
    assert seen.plan(copies(Action.QUARANTINE)).lines[0].precheck is None
    kept = seen.plan(copies(), **{"message.timestamp.type": "LogAppendTime"})
    assert kept.lines[0].precheck is None
    assert kept.notes == (
        "orders on the target uses LogAppendTime: copies get the time of copying",
    )


def test_a_target_topic_that_is_missing_is_refused_for_copies_only() -> None:
    seen = world(SAFE)
    reader = replace(seen.reader(), target=ClusterState("B", {T: None}))
    for action, precheck in ((Action.COPY, Precheck.NOT_THERE), (Action.QUARANTINE, None)):
        plan = build_plan(seen.gap, copies(action), seen.rows(), reader, {})
        assert plan.lines[0].precheck is precheck


def test_another_record_at_an_expected_offset_ends_the_run() -> None:
    seen = world(SAFE, SAFE)
    seen.held = {PLACE: [row(0), row(1, key=b"other")]}
    with pytest.raises(Stopped, match="record at offset 1 is not the one"):
        seen.execution(copies(), FakeCopier(seen.target), Limits()).run()
    assert seen.target.offsets(PLACE) == []


def test_few_ranges_cover_all_offsets() -> None:
    assert ranges_of([1, 2, 500, 5000], 0) == [OffsetRange(1, 501), OffsetRange(5000, 5001)]
    assert ranges_of([1, 2, 500], 2) == [OffsetRange(2, 501)]
    ragged = ranges_of(range(0, 40_000_000, 2_000), 0)
    assert len(ragged) <= 5_001
    assert (ragged[0].start, ragged[-1].end) == (0, 39_998_001)


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(st.integers(1, 3_000), max_size=60),
    st.lists(st.tuples(st.integers(1, 5_000), st.integers(1, 12_000)), max_size=2),
    st.integers(0, 100_000),
)
def test_ranges_cover_every_offset(
    steps: list[int], dense: list[tuple[int, int]], start: int
) -> None:
    offsets = list(accumulate(steps))
    for away, length in dense:
        first = (offsets[-1] if offsets else 0) + away
        offsets += range(first, first + length)
    found, wanted = ranges_of(iter(offsets), start), {o for o in offsets if o >= start}
    assert all(a.end <= b.start for a, b in pairwise(found))
    assert all(each.start >= start and each.end - 1 in wanted for each in found)
    assert {offset for each in found for offset in range(*each)} >= wanted


def gap_json(**changes: Any) -> dict[str, Any]:
    counts = Counts(unreplicated=2)
    part = PartitionGap(
        0, OffsetRange(0, 3), OffsetRange(0, 1), counts, ranges=((1, 2),), ranges_total=1
    )
    ends = ("a", "A", "b", "B", datetime(2026, 3, 5, tzinfo=UTC), 1.0, "here")
    document = GapResult("main", "full", *ends, (TopicGap(T, T, (part,)),)).to_json()
    document["topics"][0]["partitions"][0].update(changes)
    return document


def test_a_result_is_independent_of_its_folder() -> None:
    first = read_gap(json.dumps(gap_json()), "x")
    moved_on = read_gap(json.dumps({**gap_json(), "out": "there", "seconds": 2.0}), "y")
    assert first.id == moved_on.id
    assert first.id != read_gap(json.dumps(gap_json(unreplicated=1)), "x").id
    assert not first.partitions[0].newer_on_target
    for change in ({"only_on_target": 1}, {"ranges": [[0, 1]]}, {"ranges_total": 2}):
        assert read_gap(json.dumps(gap_json(**change)), "x").partitions[0].newer_on_target


def test_a_result_by_partition_is_used_as_it_is() -> None:
    for change in ({"only_on_target": 1}, {"ranges": [[0, 1]]}, {"ranges_total": 2}):
        result = gap_json(**change)
        result["order"]["within"] = "partition"
        assert not read_gap(json.dumps(result), "x").partitions[0].newer_on_target


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "drctl/gap/1"}', '{"schema": 1}'])
def test_a_document_that_is_not_a_result_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        read_gap(text, "x")


def test_records_other_than_those_counted_are_refused() -> None:
    seen = world(SAFE, SAFE)
    check_rows(seen.gap, seen.rows().tallies(), "x")
    fewer = world(SAFE)
    with pytest.raises(Refused, match="lists 1 record"):
        check_rows(seen.gap, fewer.rows().tallies(), "x")


def test_the_document_names_every_precheck_that_can_be_overridden() -> None:
    seen = world(SAFE)
    seen.overrides = dict.fromkeys(OVERRIDABLE, "known")
    plan = seen.plan(copies())
    document_shown = check(
        document(ReconcileResult(plan, results=planned(plan)), "dir", "drctl ...")
    )
    assert {each["precheck"] for each in document_shown["overrides"]} >= {
        "target-moved",
        "decided-before",
    }


def test_the_document_matches_its_schema() -> None:
    seen = world(SAFE, CONFLICTING)
    seen.not_compared = ("orders-3: no leader",)
    plan = seen.plan(Policies(Action.COPY))
    document_shown = check(
        document(ReconcileResult(plan, results=planned(plan)), "dir", "drctl ...")
    )
    assert document_shown["status"] == "refused"
    assert document_shown["blockers"][0]["precheck"] == "incomplete"
