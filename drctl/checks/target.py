"""The target: whether it is there, and takes every record from the moment it is opened."""

from collections.abc import Iterator

from drctl.checks.check import BOTH, Family, Guards, Verdict, asked, check, fail, ok, seen
from drctl.checks.observed import Observed
from drctl.checks.wording import listed, several
from drctl.model.finding import Status
from drctl.model.health import ClusterHealth
from drctl.model.reachability import Locked
from drctl.model.topology import Unavailable

_FAMILY = Family.TARGET
_NOWHERE = "clients that were sent there could neither write nor read: an outage on both sides"
_LOOK = "see that its brokers run; `kafka-topics --describe` shows what is amiss"


@check(
    "target-unreachable",
    _FAMILY,
    "the target answers",
    Status.FAIL,
    guards=Guards(BOTH, BOTH, overridable=False),
)
def unreachable(observed: Observed) -> Iterator[Verdict]:
    """Whether there is anything to fail over to."""
    subject = _subject(observed)
    identity = asked(observed.target, subject, "whether it answers is", _LOOK)
    if isinstance(identity, Locked):
        reason, cure = "somebody is there, and does not let drctl in", "correct how drctl logs in"
        yield fail(subject, reason, identity.reason, _NOWHERE, cure)
        return
    if isinstance(identity, Unavailable):
        yield fail(subject, "it does not answer", identity.reason, _NOWHERE, _LOOK)
        return
    yield ok(subject, "it answers", f"cluster id {identity}")


@check(
    "target-no-controller",
    _FAMILY,
    "the target has an active controller",
    Status.FAIL,
    guards=Guards(),
)
def no_controller(observed: Observed) -> Iterator[Verdict]:
    """Whether the target can elect leaders, and change ACLs and topics."""
    health, subject = _health(observed), _subject(observed)
    if not isinstance(health.controller, Unavailable):
        told = f"node {health.controller.node}, epoch {health.controller.epoch}"
        yield ok(subject, "it has a controller", told)
        return
    yield fail(
        subject,
        "it is not known to have a controller",
        health.controller.reason,
        "the next broker that fails there takes its partitions with it: no leader is elected, and"
        " no ACL takes effect",
        "see that a majority of its controllers runs; to ask for it, drctl's user needs DESCRIBE"
        " on the cluster",
    )


@check(
    "target-offline-partitions",
    _FAMILY,
    "every copy has a leader",
    Status.FAIL,
    guards=Guards(BOTH, BOTH),
)
def offline(observed: Observed) -> Iterator[Verdict]:
    """Whether there are copies that nobody can read or write."""
    health = _health(observed)
    counted = f"{health.partitions:,} partitions looked at"
    if not health.offline:
        yield ok(_subject(observed), "every copy has a leader", counted)
        return
    absent = f"; brokers {listed(health.absent)} are absent" if health.absent else ""
    yield fail(
        _subject(observed),
        f"{len(health.offline):,} partitions have no leader: {listed(health.offline)}",
        f"{counted}{absent}",
        "nothing can be written to them or read from them",
        "bring the brokers back that hold them, or elect leaders",
    )


@check(
    "target-under-min-isr",
    _FAMILY,
    "every copy has as many replicas in sync as `min.insync.replicas` asks for",
    Status.FAIL,
    guards=Guards(BOTH, BOTH),
)
def under_min_isr(observed: Observed) -> Iterator[Verdict]:
    """Whether there are copies that take no record with acks=all."""
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
        cure = "grant drctl's user DESCRIBE_CONFIGS on them, or look at them"
        yield Verdict(Status.NOT_CHECKED, subject, reason, first.reason, cure=cure)
    if not short and not health.unknown:
        yield ok(subject, "every copy has enough replicas in sync", _behind(health))


def _behind(health: ClusterHealth) -> str:
    behind = f", {len(health.under_replicated):,} with a replica that is behind"
    return f"{health.partitions:,} partitions looked at" + (behind * bool(health.under_replicated))


def _health(observed: Observed) -> ClusterHealth:
    return seen(observed.target_health, _subject(observed), "how it stands is", _LOOK)


def _subject(observed: Observed) -> str:
    return f"cluster {observed.link.target}"
