"""Judges a round by the applications' own logs and what a plain consumer reads.

drctl contributes only its statements, which are compared with ground truth. A record is known by
its value `WRITER-NUMBER`, written once; each key belongs to one writer, who counts up.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from tests.soak.logs import Acknowledged, Committed, Failed, Processed, What
from tests.soak.round_plan import PRIMARY, SECONDARY
from tests.soak.writing import key_of


@dataclass(frozen=True, slots=True)
class Held:
    """A record of a cluster, as a plain consumer read it.

    Attributes:
        copied: whether it has drctl's provenance header.
    """

    partition: int
    offset: int
    key: str | None
    value: str
    copied: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """The log of a group."""

    name: str
    processed: tuple[Processed, ...]
    committed: tuple[Committed, ...]


@dataclass(frozen=True, slots=True)
class Compacted:
    """A compacted topic: only the last record of a key counts.

    Attributes:
        held: records by cluster.
        quarantined: values in its quarantine topic.
    """

    acknowledged: tuple[Acknowledged, ...]
    failed: tuple[Failed, ...]
    held: Mapping[str, tuple[Held, ...]]
    quarantined: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reported:
    """drctl's statements.

    Attributes:
        missing: records missing on the secondary, by the last `drctl gap`.
        secondary_duplicates: duplicates on the secondary.
        primary_duplicates: duplicates on the primary.
        done: reconciled records by action.
        again: most records read again, by target cluster and group; None if drctl reported that
            it could not move the group.
        unbounded: clusters for which the number is unknown.
    """

    missing: int = 0
    secondary_duplicates: int = 0
    primary_duplicates: int = 0
    done: Mapping[str, int] = field(default_factory=dict)
    again: Mapping[tuple[str, str], int | None] = field(default_factory=dict)
    unbounded: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Evidence:
    """The results of a round.

    Attributes:
        held: records by cluster; quarantined: values in the quarantine topic.
        serving: the cluster of the applications at the end.
        exported: values that drctl wrote to files.
        aborted: values of transactions that were not committed.
        gone: values that were lost with the primary's topics before they were rebuilt.
        rebuilt: whether the primary's topics were lost.
    """

    acknowledged: tuple[Acknowledged, ...]
    failed: tuple[Failed, ...]
    held: Mapping[str, tuple[Held, ...]]
    quarantined: tuple[str, ...]
    groups: tuple[Group, ...]
    reported: Reported
    serving: str = PRIMARY
    exported: frozenset[str] = frozenset()
    aborted: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    rebuilt: bool = False
    compacted: Compacted | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict.

    Attributes:
        wrong: violations as text with examples; empty if there are none.
    """

    acknowledged: int
    lost: int
    skipped: int
    out_of_order: int
    twice: int
    wrong: tuple[str, ...]


def judge(seen: Evidence) -> Judgement:
    """Compare drctl's promises and statements with ground truth."""
    lost = dict(_lost(seen))
    skipped = dict(_skipped(seen))
    out_of_order = {f"order on {name}": _out_of_order(held) for name, held in seen.held.items()}
    surplus = _surplus(seen, SECONDARY, PRIMARY), _surplus(seen, PRIMARY, SECONDARY)
    findings = [
        *(_named(what, examples) for what, examples in (lost | skipped | out_of_order).items()),
        *_unknown_records(seen),
        *_aborted_records(seen),
        *_old_values(seen),
        *_misreported(seen, *surplus),
        *_rereads(seen, *surplus),
    ]
    return Judgement(
        len(seen.acknowledged),
        sum(map(len, lost.values())),
        sum(map(len, skipped.values())),
        sum(map(len, out_of_order.values())),
        sum(map(Counter.total, surplus)),
        tuple(filter(None, findings)),
    )


def _named(what: str, examples: list[str]) -> str:
    shown = ", ".join(examples[:5])
    return f"{what}: {len(examples):,}, such as {shown}" if examples else ""


