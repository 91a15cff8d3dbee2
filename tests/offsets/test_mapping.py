"""Copies that name their source offset: nothing is skipped, whatever else is between them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drctl.formats import migrator_headers, provenance
from drctl.formats.provenance import Provenance
from drctl.formats.tracked_offsets import ConsumedRecord, TrackedOffset
from drctl.model.ports import ClusterReader
from drctl.model.topology import Headers, PartitionOffsets, Row, TopicPartition, TopicState
from drctl.model.translation import Answer, GroupPartition, Method
from drctl.offsets.consumed import step_of
from drctl.offsets.evidence import LastKnown
from drctl.offsets.mapping import (
    FALSELY_NAMED,
    NARROW,
    NEAR,
    SAMPLE,
    SAMPLES,
    WIDEST,
    WITHIN,
    MappedOffsets,
    copy_of,
)
from drctl.offsets.methods import NoAnswer, Question
from drctl.offsets.record_match import RecordMatch
from drctl.offsets.searching import TargetSearch
from drctl.offsets.situation import Target
from drctl.offsets.translating import adjusted_for_unreachable_source, chosen, translate
from drctl.offsets.translation_json import questionable
from tests.depth import examples
from tests.fakes import FakeCluster, FakeLog
from tests.offsets.answers import bounds, reason

HERE, THERE = TopicPartition("t", 0), TopicPartition("copy.t", 0)
PLACE = GroupPartition("g", HERE)
SOURCE_ID = "id of source"


def own(offset: int, cluster: str = SOURCE_ID, topic: str = "t", partition: int = 0) -> Headers:
    """Return the header that drctl adds to a copy."""
    where = Provenance(cluster, topic, partition, offset, 1000 + offset)
    return ((provenance.HEADER.encode(), provenance.encode(where)),)


def migrated(offset: int, cluster: str | None = SOURCE_ID) -> Headers:
    """Return the header that Redpanda Migrator adds to a copy."""
    name = migrator_headers.OFFSET_HEADER.encode()
    headers = ((name, migrator_headers.encode_offset(offset)),)
    if cluster is None:
        return headers
    origin = migrator_headers.ORIGIN_HEADER.encode(), migrator_headers.encode_origin(cluster)
    return (*headers, origin)


def record(offset: int, headers: Headers = (), of: int | None = None) -> Row:
    """Return a record at a target offset: the copy of a source record, or another one."""
    if of is None:
        return (offset, 5, None, b"local", headers)
    return (offset, 1000 + of, b"k", b"v%d" % of, headers)


@dataclass
class World:
    """A source log and its copy.

    Attributes:
        copied: source offset of the copy at each target offset; None for other records.
    """

    source: FakeLog
    target: FakeLog
    copied: dict[int, int | None]

    def furthest(self, committed: int) -> int:
        """Return the highest offset that precedes every copied record that was not consumed."""
        lasts: dict[int, int] = {}
        for there, here in self.copied.items():
            if here is not None and here >= committed:
                lasts[here] = max(there, lasts.get(here, 0))
        return min(lasts.values(), default=self.target.end)

    def reread(self, position: int, committed: int) -> int:
        """Return the number of consumed records with copies from an offset on."""
        again = {h for t, h in self.copied.items() if t >= position and h is not None}
        return sum(h < committed for h in again)

    def asks(
        self, committed: int | None, *, dead: bool = False, tracked: TrackedOffset | None = None
    ) -> Answer | NoAnswer:
        source = FakeCluster({HERE: self.source})
        target = FakeCluster({THERE: self.target})
        question = Question(PLACE, committed, THERE)
        there = None if dead else (cast(ClusterReader, source), source)
        logs = target.offsets([THERE])
        known = {PLACE: tracked} if tracked else {}
        method = MappedOffsets(SOURCE_ID, there, target, logs, known)
        return method.answers([question])[question]

    def around(self, committed: int) -> tuple[int, int]:
        """Return the number of copies near an offset, as far as they count."""
        at = self.furthest(committed)
        named = {
            here for t, here in self.copied.items() if here is not None and abs(t - at) < WITHIN
        }
        below = sum(here < committed for here in named)
        return min(NEAR, below), min(NEAR, len(named) - below)

    @property
    def copied_without_holes(self) -> bool:
        named = sorted(here for here in self.copied.values() if here is not None)
        return named == list(range(named[0], named[-1] + 1)) if named else False


def world(runs: Sequence[tuple[str, int, int]], start: int = 0, headers: str = "migrated") -> World:
    """Create a target from runs such as `("copies", first, end)` and `("holes", count, 0)`."""
    named = {"migrated": migrated, "own": own}[headers]
    rows: list[Row] = []
    copied: dict[int, int | None] = {}
    at, last = start, 0
    for kind, first, end in runs:
        if kind == "holes":
            at += first
            continue
        for number in range(first, end) if kind == "copies" else range(first):
            here = number if kind == "copies" else None
            copied[at] = here
            rows.append(record(at, named(here) if here is not None else (), here))
            last = max(last, end)
            at += 1
    source = [record(n, (), n) for n in range(last)]
    return World(FakeLog(source, last), FakeLog(rows, at, start), copied)


RUNS = st.one_of(
    st.tuples(st.just("copies"), st.integers(0, 60), st.integers(1, 80)),
    st.tuples(st.just("others"), st.integers(1, 60), st.just(0)),
    st.tuples(st.just("holes"), st.integers(1, 200), st.just(0)),
)


@st.composite
def replicated(draw: st.DrawFn, again: bool) -> World:
    """Draw records in source order with others in between; the replicator restarted at times."""
    runs: list[tuple[str, int, int]] = []
    at = draw(st.integers(0, 30))
    for kind, first, end in draw(st.lists(RUNS, max_size=8)):
        if kind == "copies":
            back = draw(st.integers(0, min(at, 20))) if again else 0
            runs.append((kind, at - back, at + end))
            at += end
        else:
            runs.append((kind, first, 0))
    kind = draw(st.sampled_from(["migrated", "own"]))
    return world(runs, draw(st.integers(0, 3)), kind)


@settings(deadline=None)
@given(replicated(again=False), st.integers(0, 300), st.booleans())
def test_the_position_is_exact_and_the_bound_holds(found: World, at: int, dead: bool) -> None:
    answer = found.asks(at, dead=dead)
    if isinstance(answer, NoAnswer):
        last = found.target.end - SAMPLE
        ends = {t for t in found.copied if t < found.target.start + SAMPLE or t >= last}
        assert all(found.copied[there] is None for there in ends), answer
    if isinstance(answer, Answer):
        skipped = answer.target_offset > found.furthest(at)
        assert not skipped
        if dead:
            assert answer.skips_at_most is None or answer.target_offset == 0, (
                "an unverified answer promises that nothing is skipped"
            )
        elif found.around(at) == (NEAR, NEAR) and found.copied_without_holes:
            assert answer.skips_at_most == 0
        if answer.rereads_at_most is None:
            assert found.around(at) != (NEAR, NEAR) or not found.copied_without_holes
            return
        assert found.reread(answer.target_offset, at) <= answer.rereads_at_most
        unmapped = at - 1 - max((h for h in found.copied.values() if h is not None), default=0)
        assert answer.rereads_at_most <= max(0, unmapped)


@settings(deadline=None)
@given(replicated(again=True), st.integers(0, 300))
def test_nothing_is_skipped_after_a_crash_of_the_replicator(found: World, at: int) -> None:
    answer = found.asks(at)
    if isinstance(answer, Answer):
        assert answer.target_offset <= found.furthest(at)


@pytest.mark.slow
@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 30_000), st.integers(0, 20_000), st.integers(0, 12_000))
def test_long_logs_take_few_reads(others: int, holes: int, at: int) -> None:
    """Other records precede and follow; the copies in the middle are found by bisection."""
    runs = [("copies", 0, 40), ("others", others, 0), ("copies", 40, 10_000), ("holes", holes, 0)]
    found = world([*runs, ("others", others, 0)])
    source, target = FakeCluster({HERE: found.source}), FakeCluster({THERE: found.target})
    method = MappedOffsets(
        SOURCE_ID, (cast(ClusterReader, source), source), target, target.offsets([THERE]), {}
    )
    question = Question(PLACE, at, THERE)
    answer = method.answers([question])[question]
    assert answer.target_offset <= found.furthest(at)
    assert found.reread(answer.target_offset, at) <= answer.rereads_at_most
    assert target.read_offsets <= SAMPLES * SAMPLE + 20 * (NARROW + 8 * NARROW + WIDEST)


def test_a_log_without_gaps_takes_one_read() -> None:
    found = world([("copies", 0, 50_000)], start=7)
    target = FakeCluster({THERE: found.target})
    method = MappedOffsets(SOURCE_ID, None, target, target.offsets([THERE]), {})
    asked = [Question(GroupPartition(f"g{n}", HERE), n, THERE) for n in range(100, 50_000, 1_000)]
    for question, answer in method.answers(asked).items():
        assert isinstance(answer, Answer)
        assert bounds(answer)[:2] == (question.committed + 7, 0)
    assert target.read_offsets <= SAMPLES * SAMPLE + len(asked) * NARROW


@pytest.mark.parametrize(
    ("committed", "position", "rereads", "words"),
    [
        (0, 0, 0, "first copy, at 0, has source offset 0"),
        (30, 30, 0, "at 29 has source offset 29, and the next copy, at 30, has 30"),
        (
            50,
            50,
            0,
            "at 49 has source offset 49",
        ),  # records of other writers are read again, never skipped
        (51, 81, 0, "copies verified against the source"),
        (90, 120, 0, "at 119 has source offset 89"),
        (95, 120, 5, "no copies found of the 5 offsets in between"),
    ],
)
def test_positions(committed: int, position: int, rereads: int, words: str) -> None:
    found = world([("copies", 0, 50), ("others", 30, 0), ("copies", 50, 90), ("others", 99, 0)])
    answer = found.asks(committed)
    assert bounds(answer)[:2] == (position, rereads)
    assert answer.skips_at_most == 0
    assert words in answer.evidence


def test_a_group_that_consumed_nothing_starts_at_the_log_start() -> None:
    assert bounds(world([("others", 30, 0), ("copies", 5, 90)]).asks(5)) == (0, 0, 0)


def test_records_deleted_on_the_target_count_as_skipped() -> None:
    found = world([("copies", 40, 90)], start=40)
    assert bounds(found.asks(25)) == (40, 0, 15)
    answer = world([("copies", 40, 90)]).asks(
        25
    )  # the log was not truncated: replication began there
    assert bounds(answer)[::2] == (0, 0)


def test_recreated_source_topic_leaves_no_bound() -> None:
    found = world([("copies", 0, 100), ("copies", 0, 60)])
    answer = found.asks(30, dead=True)
    assert answer.target_offset <= found.furthest(30)
    assert answer.rereads_at_most is None
    assert "not in the order of the source" in answer.evidence


@pytest.mark.parametrize(
    "headers",
    [
        (),
        own(3, cluster="another"),
        own(3, topic="another"),
        own(3, partition=1),
        migrated(3, cluster="another"),
        migrated(3, cluster=None),
        (*migrated(3), *migrated(4)),
        (*own(3), *migrated(4)),
        ((migrator_headers.OFFSET_HEADER.encode(), b"3"), migrated(3)[1]),
        ((provenance.HEADER.encode(), b"{}"),),
        ((provenance.HEADER.encode(), None), (b"other", b"3")),
    ],
)
def test_headers_without_an_offset(headers: Headers) -> None:
    assert copy_of(record(9, headers, 3), SOURCE_ID, HERE) is None


@pytest.mark.parametrize(
    "headers",
    [
        own(3),
        migrated(3),
        (*migrated(3), *own(3)),
        ((b"a", None), *own(3), *own(8, cluster="the hop before")),
        (*own(3), *own(3)),
    ],
)
def test_headers_with_an_offset(headers: Headers) -> None:
    row = record(9, headers, 3)
    assert copy_of(row, SOURCE_ID, HERE) == (9, 3, step_of(row))


def test_headers_are_verified_with_the_source() -> None:
    found = world([("copies", 0, 50)])
    other = [record(n, (), n + 1) for n in range(50)]
    answer = replace(found, source=FakeLog(other, 50)).asks(20)
    assert "is a different one" in reason(answer)
    # A replicator that changes ids in values keeps the timestamps.
    changed = [(n, 1000 + n, b"k", b"other", ()) for n in range(50)]
    assert isinstance(replace(found, source=FakeLog(changed, 50)).asks(20), Answer)  # type: ignore[arg-type]
    # Records that the source has deleted cannot be compared.
    answer = replace(found, source=FakeLog([], 50, 50)).asks(20)
    assert "equal to the source" not in answer.evidence


def test_headers_are_verified_with_the_tracked_offset() -> None:
    found = world([("copies", 0, 50)])

    def noted(of: int, offset: int = 20) -> TrackedOffset:
        step = step_of(record(of, (), of))
        return TrackedOffset(
            offset, -1, "", 0, (ConsumedRecord(step.fingerprint, step.timestamp_ms),)
        )

    for tracked in (noted(19), noted(5, offset=6), replace(noted(19), records=())):
        assert isinstance(found.asks(20, dead=True, tracked=tracked), Answer)
    assert "the tracked offset does not match" in reason(
        found.asks(20, dead=True, tracked=noted(17))
    )


def forged(at: int, *upstream: int, true: bool = True, length: int = 900) -> World:
    """Copies without headers, with forged records of somebody else among them."""
    source = [record(n, (), n) for n in range(length)]
    rows = [record(n, (), n) for n in range(length)]
    last = length
    for n, number in enumerate(upstream):
        made = record(at + n, own(number), number if true else 123_456)
        rows = [*rows[: at + n], made, *((r[0] + 1, *r[1:]) for r in rows[at + n :])]  # type: ignore[misc]
        last += 1
    return World(FakeLog(source, length), FakeLog(rows, last), {})


@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize("committed", [100, 200, 899, 900, 1_200])
@pytest.mark.parametrize("upstream", [(99,), (899,), (98, 99), (7, 99), (99, 201), (99, 99)])
def test_a_forged_header_moves_no_group_past_unread_records(
    upstream: tuple[int, ...], committed: int, dead: bool
) -> None:
    """One record at the end of the log once moved groups of any offset to the end, with bound 0."""
    answer = forged(900, *upstream).asks(committed, dead=dead)
    if isinstance(answer, Answer) and answer.target_offset > 0:
        assert answer.skips_at_most is None
        assert answer.rereads_at_most is None
        assert "too few copies with an offset header" in answer.evidence


def test_a_forged_header_among_the_first_records_promises_nothing() -> None:
    assert bounds(forged(0, 800).asks(500)) == (0, None, 0)
    cut = forged(0, 500)
    cut = replace(cut, target=FakeLog([(r[0] + 7, *r[1:]) for r in cut.target.rows], 908, 7))  # type: ignore[misc]
    assert bounds(cut.asks(500))[::2] == (7, None)


def test_a_forged_header_contradicts_no_other_evidence() -> None:
    """An answer without a bound is not compared with others."""
    answer = forged(900, 99).asks(200)
    assert isinstance(answer, Answer)
    log = PartitionOffsets(0, 901, 901)
    truth = Answer(Method.RECORD_MATCH, 200, 0, 0, "found")
    row = chosen(Question(PLACE, 200, THERE), [answer, truth], log, "")
    assert (row.answer, row.contradictions, row.blocked) == (truth, (), "")


def test_forged_records_are_verified_with_the_source() -> None:
    for committed in (100, 101, 102):
        answer = forged(900, *range(97, 105), true=False).asks(committed)
        assert not (isinstance(answer, Answer) and answer.skips_at_most == 0)
    # Forged headers with true source offsets look like copies; but the next record must exist, too.
    answer = forged(900, *range(92, 100)).asks(100)
    assert answer.skips_at_most is None


def test_tracked_offset_replaces_a_lost_source() -> None:
    found = world([("copies", 0, 50)])

    def noted(*numbers: int) -> TrackedOffset:
        steps = [step_of(record(of, (), of)) for of in numbers]
        records = tuple(ConsumedRecord(step.fingerprint, step.timestamp_ms) for step in steps)
        return TrackedOffset(20, -1, "", 0, records)

    wanted = {noted(19, 18, 17, 16): 0, noted(19): None, noted(19, 5, 4): None}
    for tracked, skips in wanted.items():
        answer = found.asks(20, dead=True, tracked=tracked)
        assert bounds(answer)[:2] == (20, 0)
        assert answer.skips_at_most == skips
    unknown = found.asks(20, dead=True)
    assert bounds(unknown) == (20, 0, None)
    assert "not verified" in unknown.evidence


@pytest.mark.parametrize("committed", [59, 60, 61, 80, 100])
def test_at_the_last_copy_of_a_lagging_replicator_records_set_the_bound(committed: int) -> None:
    found = world([("copies", 0, 60)])
    rows = [record(n, (), n) for n in range(100)]
    source, target = (FakeCluster({HERE: FakeLog(rows, 100)}), FakeCluster({THERE: found.target}))
    logs = target.offsets([THERE])
    search = TargetSearch(target, target, {THERE.topic: True})
    there = cast(ClusterReader, source), source
    methods = (
        RecordMatch(source, source, search, lambda _question, _offset: None),
        MappedOffsets(SOURCE_ID, there, target, logs, {}),
    )
    place = Target({THERE.topic: TopicState(THERE.topic, {0: 1})}, logs, {})
    (row,) = translate({PLACE: committed}, (), lambda topic: f"copy.{topic}", place, methods)
    assert not questionable(row.translation)
    assert row.translation.answer.target_offset == min(committed, 60)


def test_without_the_source_headers_are_used_under_a_condition() -> None:
    def lost(found: World, *others: Answer, committed: int = 20) -> Answer | None:
        mapped = found.asks(committed, dead=True)
        log = PartitionOffsets(0, found.target.end, found.target.end)
        known = LastKnown(committed, 1_000_000)
        answers = [("", mapped), *((each.method.value, each) for each in others)]
        adjusted = [
            a
            for _, a in adjusted_for_unreachable_source(answers, known, log, 1_060_000)
            if isinstance(a, Answer)
        ]
        return chosen(Question(PLACE, committed, THERE), adjusted, log, "", unproven=True).answer

    for honest, at in ((world([("copies", 0, 50)]), 20), (world([("copies", 0, 2)]), 2)):
        answer = lost(honest, committed=at)
        assert (answer.method, answer.target_offset, answer.skips_at_most) == (
            Method.MAPPING,
            at,
            None,
        )
        assert answer.skips_only_if.startswith(f"{FALSELY_NAMED}, or the group was reset backwards")
    # A single header is not enough evidence.
    alone = lost(forged(900, 99), committed=100)
    assert (alone.skips_at_most, alone.skips_only_if) == (None, "")
    checkpoint = Answer(Method.CHECKPOINT, 90, 10, 0, "written by MirrorMaker 2")
    for many in (forged(900, 99), forged(900, *range(92, 100))):
        answer = lost(many, checkpoint, committed=100)
        assert answer.method is Method.CHECKPOINT


def test_without_the_required_evidence() -> None:
    found = world([("copies", 0, 50)])
    assert isinstance(found.asks(None), NoAnswer)
    assert isinstance(world([("others", 50, 0)]).asks(10), NoAnswer)
    assert isinstance(world([]).asks(10), NoAnswer)
    target = FakeCluster({THERE: found.target})
    question = Question(PLACE, 10, THERE)
    for cluster_id, logs in (("", target.offsets([THERE])), (SOURCE_ID, {})):
        method = MappedOffsets(cluster_id, None, target, logs, {})
        assert isinstance(method.answers([question])[question], NoAnswer)
