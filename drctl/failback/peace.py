"""Whether there is nothing to fail back: clients are where they were, and no trace says otherwise.

Absence of a trace alone is no peace: it has to be seen that clients use the source.
"""

from collections.abc import Iterator

from drctl.failback.facts import NO_WORKERS, Cluster, Copies, Facts, Fence, Replication, Stopped
from drctl.failback.matching import saw_new_records
from drctl.model.topology import Unavailable


def nothing_to_fail_back(facts: Facts, home: bool | None) -> str:
    """Why there is nothing; empty where there is something, or nobody can tell.

    Args:
        home: whether every endpoint leads to the source; None where that is not known.
    """
    if not facts.never_moved or any(_traces(facts)):
        return ""
    forward = _forward(facts)
    no_run = f"by the journal no run has moved clients to {facts.target}"
    if home is True and forward is not None:
        told = f"every endpoint leads to {facts.source}"
    elif not facts.endpoints and forward and _nobody_reads_there(facts):
        told = f"no group is active on {facts.target}"
    else:
        return ""
    return "; ".join(filter(None, (told, no_run, forward)))


def _traces(facts: Facts) -> Iterator[bool]:
    """What a failover, or a failback that was begun, leaves."""
    for cluster in (facts.on_source, facts.on_target):
        yield not isinstance(cluster, Cluster)
    yield isinstance(facts.fence, Fence) and facts.fence.held is True
    yield isinstance(facts.reverse, Replication) and not facts.reverse.never_ran
    yield any(saw_new_records(each, facts) for each in facts.gaps)
    for copies in (facts.brought, facts.came_back):
        yield isinstance(copies, Copies) and copies.total > 0
    yield bool(facts.left_missing)


def _forward(facts: Facts) -> str | None:
    """That replication to the target runs, in words; empty where nothing tells; None: it does not.

    A failover stops it.
    """
    runs = f"replication {facts.source} -> {facts.target} runs"
    if isinstance(facts.forward, Replication):
        return runs if facts.forward.runs else None
    if isinstance(facts.stopped, Stopped):
        return None if facts.stopped.held else runs
    # Where something is to tell and does not, nobody knows.
    asked = facts.forward != NO_WORKERS or isinstance(facts.stopped, Unavailable)
    return None if asked else ""


def _nobody_reads_there(facts: Facts) -> bool:
    if isinstance(facts.groups, Unavailable):
        return False
    return not any(each.unseen or facts.target in each.reading_on for each in facts.groups)
