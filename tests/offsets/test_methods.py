"""Each method's answer from given evidence, and the choice among them."""

from collections.abc import Sequence

import pytest

from drctl.formats.tracked_offsets import ConsumedRecord, TrackedOffset
from drctl.model.groups import Group, GroupProtocol, GroupState, Member
from drctl.model.topology import PartitionOffsets, TopicPartition, TopicState
from drctl.model.translation import Answer, GroupPartition, Method
from drctl.offsets.by_time import Consumed, ConsumerTimestamps, GivenTime
from drctl.offsets.checkpoints import (
    OFFSETS_RESET,
    Checkpoint,
    CheckpointAnswers,
    OffsetSyncs,
    Sync,
    usable,
)
from drctl.offsets.consumed import step_of
from drctl.offsets.identity import SameOffsets
from drctl.offsets.methods import (
    NO_EVIDENCE,
    UNKNOWN_POSITION,
    NoAnswer,
    Question,
    TranslationMethod,
)
from drctl.offsets.situation import Target
from drctl.offsets.translating import NEVER, chosen, contradictions, translate
from tests.fakes import FakeCluster, FakeLog
from tests.offsets.answers import bounds, reason

HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 0)
PLACE = GroupPartition("g", HERE)
NOW = 100_000
LOG = PartitionOffsets(0, 1_000, 1_000)


def syncs(*pairs: tuple[int, int], noted_ms: int | None = None) -> OffsetSyncs:
    history = {HERE: [Sync(up, down, 40_000 + n) for n, (up, down) in enumerate(pairs)]}
    known = {} if noted_ms is None else {PLACE: noted_ms}
    return OffsetSyncs(history, {THERE: LOG}, known, NOW)


def ask(method: TranslationMethod, committed: int | None) -> Answer | NoAnswer:
    question = Question(PLACE, committed, THERE)
    return method.answers([question])[question]


@pytest.mark.parametrize(
    ("committed", "position", "rereads"),
    [
        (100, 90, 0),  # the record of the sync is the next one to read
        (101, 91, 0),  # the record of the sync is the last consumed one
        (150, 91, 49),
        (200, 180, 0),
        (250, 181, 49),
    ],
)
def test_the_last_sync_before_the_offset(committed: int, position: int, rereads: int) -> None:
    found = ask(syncs((100, 90), (200, 180)), committed)
    assert bounds(found) == (position, rereads, 0)
    assert found.age_seconds == pytest.approx(60, abs=0.01)


def test_duplicates_between_two_syncs_count() -> None:
    found = ask(syncs((100, 90), (110, 200)), 105)
    assert found.rereads_at_most == 109


@pytest.mark.parametrize(
    ("pairs", "words"),
    [(((100, 90),), "oldest usable sync"), (((10, 2_000),), "recreated"), ((), "no offset sync")],
)
def test_syncs_without_evidence(pairs: Sequence[tuple[int, int]], words: str) -> None:
    assert words in reason(ask(syncs(*pairs), 50))


@pytest.mark.parametrize(
    ("pairs", "kept"),
    [
        ([(1, 1), (5, 5)], [(1, 1), (5, 5)]),
        ([(1, 100), (5, 105), (8, 2)], [(8, 2)]),  # the target was recreated
        (
            [(1, 1), (50, 50), (20, 60)],
            [(1, 1), (20, 60)],
        ),  # the replicator restarted from an earlier offset
        ([(1, 1), (1, 9)], [(1, 9)]),
    ],
)
def test_a_decreasing_sync_voids_earlier_ones(
    pairs: list[tuple[int, int]], kept: list[tuple[int, int]]
) -> None:
    found = usable([Sync(up, down, 0) for up, down in pairs])
    assert [(s.upstream, s.downstream) for s in found] == kept


def checkpoint(upstream: int, downstream: int, recreated_ms: int = 0) -> CheckpointAnswers:
    known = {("g", THERE): Checkpoint(upstream, downstream, 40_000)}
    return CheckpointAnswers(known, {THERE: LOG}, {HERE: recreated_ms} if recreated_ms else {}, NOW)


def test_a_checkpoint_proves_only_its_own_offset() -> None:
    assert bounds(ask(checkpoint(100, 90), 120)) == (90, 910, 0)


@pytest.mark.parametrize(
    ("method", "committed", "words"),
    [
        (checkpoint(100, 90), 99, "was reset"),
        (checkpoint(100, 1_001), 120, "recreated"),
        (checkpoint(100, 90, recreated_ms=50_000), 120, "older than"),
    ],
)
def test_a_checkpoint_that_could_skip(
    method: CheckpointAnswers, committed: int, words: str
) -> None:
    assert words in reason(ask(method, committed))


