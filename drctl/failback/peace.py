"""Whether there is anything to fail back: clients are where they were, or something says otherwise.

Absence of a trace alone is no peace: it has to be seen that clients use the source. It is no
failover either: where neither is seen nobody knows, and nothing is to be stopped or closed.
"""

from collections.abc import Iterator

from drctl.checks.wording import several
from drctl.failback.facts import NO_WORKERS, Cluster, Copies, Facts, Fence, Replication, Stopped
from drctl.failback.matching import saw_new_records
from drctl.model.endpoints import EndpointState
from drctl.model.topology import Unavailable


def nothing_to_fail_back(facts: Facts, home: bool | None) -> str:
    """Why there is nothing; empty where there is something, or nobody can tell.

    Args:
        home: whether every endpoint leads to the source; None where that is not known.
    """
    seen = isinstance(facts.on_source, Cluster) and isinstance(facts.on_target, Cluster)
    back = isinstance(facts.reverse, Replication) and not facts.reverse.never_ran
    if not seen or back or not facts.never_moved or any(_traces(facts)):
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


def nobody_knows(facts: Facts, home: bool | None) -> str:
    """Why it cannot be told whether clients have left the source; empty where anything tells.

    Args:
        home: as above.
    """
    if home is not None or _failover_seen(facts):
        return ""
    ends = facts.on_source, facts.on_target
    silent = (*ends, facts.journal, facts.groups, facts.forward, *facts.endpoints)
    groups = () if isinstance(facts.groups, Unavailable) else facts.groups
    told = [
        *(each.reason for each in silent if isinstance(each, Unavailable) and each != NO_WORKERS),
        *(f"{each.name}: {each.unseen}" for each in groups if each.unseen),
        *(e.words for e in facts.endpoints if isinstance(e, EndpointState) and e.cluster is None),
    ]
    why = several(dict.fromkeys(told)) or "drctl.yaml names no endpoints"
    return (
        f"nothing shows that clients have left {facts.source}, and who would tell does not: {why}"
    )


def _failover_seen(facts: Facts) -> bool:
    """Whether anything says that clients have left the source, and were not led back since."""
    if facts.led_away or _held(facts.fence) or _reads_there(facts):
        return True
    reverse = facts.reverse.copying if isinstance(facts.reverse, Replication) else ()
    if any(each.runs for each in reverse):
        return True
    # What else there is a finished failback may have left.
    positions = (each.positions for each in reverse)
    copied_back = any(not isinstance(each, Unavailable) and each for each in positions)
    return not facts.failed_back and (copied_back or _stopped(facts) or any(_traces(facts)))


def _stopped(facts: Facts) -> bool:
    """Whether the old replication is seen to stand still: a failover stops it."""
    if isinstance(facts.forward, Replication):
        copying = facts.forward.copying
        return bool(copying) and all(each.idle for each in copying)
    return isinstance(facts.stopped, Stopped) and facts.stopped.held


def _held(fence: Fence | Unavailable) -> bool:
    return isinstance(fence, Fence) and fence.held is True


def _reads_there(facts: Facts) -> bool:
    groups = () if isinstance(facts.groups, Unavailable) else facts.groups
    return any(facts.target in each.reading_on for each in groups)


def _traces(facts: Facts) -> Iterator[bool]:
    """What a failover, or a failback that was begun, leaves."""
    yield _held(facts.fence)
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
