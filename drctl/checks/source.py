"""The source: whether it answers, and whether its transactions will end."""

from collections.abc import Iterable, Iterator

from drctl.checks.check import (
    PLANNED,
    UNPLANNED,
    Family,
    Prechecks,
    check,
    duration,
    several,
    split,
)
from drctl.checks.observed import Observed
from drctl.checks.replication_flow import ReplicationFlow
from drctl.checks.verdict import Verdict, fail, not_checked, ok, require, require_queried, warn
from drctl.model.active_cluster import ActiveCluster, Moved
from drctl.model.finding import Status
from drctl.model.health import BlockingTransaction, Locked, OpenTransactions, Silent
from drctl.model.moments import utc
from drctl.model.producer_ids import Collision, Producers, collisions
from drctl.model.text import abort_hanging, describe_producers, find_hanging, plural, quote
from drctl.model.topology import Unavailable

_REMEDY = (
    "restart the producers when they move to the target, so that they get new ids; or first stop"
    " the producers on the target and wait until their ids expire (producer.id.expiration.ms, 1 day"
    " by default)"
)
_RESTART = (
    "restart the producers that write to these partitions, so that they get new ids; then compare"
    " what they sent since they moved with what is stored"
)


@check(
    "producer-ids-collide",
    Family.PRODUCERS,
    Status.WARN,
    Status.FAIL,
    prechecks=Prechecks(needed=PLANNED),
)
def collide(observed: Observed) -> Iterator[Verdict]:
    """No producer id is used by different producers on the source and on the target."""
    link = observed.link
    subject = f"producer ids on clusters {link.source} and {link.target}"
    ask = "; ".join(describe_producers(name, "TOPIC", 0) for name in (link.source, link.target))
    look = f"compare both clusters, one partition at a time: {ask}"
    source = require(observed.source_producers, subject, "the source's producer ids are", look)
    target = require(observed.target_producers, subject, "the target's producer ids are", look)
    unread = [*_unread(source), *_unread(target)]
    if unread:
        reason = f"producer ids of {plural(len(unread), 'partition')} could not be read"
        yield not_checked(subject, reason, look, several(unread))
    found = collisions(source, target, link.target_topic)
    active = observed.active_cluster
    if isinstance(active, ActiveCluster) and active.moved is not None:
        verdict = _still_used(observed, subject, found, active.moved)
        if verdict.status is not Status.OK or not unread:
            yield verdict
        return
    silent = [each for each in found if each.silent]
    refused = [each for each in found if not each.silent]
    if silent:
        impact = "records may be acknowledged and dropped as duplicates"
        yield fail(subject, _count(silent), _listed(silent), impact, _REMEDY)
    if refused:
        impact = "their records are rejected; librdkafka producers stop with a fatal error"
        yield warn(subject, _count(refused), _listed(refused), impact, _REMEDY)
    if not found and not unread:
        compared = f"{plural(len(source), 'partition')} compared"
        yield ok(subject, "no producer id is used on both clusters", compared)


def _still_used(
    observed: Observed, subject: str, found: Iterable[Collision], moved: Moved
) -> Verdict:
    """Judge ids that both clusters know by whether they are used on the target since the move."""
    source, target = observed.link.source, observed.link.target
    used = [each for each in found if each.theirs.timestamp_ms >= moved.since_ms]
    since = f"where clients have been since {utc(moved.since_ms)}"
    if not used:
        judged_by = "judged by the timestamp of each producer's last record"
        return ok(subject, f"no id of {source} is in use on {target}, {since}", judged_by)
    ids = len({each.ours.producer_id for each in used})
    number = plural(ids, f"producer id of {source} is", f"producer ids of {source} are")
    reason = f"{number} in use on {target}, {since}"
    details = several(
        f"id {each.theirs.producer_id} in {each.target} (epoch {each.theirs.epoch}, last record"
        f" {duration(observed.now_ms - each.theirs.timestamp_ms)} ago), known on {source} in"
        f" {each.source} (epoch {each.ours.epoch})"
        for each in used
    )
    impact = (
        f"their producers moved without a restart, or {target} assigned the same ids to other"
        " producers: records may be acknowledged and not stored"
    )
    judged = fail if any(each.silent for each in used) else warn
    return judged(subject, reason, details, impact, _RESTART)


