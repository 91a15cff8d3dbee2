"""Earlier runs: whether one is unfinished, and whether actions are outstanding."""

from collections.abc import Iterator

from drctl.checks.check import BOTH, Family, Prechecks, check, listed, several
from drctl.checks.observed import NOT_QUERIED, Observed
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
    """No run has moved the link's clients to the target, or they have failed back since."""
    if observed.active_cluster is NOT_QUERIED:
        return
    link = observed.link
    subject = f"clients of link {link.name}"
    known = require(observed.active_cluster, subject, "where they are is", "drctl journal")
    if known.moved is None:
        yield ok(subject, f"no run moved them to {link.target}, or they have failed back since")
        return
    remedy = (
        f"`drctl failback --check-order --link {quote(link.name)}` shows the next step;"
        " if they were failed back without drctl, pass --override clients-moved=REASON"
    )
    impact = f"{link.target} accepts their writes: preparing a failover from {link.source}"
    run = f"run {known.moved.run} ({known.moved.plan})"
    reason = f"they have been on {link.target} since {utc(known.moved.since_ms)}, moved by {run}"
    yield fail(subject, reason, _fence(observed), f"{impact} would harm them", remedy)
    yield from _copying(observed, known.moved)


def _fence(observed: Observed) -> str:
    """Describe the fence of the source, as its ACLs show it."""
    source, fence = observed.link.source, observed.link.settings.fence
    if fence.method != "acl":
        return f"the link's fence method is {fence.method}: whether {source} is fenced is not known"
    if isinstance(observed.source_acls, Unavailable):
        return f"whether {source} is fenced is not known: {observed.source_acls.reason}"
    denied = {r.principal for r in observed.source_acls.rules if r.permission == DENY}
    if allowed := [name for name in fence.principals if name not in denied]:
        return f"{source} is not fenced: no rule denies anything to {listed(allowed)}"
    return f"{source} is fenced: its rules deny access to {listed(fence.principals)}"


def _copying(observed: Observed, moved: Moved) -> Iterator[Verdict]:
    """Report a connector that still replicates from the source after clients have moved."""
    name = observed.link.settings.replicator.connectors.source
    known = observed.connectors
    found = None if isinstance(known, Unavailable) or name is None else known.get(name)
    if found is None or found.state in ("", *_STOPPED):
        return
    source, target = observed.link.source, observed.link.target
    yield fail(
        f"connector {name}",
        f"it is {found.state}, but clients have been on {target} since run {moved.run}",
        f"{len(found.tasks):,} tasks",
        f"it appends old records of {source} after newer records of {target}",
        f"stop it and keep it stopped: `{_stops(observed)}`",
    )


def _stops(observed: Observed) -> str:
    """The commands that stop each running connector of the link."""
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
    """No run of the link is unfinished or has outstanding actions."""
    where, runs = observed.active_cluster, observed.survey.runs
    if where is NOT_QUERIED and runs is NOT_QUERIED:
        return None
    subject = f"runs of link {observed.link.name}"
    known = require(where, subject, "whether one is unfinished is", "drctl journal")
    if known.unfinished is not None:
        return _unfinished(subject, known.unfinished)
    # Only `doctor` reads outstanding actions; those of a finished run block no failover.
    every = () if isinstance(runs, Unavailable) else runs
    outstanding = [run for run in every if run.outstanding]
    if outstanding:
        evidence = several(f"{run.run}: {each}" for run in outstanding for each in run.outstanding)
        impact = "these actions are required before the lost cluster may return"
        return warn(
            subject,
            f"{len(outstanding):,} have outstanding actions",
            evidence,
            impact,
            "drctl report RUN",
        )
    evidence = f"the newest: {every[0].run} ({every[0].status})" if every else ""
    return ok(subject, "none is unfinished", evidence)


def _unfinished(subject: str, run: Unfinished) -> Verdict:
    what = "is in progress" if run.alive else "stopped before its end"
    resume = f"`drctl resume {quote(run.run)} --execute` resumes it"
    return fail(
        subject,
        f"run {run.run} {what}{f'; {run.writes}' if run.writes else ''}",
        f"{run.plan}, started by {run.who}",
        "no other run may start before it has ended",
        f"wait for it to end; if its process is gone, {resume}"
        if run.alive
        else f"{resume}; without --execute it shows what is left to do; --abandon REASON abandons"
        " the run",
    )
