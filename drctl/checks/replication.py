"""Replication of the link: whether it runs, how far it lags, and whether it can be stopped."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from drctl.checks.brokers import Side, of_each
from drctl.checks.check import (
    BOTH,
    PLANNED,
    Family,
    Prechecks,
    check,
    duration,
    listed,
    reasons,
    several,
    split,
)
from drctl.checks.connector_settings import REPLICATOR, SOURCE, find
from drctl.checks.observed import Connectors, Observed
from drctl.checks.verdict import (
    NotObserved,
    Verdict,
    fail,
    not_checked,
    ok,
    require,
    require_queried,
    separately,
    warn,
)
from drctl.config.mirrors import simple_class
from drctl.config.reverse_link import ON_CONNECT
from drctl.model.finding import Status
from drctl.model.loss import Mode
from drctl.model.moments import utc
from drctl.model.replication import RUNNING, Connector, Lag, first_lines
from drctl.model.text import connector_url, plural
from drctl.model.topology import TopicPartition, TopicState, Unavailable

_FAMILY = Family.REPLICATION
_BY_HAND = ("STOPPED", "PAUSED")
_CONNECT = "set `replicator.connect` of the link in drctl.yaml to the workers' REST interface"


@check("connect-unreachable", _FAMILY, Status.FAIL, prechecks=Prechecks(BOTH, BOTH))
def unreachable(observed: Observed) -> Verdict | None:
    """The Connect workers that replicate the link answer."""
    if not _on_connect(observed):
        return None
    if observed.link.settings.replicator.connect is None:
        if _by_command(observed):
            return None
        reason = "the link has no Connect worker: drctl cannot verify that replication is stopped"
        raise NotObserved("Connect", reason, _CONNECT)
    known = require_queried(observed.connectors, "Connect", "whether it answers is", _CONNECT)
    if isinstance(known, Unavailable):
        return fail(
            "Connect",
            "it does not answer: drctl cannot verify that replication is stopped",
            known.reason,
            "a replicator that keeps running appends old records after new ones on the target",
            "check that a worker runs; if all workers are permanently lost, pass --override"
            " connect-unreachable=REASON and make sure that they cannot restart",
        )
    return ok("Connect", "it answers", f"connectors: {listed(sorted(known)) or 'none'}")


@check("connectors-not-configured", _FAMILY, Status.FAIL, prechecks=Prechecks(BOTH, PLANNED))
def named(observed: Observed) -> Verdict | None:
    """The link names its source connector, and the workers have it."""
    if not _on_connect(observed) or _by_command(observed):
        return None
    name = observed.link.settings.replicator.connectors.source
    subject = "source connector"
    impact = "it would not be stopped: it appends old records after new ones on the target"
    remedy = "set `replicator: {connectors: {source: NAME}}` of the link in drctl.yaml"
    if name is None:
        return fail(
            subject, "the link does not name it", "no such key in drctl.yaml", impact, remedy
        )
    known = require(observed.connectors, subject, "whether the workers have it is", remedy)
    evidence = f"connectors: {listed(sorted(known)) or 'none'}"
    if name in known:
        return ok(f"connector {name}", "it is configured and deployed", evidence)
    return fail(
        f"connector {name}", "the workers have no connector of this name", evidence, impact, remedy
    )


@check("replication-not-running", _FAMILY, Status.FAIL, prechecks=Prechecks(BOTH, PLANNED))
def not_running(observed: Observed) -> Iterable[Verdict] | None:
    """Before a planned failover, the link's connectors and all their tasks are RUNNING."""
    connect = observed.link.settings.replicator.connect
    if not _on_connect(observed) or (connect is None and _by_command(observed)):
        return None
    known = require(observed.connectors, "Connect", "its connectors are", _CONNECT)
    connectors = _of_the_link(observed, known).items()
    return separately(partial(_running, *each, observed.mode) for each in connectors)


@check("replication-lag", _FAMILY, Status.WARN, Status.FAIL, prechecks=Prechecks(BOTH, PLANNED))
def lag(observed: Observed) -> Iterator[Verdict]:
    """The target lags by at most `policy.max_lag_records` records."""
    subject = f"link {observed.link.name}"
    remedy = "drctl gap shows what is missing"
    if isinstance(observed.lag, Unavailable):
        reason = f"the lag is not known: {observed.lag.reason}"
        raise NotObserved(subject, reason, remedy, _newest(observed))
    known, unknown = split(observed.lag)
    if unknown:
        reason = (
            f"the lag of {len(unknown):,} of {plural(len(observed.lag), 'partition')} is not known"
        )
        yield not_checked(subject, reason, remedy, reasons(unknown))
    judged = _lagging(subject, known, observed)
    if judged.status is not Status.OK or not unknown:
        yield judged