def _count(collisions: list[Collision]) -> str:
    ids = {each.ours.producer_id for each in collisions}
    return f"{plural(len(ids), 'producer id is', 'producer ids are')} used on both clusters"


def _listed(collisions: list[Collision]) -> str:
    return several(
        f"id {each.ours.producer_id} in {each.source} (epoch {each.ours.epoch}) and in"
        f" {each.target} (epoch {each.theirs.epoch})"
        for each in collisions
    )


def _unread(side: Producers) -> Iterator[str]:
    return (f"{p}: {each.reason}" for p, each in side.items() if isinstance(each, Unavailable))


_FAMILY = Family.SOURCE
ALIVE = "source-alive"
"""The precheck that refuses to give up a source that still answers."""

_LOCKED = "it answers, but rejects drctl's credentials"
_LOG_IN = "correct drctl's credentials for this cluster"
_OLD_MS = 5 * 60_000
"""Java producers time out after one minute, and the drain times out after ten."""


@check(
    "source-unreachable",
    _FAMILY,
    Status.FAIL,
    prechecks=Prechecks(PLANNED, PLANNED, overridable=False),
)
def unreachable(observed: Observed) -> Verdict:
    """Before a planned failover, the source answers."""
    subject, remedy = _subject(observed), "check that its brokers run"
    if not isinstance(observed.target, Silent | Locked):
        # Suggest a failover only to a target that answers.
        lost = f"`drctl failover --mode unplanned --link {quote(observed.link.name)}`"
        remedy = f"if {observed.link.source} is lost: {lost}; otherwise {remedy}"
    identity = require_queried(observed.source, subject, "whether it answers is", remedy)
    impact = "it can neither be fenced nor drained: its unreplicated records stay on it"
    if isinstance(identity, Locked):
        return fail(
            subject, _LOCKED, identity.reason, impact, f"{_LOG_IN}; the cluster is not lost"
        )
    if isinstance(identity, Unavailable):
        return fail(subject, "it does not answer", identity.reason, impact, remedy)
    return ok(subject, "it answers", f"cluster id {identity}")


@check(ALIVE, _FAMILY, Status.FAIL, prechecks=Prechecks(UNPLANNED, UNPLANNED))
def alive(observed: Observed) -> Verdict:
    """Before an unplanned failover, the source does not answer."""
    subject = _subject(observed)
    remedy = (
        "use --mode planned, which loses nothing; to treat it as lost anyway, pass"
        " --override source-alive=REASON"
    )
    answer = observed.source
    if isinstance(answer, Silent):
        return _silent(observed, subject, answer)
    impact = (
        "both clusters would accept writes: records that clients still write to the source are not"
        " replicated and must be reconciled"
    )
    if isinstance(answer, Locked):
        # A wrong password is no lost cluster.
        return fail(subject, _LOCKED, answer.reason, impact, f"{_LOG_IN}; {remedy}")
    identity = require(answer, subject, "whether it answers is", remedy)
    return fail(subject, "it still answers", f"cluster id {identity}", impact, remedy)


def _silent(observed: Observed, subject: str, answer: Silent) -> Verdict:
    """Judge a source that does not answer here; replication may still reach it."""
    flow = observed.replication_flow
    if isinstance(flow, Unavailable):
        details = f"; whether its records still arrive is not known: {flow.reason}"
        return ok(subject, "it does not answer", f"{answer.reason}{details}")
    if not flow.active:
        details = f"; none of its records arrived on {observed.link.target} meanwhile"
        return ok(
            subject,
            "it does not answer, and nothing is replicated from it",
            f"{answer.reason}{details}",
        )
    what = "records" if flow.records else "copied heartbeats"
    return fail(
        subject,
        f"it does not answer here, but its {what} still arrive on the target",
        f"{answer.reason}; {_arrived(flow)} arrived on {observed.link.target} between the last two"
        f" readings, and copies kept arriving for {flow.seconds:.0f} s",
        "applications may still reach the source, as replication does: both clusters would then"
        " accept writes; or the records come from clients that already write to the target",
        "find out why it is unreachable from here, and run --mode planned from a host that reaches"
        " it; or try again in a minute; to treat it as lost anyway, pass --override"
        " source-alive=REASON",
    )