def _lost(seen: Evidence) -> Iterator[tuple[str, list[str]]]:
    """Check that both clusters have all acknowledged records, except those decided otherwise."""
    values = [each.value for each in seen.acknowledged]
    excuses = {SECONDARY: _quarantined(seen)}
    if seen.serving == PRIMARY:
        excuses[PRIMARY] = set(seen.gone)
    for cluster, excused in excuses.items():
        there = {each.value for each in seen.held[cluster]}
        yield f"lost on {cluster}", [v for v in values if v not in there and v not in excused]
        places = {(each.partition, each.offset): each.value for each in seen.held[cluster]}
        moved = [
            each.value
            for each in seen.acknowledged
            if each.cluster == cluster
            and not (cluster == PRIMARY and _before_rebuild(seen, each.value))
            and places.get((each.partition, each.offset)) != each.value
        ]
        yield f"not at the offset acknowledged by {cluster}", moved


def _before_rebuild(seen: Evidence, value: str) -> bool:
    """Whether a record is older than one of its writer on the secondary: offsets are new then."""
    if not seen.rebuilt:
        return False
    writer = value.rpartition("-")[0]
    away = (a.value for a in seen.acknowledged if a.cluster == SECONDARY)
    return any(
        number_of(other) > number_of(value) for other in away if other.startswith(f"{writer}-")
    )


def _quarantined(seen: Evidence) -> set[str]:
    """Check records that were decided to stay off the serving cluster."""
    return {*seen.quarantined, *seen.exported, *_not_replicated(seen), *seen.gone}


def _not_replicated(seen: Evidence) -> set[str]:
    """Check discarded records: missing on the secondary, and never acknowledged by it."""
    if not seen.reported.done.get("discard"):
        return set()
    known = {each.value for each in seen.acknowledged if each.cluster == SECONDARY}
    known |= {each.value for each in seen.held[SECONDARY]} | {*seen.quarantined, *seen.exported}
    return {each.value for each in seen.held[PRIMARY]} - known


def finished(group: Group, before: float = float("inf"), *, surely: bool = False) -> set[str]:
    """Return the records that a group processed and committed.

    Args:
        before: only stays below this number.
        surely: whether the commit must be acknowledged; otherwise it must not be refused.
    """
    refused = {_place(each) for each in group.committed if each.what is What.REFUSED}
    reach: dict[tuple[int, int], int] = {}
    for each in group.committed:
        counts = each.what is What.ACKNOWLEDGED or (not surely and _place(each) not in refused)
        if counts and each.stay < before:
            stay = each.stay, each.partition
            reach[stay] = max(reach.get(stay, 0), each.offset)
    return {
        each.value
        for each in group.processed
        if each.offset < reach.get((each.stay, each.partition), 0)
    }


def _place(each: Committed) -> tuple[int, int, int]:
    return each.stay, each.partition, each.offset


def _skipped(seen: Evidence) -> Iterator[tuple[str, list[str]]]:
    """Check for records of the serving cluster that a group never processed."""
    apart = _quarantined(seen)
    serving = list(dict.fromkeys(each.value for each in seen.held[seen.serving]))
    for group in seen.groups:
        done = finished(group)
        missing = [value for value in serving if value not in done and value not in apart]
        yield f"skipped by {group.name}", missing


def _out_of_order(held: Iterable[Held]) -> list[str]:
    """Records stored after a later record of their key; second copies are ignored."""
    last: dict[str, int] = {}
    known: set[str] = set()
    found = []
    for each in sorted(held, key=lambda one: (one.partition, one.offset)):
        if each.value in known or each.key is None:
            continue
        known.add(each.value)
        number = number_of(each.value)
        if number < last.get(each.key, -1):
            found.append(f"{each.value} of {each.key} at {each.partition}:{each.offset}")
        last[each.key] = max(number, last.get(each.key, -1))
    return found


def number_of(value: str) -> int:
    """Return the record's number of its writer."""
    return int(value.rpartition("-")[2])


def _surplus(seen: Evidence, of: str, beside: str) -> Counter[str]:
    """Count how much more often records are on one cluster than on the other that has them."""
    here, there = (Counter(each.value for each in seen.held[name]) for name in (of, beside))
    return Counter({v: n - there[v] for v, n in here.items() if n > there[v] > 0})


def _unknown_records(seen: Evidence) -> Iterator[str]:
    tried = {each.value for each in seen.acknowledged} | {each.value for each in seen.failed}
    for cluster, held in seen.held.items():
        yield _named(
            f"unknown records on {cluster}", [h.value for h in held if h.value not in tried]
        )


def _aborted_records(seen: Evidence) -> Iterator[str]:
    for cluster, held in seen.held.items():
        yield _named(
            f"aborted records on {cluster}", [h.value for h in held if h.value in seen.aborted]
        )


