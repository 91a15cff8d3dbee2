"""The target: whether it answers and can accept all writes after a failover."""

from collections.abc import Iterator

from drctl.checks.check import BOTH, Family, Prechecks, check, duration, listed, nodes, several
from drctl.checks.observed import Observed
from drctl.checks.verdict import (
    NotObserved,
    Verdict,
    fail,
    not_checked,
    ok,
    require,
    require_queried,
    warn,
)
from drctl.model.finding import Status
from drctl.model.health import ClusterHealth, Locked
from drctl.model.text import plural, quote
from drctl.model.topology import Unavailable


@check(
    "journal-not-writable",
    Family.JOURNAL,
    Status.FAIL,
    prechecks=Prechecks(BOTH, BOTH, overridable=False),
)
def unwritable(observed: Observed) -> Iterator[Verdict]:
    """A run can write its journal to every configured place."""
    remedy = "grant write access to the topic and to state_dir (docs/howto/permissions.md)"
    places = require(observed.journal, "journal", "whether a run can write it is", remedy)
    if not places:
        raise NotObserved("journal", "no place was checked", remedy)
    for place, why in places.items():
        if why is None:
            yield ok(place, "a run can write its journal here")
        else:
            impact = "a run without a journal can neither be resumed nor rolled back"
            yield fail(place, "a run cannot write its journal here", why.reason, impact, remedy)


_OLD_MS, _DEAD_MS = 5 * 60_000, 24 * 3_600_000


@check("tracked-offsets-age", Family.TRACKED_OFFSETS, Status.WARN, Status.FAIL)
def age(observed: Observed) -> Verdict | None:
    """`drctl offsets track` recorded all groups of the link within the last 5 minutes."""
    link = observed.link
    if not link.settings.translate:
        return None
    subject = f"tracked offsets on cluster {link.target}"
    remedy = f"drctl offsets track --link {quote(link.name)} --execute, as a service"
    impact = "if the source is lost, offsets are only translated from the replicator's own data"
    tracked_offsets = observed.survey.tracked_offsets
    if tracked_offsets is None:
        return warn(subject, "there are none", "no topic __drctl_anchors", impact, remedy)
    found = require(tracked_offsets, subject, "their age is", remedy)
    if found.passed_ms is None:
        evidence = plural(found.offsets, "tracked offset")
        return warn(subject, "no complete pass was recorded", evidence, impact, remedy)
    age_ms = max(0, observed.now_ms - found.passed_ms)
    evidence = (
        f"{plural(found.offsets, 'tracked offset')}; the last pass was {duration(age_ms)} ago"
    )
    if age_ms > _DEAD_MS:
        reason = "the last pass is more than a day old"
        return fail(
            subject, reason, evidence, "groups would reprocess more than a day of records", remedy
        )
    if age_ms > _OLD_MS:
        impact = "groups would reprocess what they consumed since the last pass"
        return warn(subject, "they are old", evidence, impact, remedy)
    return ok(subject, "they are recorded continuously", evidence)


_FAMILY = Family.TARGET
_NOWHERE = "clients moved there could neither write nor read: an outage on both clusters"
_LOOK = "check that its brokers run, and that this host can reach them"


@check(
    "target-unreachable", _FAMILY, Status.FAIL, prechecks=Prechecks(BOTH, BOTH, overridable=False)
)
def unreachable(observed: Observed) -> Verdict:
    """The target answers."""
    subject = _subject(observed)
    identity = require_queried(observed.target, subject, "whether it answers is", _LOOK)
    if isinstance(identity, Locked):
        reason = "it answers, but rejects drctl's credentials"
        remedy = "correct drctl's credentials for this cluster"
        return fail(subject, reason, identity.reason, _NOWHERE, remedy)
    if isinstance(identity, Unavailable):
        return fail(subject, "it does not answer", identity.reason, _NOWHERE, _LOOK)
    return ok(subject, "it answers", f"cluster id {identity}")


@check("target-no-controller", _FAMILY, Status.FAIL, prechecks=Prechecks())
def no_controller(observed: Observed) -> Verdict:
    """The target has an active controller."""
    health, subject = _health(observed), _subject(observed)
    if not isinstance(health.controller, Unavailable):
        evidence = f"node {health.controller.node}, epoch {health.controller.epoch}"
        return ok(subject, "it has a controller", evidence)
    return fail(
        subject,
        "no active controller is known",
        health.controller.reason,
        "if a broker fails there, no new leaders are elected; ACL changes do not take effect",
        "check that a majority of its controllers runs; drctl's user needs DESCRIBE on the cluster",
    )


@check("target-offline-partitions", _FAMILY, Status.FAIL, prechecks=Prechecks(BOTH, BOTH))
def offline(observed: Observed) -> Verdict:
    """Every partition of the copies has a leader."""
    health = _health(observed)
    counted = f"{plural(health.partitions, 'partition')} checked"
    if not health.offline:
        return ok(_subject(observed), "every partition of the copies has a leader", counted)
    absent = f"; missing: {nodes(health.absent)}" if health.absent else ""
    return fail(
        _subject(observed),
        f"{plural(len(health.offline), 'partition has', 'partitions have')} no leader:"
        f" {listed(health.offline)}",
        f"{counted}{absent}",
        "these partitions can be neither written nor read",
        "restart the brokers that hold them, or elect leaders: drctl elect show",
    )


@check("target-under-min-isr", _FAMILY, Status.FAIL, prechecks=Prechecks(BOTH, BOTH))
def under_min_isr(observed: Observed) -> Iterator[Verdict]:
    """Every partition of the copies has at least `min.insync.replicas` replicas in sync."""
    health, subject = _health(observed), _subject(observed)
    short = health.under_min_isr
    if short:
        worst = several(f"{s.partition} has {s.in_sync} of {s.wanted}" for s in short)
        yield fail(
            subject,
            f"{plural(len(short), 'partition has', 'partitions have')} too few replicas"
            f" in sync: {worst}",
            f"{plural(health.partitions, 'partition')} checked; {nodes(health.brokers)}",
            "producers with acks=all fail on them",
            "restart the brokers that hold their replicas, and wait until these are in sync",
        )
    if health.unknown:
        first = next(iter(health.unknown.values()))
        reason = f"min.insync.replicas of {listed(sorted(health.unknown))} is not known"
        remedy = "grant drctl's user DESCRIBE_CONFIGS on these topics"
        yield not_checked(subject, reason, remedy, first.reason)
    if not short and not health.unknown:
        reason = "every partition of the copies has enough replicas in sync"
        yield ok(subject, reason, _out_of_sync(health))


def _out_of_sync(health: ClusterHealth) -> str:
    out_of_sync = f", {len(health.under_replicated):,} with a replica out of sync"
    return f"{plural(health.partitions, 'partition')} checked" + (
        out_of_sync * bool(health.under_replicated)
    )


def _health(observed: Observed) -> ClusterHealth:
    return require(observed.target_health, _subject(observed), "its health is", _LOOK)


def _subject(observed: Observed) -> str:
    return f"cluster {observed.link.target}"
