"""MirrorMaker 2: whether offsets of both sides are paired, densely, and where they survive."""

from collections.abc import Iterator

from drctl.checks.check import Family, NotObserved, Verdict, check, fail, ok, warn
from drctl.checks.connectors import CHECKPOINT, SOURCE, required
from drctl.checks.observed import Observed
from drctl.checks.settings import Settings, worker_settings
from drctl.model.finding import Status

_FAMILY = Family.MIRRORMAKER
_LOCATION = "offset-syncs.topic.location"
_SPARSE = 1000
_NO_SYNCS = (
    "positions are known from anchors and from records only: with a dead source and without"
    " `drctl offsets track`, groups begin where their auto.offset.reset says"
)


@check("mm2-syncs-emitted", _FAMILY, "`emit.offset-syncs.enabled` is true", Status.FAIL)
def emitted(observed: Observed) -> Iterator[Verdict]:
    """Whether offsets are paired at all."""
    settings = required(observed, SOURCE)
    enabled = settings.flag("emit.offset-syncs.enabled", True)
    if enabled.value:
        yield ok(settings.subject, "offsets of both sides are paired", enabled.evidence)
        return
    reason, cure = "offsets are not paired, nor checkpoints made", "set emit.offset-syncs.enabled"
    yield fail(settings.subject, reason, enabled.evidence, _NO_SYNCS, f"{cure}=true")


@check(
    "mm2-syncs-location",
    _FAMILY,
    f"`{_LOCATION}` is `target`, for both connectors",
    Status.WARN,
    Status.FAIL,
)
def location(observed: Observed) -> Iterator[Verdict]:
    """Whether the pairs survive the source, and are read where they are written."""
    writer = required(observed, SOURCE)
    written = writer.text(_LOCATION, "source")
    cure = f"set {_LOCATION}=target on both connectors"
    if written.value == "target":
        yield ok(writer.subject, "offset syncs are kept on the target", written.evidence)
    else:
        reason = "offset syncs are kept on the source"
        cost = "they die with it: how far a checkpoint is off, nobody can tell then"
        yield warn(writer.subject, reason, written.evidence, cost, cure)
    reader = required(observed, CHECKPOINT)
    read = reader.text(_LOCATION, "source")
    if read.value == written.value:
        yield ok(reader.subject, "it reads them where they are written", read.evidence)
        return
    reason = f"it reads offset syncs on the other cluster than where {writer.subject} writes them"
    yield fail(reader.subject, reason, read.evidence, f"no checkpoint is made: {_NO_SYNCS}", cure)


@check("mm2-syncs-density", _FAMILY, f"`offset.lag.max` is at most {_SPARSE}", Status.WARN)
def density(observed: Observed) -> Iterator[Verdict]:
    """How far apart the pairs lie."""
    settings = required(observed, SOURCE)
    apart = settings.integer("offset.lag.max", 100)
    cost = f"a group with lag reads about {apart.value} records of each partition again, or more"
    if apart.value <= _SPARSE:
        yield ok(settings.subject, "offset syncs lie close together", apart.evidence, cost)
        return
    reason, cure = "offset syncs lie far apart", "lower offset.lag.max; its default is 100"
    yield warn(settings.subject, reason, apart.evidence, cost, cure)


@check(
    "mm2-syncs-replicas",
    _FAMILY,
    "`offset-syncs.topic.replication.factor` is above 1",
    Status.WARN,
)
def replicas(observed: Observed) -> Iterator[Verdict]:
    """Whether the pairs survive a broker."""
    yield replicas_of(required(observed, SOURCE), "offset-syncs")


def replicas_of(settings: Settings, topic: str) -> Verdict:
    """Whether an internal topic of MirrorMaker 2 survives a broker.

    Raises:
        NotObserved: the broker decides.
    """
    key = f"{topic}.topic.replication.factor"
    factor = settings.integer(key, 3)
    if factor.value < 1:
        reason, cure = "the brokers' default decides", f"describe the topic of {topic}"
        raise NotObserved(settings.subject, reason, cure, factor.evidence)
    if factor.value > 1:
        return ok(settings.subject, f"{topic} have {factor.value} replicas", factor.evidence)
    return warn(
        settings.subject,
        f"{topic} have one replica (unless the topic was made by hand)",
        factor.evidence,
        "one lost broker takes them all",
        f"raise {key}, and reassign the topic that exists",
    )


@check(
    "mm2-reset",
    _FAMILY,
    "`consumer.auto.offset.reset` of the source connector is `earliest`",
    Status.WARN,
    Status.FAIL,
)
def start(observed: Observed) -> Iterator[Verdict]:
    """What is done with records that came before MirrorMaker 2 looked."""
    settings = required(observed, SOURCE)
    keys = ("source.consumer.auto.offset.reset", "consumer.auto.offset.reset")
    key = next((key for key in keys if key in settings.values), keys[1])
    seen = settings.text(key, "earliest")
    cure = f"remove {key}: the default is earliest"
    if seen.value == "earliest":
        yield ok(settings.subject, "topics are copied from their beginning", seen.evidence)
    elif seen.value == "none":
        cost = "it stops at the first partition that is new or cut off, and copies nothing more"
        yield warn(settings.subject, "it does not begin by itself", seen.evidence, cost, cure)
    else:
        reason = "records before its first look, or behind a cut-off position, are not copied"
        cost = "groups that stood among them skip them"
        yield fail(settings.subject, reason, seen.evidence, cost, cure)


@check(
    "mm2-exactly-once",
    _FAMILY,
    "the workers have `exactly.once.source.support=enabled`",
    Status.WARN,
)
def exactly_once(observed: Observed) -> Iterator[Verdict]:
    """Whether records can be copied twice."""
    connector = required(observed, SOURCE)
    if connector.text("exactly.once.support", "requested").value == "required":
        # Connect does not run a connector that requires what its workers do not support.
        evidence = connector.text("exactly.once.support", "").evidence
        yield ok(connector.subject, "it runs with exactly-once support only", evidence)
        return
    settings = worker_settings(observed)
    seen = settings.text("exactly.once.source.support", "disabled")
    if seen.value.lower() == "enabled":
        yield ok(settings.subject, "no record is copied twice", seen.evidence)
        return
    yield warn(
        settings.subject,
        "after a crash, records are copied twice",
        seen.evidence,
        "groups read such copies again, beyond the bound that a translation gives",
        "set exactly.once.source.support, first to preparing and then to enabled, on all workers",
    )