def _arrived(flow: ReplicationFlow) -> str:
    records = plural(flow.records, "record") if flow.records or not flow.heartbeats else ""
    heartbeats = f"{plural(flow.heartbeats, 'heartbeat')} ({flow.topic})" if flow.heartbeats else ""
    return " and ".join(filter(None, (records, heartbeats)))


BLOCKING = "hanging-transactions"
"""The precheck that refuses transactions that the drain would wait for."""


def blocking(transactions: OpenTransactions, now_ms: int) -> tuple[BlockingTransaction, ...]:
    """Transactions that are hanging, or whose last record is at least 5 minutes old."""
    return tuple(
        each
        for each in all_open(transactions)
        if each.hanging or (each.timestamp_ms >= 0 and now_ms - each.timestamp_ms >= _OLD_MS)
    )


def described(transaction: BlockingTransaction, now_ms: int) -> str:
    """A transaction: partition, producer, first offset and age."""
    name = transaction.transactional_id
    age_ms = now_ms - transaction.timestamp_ms
    parts = (
        f"transactional id {name}" if name else "",
        f"producer id {transaction.producer_id}",
        f"epoch {transaction.epoch}",
        f"open since offset {transaction.since}",
        f"last record {duration(age_ms)} ago" if transaction.timestamp_ms >= 0 else "",
        "hanging" if transaction.hanging else "",
    )
    return f"{transaction.place} ({', '.join(filter(None, parts))})"


def all_open(transactions: OpenTransactions) -> Iterator[BlockingTransaction]:
    """All open transactions, except those in partitions that could not be read."""
    for place, there in transactions.items():
        if not isinstance(there, Unavailable):
            yield from (BlockingTransaction.at(place, each) for each in there)


@check(BLOCKING, _FAMILY, Status.FAIL, prechecks=Prechecks(PLANNED, PLANNED))
def hanging(observed: Observed) -> Iterator[Verdict]:
    """No transaction on the source is hanging, or idle for at least 5 minutes."""
    cluster, now_ms = observed.link.source, observed.now_ms
    subject = f"transactions on cluster {cluster}"
    some = f"find them, one topic at a time: {find_hanging(cluster, 'TOPIC')}"
    transactions = require(observed.transactions, subject, "the open transactions are", some)
    _, unread = split(transactions)
    found, bad = list(all_open(transactions)), blocking(transactions, now_ms)
    ageless = [each for each in found if each.timestamp_ms < 0 and not each.hanging]
    if bad:
        yield fail(
            subject,
            f"hanging, or idle for at least 5 minutes: {plural(len(bad), 'open transaction')}",
            several(described(each, now_ms) for each in bad),
            "read_committed replication cannot pass them: the drain would time out",
            f"stop their producers; or pass --override {BLOCKING}=REASON: drctl failover then"
            " aborts each of them; or abort them yourself, for example:"
            f" {abort_hanging(cluster, bad[0].place, bad[0].since)}",
        )
    if unread or ageless:
        details = several(
            [f"{p}: {why.reason}" for p, why in unread.items()]
            + [described(each, now_ms) for each in ageless]
        )
        reason = (
            f"the age of transactions in {plural(len(unread) + len(ageless), 'partition')} is not"
            " known"
        )
        first = next(iter(unread), None) or ageless[0].place
        yield not_checked(
            subject, reason, f"find them: {find_hanging(cluster, first.topic)}", details
        )
    if not bad and not unread and not ageless:
        ages = [now_ms - each.timestamp_ms for each in found]
        oldest = f"the oldest wrote {duration(max(ages))} ago" if ages else ""
        reason = (
            f"{plural(len(found), 'open transaction')}; none is old" if found else "none is open"
        )
        yield ok(subject, reason, oldest)


def _subject(observed: Observed) -> str:
    return f"cluster {observed.link.source}"
