"""Reference implementation of gap analysis in plain Python: slow and in memory, but simple.

The real comparers must agree with it (tests/gap). It reads whole topics into lists and compares
records instead of digests.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from drctl.gap.comparison import Identity, TopicPlan
from drctl.model.gap import Inversion, OrderScope, OrderVerdict, RecordClass
from drctl.model.topology import Record

Log = Mapping[int, Sequence[Record]]
"""Committed records by partition, each in offset order."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The classification of a source record that is not on the target."""

    record: Record
    record_class: RecordClass
    order: OrderVerdict
    misplaced: bool
    repeated: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """All differences of one topic."""

    missing: tuple[Verdict, ...]
    only_on_target: int
    duplicated_on_target: int


def inversions(
    plan: TopicPlan, identity: Identity, source: Log, target: Log, within: OrderScope
) -> tuple[Inversion, ...]:
    """Find replicated records whose copy precedes the copy of an earlier record.

    Equal records are matched in order: the first on the source with the first on the target, and
    so on. Within a source and target partition (and key), a record is inverted if its copy precedes
    the last copy of its predecessors.
    """
    found = []
    for pairs in _streams(plan, identity, source, target, within).values():
        last: tuple[Record, Record] | None = None
        for here, there in sorted(pairs, key=lambda pair: pair[0].offset):
            if last is None or there.offset > last[1].offset:
                last = here, there
            else:
                found.append(
                    Inversion(
                        plan.topic,
                        here.partition,
                        here.offset,
                        there.partition,
                        there.offset,
                        last[0].offset,
                        last[1].offset,
                    )
                )
    return tuple(sorted(found, key=lambda each: (each.partition, each.offset)))


def _streams(
    plan: TopicPlan, identity: Identity, source: Log, target: Log, within: OrderScope
) -> Mapping[object, list[tuple[Record, Record]]]:
    """Return replicated records with their copies, grouped by the scope of order."""
    streams: dict[object, list[tuple[Record, Record]]] = defaultdict(list)
    source, target = _of_origin(identity, source, target)
    here, there = (_equals(plan, identity, log) for log in (source, target))
    for name, records in here.items():
        for one, copy in zip(records, there.get(name, ()), strict=False):
            if within is OrderScope.PARTITION:
                streams[one.partition, copy.partition].append((one, copy))
            elif one.key is not None:
                streams[one.partition, copy.partition, one.key].append((one, copy))
    return streams


def _of_origin(identity: Identity, source: Log, target: Log) -> tuple[Log, Log]:
    """Leave out the source's copies, and the target's own records."""
    if not identity.origin_headers:
        return source, target
    return _copies(identity, source, of=False), _copies(identity, target, of=True)


def _copies(identity: Identity, log: Log, *, of: bool) -> Log:
    return {p: [r for r in records if _is_copy(identity, r) is of] for p, records in log.items()}


def _is_copy(identity: Identity, record: Record) -> bool:
    return identity.is_copy(name for name, _ in record.headers)


def _equals(plan: TopicPlan, identity: Identity, log: Log) -> Mapping[object, list[Record]]:
    """Group equal records, in order."""
    found: dict[object, list[Record]] = defaultdict(list)
    records = (r for records in log.values() for r in records)
    for record in sorted(records, key=lambda r: (r.offset, r.partition)):
        name = identify(record, identity, plan.timestamps)
        found[plan.unit(record.partition), name].append(record)
    return found


@dataclass(slots=True)
class _Matched:
    """Source records, split by whether they are on the target."""

    missing: list[Record] = field(default_factory=list)
    replicated: list[Record] = field(default_factory=list)


def identify(record: Record, identity: Identity, timestamps: bool) -> tuple[object, ...]:
    """Return a value that is equal for equal records."""
    headers = tuple(h for h in record.headers if h[0] not in identity.ignored_headers)
    return (
        record.key if identity.key else None,
        record.value if identity.value else None,
        headers if identity.headers else (),
        record.timestamp_ms if identity.timestamp and timestamps else None,
        tuple(h for h in record.headers if h[0] in identity.header_names),
    )


