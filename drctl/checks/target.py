"""The target: whether it is there, and takes every record from the moment it is opened."""

from collections.abc import Iterator

from drctl.checks.check import BOTH, Family, Prechecks, check, duration, listed, several
from drctl.checks.observed import Observed
from drctl.checks.verdict import (
    NotObserved,
    Verdict,
    fail,
    not_checked,
    ok,
    require,
    require_asked,
    warn,
)
from drctl.model.finding import Status
from drctl.model.health import ClusterHealth, Locked
from drctl.model.text import quote
from drctl.model.topology import Unavailable


@check(
    "journal-unwritable",
    Family.JOURNAL,
    Status.FAIL,
    prechecks=Prechecks(BOTH, BOTH, overridable=False),
)
def unwritable(observed: Observed) -> Iterator[Verdict]:
    """A run can write its journal, wherever it is kept."""
    remedy = "see that the topic and the state_dir can be written (docs/howto/permissions.md)"
    places = require(observed.journal, "journal", "whether it can be written is", remedy)
    if not places:
        raise NotObserved("journal", "no place was looked at", remedy)
    for place, why in places.items():
        if why is None:
            yield ok(place, "a run can write its journal here")
        else:
            cost = "a run that nobody wrote down can neither be gone on with nor be undone"
            yield fail(place, "a run cannot write its journal here", why.reason, cost, remedy)


_OLD_MS, _DEAD_MS = 5 * 60_000, 24 * 3_600_000


@check("anchors-age", Family.ANCHORS, Status.WARN, Status.FAIL)
def age(observed: Observed) -> Verdict | None:
    """`drctl offsets track` looked at all groups of the link within the last 5 minutes."""
    link = observed.link
    if not link.settings.translate:
        return None
    subject = f"anchors on cluster {link.target}"
    remedy = f"drctl offsets track --link {quote(link.name)} --execute, as a service"
    cost = "with a dead source, groups go on where only the replicator's own notes say"
    anchors = observed.survey.anchors
    if anchors is None:
        return warn(subject, "there are none", "no topic __drctl_anchors", cost, remedy)
    found = require(anchors, subject, "how old they are is", remedy)
    if found.looked_ms is None:
        told = f"{found.anchors:,} anchors"
        return warn(subject, "nobody has looked at all groups", told, cost, remedy)
    age_ms = max(0, observed.now_ms - found.looked_ms)
    told = f"{found.anchors:,} anchors; the last look was {duration(age_ms)} ago"
    if age_ms > _DEAD_MS:
        reason = "nobody has looked for more than a day"
        return fail(
            subject, reason, told, "positions of yesterday: groups read a day again", remedy
        )
    if age_ms > _OLD_MS:
        cost = "groups read again what they consumed since then"
        return warn(subject, "they are old", told, cost, remedy)
    return ok(subject, "somebody keeps them", told)


_FAMILY = Family.TARGET
_NOWHERE = "clients that were sent there could neither write nor read: an outage on both sides"
_LOOK = "see that its brokers run; `kafka-topics --describe` shows what is amiss"


@check(
    "target-unreachable", _FAMILY, Status.FAIL, prechecks=Prechecks(BOTH, BOTH, overridable=False)
)
def unreachable(observed: Observed) -> Verdict:
    """The target answers."""
    subject = _subject(observed)
    identity = require_asked(observed.target, subject, "whether it answers is", _LOOK)
    if isinstance(identity, Locked):
        reason, remedy = "somebody is there, and does not let drctl in", "correct how drctl logs in"
        return fail(subject, reason, identity.reason, _NOWHERE, remedy)
    if isinstance(identity, Unavailable):
        return fail(subject, "it does not answer", identity.reason, _NOWHERE, _LOOK)
    return ok(subject, "it answers", f"cluster id {identity}")


@check("target-no-controller", _FAMILY, Status.FAIL, prechecks=Prechecks())
def no_controller(observed: Observed) -> Verdict:
    """The target has an active controller."""
    health, subject = _health(observed), _subject(observed)
    if not isinstance(health.controller, Unavailable):
        told = f"node {health.controller.node}, epoch {health.controller.epoch}"
        return ok(subject, "it has a controller", told)
    return fail(
        subject,
        "it is not known to have a controller",
        health.controller.reason,
        "the next broker that fails there takes its partitions with it: no leader is elected, and"
        " no ACL takes effect",
        "see that a majority of its controllers runs; to ask for it, drctl's user needs DESCRIBE"
        " on the cluster",
    )


@check("target-offline-partitions", _FAMILY, Status.FAIL, prechecks=Prechecks(BOTH, BOTH))
def offline(observed: Observed) -> Verdict:
    """Every copy has a leader."""
    health = _health(observed)
    counted = f"{health.partitions:,} partitions looked at"
    if not health.offline:
        return ok(_subject(observed), "every copy has a leader", counted)
    absent = f"; brokers {listed(health.absent)} are absent" if health.absent else ""
    return fail(
        _subject(observed),
        f"{len(health.offline):,} partitions have no leader: {listed(health.offline)}",
        f"{counted}{absent}",
        "nothing can be written to them or read from them",
        "bring the brokers back that hold them, or elect leaders",
    )


@check("target-under-min-isr", _FAMILY, Status.FAIL, prechecks=Prechecks(BOTH, BOTH))
def under_min_isr(observed: Observed) -> Iterator[Verdict]:
    """Every copy has as many replicas in sync as `min.insync.replicas` asks for."""
    health, subject = _health(observed), _subject(observed)
    short = health.under_min_isr
    if short:
        worst = several(f"{s.partition} has {s.in_sync} of {s.wanted}" for s in short)
        yield fail(
            subject,
            f"{len(short):,} partitions have too few replicas in sync: {worst}",
            f"{health.partitions:,} partitions looked at; brokers {listed(health.brokers)}",
            "they take no record with acks=all",
            "bring the brokers back that hold their replicas, and wait until these have caught up",
        )
    if health.unknown:
        first = next(iter(health.unknown.values()))
        reason = f"min.insync.replicas of {listed(sorted(health.unknown))} is not known"
        remedy = "grant drctl's user DESCRIBE_CONFIGS on them, or look at them"
        yield not_checked(subject, reason, remedy, first.reason)
    if not short and not health.unknown:
        yield ok(subject, "every copy has enough replicas in sync", _behind(health))


def _behind(health: ClusterHealth) -> str:
    behind = f", {len(health.under_replicated):,} with a replica that is behind"
    return f"{health.partitions:,} partitions looked at" + (behind * bool(health.under_replicated))


def _health(observed: Observed) -> ClusterHealth:
    return require(observed.target_health, _subject(observed), "how it stands is", _LOOK)


def _subject(observed: Observed) -> str:
    return f"cluster {observed.link.target}"