def test_an_offset_from_before_a_recreated_topic_is_another_record() -> None:
    """The topic was recreated there: offset syncs of the new one would skip far ahead."""
    pairs = ((100, 90), (5_000, 900), (0, 910), (100, 950))
    assert ask(syncs(*pairs, noted_ms=40_001), 5_000) == OFFSETS_RESET
    assert isinstance(ask(syncs(*pairs, noted_ms=40_002), 100), Answer)
    assert isinstance(ask(syncs(*pairs), 100), Answer), (
        "a sync without a recorded time was rejected"
    )


def test_without_the_groups_offset_neither_has_an_answer() -> None:
    for method in (checkpoint(150, 91), syncs((100, 90), (200, 180))):
        assert ask(method, None) == UNKNOWN_POSITION


def memory(times: Sequence[int]) -> FakeCluster:
    rows = [(n, time, None, b"v%d" % n, ()) for n, time in enumerate(times)]
    return FakeCluster({THERE: FakeLog(rows, len(times))})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("consumed", "position", "rereads"), [(3, 2, 1), (5, 3, 2), (7, 5, 1), (1, 0, 1)]
)
def test_the_first_record_with_the_last_consumed_timestamp(
    consumed: int, position: int, rereads: int
) -> None:
    cluster = memory([1, 2, 3, 5, 5, 7])
    noted = {PLACE: Consumed(consumed, 90_000)}
    found = ask(ConsumerTimestamps((cluster, cluster), cluster, noted, {"t": True}, NOW), 6)
    assert bounds(found) == (position, rereads, 0)
    assert found.age_seconds == 10


def test_timestamps_without_evidence() -> None:
    cluster = memory([1, 2, 3])
    source = memory([1, 2, 3, 9])

    def noted(time: int, timed: bool = True) -> ConsumerTimestamps:
        known = {PLACE: Consumed(time, None)}
        return ConsumerTimestamps((source, source), cluster, known, {"t": timed}, NOW)

    unknown = ConsumerTimestamps((source, source), cluster, {}, {"t": True}, NOW)
    for method in (noted(9), noted(2, timed=False), unknown):
        assert isinstance(ask(method, 4), NoAnswer)
    back = ask(noted(3), 2)
    assert "was reset" in reason(back)
    assert isinstance(ask(noted(2), 2), Answer)


def test_a_timestamp_alone_does_not_prove_the_groups_offset() -> None:
    known = {PLACE: Consumed(2, None)}
    found = ask(ConsumerTimestamps(None, memory([1, 2, 3]), known, {"t": True}, NOW), None)
    assert bounds(found)[::2] == (1, None)


def test_timestamps_out_of_order_set_no_bound() -> None:
    cluster, known = memory([9, 1, 2, 3]), {PLACE: Consumed(2, None)}
    found = ask(ConsumerTimestamps((cluster, cluster), cluster, known, {"t": True}, NOW), 3)
    assert bounds(found) == (0, None, 0)


def test_a_given_time_has_no_bound() -> None:
    assert bounds(ask(GivenTime(memory([1, 2, 3]), 3), None)) == (2, None, None)
    after = ask(GivenTime(memory([1, 2, 3]), 9), None)
    assert after.target_offset == 3


def preserved(source: FakeCluster, target: FakeCluster) -> SameOffsets:
    return SameOffsets(source, target, source.offsets([HERE]), target.offsets([THERE]), {})


def survived(target: FakeCluster, *tracked_offsets: tuple[int, int]) -> SameOffsets:
    """The source is unreachable; tracked offsets name the preceding record of some offsets."""
    noted = {}
    for number, (offset, of) in enumerate(tracked_offsets):
        step = step_of((of, of, None, b"v%d" % of, ()))
        records = (ConsumedRecord(step.fingerprint, step.timestamp_ms),)
        place = GroupPartition(f"g{number}", HERE)
        noted[place] = TrackedOffset(offset, -1, "", NOW, records)
    return SameOffsets(target, target, {}, target.offsets([THERE]), noted)


def test_tracked_offsets_prove_preserved_offsets_without_the_source() -> None:
    target = memory(range(1_000))
    target.logs[THERE].start, target.logs[THERE].rows = 100, target.logs[THERE].rows[100:]
    many = [(offset, offset - 1) for offset in range(0, 2_000, 7)]
    found = ask(survived(target, *many), 730)
    assert bounds(found) == (730, 0, 0)
    assert target.read_offsets <= 5 * 33
    assert "5 records are at the same offsets as in the source's tracked offsets" in found.evidence
    assert bounds(ask(survived(target, *many), 1_005))[:2] == (1_000, 5)
    assert bounds(ask(survived(target, *many), 60))[::2] == (100, 40)