def compare_topic(
    plan: TopicPlan,
    identity: Identity,
    source: Log,
    target: Log,
    within: OrderScope = OrderScope.KEY,
) -> Outcome:
    """Compare the two sides of one topic as multisets of records.

    Args:
        within: the scope in which copies must keep their order (policy.order).
    """

    def name(record: Record) -> tuple[object, ...]:
        return (plan.unit(record.partition), *identify(record, identity, plan.timestamps))

    everything_there = [r for log in target.values() for r in log]
    own = [r for r in everything_there if not _is_copy(identity, r)]
    source, target = _of_origin(identity, source, target)
    source_records = [r for log in source.values() for r in log]
    target_records = [r for log in target.values() for r in log]
    on_source = Counter(map(name, source_records))
    on_target = Counter(map(name, target_records))
    matched = _match(source_records, on_target, name)
    only = [*own, *(r for r in target_records if name(r) not in on_source)]
    duplicated = sum(max(0, n - on_source[k]) for k, n in on_target.items() if k in on_source)
    elsewhere = {name(r)[1:] for r in target_records if on_target[name(r)] > on_source[name(r)]}
    expired = _expired(plan, matched)
    verdicts = (
        Verdict(
            record,
            *_judge(record, plan, matched, only, expired, within),
            misplaced=name(record)[1:] in elsewhere,
            repeated=on_target[name(record)] > 0,
        )
        for record in sorted(matched.missing, key=lambda r: (r.partition, r.offset))
    )
    return Outcome(tuple(verdicts), len(only), duplicated)


def _match(
    records: Iterable[Record],
    on_target: Counter[tuple[object, ...]],
    name: Callable[[Record], tuple[object, ...]],
) -> _Matched:
    """Match records: of n equal source and m equal target records, the last n - m are missing."""
    groups: dict[tuple[object, ...], list[Record]] = defaultdict(list)
    for record in sorted(records, key=lambda r: (r.offset, r.partition)):
        groups[name(record)].append(record)
    matched = _Matched()
    for key, equal in groups.items():
        found = on_target[key]
        matched.replicated += equal[:found]
        matched.missing += equal[found:]
    return matched


def _expired(plan: TopicPlan, matched: _Matched) -> set[tuple[int, int]]:
    """Return missing records that the target may have held and deleted.

    They precede the first record that is still there, and are at most as many as the offsets that
    the target has deleted. Across partitions they are ordered by timestamp.
    """
    first_replicated: dict[int, int] = {}
    for record in matched.replicated:
        known = first_replicated.setdefault(record.partition, record.offset)
        first_replicated[record.partition] = min(known, record.offset)
    waiting: dict[int | None, list[Record]] = defaultdict(list)
    for record in matched.missing:
        first = first_replicated.get(record.partition) if plan.by_partition else None
        if first is None or record.offset < first:
            waiting[plan.unit(record.partition)].append(record)
    expired = set()
    for unit, records in waiting.items():
        records.sort(
            key=lambda r: (0 if plan.by_partition else r.timestamp_ms, r.offset, r.partition)
        )
        deleted = (
            sum(plan.target_deleted.values()) if unit is None else plan.target_deleted.get(unit, 0)
        )
        expired |= {(r.partition, r.offset) for r in records[:deleted]}
    return expired


def _judge(
    record: Record,
    plan: TopicPlan,
    matched: _Matched,
    only_on_target: Sequence[Record],
    expired: set[tuple[int, int]],
    within: OrderScope,
) -> tuple[RecordClass, OrderVerdict]:
    newer = record.key is not None and _newer_on_target(
        record, plan, matched, only_on_target, lambda r: r.key == record.key
    )
    conflicting = newer
    if within is OrderScope.PARTITION:
        conflicting = _newer_on_target(record, plan, matched, only_on_target, lambda r: True)
    order = OrderVerdict.CONFLICTING if conflicting else OrderVerdict.SAFE
    if record.key is None and within is OrderScope.KEY:
        order = OrderVerdict.UNKEYED
    replaced = record.key is not None and _newer_on_target(
        record, plan, matched, only_on_target, lambda r: r.key == record.key, ties=False
    )
    if plan.compacted and replaced:
        record_class = RecordClass.SUPERSEDED
    elif (record.partition, record.offset) in expired:
        record_class = RecordClass.EXPIRED
    else:
        record_class = RecordClass.UNREPLICATED
    return record_class, order


def _newer_on_target(
    record: Record,
    plan: TopicPlan,
    matched: _Matched,
    only_on_target: Sequence[Record],
    counts: Callable[[Record], bool],
    *,
    ties: bool = True,
) -> bool:
    """Return whether the target holds a newer record, among records that count.

    Newer is: a copy of a later source record, or a record that is only on the target with a later
    timestamp, or the same if ties count (with any timestamp, if the target uses LogAppendTime).
    """
    least = record.timestamp_ms + (not ties)
    if any(
        counts(r) and r.partition == record.partition and r.offset > record.offset
        for r in matched.replicated
    ):
        return True
    return any(
        counts(r)
        and plan.unit(r.partition) == plan.unit(record.partition)
        and (not plan.timestamps or r.timestamp_ms >= least)
        for r in only_on_target
    )
