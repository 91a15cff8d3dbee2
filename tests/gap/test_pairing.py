"""Pairing equal records changes no difference between the clusters, and spares their digests."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drctl.gap import pairing
from drctl.gap.comparison import (
    BucketDigest,
    ComparePlan,
    Identity,
    Reads,
    Side,
    TopicPlan,
    find_suspects,
    span_of,
)
from drctl.gap.direct import DirectComparer
from drctl.gap.held import Intake
from drctl.gap.pairing import digest_both, shares
from drctl.model.topology import OffsetRange, Record, Row
from tests.depth import examples
from tests.gap.comparing import GeneratedLogs, agree, no_progress, plan_of
from tests.gap.logs import BASE_TIME, GeneratedTopic, identities, topics
from tests.gap.test_direct import Written

several = st.tuples(*(topics(f"topic{n}") for n in range(3)))
MODULUS = 2**64


@pytest.fixture(params=["small", "waiting", "usual"], autouse=True)
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits so small that logs of some records reach them; the usual ones; hardly any memory."""
    if request.param == "small":
        monkeypatch.setattr(pairing, "NEAR", 2)
        monkeypatch.setattr(pairing, "FAR", 4)
        monkeypatch.setattr(pairing, "BLOCK", 3)
    elif request.param == "waiting":
        monkeypatch.setattr(pairing, "WAITING_BYTES", 1000)


def discard(records: int) -> None:
    """Discard progress."""


Summary = dict[object, tuple[int, ...]]


def differences(plan: ComparePlan, digests: Iterable[BucketDigest]) -> Summary:
    """Return by unit and bucket by how much records and sums differ."""
    units = {t.topic: t.unit for t in plan.topics}
    found: Summary = {}
    for d in digests:
        name = d.topic, units[d.topic](d.partition), d.bucket
        sign = 1 if d.side is Side.SOURCE else -1
        records, one, two = found.get(name, (0, 0, 0))
        sums = (one + sign * d.sum1) % MODULUS, (two + sign * d.sum2) % MODULUS
        found[name] = (records + sign * d.records, *sums)
    return found


def extents(digests: Iterable[BucketDigest]) -> Summary:
    """Return by bucket of each log: records, first and last offset."""
    found: Summary = {}
    for d in digests:
        name = d.topic, d.side, d.partition, d.bucket
        n, first, last = found.get(name, (0, d.first, d.last))
        found[name] = n + d.records, min(first, d.first), max(last, d.last)
    return found


@given(generated=several, identity=identities)
@settings(max_examples=examples(12), deadline=None, derandomize=True)
def test_differences_are_those_of_full_digests(
    generated: tuple[GeneratedTopic, ...], identity: Identity
) -> None:
    plan = plan_of(generated, identity)
    reads = plan.everything()
    full = DirectComparer(GeneratedLogs(generated), Written()).digest(plan, reads, no_progress)
    paired = digest_both(GeneratedLogs(generated), plan, reads, discard)
    assert differences(plan, paired) == differences(plan, full)
    assert extents(paired) == extents(full)


@given(generated=several, identity=identities, number=st.integers(2, 4))
@settings(max_examples=examples(12), deadline=None, derandomize=True)
def test_shares_together_are_the_whole(
    generated: tuple[GeneratedTopic, ...], identity: Identity, number: int
) -> None:
    plan = plan_of(generated, identity)
    reads = plan.everything()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairing, "SPLIT_OFFSETS", 4)
        parts = shares(reads, number)
    assert len(parts) <= number
    assert offsets(parts) == offsets([reads])
    logs = GeneratedLogs(generated)
    digests = [d for part in parts for d in digest_both(logs, plan, part, discard)]
    full = DirectComparer(logs, Written()).digest(plan, reads, no_progress)
    assert differences(plan, digests) == differences(plan, full)
    comparer = DirectComparer(logs, Written())
    agree(generated, identity, comparer.compare(plan, find_suspects(plan, digests), no_progress))


def offsets(parts: Iterable[Reads]) -> Counter[tuple[object, ...]]:
    return Counter(
        (side, topic, partition, offset)
        for part in parts
        for side, of_side in part.items()
        for topic, partitions in of_side.items()
        for partition, ranges in partitions.items()
        for r in ranges
        for offset in range(r.start, r.end)
    )


