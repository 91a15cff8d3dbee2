"""Step e: every missing record has a decision, and what was to be brought over is there.

Two things on the target tell: the progress that `drctl reconcile` keeps in the transactions of the
records themselves, and the copies, each of which names its original.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from drctl.failback.decided_before import decided_before
from drctl.failback.facts import Copies, Decided, Decision, Facts
from drctl.failback.gap_results import GapEvidence
from drctl.failback.matching import Standing, same_logs
from drctl.failback.situation import Situation
from drctl.failback.step import Seen, done, not_done, unknown
from drctl.model.topology import TopicPartition, Unavailable

_COPY = "copy"
_PAST = {_COPY: "copied", "quarantine": "quarantined", "discard": "given up"}


def reconciled(seen: Situation) -> Seen:
    """Whether nothing is left to decide."""
    found, behind = _reconciled(seen), told_behind(seen)
    return replace(found, why=f"{found.why}; {behind}") if behind else found


def _reconciled(seen: Situation) -> Seen:
    result, facts = seen.gap.valid, seen.facts
    if result is None:
        waiting = "what is missing is not known, so nothing can have been decided"
        return (unknown if seen.gap.standing is Standing.UNKNOWN else not_done)(waiting)
    if not result.unreplicated:
        return done(f"nothing of {facts.source} is missing on {facts.target}")
    for asked, kept in _decisions(result, facts):
        if sum(kept.values()) >= asked.unreplicated:
            return done(f"all {asked.unreplicated:,} missing records are decided: {_told(kept)}")
    before = decided_before(result, facts)
    if before >= result.unreplicated:
        return done(
            f"all {before:,} missing records were quarantined or given up by way of earlier results"
        )
    if isinstance(facts.brought, Unavailable):
        return unknown(f"whether missing records were brought over: {facts.brought.reason}")
    there = sum(map(len, brought(result, facts.brought).values()))
    if there >= result.unreplicated:
        return done(f"all {result.unreplicated:,} missing records have a copy on {facts.target}")
    return _left(result, facts, there)


def brought(result: GapEvidence, copies: Copies) -> Mapping[TopicPartition, frozenset[int]]:
    """Which of the missing offsets have a copy on the target."""
    return {
        each.place: frozenset(offset for offset in offsets if _missing(each.ranges, offset))
        for each in result.partitions
        if (offsets := copies.offsets.get(each.place))
    }


def copied(seen: Situation) -> int:
    """How many records of the source as it is were brought over, by whatever tells of most."""
    brought_over = seen.facts.brought
    there = 0 if isinstance(brought_over, Unavailable) else brought_over.total
    return max(there, sum(n for each, n in _all(seen) if each.action == _COPY))


def copied_conflicting(seen: Situation) -> int:
    """How many of them something newer was in front of, and were copied as somebody decided."""
    return sum(n for each, n in _all(seen) if each == Decision("conflicting", _COPY))


def told_behind(seen: Situation) -> str:
    """What the target has in another order by such decisions; empty where nothing, or none cares.

    At home the order is right: there the originals stand where they stood.
    """
    number = copied_conflicting(seen)
    if not number or seen.facts.order == "none":
        return ""
    return (
        f"{number:,} conflicting ones were copied, as was decided: on {seen.facts.target} they"
        " stand behind newer ones"
    )


def ever_copied(decided: Decided) -> bool:
    """Whether records of any result were copied, also of one that is not at hand."""
    return any(each.action == _COPY for kept in decided.values() for each in kept)


def _all(seen: Situation) -> Iterator[tuple[Decision, int]]:
    """Decisions of an earlier failover are on other records, and tell nothing of this one."""
    result = seen.gap.valid or seen.first
    for _, kept in _decisions(result, seen.facts) if result is not None else ():
        yield from kept.items()


def _missing(ranges: tuple[tuple[int, int], ...], offset: int) -> bool:
    return any(first <= offset <= last for first, last in ranges)


def _decisions(
    result: GapEvidence, facts: Facts
) -> Iterator[tuple[GapEvidence, Mapping[Decision, int]]]:
    """What was decided on the result, and on others over the same logs of the source."""
    if isinstance(facts.decided, Unavailable):
        return
    for each in facts.gaps:
        if same_logs(each, result) and each.id in facts.decided:
            yield each, facts.decided[each.id]


def _left(result: GapEvidence, facts: Facts, there: int) -> Seen:
    """Some records have no decision that could be seen."""
    if isinstance(facts.decided, Unavailable):
        return unknown(f"what was decided is not known: {facts.decided.reason}", begun=bool(there))
    known = [(each.unreplicated, kept) for each, kept in _decisions(result, facts)]
    total, kept = max(known, key=lambda row: sum(row[1].values()), default=(0, {}))
    some = sum(kept.values())
    if result.id and result.id in facts.exported:
        return unknown(
            f"an export of it is on this machine; {result.unreplicated:,} records are missing on"
            f" {facts.target}, and whether that is what was wanted no cluster tells",
            begun=bool(some or there),
        )
    if some or there:
        told = (
            f"{some:,} of {total:,} missing records are decided ({_told(kept)})"
            if some
            else f"{there:,} of {result.unreplicated:,} missing records have a copy"
        )
        return not_done(f"it is half done: {told}", begun=True)
    if before := decided_before(result, facts):
        return not_done(
            f"of {result.unreplicated:,} missing records {before:,} were quarantined or given up by"
            f" way of earlier results; the others have neither a copy on {facts.target} nor a"
            " decision"
        )
    return not_done(
        f"{result.unreplicated:,} missing records have neither a copy on {facts.target} nor a"
        " decision"
    )


def _told(kept: Mapping[Decision, int]) -> str:
    by_action: Counter[str] = Counter()
    for each, records in kept.items():
        by_action[each.action] += records
    return ", ".join(f"{n:,} {_PAST.get(action, action)}" for action, n in by_action.items() if n)
