"""Earlier runs: whether one stands half-way, and whether something is owed."""

from collections.abc import Iterator

from drctl.checks.check import BOTH, Family, Prechecks, check, listed, several
from drctl.checks.observed import NOT_LOOKED_AT, Observed
from drctl.checks.verdict import Verdict, fail, ok, require, warn
from drctl.config.fields import for_commands
from drctl.model.active_cluster import Moved, Unfinished
from drctl.model.fencing import DENY
from drctl.model.finding import Status
from drctl.model.moments import utc
from drctl.model.text import put, quote
from drctl.model.topology import Unavailable

_STOPPED = ("STOPPED", "PAUSED")


@check("clients-moved", Family.JOURNAL, Status.FAIL, prechecks=Prechecks())
def moved(observed: Observed) -> Iterator[Verdict]:
    """No run has moved the link's clients to its target, or they have come home since."""
    if observed.active_cluster is NOT_LOOKED_AT:
        return
    link = observed.link
    subject = f"clients of link {link.name}"
    known = require(observed.active_cluster, subject, "where they are is", "drctl journal")
    if known.moved is None:
        yield ok(subject, f"no run has moved them to {link.target}, or they have come home since")
        return
    home = (
        f"`drctl failback --check-order --link {quote(link.name)}` says what comes next of the way"
        " home; where they were taken home without drctl, say so with"
        " --override clients-moved=REASON"
    )
    cost = f"{link.target} takes their writes: what was to ready a failover from {link.source}"
    run = f"run {known.moved.run} ({known.moved.plan})"
    reason = f"they are on {link.target} since {utc(known.moved.since_ms)}, by {run}"
    yield fail(subject, reason, _fence(observed), f"{cost} harms them", home)
    yield from _copying(observed, known.moved)


def _fence(observed: Observed) -> str:
    """What keeps applications from the source, as its rules tell."""
    source, fence = observed.link.source, observed.link.settings.fence
    if fence.method != "acl":
        return f"the link fences by {fence.method}: whether {source} is closed cannot be seen here"
    if isinstance(observed.source_acls, Unavailable):
        return f"whether {source} is fenced is not known: {observed.source_acls.reason}"
    denied = {r.principal for r in observed.source_acls.rules if r.permission == DENY}
    if allowed := [name for name in fence.principals if name not in denied]:
        return f"{source} is not fenced: no rule there denies anything to {listed(allowed)}"
    told = listed(fence.principals)
    return f"rules on {source} deny {told}: its fence stands, as far as they tell"


def _copying(observed: Observed, moved: Moved) -> Iterator[Verdict]:
    """What still replicates the way that clients went."""
    name = observed.link.settings.replicator.connectors.source
    known = observed.connectors
    found = None if isinstance(known, Unavailable) or name is None else known.get(name)
    if found is None or found.state in ("", *_STOPPED):
        return
    source, target = observed.link.source, observed.link.target
    yield fail(
        f"connector {name}",
        f"it is {found.state}, and clients are on {target} since run {moved.run}",
        f"{len(found.tasks):,} tasks",
        f"it appends what {source} still holds behind newer records of {target}",
        f"stop them, and leave them stopped: `{_stops(observed)}`",
    )


def _stops(observed: Observed) -> str:
    """What to type: each connector of the link that is not stopped."""
    replicator, known = observed.link.settings.replicator, observed.connectors
    worker = for_commands(replicator.connect)
    running = (
        name
        for name in replicator.connectors.named
        if not isinstance(known, Unavailable)
        and (found := known.get(name)) is not None
        and found.state not in _STOPPED
    )
    return "; ".join(put(worker, each, "stop") for each in running)


@check(
    "runs-unfinished",
    Family.JOURNAL,
    Status.WARN,
    Status.FAIL,
    prechecks=Prechecks(BOTH, overridable=False),
)
def unfinished(observed: Observed) -> Verdict | None:
    """No run of the link stands half-way, and none owes anything."""
    where, runs = observed.active_cluster, observed.survey.runs
    if where is NOT_LOOKED_AT and runs is NOT_LOOKED_AT:
        return None
    subject = f"runs of link {observed.link.name}"
    known = require(where, subject, "whether one stands half-way is", "drctl journal")
    if known.unfinished is not None:
        return _half_way(subject, known.unfinished)
    # What is owed only `doctor` asks; what one that has ended came to keeps nobody from beginning.
    every = () if isinstance(runs, Unavailable) else runs
    outstanding = [run for run in every if run.outstanding]
    if outstanding:
        told = several(f"{run.run}: {owe}" for run in outstanding for owe in run.outstanding)
        cost = "what was left out then is still to be done before the lost cluster may return"
        return warn(
            subject, f"{len(outstanding):,} owe something", told, cost, "do it; drctl report RUN"
        )
    told = f"the newest: {every[0].run} ({every[0].status})" if every else ""
    return ok(subject, "none stands half-way", told)


def _half_way(subject: str, run: Unfinished) -> Verdict:
    what = "is being carried out" if run.alive else "stopped part-way"
    goes_on = f"`drctl resume {quote(run.run)} --execute` goes on with it"
    return fail(
        subject,
        f"run {run.run} {what}{f'; {run.writes}' if run.writes else ''}",
        f"{run.plan}, carried out by {run.who}",
        "no other may begin before it is at its end: it would begin on half a change",
        f"let it come to its end; where its process is gone, {goes_on}"
        if run.alive
        else f"{goes_on}, without --execute it shows how far it came; with --abandon REASON the run"
        " is left behind",
    )
