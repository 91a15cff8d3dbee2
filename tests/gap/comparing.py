"""Runs a comparer on generated topics, and compares its result with the reference."""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from drctl.gap.comparison import (
    ComparePlan,
    Comparison,
    Identity,
    RecordComparer,
    Side,
    find_suspects,
)
from drctl.gap.reference import Outcome, compare_topic
from drctl.model.gap import OrderScope, RecordClass
from drctl.model.topology import Chunk, Record, TopicRanges
from tests.fakes import row_of
from tests.gap.logs import GeneratedTopic

Answer = dict[object, object]
CHUNK = 3


class GeneratedLogs:
    """Reads generated topics; records the requests."""

    def __init__(self, generated: Sequence[GeneratedTopic]) -> None:
        self.logs: dict[Side, dict[str, Mapping[int, Sequence[Record]]]] = {
            Side.SOURCE: {g.plan.topic: g.source for g in generated},
            Side.TARGET: {g.plan.target_topic: g.target for g in generated},
        }
        self.asked: list[tuple[Side, TopicRanges]] = []

    def read(self, side: Side, ranges: TopicRanges) -> Iterator[Chunk]:
        self.asked.append((side, ranges))
        for topic, partitions in ranges.items():
            for partition, runs in partitions.items():
                rows = [
                    row_of(record)
                    for record in self.logs[side][topic][partition]
                    if any(run.start <= record.offset < run.end for run in runs)
                ]
                for start in range(0, len(rows), CHUNK):
                    yield Chunk(topic, partition, rows[start : start + CHUNK])


def no_progress(phase: str, done: int, total: int) -> None:
    """Discard progress."""


def plan_of(
    generated: Sequence[GeneratedTopic], identity: Identity, within: OrderScope = OrderScope.KEY
) -> ComparePlan:
    """Return the plan that compares these topics."""
    topics = [
        g.plan if identity.timestamp else dataclasses.replace(g.plan, bucket_ms=0)
        for g in generated
    ]
    return ComparePlan(tuple(topics), identity, buckets=16, salt=42, within=within)


def run(comparer: RecordComparer, plan: ComparePlan) -> Comparison:
    """Digest everything, then compare what differs."""
    digests = comparer.digest(plan, plan.everything(), no_progress)
    return comparer.compare(plan, find_suspects(plan, digests), no_progress)


def agree(
    generated: Sequence[GeneratedTopic],
    identity: Identity,
    comparison: Comparison,
    within: OrderScope = OrderScope.KEY,
) -> None:
    """Assert that every topic's result equals the reference's."""
    for g in generated:
        outcome = compare_topic(g.plan, identity, g.source, g.target, within)
        assert answer_of_comparer(g, comparison) == answer_of_reference(
            g, outcome, identity.origin_headers
        ), explain(g)


def answer_of_reference(
    g: GeneratedTopic, outcome: Outcome, marks: frozenset[str] = frozenset()
) -> Answer:
    counts: Counter[object] = Counter()
    for v in outcome.missing:
        counts[v.record.partition, str(v.record_class)] += 1
        if v.record_class is RecordClass.UNREPLICATED:
            counts[v.record.partition, str(v.order)] += 1
            counts[v.record.partition, "misplaced"] += v.misplaced
            counts[v.record.partition, "repeated"] += v.repeated
    extra = Counter(own=outcome.only_on_target, again=outcome.duplicated_on_target)
    return {"counts": +counts, "extra": +extra, "runs": expected_runs(g, outcome, marks)}


def answer_of_comparer(g: GeneratedTopic, comparison: Comparison) -> Answer:
    counts: Counter[object] = Counter()
    names = ("unreplicated", "superseded", "expired", "safe", "conflicting", "unkeyed")
    names += ("misplaced", "repeated")
    missing = {p: m for (t, p), m in comparison.missing.items() if t == g.plan.topic}
    for partition, m in missing.items():
        for name in names:
            counts[partition, name] += getattr(m, name)
    extra: Counter[str] = Counter()
    for (topic, _), e in comparison.extra.items():
        if topic == g.plan.topic:
            extra.update(own=e.only_on_target, again=e.duplicated_on_target)
    runs = {p: list(m.runs) for p, m in missing.items() if m.runs}
    return {"counts": +counts, "extra": +extra, "runs": runs}


def expected_runs(
    generated: GeneratedTopic, outcome: Outcome, marks: frozenset[str]
) -> dict[int, list[tuple[int, int]]]:
    """Return the expected ranges, which span copies that have one of these headers."""
    missing = {
        (v.record.partition, v.record.offset)
        for v in outcome.missing
        if v.record_class is RecordClass.UNREPLICATED
    }
    runs: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for partition, log in generated.source.items():
        open_run = False
        for record in log:
            if not marks.isdisjoint(dict(record.headers)):
                continue
            is_missing = (partition, record.offset) in missing
            if is_missing and open_run:
                runs[partition][-1] = (runs[partition][-1][0], record.offset)
            elif is_missing:
                runs[partition].append((record.offset, record.offset))
            open_run = is_missing
    return dict(runs)


def explain(g: GeneratedTopic) -> str:
    """Return all records of a topic as text."""
    lines = [str(dataclasses.asdict(g.plan))]
    for side, logs in (("source", g.source), ("target", g.target)):
        lines += [f"{side} {record}" for log in logs.values() for record in log]
    return "\n".join(lines)