def _lagging(subject: str, known: Mapping[TopicPartition, Lag], observed: Observed) -> Verdict:
    most = observed.policy.max_lag_records
    total = sum(each.records for each in known.values())
    at_most = sum(each.at_most for each in known.values())
    behind = sorted(known.items(), key=lambda row: (-row[1].records, -row[1].at_most))
    evidence = several(f"{p} by {_described(each)}" for p, each in behind if each.at_most)
    reason = f"it lags by about {plural(total, 'record')} (at most {at_most:,})"
    allowed = f"policy.max_lag_records is {most:,}"
    if observed.mode is Mode.UNPLANNED and at_most:
        impact = (
            f"about {plural(total, 'record is', 'records are')} not on the target until reconciled"
        )
        remedy = "if the source can still be read, use --mode planned"
        return warn(subject, reason, evidence, impact, remedy)
    impact = "producers are blocked while replication catches up"
    if total > most:
        remedy = (
            "wait for replication to catch up, or raise policy.max_lag_records: the drain waits"
            " for the rest"
        )
        return fail(subject, f"{reason}; {allowed}", evidence, impact, remedy)
    if at_most > most:
        remedy = "try again in a minute: replicators commit their progress about once a minute"
        return warn(subject, f"{reason}; {allowed}", evidence, impact, remedy)
    return ok(subject, f"{reason}; {allowed}", evidence)


def _described(lag: Lag) -> str:
    return f"{lag.records:,} (at most {lag.at_most:,}; {lag.evidence})"


def _newest(observed: Observed) -> str:
    newest = observed.newest_copy_ms
    if isinstance(newest, Unavailable):
        return ""
    age = duration(max(0, observed.now_ms - newest))
    return f"the newest replicated record is from {utc(newest)}, {age} ago"


def _on_connect(observed: Observed) -> bool:
    replicator = observed.link.settings.replicator
    return replicator.kind in ON_CONNECT or replicator.connect is not None


def _by_command(observed: Observed) -> bool:
    """Whether the user's own command stops replication."""
    return bool(observed.link.settings.replicator.stop)


def _of_the_link(observed: Observed, known: Connectors) -> dict[str, Connector | None]:
    """By subject, the connectors that the link names, else its only source connector."""
    replicator = observed.link.settings.replicator
    if named := replicator.connectors.named:
        return {f"connector {name}": known.get(name) for name in named}
    class_name = REPLICATOR if replicator.kind == "confluent-replicator" else SOURCE
    found = find(observed, class_name)
    return {f"connector {found.name}" if found else f"{class_name} of the link": found}


def _running(subject: str, connector: Connector | None, mode: Mode) -> Verdict:
    if connector is None:
        reason, evidence = "the workers have no such connector", ""
        remedy = "deploy it, or correct `replicator.connectors` of the link in drctl.yaml"
    elif not connector.state:
        remedy = f"query Connect: curl -s {connector_url('', connector.name, 'status')}"
        raise NotObserved(subject, "its state is not known", remedy)
    else:
        remedy = "restart what failed (drctl connect recover); the cause is in the worker's log"
        if connector.state in _BY_HAND:
            remedy = "someone stopped or paused it: resume it, unless it must stay stopped"
        reason, evidence = _stopped(connector)
        if not reason:
            tasks = len(connector.tasks)
            return ok(
                subject,
                f"it and {plural(tasks, 'task')} are running"
                if tasks
                else "it is running without tasks",
            )
    impact = "replication does not catch up: the drain would time out"
    if mode is Mode.UNPLANNED:
        return ok(subject, f"{reason}; an unplanned failover does not wait for it", evidence)
    return fail(subject, reason, evidence, impact, remedy)


def _stopped(connector: Connector) -> tuple[str, str]:
    """What is not running, and why; empty if everything is."""
    if connector.state != RUNNING:
        return f"state {connector.state}", first_lines(connector.stack_trace)
    others = [task for task in connector.tasks if task.state != RUNNING]
    if others:
        evidence = ", ".join(f"task {task.number} is {task.state}" for task in others)
        return evidence, several(
            first_lines(task.stack_trace) for task in others if task.stack_trace
        )
    # A checkpoint connector has no task while there is no group.
    idle = not connector.tasks and simple_class(connector.config) in (SOURCE, REPLICATOR)
    return ("it has no task", "") if idle else ("", "")