def topic_of(source: Sequence[Record], target: Sequence[Record]) -> GeneratedTopic:
    ranges = [{0: OffsetRange(log[0].offset, log[-1].offset + 1)} for log in (source, target)]
    plan = TopicPlan("orders", "orders", True, True, 64, False, *ranges, {0: 0})
    return GeneratedTopic(plan, {0: source}, {0: target})


LOG = [Record(0, n, BASE_TIME + n // 2, b"%d" % (n % 7), b"value %d" % n) for n in range(9_000)]


def appended(records: Iterable[Record], first: int = 0) -> list[Record]:
    """Return copies with consecutive offsets."""
    return [replace(r, offset=n) for n, r in enumerate(records, first)]


HEADER = ("__replicator_id", b"x")
COPIES = {
    "identical": (appended(LOG), 0),
    "other offsets": (appended(LOG, 12_345), 0),
    "a header of replication": (appended(replace(r, headers=(HEADER,)) for r in LOG), 0),
    "one is missing": (appended([*LOG[:4_000], *LOG[4_001:]]), 2),
    "one in a hundred is missing": (appended(r for r in LOG if r.offset % 100), 200),
    "some in a row are missing": (appended([*LOG[:4_000], *LOG[4_300:]]), 600),
    "many in a row are missing": (appended([*LOG[:2_000], *LOG[6_000:]]), 5_000),
    "more than once": (appended([*LOG[:5_000], *LOG[4_700:]]), 700),
    "two in the other order": (appended([*LOG[:50], LOG[51], LOG[50], *LOG[52:]]), 4),
}


@pytest.mark.parametrize(("copies", "most"), COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("limits", ["usual"], indirect=True)
def test_few_records_are_digested(
    copies: list[Record], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    digested = 0
    take = Intake.take

    def counting(self: Intake, rows: Sequence[Row]) -> None:
        nonlocal digested
        digested += len(rows)
        take(self, rows)

    topic = topic_of(LOG, copies)
    plan = plan_of([topic], Identity(ignored_headers=frozenset({"__replicator_id"})))
    full = DirectComparer(GeneratedLogs([topic]), Written())
    wanted = full.digest(plan, plan.everything(), no_progress)
    monkeypatch.setattr(Intake, "take", counting)
    found = digest_both(GeneratedLogs([topic]), plan, plan.everything(), discard)
    assert digested <= most
    assert differences(plan, found) == differences(plan, wanted)
    assert extents(found) == extents(wanted)


def test_a_hot_partition_is_split() -> None:
    def reads(source: int, target: int) -> Reads:
        small = {n: (OffsetRange(0, 1_000),) for n in range(1, 4)}
        logs = zip(Side, (source, target), strict=True)
        return {side: {"orders": {0: (OffsetRange(5, 5 + n),), **small}} for side, n in logs}

    def spans(parts: Iterable[Reads]) -> list[int]:
        return [span_of(part) for part in parts]

    assert spans(shares(reads(1_000_000, 1_000_000), 4)) == [502_000, 502_000, 502_000, 500_000]
    assert spans(shares(reads(10_000, 10_000), 4)) == [20_000, 2_000, 2_000, 2_000]
    short = shares(reads(400_000, 300_000), 2)
    found = [part[side]["orders"][0] for part in short for side in Side]
    first, second, third = (OffsetRange(5 + n, 5 + n + 133_333) for n in (0, 133_333, 266_666))
    rest = OffsetRange(266_671, 300_005)
    assert found == [(first, third._replace(end=400_005)), (first, rest), (second,), (second,)]


def test_equal_partitions_are_shared_evenly() -> None:
    partitions = {n: (OffsetRange(0, 500_000 + n),) for n in range(4)}
    reads: Reads = {side: {"orders": partitions} for side in Side}
    assert [list(part[Side.SOURCE]["orders"]) for part in shares(reads, 2)] == [[3, 0], [2, 1]]
    assert max(span_of(part) for part in shares(reads, 3)) <= 1_500_006
