"""What all results have left missing, as stored on the target."""

from drctl.failback.observers.journal import observe_left_missing
from drctl.model.gap import OrderVerdict
from drctl.model.topology import TopicPartition
from drctl.reconcile.policy import Action
from drctl.reconcile.progress import Key, LeftMissing, Progress, RecordSet, Segment

PLACE = TopicPartition("orders", 0)


def kept(
    result: str, *segments: Segment, source: str = "A", topic: str = "s"
) -> dict[Key, Progress]:
    record_set = RecordSet(PLACE, OrderVerdict.SAFE)
    return {Key(result, source, record_set): Progress(topic, "t", segments)}


def left(through: int, *runs: tuple[int, int], action: Action = Action.QUARANTINE) -> Segment:
    return Segment(action, through, 1, 1, left=LeftMissing(runs, 0))


def test_only_current_topics_count_and_each_offset_once() -> None:
    known = {
        **kept("g1", left(5, (1, 3), (5, 5)), left(9, (8, 9), action=Action.DISCARD)),
        **kept("g2", left(6, (2, 4), (6, 6))),
        **kept("g3", left(30, (20, 30)), source="C"),
        **kept("g4", left(30, (20, 30)), topic="made-anew"),
        **kept("g5", Segment(Action.COPY, 40, 1, 1), Segment(Action.DISCARD, 50, 1, 1)),
    }
    found = observe_left_missing(lambda: known, "A", {"orders": "s"})
    assert found == {PLACE: ((1, 6), (8, 9))}
