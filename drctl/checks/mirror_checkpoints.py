"""MirrorMaker 2: whether groups' positions are written down on the target, often and safely."""

from collections.abc import Iterator

from drctl.checks.check import Family, Verdict, check, fail, ok, warn
from drctl.checks.connectors import CHECKPOINT, required
from drctl.checks.mirror_syncs import replicas_of
from drctl.checks.observed import Observed
from drctl.model.finding import Status

_FAMILY = Family.MIRRORMAKER
_SLOW_S = 300
_UNKNOWN = (
    "with a dead source, positions are known from anchors and consumer timestamps only; without"
    " these, groups begin where their auto.offset.reset says"
)


@check("mm2-checkpoints-emitted", _FAMILY, "`emit.checkpoints.enabled` is true", Status.FAIL)
def emitted(observed: Observed) -> Iterator[Verdict]:
    """Whether positions are written down at all."""
    settings = required(observed, CHECKPOINT)
    enabled = settings.flag("emit.checkpoints.enabled", True)
    if enabled.value:
        yield ok(settings.subject, "checkpoints are made", enabled.evidence)
        return
    reason, cure = "no checkpoints are made", "set emit.checkpoints.enabled=true"
    yield fail(settings.subject, reason, enabled.evidence, _UNKNOWN, cure)


@check(
    "mm2-checkpoints-pace",
    _FAMILY,
    "`emit.checkpoints.interval.seconds` is above 0, and at most 5 minutes",
    Status.WARN,
    Status.FAIL,
)
def pace(observed: Observed) -> Iterator[Verdict]:
    """How old a checkpoint can be."""
    settings = required(observed, CHECKPOINT)
    interval = settings.integer("emit.checkpoints.interval.seconds", 60)
    seconds = f"every {interval.value} s"
    cost = f"groups read again what they consumed in the last {interval.value} s or more"
    cure = "set emit.checkpoints.interval.seconds to 60, its default, or less"
    if interval.value <= 0:
        yield fail(settings.subject, "no checkpoints are made", interval.evidence, _UNKNOWN, cure)
    elif interval.value > _SLOW_S:
        reason = f"checkpoints are made {seconds} only"
        yield warn(settings.subject, reason, interval.evidence, cost, cure)
    else:
        yield ok(settings.subject, f"checkpoints are made {seconds}", interval.evidence, cost)


@check(
    "mm2-checkpoints-replicas",
    _FAMILY,
    "`checkpoints.topic.replication.factor` is above 1",
    Status.WARN,
)
def replicas(observed: Observed) -> Iterator[Verdict]:
    """Whether checkpoints survive a broker."""
    yield replicas_of(required(observed, CHECKPOINT), "checkpoints")


@check(
    "mm2-group-sync",
    _FAMILY,
    "`sync.group.offsets.enabled` is false: positions are written by drctl, with bounds",
    Status.WARN,
)
def group_sync(observed: Observed) -> Iterator[Verdict]:
    """Whether MirrorMaker 2 moves groups on the target by itself."""
    settings = required(observed, CHECKPOINT)
    enabled = settings.flag("sync.group.offsets.enabled", False)
    if not enabled.value:
        yield ok(settings.subject, "MirrorMaker 2 moves no group", enabled.evidence)
        return
    yield warn(
        settings.subject,
        "MirrorMaker 2 moves groups on the target, and never back",
        enabled.evidence,
        "a group that went back on the source skips records on the target; to correct that,"
        " `drctl offsets apply` wants an override",
        "set sync.group.offsets.enabled=false, and use `drctl offsets apply`",
    )
