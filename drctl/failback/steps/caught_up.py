"""Step h: the source has everything that is new on the target."""

from drctl.failback.facts import Cluster, Copies
from drctl.failback.gap_results import GapEvidence
from drctl.failback.matching import FULL
from drctl.failback.situation import Situation
from drctl.failback.step import Seen, done, not_done, unknown
from drctl.failback.steps.afterwards import afterwards
from drctl.model.topology import OffsetRange, Unavailable


def caught_up(seen: Situation) -> Seen:
    """How far the way back is behind, and whether a comparison found anything missing."""
    facts = seen.facts
    source, target = facts.on_source, facts.on_target
    for name, end in ((facts.source, source), (facts.target, target)):
        if isinstance(end, Unavailable):
            return unknown(f"{name} does not tell: {end.reason}")
    assert isinstance(source, Cluster)
    assert isinstance(target, Cluster)
    home = afterwards(seen)
    if home is not None:
        return home
    if not seen.way_back_begun:
        if isinstance(facts.reverse, Unavailable):
            return unknown(f"what copies back cannot be seen: {facts.reverse.reason}")
        return not_done("nothing copies back yet (step f)")
    if seen.first is None:
        return unknown("no result of drctl gap tells where new records begin: the lag is not known")
    if isinstance(facts.boundaries, Unavailable):
        return unknown(facts.boundaries.reason)
    lag = behind(seen, source, target)
    if isinstance(lag, Unavailable):
        return unknown(lag.reason)
    told = f"{facts.source} is about {lag:,} records behind; policy.max_lag_records is"
    if lag > facts.max_lag and _written_forward(seen):
        return unknown(
            f"clients are home on {facts.source}, and what they write comes to {facts.target}: how"
            " far it was behind when they came cannot be told any more"
        )
    if lag > facts.max_lag:
        return not_done(f"{told} {facts.max_lag:,}")
    return compared(seen, target, f"{told} {facts.max_lag:,}")


def _written_forward(seen: Situation) -> bool:
    """Whether the target grows by what comes from the source, which looks like lag."""
    forward = seen.facts.forward
    return seen.home is True and (isinstance(forward, Unavailable) or forward.runs)


def behind(seen: Situation, source: Cluster, target: Cluster) -> int | Unavailable:
    """About how many records have still to come: counted where they are few, else by offsets."""
    new, came = seen.facts.brought, seen.facts.came_back
    if isinstance(new, Copies) and new.whole and isinstance(came, Copies):
        assert seen.first is not None
        return sum(
            max(0, new.others.get(each.copy, 0) - came.others.get(each.place, 0))
            for each in seen.first.partitions
        )
    return _by_offsets(seen, source, target)


def _by_offsets(seen: Situation, source: Cluster, target: Cluster) -> int | Unavailable:
    assert seen.first is not None
    reverse, waiting = seen.facts.reverse, seen.facts.waiting
    positions = {} if isinstance(reverse, Unavailable) else reverse.positions
    total = 0
    for each in seen.first.partitions:
        here, there = source.logs.get(each.place), target.logs.get(each.copy)
        boundary = seen.boundaries.get(each.copy)
        if boundary is None:
            continue
        if not isinstance(here, OffsetRange) or not isinstance(there, OffsetRange):
            return Unavailable(f"where {each.place} or its copy ends is not known")
        new, came = there.end - boundary, here.end - each.source.end
        # Ends of transactions are offsets and no records: the connector's own word may be nearer,
        # and nearer yet what stands behind that, without the copies that it leaves out.
        told = (
            there.end - positions.get(each.copy, boundary)
            if isinstance(waiting, Unavailable)
            else waiting.others.get(each.copy, 0)
        )
        total += max(0, min(new - came, told))
    return total


def compared(seen: Situation, target: Cluster, told: str) -> Seen:
    """Whether content was compared, too: offsets alone are no proof."""
    facts = seen.facts
    newest = next(iter(facts.of_now(facts.back_gaps)), None)
    ask = f"drctl gap --scope full from {facts.target} to {facts.source} tells"
    if newest is None or not _of_these(newest, seen, target):
        return unknown(f"{told}; whether anything is missing there was not compared: {ask}")
    since = _written_since(newest, target)
    if since > facts.max_lag:
        return unknown(f"{told}; {since:,} offsets were written since {newest.told}: {ask}")
    if newest.unreplicated:
        return not_done(f"{newest.unreplicated:,} records are missing there ({newest.told})")
    return done(f"{told}; a comparison found nothing missing ({newest.told})")


def _of_these(result: GapEvidence, seen: Situation, target: Cluster) -> bool:
    """Whether it is whole, and about these clusters and all that is new."""
    source = seen.facts.on_source
    if not isinstance(source, Cluster) or not (result.complete and result.scope == FULL):
        return False
    same = (result.source_id, result.target_id) == (target.identity, source.identity)
    return same and seen.boundaries.keys() <= result.ends.keys()


def _written_since(result: GapEvidence, target: Cluster) -> int:
    logs = ((target.logs.get(place), end) for place, end in result.ends.items())
    return sum(max(0, log.end - end) for log, end in logs if isinstance(log, OffsetRange))
