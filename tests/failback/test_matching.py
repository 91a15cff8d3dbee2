"""When a result of `drctl gap` is evidence, and when it no longer is."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from drctl.failback.facts import Cluster, Facts, JournaledRun
from drctl.failback.gap_results import read_gap
from drctl.failback.situation import ResultStatus, choose, reference
from drctl.model.errors import ConfigError
from drctl.model.gap import Counts, GapResult, OrderCounts, PartitionGap, TopicGap
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable
from tests.failback.failback_orders import (
    HERE,
    LOST_END,
    NOTHING_MISSING,
    PLACE,
    PRIMARY,
    SILENT,
    gap,
    in_order_to_d,
    partition,
)


def chosen(**changed: object) -> tuple[ResultStatus, str]:
    found = choose(replace(in_order_to_d(), **changed))  # type: ignore[arg-type]
    return found.status, found.why


def test_a_current_result_is_valid() -> None:
    assert chosen()[0] is ResultStatus.VALID


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        (Cluster("another", PRIMARY.logs), "cluster primary was replaced"),
        (Cluster(HERE, {PLACE: OffsetRange(0, 109)}), "recreated or truncated"),
        (Cluster(HERE, {PLACE: OffsetRange(0, 111)}), "primary was written to"),
        (Cluster(HERE, {PLACE: OffsetRange(101, 110)}), "were deleted"),
        (Cluster(HERE, {}), "no longer exists on primary"),
        (
            Cluster(HERE, {**PRIMARY.logs, TopicPartition("pay", 0): OffsetRange(0, 0)}),
            "pay-0 was not compared",
        ),
    ],
)
def test_a_source_that_has_changed(cluster: Cluster, words: str) -> None:
    standing, why = chosen(on_source=cluster)
    assert standing is ResultStatus.STALE
    assert words in why


def test_retention_of_other_records_does_not_matter() -> None:
    assert chosen(on_source=Cluster(HERE, {PLACE: OffsetRange(100, 110)}))[0] is ResultStatus.VALID


def test_a_recreated_target() -> None:
    standing, why = chosen(on_target=Cluster("id-of-secondary", {PLACE: OffsetRange(0, 5)}))
    assert standing is ResultStatus.STALE
    assert "secondary was recreated: it ended at 130, now at 5" in why


def test_records_that_differ_from_the_result() -> None:
    assert chosen(source_mismatch={"gap/main-1": "made anew"})[0] is ResultStatus.STALE
    assert chosen(copied_since={"gap/main-1": "it exists"})[0] is ResultStatus.STALE


def test_unreadable_state_is_unknown() -> None:
    assert chosen(on_source=SILENT)[0] is ResultStatus.UNKNOWN
    unled = Cluster(HERE, {PLACE: Unavailable("it has no leader")})
    standing, why = chosen(on_source=unled)
    assert standing is ResultStatus.UNKNOWN
    assert "no leader" in why


def test_an_older_valid_result_is_preferred() -> None:
    half = gap(where="gap/main-2", complete=False, not_compared=("pay: no leader",))
    assert choose(replace(in_order_to_d(), gaps=(half, gap()))).valid is not None
    assert chosen(gaps=(half,)) == (
        ResultStatus.INCOMPLETE,
        "main-2, of 2026-11-22 04:00:00 UTC is not complete: pay: no leader",
    )


def test_new_records_are_counted_from_before_reconcile() -> None:
    """Later, copies are among the records of the target alone and are not counted."""
    first = gap(where="gap/main-1")
    later = gap(replace(NOTHING_MISSING, target=OffsetRange(0, 140)), where="gap/main-2")
    found = reference(replace(in_order_to_d(), gaps=(later, first)))
    assert found is first
    other = gap(partition(source=OffsetRange(0, 50)), where="gap/main-0")
    assert reference(replace(in_order_to_d(), gaps=(later, first, other))) is first
    assert reference(Facts("main", "primary", "secondary")) is None


def test_results_of_drctl_gap_are_read_back() -> None:
    counts = Counts(unreplicated=3, only_on_target=4, duplicated_on_target=1)
    part = PartitionGap(
        0,
        OffsetRange(0, 100),
        OffsetRange(0, 97),
        counts,
        OrderCounts(2, 1, 0),
        ranges=((97, 99),),
        ranges_total=1,
    )
    missing = PartitionGap(1, OffsetRange(0, 5), None, Counts(unreplicated=5))
    result = GapResult(
        "main",
        "full",
        "primary",
        "one",
        "secondary",
        "two",
        datetime(2026, 11, 22, tzinfo=UTC),
        1.0,
        "out",
        (TopicGap("orders", "p.orders", (part, missing)),),
    )
    found = read_gap(result.to_json(), "gap/x")
    assert (found.source_id, found.target_id, found.complete, found.inversions) == (
        "one",
        "two",
        True,
        None,
    )
    first, second = found.partitions
    assert (first.copy, first.target) == (TopicPartition("p.orders", 0), OffsetRange(0, 97))
    assert first.only_on_target == 4
    assert (first.safe, first.conflicting, first.ranges) == (2, 1, ((97, 99),))
    assert second.target is None
    assert (found.unreplicated, found.duplicated) == (8, 1)


@pytest.mark.parametrize("document", [{}, {"schema": "drctl/gap-estimate/1"}, {"schema": 1}])
def test_documents_that_are_not_results(document: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="is not a result of drctl gap"):
        read_gap(document, "folder")


@pytest.mark.parametrize(
    ("earlier", "now", "words"),
    [
        (("one", "two"), ("one", "two"), ""),
        (("", ""), ("one", "two"), ""),
        (("one", "two"), ("", ""), ""),
        (("one", "two"), ("new", "two"), "topic orders of primary was recreated: id one"),
        (("one", "two"), ("one", "new"), "topic orders of secondary was recreated: id two"),
    ],
)
def test_recreated_topics_are_recognized_by_their_ids(
    earlier: tuple[str, str], now: tuple[str, str], words: str
) -> None:
    seen = in_order_to_d()
    source = replace(PRIMARY, topic_ids={"orders": now[0]})
    assert isinstance(seen.on_target, Cluster)
    target = replace(seen.on_target, topic_ids={"orders": now[1]})
    result = gap(partition(topic_id=earlier[0], copy_id=earlier[1]))
    standing, why = chosen(on_source=source, on_target=target, gaps=(result,))
    assert (standing is ResultStatus.STALE) == bool(words)
    assert words in why


def test_a_result_of_other_clusters_proves_no_writes() -> None:
    grown = Cluster(PRIMARY.identity, {PLACE: OffsetRange(0, LOST_END + 5)})
    fenced = JournaledRun("r1", "failback", "stopped", fenced=gap().started - timedelta(minutes=1))
    moved = choose(replace(in_order_to_d(), on_source=grown, journal=(fenced,)))
    assert (moved.status, moved.written_to) == (ResultStatus.STALE, True)
    other = choose(replace(in_order_to_d(), on_source=replace(grown, identity="another")))
    assert (other.status, other.written_to) == (ResultStatus.STALE, False)