_DAY_MS = 24 * 3_600_000


@check(
    "backlog-near-retention",
    Family.RETENTION,
    Status.WARN,
    Status.FAIL,
    prechecks=Prechecks(PLANNED),
)
def near_tail(observed: Observed) -> Iterator[Verdict]:
    """Unreplicated records have more than a quarter of the source's `retention.ms` left."""
    subject = f"unreplicated records on cluster {observed.link.source}"
    remedy = "compare retention.ms of the source's topics with the replication lag"
    tails, unreported = split(require(observed.tails, subject, "their age is", remedy))
    keep = "raise retention.ms of these topics on the source until replication has caught up"
    lost, evidence = _count({p: tail.lost for p, tail in tails.items()})
    if lost:
        impact = "they are lost: neither cluster has them"
        reason = plural(
            lost,
            "record was deleted before it was replicated",
            "records were deleted before they were replicated",
        )
        yield fail(subject, reason, evidence, impact, keep)
    soon, soon_evidence = _count({p: tail.soon for p, tail in tails.items()})
    later, later_evidence = _count({p: tail.later for p, tail in tails.items()})
    if soon:
        impact = "the source deletes them during the drain"
        reason = plural(
            soon,
            "record expires before it is replicated",
            "records expire before they are replicated",
        )
        yield fail(subject, reason, soon_evidence, impact, keep)
    elif later:
        impact = "the source deletes them if replication does not catch up in time"
        reason = (
            f"{plural(later, 'record has', 'records have')} less than a quarter of the retention"
            " left"
        )
        yield warn(subject, reason, later_evidence, impact, keep)
    unknown = [f"{p}: {each.reason}" for p, each in unreported.items()]
    unknown += [f"{p}: {tail.by_size}" for p, tail in tails.items() if tail.by_size]
    if unknown:
        reason = f"when records of {plural(len(unknown), 'partition')} expire is not known"
        yield not_checked(subject, reason, remedy, several(unknown))
    elif not (lost or soon or later):
        yield ok(
            subject, "none expires soon", plural(len(tails), "partition lags", "partitions lag")
        )


def _count(tails: Mapping[TopicPartition, int]) -> tuple[int, str]:
    """The total of records, and the count of each partition that has any."""
    counts = {place: count for place, count in tails.items() if count}
    evidence = several(f"{place}: {count:,}" for place, count in counts.items())
    return sum(counts.values()), evidence


@check("retention-objective", Family.RETENTION, Status.WARN, Status.FAIL)
def objective(observed: Observed) -> Iterable[Verdict]:
    """Topics and copies are kept for at least a day, and longer than `policy.max_rpo_seconds`."""
    floor_ms = round(observed.policy.max_rpo_seconds * 1000)
    return of_each(observed, lambda side: _kept(side, floor_ms))


def _kept(side: Side, floor_ms: int) -> Verdict:
    kept = {name: _retention(state) for name, state in side.configured().items()}
    known = {name: ms for name, ms in kept.items() if ms is not None}
    short = {name: ms for name, ms in known.items() if ms <= floor_ms}
    night = {name: ms for name, ms in known.items() if floor_ms < ms < _DAY_MS}
    remedy = "raise retention.ms of these topics"
    if short:
        impact = "records expire before the allowed replication lag is reached"
        reason = (
            f"{plural(len(short), 'topic is', 'topics are')} retained for less than"
            " policy.max_rpo_seconds"
        )
        return fail(side.subject, reason, _retentions(short), impact, remedy)
    if night:
        impact = "after an overnight outage, unreplicated records expire before they are read"
        reason = f"{plural(len(night), 'topic is', 'topics are')} retained for less than a day"
        return warn(side.subject, reason, _retentions(night), impact, remedy)
    evidence = (
        f"{plural(len(kept), 'topic')}, {len(kept) - len(known):,} without time-based retention"
    )
    return ok(side.subject, "all are retained for a day or longer", evidence)


def _retentions(rows: dict[str, int]) -> str:
    return several(f"{name}: retention.ms={ms} ({duration(ms)})" for name, ms in rows.items())


def _retention(state: TopicState) -> int | None:
    """Retention in milliseconds; None without time-based retention."""
    text = state.config.get("retention.ms", "")
    if "delete" not in state.config.get("cleanup.policy", "delete"):
        return None
    return int(text) if text.isdecimal() else None
