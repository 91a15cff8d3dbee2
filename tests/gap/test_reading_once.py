"""Whether a comparison reads everything once, or digests first: what the offsets say."""

from dataclasses import replace

import pytest

from drctl.gap.comparison import ComparePlan, Identity, TopicPlan
from drctl.gap.freeze import missing_throughout
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable
from tests.fakes import FakeCluster, FakeLog
from tests.gap.test_analysis import compared, rows

ORDERS = TopicPartition("orders", 0)
ALL = tuple(range(20))
PLAN = TopicPlan("orders", "orders", True, True, 1, False, {}, {}, {})


def decided(source: FakeLog, target: FakeLog | Unavailable, **changes: object) -> bool:
    ranges = [
        {} if isinstance(log, Unavailable) else {0: OffsetRange(log.start, log.last_stable)}
        for log in (source, target)
    ]
    topic = replace(PLAN, source=ranges[0], target=ranges[1], **changes)
    here, there = (FakeCluster({ORDERS: log}, name) for log, name in ((source, "p"), (target, "s")))
    return missing_throughout(ComparePlan((topic,), Identity(), 8, 1), here, there)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param(FakeLog(rows(*ALL)), False, id="nothing"),
        pytest.param(FakeLog(rows(*ALL, 30)), False, id="more on the target"),
        pytest.param(FakeLog(rows(*ALL[:15])), False, id="the last"),
        pytest.param(FakeLog(rows(*ALL[:15:2], *ALL[15:])), True, id="scattered"),
        pytest.param(FakeLog(rows(*ALL[:15:2])), True, id="scattered and the last"),
        pytest.param(FakeLog(rows()), True, id="all"),
        pytest.param(Unavailable("no such topic"), True, id="no topic"),
        pytest.param(FakeLog(rows(*ALL)[4:], start=4), False, id="the first, deleted there"),
    ],
)
def test_where_records_are_missing(target: FakeLog | Unavailable, expected: bool) -> None:
    assert decided(FakeLog(rows(*ALL)), target) is expected


def test_offsets_without_records_say_nothing() -> None:
    source = [(2 * at, *rest) for at, *rest in rows(*ALL)]
    assert not decided(FakeLog(source), FakeLog(rows(*ALL)))


def test_places_say_nothing_across_partitions() -> None:
    assert decided(FakeLog(rows(*ALL)), FakeLog(rows(*ALL[:15])), by_partition=False)


def test_the_same_result_either_way() -> None:
    source = FakeCluster({ORDERS: FakeLog(rows(*ALL))}, "p")
    target = FakeCluster({ORDERS: FakeLog(rows(*ALL[:15:2]))}, "s")
    announced: list[object] = []
    (topic,) = compared(source, target, announced=announced).topics
    assert [work.plan.once for work in announced] == [True]  # type: ignore[attr-defined]
    assert topic.partitions[0].counts.unreplicated == 12
