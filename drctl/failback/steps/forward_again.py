"""Step j: replication from the source to the target runs again, from the switchover on."""

from drctl.checks.wording import several
from drctl.failback.facts import NO_WORKERS, Cluster, Facts, Replication, Stopped
from drctl.failback.situation import Situation
from drctl.failback.step import Seen, done, not_done, unknown
from drctl.model.topology import OffsetRange, Unavailable


def forward_again(seen: Situation) -> Seen:
    """Whether it runs for clients that are home, and copies nothing twice."""
    facts = seen.facts
    told = facts.stopped if isinstance(facts.forward, Unavailable) else None
    if seen.failed_back and facts.forward == NO_WORKERS and told is None:
        return done(f"by the journal: run {seen.failed_back} came to its end; nothing else tells")
    if isinstance(facts.forward, Unavailable) and not isinstance(told, Stopped):
        return unknown(f"what copies forward cannot be seen: {facts.forward.reason}")
    if seen.home is False:
        return not_done("it comes behind the switchover home (step i)")
    if isinstance(told, Stopped) and told.held:
        return not_done(told.words)
    if isinstance(facts.forward, Replication) and not facts.forward.runs:
        return not_done(f"it does not run{_seed(facts, facts.forward)}")
    if seen.home is None:
        return unknown("it runs, and where clients are is not visible: see steps b and i")
    if seen.proven:
        return done("it runs; comparisons both ways found nothing missing and nothing twice")
    if seen.failed_back:
        return done(f"it runs; by the journal run {seen.failed_back} set where it begins")
    return unknown(
        "it runs; whether it began at the switchover cannot be seen from outside:"
        " duplicated_on_target of a full drctl gap tells"
    )


def _seed(facts: Facts, forward: Replication) -> str:
    """What it would copy again, started as it is."""
    source = facts.on_source
    if not isinstance(source, Cluster):
        return ""
    again = [
        f"{place} from {offset}, which ends at {log.end}"
        for each in forward.copying
        if not isinstance(each.positions, Unavailable)
        for place, offset in sorted(each.positions.items())
        if isinstance(log := source.logs.get(place), OffsetRange) and offset < log.end
    ]
    return f"; started as it stands it copies {several(again)}: set its position first" * bool(
        again
    )
