"""The source: whether it answers, and whether transactions on it will ever end."""

from collections.abc import Iterator

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
from drctl.checks.replication_flow import Arriving
from drctl.checks.verdict import Verdict, fail, not_checked, ok, require, require_asked, warn
from drctl.model.finding import Status
from drctl.model.health import Locked, OpenTransaction, Silent
from drctl.model.producer_ids import Collision, Producers, collisions
from drctl.model.text import quote
from drctl.model.topology import TopicPartition, Unavailable

_CURE = (
    "restart the producers when they are moved: they get new ids; or stop those of the target first"
    " and wait until their ids expire (producer.id.expiration.ms, a day by default)"
)
_LOOK = "compare `kafka-transactions describe-producers` of both clusters"


@check(
    "producer-ids-collide",
    Family.PRODUCERS,
    Status.WARN,
    Status.FAIL,
    prechecks=Prechecks(needed=PLANNED),
)
def collide(observed: Observed) -> Iterator[Verdict]:
    """No producer of the source would meet another one of its id on the target."""
    link = observed.link
    subject = f"producer ids on clusters {link.source} and {link.target}"
    source = require(observed.source_producers, subject, "those of the source are", _LOOK)
    target = require(observed.target_producers, subject, "those of the target are", _LOOK)
    met = collisions(source, target, link.target_topic)
    silent = [each for each in met if each.silent]
    refused = [each for each in met if not each.silent]
    if silent:
        cost = "records of theirs may be acknowledged and not stored"
        yield fail(subject, _met(silent), _met_in_words(silent), cost, _CURE)
    if refused:
        cost = "their records are refused, and producers of librdkafka end with a fatal error"
        yield warn(subject, _met(refused), _met_in_words(refused), cost, _CURE)
    unread = [*_unread(source), *_unread(target)]
    if unread:
        reason = f"those of {len(unread):,} partitions could not be read"
        yield not_checked(subject, reason, _LOOK, several(unread))
    elif not met:
        yield ok(subject, "none of them stands for two", f"{len(source):,} partitions compared")


def _met(met: list[Collision]) -> str:
    return f"{len({each.ours.producer_id for each in met}):,} ids stand for different producers"


def _met_in_words(met: list[Collision]) -> str:
    return several(
        f"id {each.ours.producer_id} in {each.source} (epoch {each.ours.epoch}) and in"
        f" {each.target} (epoch {each.theirs.epoch})"
        for each in met
    )


def _unread(side: Producers) -> Iterator[str]:
    return (f"{p}: {each.reason}" for p, each in side.items() if isinstance(each, Unavailable))


_FAMILY = Family.SOURCE
ALIVE = "source-alive"
"""The guard of whoever gives a source up."""

_LOCKED = "somebody is there, and does not let drctl in"
_LOG_IN = "correct how drctl logs in"
_OLD_MS = 5 * 60_000
"""Java's clients are given a minute, and the drain ten."""


@check(
    "source-unreachable",
    _FAMILY,
    Status.FAIL,
    prechecks=Prechecks(PLANNED, PLANNED, overridable=False),
)
def unreachable(observed: Observed) -> Verdict:
    """Before a planned failover, the source answers."""
    subject, remedy = _subject(observed), "see that its brokers run"
    if not isinstance(observed.target, Silent | Locked):
        # Nobody is sent to a target that is not there.
        lost = f"`drctl failover --mode unplanned --link {quote(observed.link.name)}`"
        remedy = f"{lost} where it is lost; else {remedy}"
    identity = require_asked(observed.source, subject, "whether it answers is", remedy)
    cost = "it can neither be fenced nor drained: records would be left behind"
    if isinstance(identity, Locked):
        return fail(subject, _LOCKED, identity.reason, cost, f"{_LOG_IN}; it is not lost")
    if isinstance(identity, Unavailable):
        return fail(subject, "it does not answer", identity.reason, cost, remedy)
    return ok(subject, "it answers", f"cluster id {identity}")


