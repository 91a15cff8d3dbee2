"""Translation with an unreachable source, compared with what a group may have done."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drctl.formats.tracked_offsets import TrackedOffset
from drctl.model.groups import Committed
from drctl.model.topology import PartitionOffsets, TopicPartition, TopicState
from drctl.model.translation import Answer, GroupPartition, Method, Translation
from drctl.offsets.checkpoints import Checkpoint, CheckpointAnswers, OffsetSyncs, Sync
from drctl.offsets.evidence import Evidence, LastKnown, last_known
from drctl.offsets.link_translation import TargetOffsets
from drctl.offsets.methods import NoAnswer
from drctl.offsets.mirror_topics import Mirrored
from drctl.offsets.situation import Target
from drctl.offsets.tracked_offset import NOT_TRACKED
from drctl.offsets.translating import UnreachableSource, adjusted_for_unreachable_source, translate
from tests.offsets.answers import bounds

PLACE = TopicPartition("t", 0)
ROW = GroupPartition("g", PLACE)
NOW = 1_700_000_000_000
LOG = PartitionOffsets(0, 1_000, 1_000)


def when(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"the group was reset backwards after {moment:%Y-%m-%d %H:%M:%S} UTC"


def mirrored(
    checkpoint: Checkpoint | None, *syncs: tuple[int, int], written_ms: int = NOW - 50_000
) -> Mirrored:
    history = {PLACE: tuple(Sync(up, down, written_ms) for up, down in syncs)}
    return Mirrored(history, {("g", PLACE): checkpoint} if checkpoint else {}, {}, 0, {})


def silent(
    evidence: Evidence,
    *,
    standing: int | None = None,
    log: PartitionOffsets = LOG,
    unproven: bool = True,
) -> Translation:
    """Return evidence of one group of a lost source."""
    known = last_known(evidence, lambda topic: topic) or {ROW: LastKnown(None)}
    found = evidence.mirrored
    logs = {PLACE: log}
    methods: list = []  # type: ignore[type-arg]
    if found is not None:
        noted = {p: each.at_ms for p, each in known.items() if each.at_ms is not None}
        methods.append(OffsetSyncs(found.syncs, logs, noted, NOW))
        methods.append(CheckpointAnswers(found.checkpoints, logs, found.recreated_ms, NOW))
    held = {} if standing is None else {"g": {PLACE: Committed(standing)}}
    methods.append(TargetOffsets(held, logs))
    target = Target({"t": TopicState("t", {0: 1})}, logs, {})
    positions = {place: each.offset for place, each in known.items()}
    unreachable = UnreachableSource(known, unproven, NOW)
    (row,) = translate(positions, (), lambda topic: topic, target, methods, unreachable)
    return row.translation


NOTED = Checkpoint(500, 440, NOW - 30_000)


def test_a_checkpoint_alone_is_bounded_by_the_end_of_the_target() -> None:
    found = silent(Evidence(mirrored=mirrored(NOTED))).answer
    assert (found.method, found.target_offset) == (Method.CHECKPOINT, 440)
    assert (found.rereads_at_most, found.rereads_likely) == (560, None)
    assert (found.skips_at_most, found.skips_only_if) == (None, when(NOTED.at_ms))
    assert found.age_seconds == 30


def test_syncs_translate_the_checkpoints_own_offset() -> None:
    found = silent(Evidence(mirrored=mirrored(NOTED, (100, 90), (480, 470), (700, 690)))).answer
    assert (found.method, found.target_offset) == (Method.OFFSET_SYNC, 471)
    assert (found.rereads_at_most, found.rereads_likely) == (529, 19)
    assert found.skips_only_if == when(NOTED.at_ms), (
        "the condition must name the time of the checkpoint"
    )
    assert found.age_seconds == 30


@pytest.mark.parametrize("at_ms", [-(2**63), -(2**53), -1, 0, 253_402_300_800_000, 2**63 - 1])
def test_tracked_offsets_may_have_any_time(at_ms: int) -> None:
    """Its writer chooses the number; a failover must not fail because of it."""
    tracked = Answer(Method.TRACKED_OFFSET, 440, 0, 0, "seen", max(0.0, (NOW - at_ms) / 1000))
    times = time_of(440, 0, (NOW - at_ms) / 1000)
    ((_, found), (_, other)) = adjusted_for_unreachable_source(
        [("tracked-offset", tracked), ("time", times)], LastKnown(500, at_ms), LOG, NOW
    )
    for each in (found, other):
        assert each.skips_only_if.startswith("the group was reset backwards after ")


def test_the_newest_evidence_counts_whoever_wrote_it() -> None:
    """A checkpoint from before a reset that drctl recorded does not count, and vice versa."""
    for observed_ms, offset, committed in ((NOW - 9_000, 200, 200), (NOW - 99_000, 900, 500)):
        tracked_offsets = {ROW: TrackedOffset(offset, -1, "", observed_ms, ())}
        evidence = Evidence(mirrored=mirrored(NOTED, (150, 140)), tracked_offsets=tracked_offsets)
        found = silent(evidence)
        assert found.source_offset == committed
        assert found.answer.method is not Method.CHECKPOINT or committed == 500
        assert found.answer.skips_only_if == when(max(observed_ms, NOTED.at_ms))
        assert found.answer.skips_at_most == (0 if committed == 200 else None)


def test_for_a_recreated_topic_the_checkpoint_is_used() -> None:
    syncs = ((400, 340), (0, 600), (90, 690))
    evidence = mirrored(NOTED, *syncs, written_ms=NOW - 10_000)
    found = silent(Evidence(mirrored=evidence)).answer
    assert (found.method, found.target_offset) == (Method.CHECKPOINT, 440)


def test_records_deleted_on_the_target_are_part_of_the_condition() -> None:
    log = PartitionOffsets(600, 1_000, 1_000)
    found = silent(Evidence(mirrored=mirrored(NOTED)), log=log).answer
    assert bounds(found)[:2] == (600, 400)
    assert found.skips_only_if == (
        f"{when(NOTED.at_ms)}, or the group had not consumed all of the 160 offsets that the target"
        " has deleted"
    )


def test_a_void_checkpoint_leaves_the_row_empty() -> None:
    found = silent(Evidence(mirrored=mirrored(Checkpoint(500, 1_001, NOW))))
    assert found.answer is None
    assert found.blocked


def test_committed_offset_on_the_target_is_the_last_resort() -> None:
    only = silent(Evidence(), standing=700).answer
    assert (only.method, only.target_offset, only.rereads_at_most) == (
        Method.TARGET_OFFSET, 700, 300,
    )  # fmt: skip
    assert "something else committed it there" in only.skips_only_if
    both = silent(Evidence(mirrored=mirrored(NOTED)), standing=700).answer
    assert both.method is Method.CHECKPOINT, "the checkpoint is preferred to the committed offset"
    assert silent(Evidence(), standing=1_001).answer is None, (
        "an offset above the end of the log was used"
    )


def test_a_refusal_prefers_evidence_with_later_activity() -> None:
    tracked = {ROW: TrackedOffset(500, -1, "", NOW - 20_000, ())}
    found = silent(
        Evidence(tracked_offsets=tracked, mirrored=mirrored(NOTED)), unproven=False
    ).answer
    assert found.skips_at_most == 0


def time_of(target: int, likely: int, age: float) -> Answer:
    return Answer(Method.CONSUMER_TIMESTAMP, target, likely, None, "a time", age)


@pytest.mark.parametrize(
    ("age", "target", "left"),
    [
        (10, 100, "time"),  # newer and lower: the group was reset after its checkpoint
        (10, 445, "both"),
        (60, 500, "offset"),  # older and higher: the group was reset before the checkpoint
        (60, 300, "both"),
    ],
)
def test_newer_evidence_of_a_lower_offset_voids_older_of_a_higher(
    age: float, target: int, left: str
) -> None:
    checkpoint = Answer(Method.OFFSET_SYNC, 440, 5, 0, "a sync", 30)
    results = (("offset-sync", checkpoint), ("consumer-timestamp", time_of(target, 2, age)))
    known = LastKnown(500, NOW - 30_000, followed=False)
    answers = {
        n
        for n, a in adjusted_for_unreachable_source(results, known, LOG, NOW)
        if isinstance(a, Answer)
    }
    assert (
        answers
        == {
            "time": {"consumer-timestamp"},
            "offset": {"offset-sync"},
            "both": {"offset-sync", "consumer-timestamp"},
        }[left]
    )
    assert isinstance(NOT_TRACKED, NoAnswer)


@given(
    noted=st.integers(1, 300),
    since=st.integers(0, 300),
    step=st.integers(1, 40),
    more=st.integers(0, 100),
)
def test_the_bound_holds_whatever_the_group_consumed_since(
    noted: int, since: int, step: int, more: int
) -> None:
    """Offsets are preserved; the group consumed `since` more records, all replicated."""
    end = noted + since + more
    syncs = [(at, at) for at in range(0, end, step)]
    checkpoint = Checkpoint(noted, max(at for at, _ in syncs if at <= noted), NOW - 1_000)
    log = PartitionOffsets(0, end, end)
    found = silent(Evidence(mirrored=mirrored(checkpoint, *syncs)), log=log).answer
    assert found is not None
    consumed = noted + since
    assert found.target_offset <= consumed, "the answer skips records"
    assert consumed - found.target_offset <= found.rereads_at_most
