"""Earlier runs: whether one is unfinished, and whether actions are outstanding."""

from collections.abc import Iterator

from drctl.checks.acls import RuleBook
from drctl.checks.check import BOTH, Family, Prechecks, check, listed, several
from drctl.checks.managed import managed_remedy
from drctl.checks.observed import NOT_QUERIED, Observed
from drctl.checks.verdict import Verdict, fail, ok, require, warn
from drctl.config.fields import for_commands
from drctl.model.active_cluster import Moved, Unfinished
from drctl.model.fencing import DENY, Denied, Topics, denials
from drctl.model.finding import Status
from drctl.model.health import brief_silence
from drctl.model.moments import utc
from drctl.model.repairs import GROUP, TOPIC, Acl
from drctl.model.text import option, plural, put, quote, variable
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
    impact = f"they write to {link.target}: a failover from {link.source} would disrupt them"
    run = f"run {known.moved.run} ({known.moved.plan})"
    reason = f"they have been on {link.target} since {utc(known.moved.since_ms)}, moved by {run}"
    fence = _fence(observed, known.moved)
    evidence = fence if isinstance(fence, str) else ""
    yield fail(subject, reason, evidence, impact, remedy)
    if not isinstance(fence, str):
        yield fence
    yield from _copying(observed, known.moved)


def _fence(observed: Observed, moved: Moved) -> str | Verdict:
    """Describe the source's fence by its ACLs; a verdict if some ACLs of the fence are missing."""
    source, fence = observed.link.source, observed.link.settings.fence
    if fence.method != "acl":
        return f"the link's fence method is {fence.method}: whether {source} is fenced is not known"
    acls, topics = observed.source_acls, observed.source_topics
    if isinstance(acls, Unavailable) or isinstance(topics, Unavailable):
        why = next(each.reason for each in (acls, topics) if isinstance(each, Unavailable))
        return f"whether {source} is fenced is not known: {why}"
    book = RuleBook(rule for rule in acls.rules if rule.permission == DENY and rule.host == "*")
    names = observed.link.topics_of(name for name, state in topics.items() if state is not None)
    writes = denials(fence.principals, [*map(Topics, names)], [Denied.WRITE])
    wanted = tuple(dict.fromkeys((*writes, *moved.denied)))
    missing = [rule for rule in wanted if not _denies(book, rule)]
    if not missing:
        reads = [rule for rule in wanted if rule.operation == Denied.READ]
        groups = {rule.name for rule in reads if rule.resource == GROUP}
        read = {rule.name for rule in reads if rule.resource == TOPIC}
        also = f", and reads of {plural(len(read), 'topic')} and {plural(len(groups), 'group')}"
        who = listed(fence.principals)
        return f"{source} is fenced: its ACLs deny writes to {who}{also if reads else ''}"
    open_to_writes = any(rule.operation == Denied.WRITE for rule in missing)
    what = "write records" if open_to_writes else "commit offsets"
    impact = (
        f"applications that still use {source} may {what} there that {observed.link.target} does"
        " not have"
    )
    first = missing[0]
    return fail(
        f"fence of cluster {source}",
        f"missing ACLs of the fence: {len(missing):,} of {len(wanted):,}",
        several(map(_allowed, missing)),
        impact,
        f'add each: kafka-acls.sh --bootstrap-server "{variable(source)}" --command-config'
        f" admin.properties --add --force {option('--deny-principal', first.principal)}"
        f" {option('--operation', first.operation.capitalize())}"
        f" {option('--group' if first.resource == GROUP else '--topic', first.name)}; if they"
        " vanish again, something else manages the ACLs: find out what, and fence there",
    )


def _denies(book: RuleBook, rule: Acl) -> bool:
    """Whether rules deny what one rule of the fence denies."""
    found = book.concerning(rule.principal, rule.name, rule.resource)
    return any(each.operation in (rule.operation, "ALL") for each in found)


def _allowed(missing: Acl) -> str:
    """What a principal may do again because an ACL of the fence is missing."""
    does = "write to" if missing.operation == Denied.WRITE else "read"
    return f"{missing.principal} may {'use' if missing.resource == GROUP else does} {missing.on}"


def _copying(observed: Observed, moved: Moved) -> Iterator[Verdict]:
    """Report connectors of the link that run after clients have moved."""
    source, target = observed.link.source, observed.link.target
    connectors, known = observed.link.settings.replicator.connectors, observed.connectors
    for name in connectors.named:
        found = None if isinstance(known, Unavailable) else known.get(name)
        if found is None or found.state in ("", *_STOPPED):
            continue
        impact = f"it appends old records of {source} after newer records of {target}"
        if name != connectors.source:
            impact = f"it may change offsets or heartbeats on {target}, and a failback stops it"
        yield fail(
            f"connector {name}",
            f"it is {found.state}, but clients have been on {target} since run {moved.run}",
            plural(len(found.tasks), "task"),
            impact,
            f"stop it and keep it stopped: `{_stops(observed)}`{managed_remedy(found)}",
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
        actions = [f"{run.run}: {each}" for run in outstanding for each in run.outstanding]
        evidence = "\n".join(map(brief_silence, actions))
        impact = "these actions are required before the lost cluster is used again"
        return warn(
            subject,
            f"{plural(len(outstanding), 'run has', 'runs have')} outstanding actions",
            evidence,
            impact,
            f"drctl report {quote(outstanding[0].run)}",
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