@check(ALIVE, _FAMILY, Status.FAIL, prechecks=Prechecks(UNPLANNED, UNPLANNED))
def alive(observed: Observed) -> Verdict:
    """Before an unplanned failover, the source does not answer."""
    subject = _subject(observed)
    remedy = (
        "use --mode planned, which loses nothing; or where it is to be given up all the same, say"
        " why with --override source-alive=REASON"
    )
    answer = observed.source
    if isinstance(answer, Silent):
        return _silent(observed, subject, answer)
    cost = (
        "what is written to it from now on is lost, or must be reconciled: clients that reach it"
        " go on there, and two clusters take writes at once"
    )
    if isinstance(answer, Locked):
        # A wrong password looks like a dead cluster, and is none.
        return fail(subject, _LOCKED, answer.reason, cost, f"{_LOG_IN}; {remedy}")
    identity = require(answer, subject, "whether it answers is", remedy)
    return fail(subject, "it still answers", f"cluster id {identity}", cost, remedy)


def _silent(observed: Observed, subject: str, answer: Silent) -> Verdict:
    """It does not answer here; whoever replicates it may stand elsewhere."""
    come = observed.arriving
    if isinstance(come, Unavailable):
        told = f"; whether its records still arrive is not known: {come.reason}"
        return ok(subject, "it does not answer", f"{answer.reason}{told}")
    if not come.anything:
        told = f"; none of its records arrived on {observed.link.target} meanwhile"
        return ok(subject, "it does not answer, and is not copied from", f"{answer.reason}{told}")
    what = "copies" if come.records else "copied heartbeats"
    return fail(
        subject,
        f"it does not answer here, and its {what} still grow",
        f"{answer.reason}; {_arrived(come)} arrived on {observed.link.target} in the last"
        f" seconds, and some at every look for {come.seconds:.0f} s",
        "replication still reaches it, and so may applications: two clusters would take writes at"
        " once; or somebody else writes to the copies already",
        "see why it cannot be reached from here, and use --mode planned from where it can be; look"
        " again in a moment; or where it is to be given up all the same, say why with --override"
        " source-alive=REASON",
    )


def _arrived(come: Arriving) -> str:
    records = f"{come.records:,} records" if come.records or not come.beats else ""
    beats = f"{come.beats:,} heartbeats ({come.topic})" if come.beats else ""
    return " and ".join(filter(None, (records, beats)))


@check("hanging-transactions", _FAMILY, Status.FAIL, prechecks=Prechecks(PLANNED, PLANNED))
def hanging(observed: Observed) -> Iterator[Verdict]:
    """No transaction on the source hangs, or is older than 5 minutes."""
    subject = f"transactions on cluster {observed.link.source}"
    remedy = "look for them with `kafka-transactions --bootstrap-server ... find-hanging`"
    by_place = require(observed.transactions, subject, "which are open is", remedy)
    transactions, unread = split(by_place)
    found = [(place, each) for place, there in transactions.items() for each in there]
    bad = [(p, t) for p, t in found if t.hanging or _age_ms(t, observed) >= _OLD_MS]
    ageless = [(p, t) for p, t in found if t.timestamp_ms < 0 and not t.hanging]
    if bad:
        told = several(f"{p} {_told(t, observed)}" for p, t in bad)
        yield fail(
            subject,
            f"{len(bad):,} are open that nobody may ever end",
            told,
            "replication does not come past them (read_committed), so that the drain never ends",
            "end their producers, or abort them with `kafka-transactions abort`, and ask again",
        )
    if unread or ageless:
        told = several(
            [f"{p}: {why.reason}" for p, why in unread.items()]
            + [f"{p} {_told(t, observed)}" for p, t in ageless]
        )
        reason = f"of {len(unread) + len(ageless):,} nobody can say whether they will end"
        yield not_checked(subject, reason, remedy, told)
    if not bad and not unread and not ageless:
        yield ok(subject, f"{len(found):,} are open, and none is old", _oldest(found, observed))


def _oldest(found: list[tuple[TopicPartition, OpenTransaction]], observed: Observed) -> str:
    ages = [_age_ms(transaction, observed) for _, transaction in found]
    return f"the oldest wrote {duration(max(ages))} ago" if ages else ""


def _told(transaction: OpenTransaction, observed: Observed) -> str:
    who = transaction.transactional_id or f"producer {transaction.producer_id}"
    age = _age_ms(transaction, observed)
    wrote = f", wrote {duration(age)} ago" if transaction.timestamp_ms >= 0 else ""
    return f"({who}{', hanging' if transaction.hanging else ''}{wrote})"


def _age_ms(transaction: OpenTransaction, observed: Observed) -> int:
    return observed.now_ms - transaction.timestamp_ms if transaction.timestamp_ms >= 0 else -1


def _subject(observed: Observed) -> str:
    return f"cluster {observed.link.source}"
