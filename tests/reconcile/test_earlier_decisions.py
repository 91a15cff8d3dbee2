"""Records that were left missing earlier are distinguished from all others."""

from drctl.model.gap import OrderVerdict, TopicGap
from drctl.model.topology import TopicPartition
from drctl.reconcile.policy import Action
from drctl.reconcile.progress import (
    At,
    Key,
    LeftMissing,
    Progress,
    RecordSet,
    Segment,
    counted,
    left_missing_before,
)
from tests.report.gaps import gap, result

PLACE = TopicPartition("orders", 0)
FOUND = result(TopicGap("orders", "orders", (gap(0, 100, missing=10),), topic_id="s"))
EARLIER = LeftMissing(((90, 92), (95, 95)), 1000)
LATER = LeftMissing(((97, 97),), 2000)


def kept(
    *lefts: LeftMissing | None,
    action: Action = Action.QUARANTINE,
    source: str = FOUND.source_id,
    topic_id: str = "s",
    order: OrderVerdict = OrderVerdict.SAFE,
    name: str = "g1",
) -> dict[Key, Progress]:
    segments = tuple(Segment(action, 99, 1, 1, left=left) for left in lefts)
    return {Key(name, source, RecordSet(PLACE, order)): Progress(topic_id, "t", segments)}


def test_decisions_on_other_records_prove_nothing() -> None:
    assert left_missing_before(kept(EARLIER), FOUND) == {PLACE: (EARLIER,)}
    discarded = kept(LATER, action=Action.DISCARD, order=OrderVerdict.CONFLICTING, name="g2")
    assert left_missing_before({**kept(EARLIER), **discarded}, FOUND) == {PLACE: (EARLIER, LATER)}
    for other in (
        kept(EARLIER, action=Action.COPY),
        kept(EARLIER, source="another cluster"),
        kept(EARLIER, topic_id="made anew"),
        kept(None),
    ):
        assert left_missing_before(other, FOUND) == {}
    unnamed = result(TopicGap("orders", "orders", (gap(0, 100, missing=10),)))
    assert left_missing_before(kept(EARLIER, topic_id=""), unnamed) == {}


def test_each_record_counts_by_its_offset_and_its_time() -> None:
    before = {PLACE: (EARLIER, LATER)}
    missing = [
        At(PLACE, 90, 900),
        At(PLACE, 95, 1000),
        At(PLACE, 97, 2000),
        At(PLACE, 91, 1001),  # the log was truncated and written again: another record
        At(PLACE, 93, 900),
        At(PLACE, 98, 900),
        At(TopicPartition("orders", 1), 90, 900),
    ]
    assert counted(missing, before) == {PLACE: 3}