@pytest.mark.parametrize("shift", [1, 20, 400])
def test_tracked_offsets_disprove_preserved_offsets(shift: int) -> None:
    found = ask(survived(memory(range(1_000)), (500, 499), (510, 509 - shift)), 730)
    assert "before offset 510" in reason(found)


@pytest.mark.parametrize("tracked_offsets", [(), ((0, 0),), ((1_001, 1_000),)])
def test_without_proof_skipped_records_are_unknown(
    tracked_offsets: Sequence[tuple[int, int]],
) -> None:
    found = ask(survived(memory(range(1_000)), *tracked_offsets), 730)
    assert bounds(found) == (730, None, None)
    assert "source unreachable, no tracked offsets" in found.evidence


def test_preserved_offsets_are_used_after_verification() -> None:
    source, target = memory(range(2_000)), memory(range(1_000))
    assert bounds(ask(preserved(source, target), 30)) == (30, 0, 0)
    assert source.read_offsets <= 20
    assert bounds(ask(preserved(source, target), 1_005))[:2] == (1_000, 5)


def test_records_deleted_on_the_target_are_skipped() -> None:
    source, target = memory(range(50)), memory(range(50))
    log = target.logs[THERE]
    target.logs[THERE] = FakeLog(log.rows[20:], 50, 20)
    assert bounds(ask(preserved(source, target), 5))[::2] == (20, 15)


def test_offsets_that_are_not_preserved() -> None:
    shifted = [(n + 1, n, None, b"v%d" % n, ()) for n in range(50)]
    target = FakeCluster({THERE: FakeLog(shifted, 51, 1)})  # type: ignore[arg-type]
    assert "not preserved" in reason(ask(preserved(memory(range(50)), target), 30))


def answer(
    position: int,
    rereads: int | None,
    skips: int | None = 0,
    method: Method = Method.TRACKED_OFFSET,
) -> Answer:
    return Answer(method, position, rereads, skips, "by hand")


def test_the_answer_with_the_fewest_rereads_and_no_skips_is_chosen() -> None:
    question = Question(PLACE, 100, THERE)
    answers = [answer(95, 5), answer(100, 0, None), answer(97, 3), answer(90, None)]
    found = chosen(question, answers, LOG, "")
    assert found.answer == answer(97, 3)
    assert not found.blocked
    assert found.others[-1] == answer(100, 0, None)
    assert answer(90, 910) in found.others, "the answer has no bound by the end of the log"


def test_contradicting_answers() -> None:
    assert not contradictions([answer(95, 5), answer(100, 0)])
    (words,) = contradictions([answer(95, 4), answer(100, 0, method=Method.RECORD_MATCH)])
    assert words == "tracked-offset says 95 to 99, record-match says 100"


def test_records_no_longer_on_the_target() -> None:
    log = PartitionOffsets(98, 1_000, 1_000)
    found = chosen(Question(PLACE, 100, THERE), [answer(95, 5)], log, "").answer
    assert bounds(found) == (98, 2, 3)


def test_nothing_is_known() -> None:
    assert chosen(Question(PLACE, 100, THERE), [], LOG, "").blocked == NO_EVIDENCE


def test_why_rows_are_blocked() -> None:
    def topic(name: str, partitions: int) -> TopicState:
        return TopicState(name, dict.fromkeys(range(partitions), 1))

    members = (Member("client", "host"),)
    busy = Group("busy", GroupProtocol.CONSUMER, GroupState.STABLE, members)
    idle = Group("g", GroupProtocol.CLASSIC, GroupState.EMPTY)
    topics = {"copy.t": topic("copy.t", 1), "copy.gone": None}
    logs = {TopicPartition("copy.t", 0): LOG}
    target = Target(topics, logs, {"busy": busy, "g": idle})
    places = {
        GroupPartition(group, TopicPartition(name, number)): 5
        for group, name, number in [("g", "t", 1), ("g", "gone", 0), ("busy", "t", 0)]
    }
    never = GroupPartition("g", TopicPartition("t", 7))
    rows = translate(places, [never], lambda name: f"copy.{name}", target, [])
    found = {(r.place.group, *r.place.partition): r for r in (x.translation for x in rows)}
    assert "only 1 partition" in found["g", "t", 1].blocked
    assert "does not exist" in found["g", "gone", 0].blocked
    assert "with 1 member" in found["busy", "t", 0].blocked
    assert found["g", "t", 7].blocked == NEVER
    assert found["g", "t", 1].target is None
    assert found["busy", "t", 0].target == ("copy.t", 0)