def _old_values(seen: Evidence) -> Iterator[str]:
    """Check that the last record of each key is the last one that was acknowledged, or later.

    Records that the secondary never had are excused if drctl kept them away from it.
    """
    found = seen.compacted
    if found is None:
        return
    away = {each.value for each in found.acknowledged if each.cluster == SECONDARY}
    away |= {each.value for each in found.held[SECONDARY]}
    apart = {*found.quarantined, *seen.exported, *seen.gone}
    if seen.reported.done.get("discard"):
        apart |= {each.value for each in found.acknowledged} - away
    wanted: dict[str, int] = {}
    for each in found.acknowledged:
        if each.value not in apart:
            key = key_of(each.value)
            wanted[key] = max(wanted.get(key, -1), number_of(each.value))
    for cluster in {SECONDARY, seen.serving}:
        last: dict[str, int] = {}
        for record in sorted(found.held[cluster], key=lambda one: (one.partition, one.offset)):
            if record.key is not None:
                last[record.key] = number_of(record.value)
        old = [
            f"{key}: {last.get(key)} instead of {number}"
            for key, number in wanted.items()
            if last.get(key, -1) < number
        ]
        yield _named(f"old values of keys on {cluster}", old)


def _misreported(seen: Evidence, away: Counter[str], on_primary: Counter[str]) -> Iterator[str]:
    """Compare each number of drctl with the true one."""
    ours, theirs = (Counter(h.value for h in seen.held[name]) for name in (PRIMARY, SECONDARY))
    copies = [each.value for each in seen.held[SECONDARY] if each.copied]
    reported = seen.reported
    figures = (
        ("records missing on the secondary", reported.missing, (ours - theirs).total()),
        ("duplicates on the secondary", reported.secondary_duplicates, away.total()),
        ("duplicates on the primary", reported.primary_duplicates, on_primary.total()),
        ("records copied by reconcile", reported.done.get("copy", 0), len(copies)),
        (
            "records quarantined by reconcile",
            reported.done.get("quarantine", 0),
            len(seen.quarantined),
        ),
        ("records exported by reconcile", reported.done.get("export", 0), len(seen.exported)),
        (
            "records discarded by reconcile",
            reported.done.get("discard", 0),
            len(_not_replicated(seen)),
        ),
    )
    # drctl counts records of the compacted topic, too, and compaction removes them.
    more = len(seen.compacted.acknowledged + seen.compacted.failed) if seen.compacted else 0
    for what, stated, true in figures:
        if not true <= stated <= true + more:
            at_most = f" to {true + more:,}" if more else ""
            yield f"{what}: drctl reports {stated:,}, ground truth is {true:,}{at_most}"
    # A producer whose broker hung may have stored a record twice: then there are two decisions.
    own = Counter(h.value for h in seen.held[PRIMARY] if not h.copied)
    for what, values in (("copied", copies), ("quarantined", list(seen.quarantined))):
        often = [value for value, count in Counter(values).items() if count > max(1, own[value])]
        yield _named(f"{what} more often than the primary holds them", often)
    came = [each.value for each in seen.held[PRIMARY] if each.copied]
    yield _named("copies made by drctl that were replicated back to the primary", came)


def _rereads(seen: Evidence, away: Counter[str], on_primary: Counter[str]) -> Iterator[str]:
    """Check that a moved group reads no more records again than drctl stated."""
    copies = {each.value for each in seen.held[SECONDARY] if each.copied}
    for group in seen.groups:
        stays = sorted({(each.stay, each.cluster) for each in group.processed if each.stay})
        for stay, cluster in stays:
            again = _again(group, stay, finished(group, stay, surely=True), copies)
            bound = seen.reported.again.get((cluster, group.name), 0)
            if bound is None or cluster in seen.reported.unbounded:
                continue
            limit = bound + (away + on_primary).total()
            if again > limit:
                yield (
                    f"{group.name} read {again:,} records again during stay {stay} ({cluster});"
                    f" drctl reported at most {limit:,}"
                )


def _again(group: Group, stay: int, before: Set[str], copies: Set[str]) -> int:
    """Count records read again, without reconciled ones, which follow the committed offset."""
    places = {
        (each.partition, each.offset): each.value
        for each in group.processed
        if each.stay == stay and not (each.cluster == SECONDARY and each.value in copies)
    }
    return sum(value in before for value in places.values())
