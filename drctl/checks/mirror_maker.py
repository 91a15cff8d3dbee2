"""MirrorMaker 2: whether groups' positions are written down on the target, often and safely."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial

from drctl.checks.check import SHOWN, Family, check, duration, listed
from drctl.checks.connector_settings import (
    CHECKPOINT,
    SOURCE,
    Settings,
    all_connectors,
    find,
    required,
    worker_settings,
)
from drctl.checks.observed import Observed
from drctl.checks.verdict import NotObserved, Verdict, fail, ok, require, separately, warn
from drctl.config.foreign_patterns import compiled
from drctl.config.mirrors import renaming
from drctl.model.finding import Status
from drctl.model.survey import of_applications

_FAMILY = Family.MIRRORMAKER
_TOPICS_EXCLUDE = r"mm2.*\.internal, .*\.replica, __.*"
_GROUPS_EXCLUDE = "console-consumer-.*, connect-.*, __.*"
_NAMING = {
    "replication.policy.class": "DefaultReplicationPolicy",
    "replication.policy.separator": ".",
    "source.cluster.alias": "source",
}
_WITHOUT = {
    SOURCE: "records are not replicated",
    CHECKPOINT: "with a dead source, positions are known from anchors and consumer timestamps only",
}


@check("mm2-connectors", _FAMILY, Status.FAIL)
def connectors(observed: Observed) -> Iterator[Verdict]:
    """The link's source and checkpoint connectors are there, between the same clusters."""
    found = {name: find(observed, name) for name in (SOURCE, CHECKPOINT)}
    evidence = f"connectors: {', '.join(sorted(all_connectors(observed))) or 'none'}"
    for class_name, connector in found.items():
        if connector is None:
            role = "source" if class_name == SOURCE else "checkpoint"
            remedy = f"deploy it, or correct `replicator.connectors.{role}` of the link"
            reason = f"the link's {class_name} is not on the workers"
            yield fail("Connect", reason, evidence, _WITHOUT[class_name], remedy)
    pairs = {c.name: _clusters(c.config) for c in found.values() if c is not None}
    evidence = "; ".join(f"{name}: {pair}" for name, pair in pairs.items())
    if len(set(pairs.values())) > 1:
        reason = "they work between different clusters"
        remedy = "give both the same source.cluster.alias and target.cluster.alias"
        yield fail(f"connectors {', '.join(pairs)}", reason, evidence, _WITHOUT[CHECKPOINT], remedy)
    elif len(pairs) == len(found):
        yield ok(f"connectors {', '.join(pairs)}", "they are there, and belong together", evidence)


@check("mm2-topics", _FAMILY, Status.WARN, Status.FAIL)
def topics(observed: Observed) -> Iterator[Verdict]:
    """`topics` and `topics.exclude` of both connectors let all of the link's topics pass."""
    return separately(
        partial(_topics, observed, class_name, status)
        for class_name, status in ((SOURCE, Status.FAIL), (CHECKPOINT, Status.WARN))
    )


@check("mm2-groups", _FAMILY, Status.WARN)
def groups(observed: Observed) -> Verdict:
    """`groups` and `groups.exclude` of the checkpoint connector pass all groups of the link."""
    settings = required(observed, CHECKPOINT)
    look = f"look at groups of {settings.subject}"
    known = require(observed.source_groups, settings.subject, "the source's groups are", look)
    wanted = sorted(filter(observed.link.carries_group, known))
    cost = f"{_WITHOUT[CHECKPOINT]} for these groups"
    return _covered(settings, "groups", _GROUPS_EXCLUDE, wanted, Status.WARN, cost)


@check("mm2-names", _FAMILY, Status.FAIL)
def names(observed: Observed) -> Iterator[Verdict]:
    """`replication.policy.class` and `.separator` name topics as `rename` of the link says."""
    return separately(partial(_names, observed, name) for name in (SOURCE, CHECKPOINT))


def _topics(observed: Observed, class_name: str, status: Status) -> Verdict:
    settings = required(observed, class_name)
    look = f"look at topics of {settings.subject}"
    known = require(observed.source_topics, settings.subject, "the source's topics are", look)
    wanted = observed.link.topics_of(name for name, state in known.items() if state is not None)
    cost = "they are not replicated: whatever they hold is lost with the source"
    if class_name == CHECKPOINT:
        cost = f"{_WITHOUT[CHECKPOINT]} in these topics"
    return _covered(settings, "topics", _TOPICS_EXCLUDE, wanted, status, cost)


def _names(observed: Observed, class_name: str) -> Verdict:
    wanted = observed.link.settings.replicator.rename
    settings = required(observed, class_name)
    seen = [settings.text(key, default) for key, default in _NAMING.items()]
    evidence = "; ".join(each.evidence for each in seen)
    rename, unsure = renaming(settings.values)
    if unsure:
        remedy = "look at what it makes of names, and compare `rename` of the link with that"
        raise NotObserved(settings.subject, unsure[0], remedy, evidence)
    if rename == wanted:
        return ok(settings.subject, f"topics are called {rename}, as the link says", evidence)
    reason = f"topics are called {rename}, and the link says {wanted}"
    cost = "positions are looked for in topics that do not exist: no group is translated"
    remedy = f"set `rename` of the link to {rename}, or give both connectors the link's policy"
    return fail(settings.subject, reason, evidence, cost, remedy)


def _covered(
    settings: Settings, key: str, excluded: str, wanted: Iterable[str], status: Status, cost: str
) -> Verdict:
    kind = key.removesuffix("s")
    filter_class = settings.text(f"{kind}.filter.class", "")
    if filter_class.value and not filter_class.value.endswith(f"Default{kind.title()}Filter"):
        remedy = f"ask whoever wrote it which {key} it lets pass"
        raise NotObserved(
            settings.subject, "it has a filter of its own", remedy, filter_class.evidence
        )
    within, without = settings.words(key, ".*"), settings.words(f"{key}.exclude", excluded)
    evidence = f"{within.evidence}; {without.evidence}"
    passing, stopped = (_matcher(settings, words.value) for words in (within, without))
    left_out = [n for n in wanted if not passing.fullmatch(n) or stopped.fullmatch(n)]
    if not left_out:
        return ok(settings.subject, f"all {key} of the link pass", evidence)
    more = f" and {len(left_out) - SHOWN} more" if len(left_out) > SHOWN else ""
    told = ", ".join(left_out[:SHOWN]) + more
    remedy = f"widen {key}, or narrow {key}.exclude, of {settings.subject}; or the link's own {key}"
    reason = f"{len(left_out)} of the link's {key} do not pass: {told}"
    return Verdict(status, settings.subject, reason, evidence, cost, remedy)


def _matcher(settings: Settings, patterns: tuple[str, ...]) -> re.Pattern[str]:
    """As MirrorMaker 2 matches: any of them, whole names."""
    text = "|".join(patterns) if patterns else r"(?!)"
    if all(map(compiled, patterns)):
        with suppress(re.error):  # names of groups may be there twice by now
            return re.compile(text)
    reason = "it has a pattern that is left to Java"
    raise NotObserved(settings.subject, reason, "try it on the names", text)


def _clusters(config: Mapping[str, str]) -> str:
    source = config.get("source.cluster.alias", "source")
    return f"{source} -> {config.get('target.cluster.alias', 'target')}"


_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_HEARTBEAT_MS = 60_000
_CHECKPOINT_MS = 10 * 60_000


@check("mm2-converters", _FAMILY, Status.FAIL)
def converters(observed: Observed) -> Verdict:
    """No converter of the source connector changes records."""
    settings = required(observed, SOURCE)
    known = {key: settings.text(key, "").value for key in _CONVERTERS if key in settings.values}
    changing = {key: name for key, name in known.items() if name != _BYTES}
    remedy = f"set key.converter, value.converter and header.converter to {_BYTES}"
    if changing:
        told = ", ".join(f"{key}={name}" for key, name in changing.items())
        cost = "copies hold other bytes: consumers cannot read them, and nothing is found again"
        return fail(settings.subject, "records are changed on their way", told, cost, remedy)
    missing = [key for key in ("key.converter", "value.converter") if key not in known]
    if missing:
        reason = f"{' and '.join(missing)} are the worker's, which it does not tell"
        remedy = f"see that the worker's converters are {_BYTES}, or say so in the connector"
        raise NotObserved(settings.subject, reason, remedy)
    return ok(settings.subject, "records are copied as they are", f"converters {_BYTES}")


@check("mm2-aborted", _FAMILY, Status.WARN)
def aborted(observed: Observed) -> Verdict:
    """`consumer.isolation.level` is `read_committed`, or nobody writes in transactions."""
    settings = required(observed, SOURCE)
    keys = ("source.consumer.isolation.level", "consumer.isolation.level")
    key = next((key for key in keys if key in settings.values), keys[1])
    level = settings.text(key, "read_uncommitted")
    if level.value == "read_committed":
        return level.ok("only what is committed is copied")
    remedy = f"set {keys[0]}=read_committed on it"
    what = f"it copies what is aborted, too ({level.evidence}); whether anybody writes in"
    known = require(
        observed.survey.transactional_ids, settings.subject, f"{what} transactions is", remedy
    )
    ours = of_applications(known)
    if not ours:
        return level.ok("nobody writes in transactions")
    return warn(
        settings.subject,
        "it copies what is aborted, too, as records that everybody reads",
        f"{level.evidence}; {len(ours):,} transactional ids are known: {listed(ours)}",
        f"groups read it on {observed.link.target}; the way home takes it for new records, with"
        " old ones behind them, and is refused but for --rebuild",
        remedy,
    )


@check("mm2-heartbeat-age", _FAMILY, Status.WARN)
def heartbeat(observed: Observed) -> Verdict:
    """The newest copied heartbeat is at most a minute old."""
    cost = "whether replication stands, or the source is idle, cannot be told apart"
    remedy = "see that a MirrorHeartbeatConnector runs, and that `heartbeats` is copied"
    subject = "heartbeats of MirrorMaker 2"
    ages = require(observed.survey.ages, subject, "how old they are is", remedy)
    return _aged(observed, subject, ages.heartbeat_ms, _HEARTBEAT_MS, (cost, remedy))


@check("mm2-checkpoint-age", _FAMILY, Status.WARN)
def checkpoint(observed: Observed) -> Verdict:
    """The newest checkpoint is at most 10 minutes old."""
    cost = "groups read again what they consumed since, if nothing better is known"
    remedy = "see that the MirrorCheckpointConnector runs, and that a group of the link consumes"
    subject = "checkpoints of MirrorMaker 2"
    ages = require(observed.survey.ages, subject, "how old they are is", remedy)
    return _aged(observed, subject, ages.checkpoint_ms, _CHECKPOINT_MS, (cost, remedy))


def _aged(
    observed: Observed, subject: str, at_ms: int | None, limit_ms: int, words: tuple[str, str]
) -> Verdict:
    cost, remedy = words
    if at_ms is None:
        raise NotObserved(subject, "the target holds none", remedy)
    age_ms = max(0, observed.now_ms - at_ms)
    told = f"the newest is {duration(age_ms)} old"
    if age_ms > limit_ms:
        return warn(subject, "the newest is old", told, cost, remedy)
    return ok(subject, "they arrive", told)


_LOCATION = "offset-syncs.topic.location"
_SPARSE = 1000
_NO_SYNCS = (
    "positions are known from anchors and from records only: with a dead source and without"
    " `drctl offsets track`, groups begin where their auto.offset.reset says"
)


@check("mm2-syncs-emitted", _FAMILY, Status.FAIL)
def syncs_emitted(observed: Observed) -> Verdict:
    """`emit.offset-syncs.enabled` is true."""
    enabled = required(observed, SOURCE).flag("emit.offset-syncs.enabled", True)
    if enabled.value:
        return enabled.ok("offsets of both sides are paired")
    reason, remedy = "offsets are not paired, nor checkpoints made", "set emit.offset-syncs.enabled"
    return enabled.fail(reason, _NO_SYNCS, f"{remedy}=true")


@check("mm2-syncs-location", _FAMILY, Status.WARN, Status.FAIL)
def location(observed: Observed) -> Iterator[Verdict]:
    """`offset-syncs.topic.location` is `target`, for both connectors."""
    written = required(observed, SOURCE).text(_LOCATION, "source")
    remedy = f"set {_LOCATION}=target on both connectors"
    if written.value == "target":
        yield written.ok("offset syncs are kept on the target")
    else:
        reason = "offset syncs are kept on the source"
        cost = "they die with it: how far a checkpoint is off, nobody can tell then"
        yield written.warn(reason, cost, remedy)
    read = required(observed, CHECKPOINT).text(_LOCATION, "source")
    if read.value == written.value:
        yield read.ok("it reads them where they are written")
        return
    reason = f"it reads offset syncs on the other cluster than where {written.subject} writes them"
    yield read.fail(reason, f"no checkpoint is made: {_NO_SYNCS}", remedy)


@check("mm2-syncs-density", _FAMILY, Status.WARN)
def density(observed: Observed) -> Verdict:
    """`offset.lag.max` is at most 1000."""
    apart = required(observed, SOURCE).integer("offset.lag.max", 100)
    cost = f"a group with lag reads about {apart.value} records of each partition again, or more"
    if apart.value <= _SPARSE:
        return apart.ok("offset syncs lie close together", cost)
    reason, remedy = "offset syncs lie far apart", "lower offset.lag.max; its default is 100"
    return apart.warn(reason, cost, remedy)


@check("mm2-syncs-replicas", _FAMILY, Status.WARN)
def syncs_replicas(observed: Observed) -> Verdict:
    """`offset-syncs.topic.replication.factor` is above 1."""
    return replicas_of(required(observed, SOURCE), "offset-syncs")


def replicas_of(settings: Settings, topic: str) -> Verdict:
    """Whether an internal topic of MirrorMaker 2 survives a broker.

    Raises:
        NotObserved: the broker decides.
    """
    key = f"{topic}.topic.replication.factor"
    factor = settings.integer(key, 3)
    if factor.value < 1:
        reason, remedy = "the brokers' default decides", f"describe the topic of {topic}"
        raise NotObserved(settings.subject, reason, remedy, factor.evidence)
    if factor.value > 1:
        return factor.ok(f"{topic} have {factor.value} replicas")
    return factor.warn(
        f"{topic} have one replica (unless the topic was made by hand)",
        "one lost broker takes them all",
        f"raise {key}, and reassign the topic that exists",
    )


@check("mm2-reset", _FAMILY, Status.WARN, Status.FAIL)
def start(observed: Observed) -> Verdict:
    """`consumer.auto.offset.reset` of the source connector is `earliest`."""
    settings = required(observed, SOURCE)
    keys = ("source.consumer.auto.offset.reset", "consumer.auto.offset.reset")
    key = next((key for key in keys if key in settings.values), keys[1])
    seen = settings.text(key, "earliest")
    remedy = f"remove {key}: the default is earliest"
    if seen.value == "earliest":
        return seen.ok("topics are copied from their beginning")
    if seen.value == "none":
        cost = "it stops at the first partition that is new or cut off, and copies nothing more"
        return seen.warn("it does not begin by itself", cost, remedy)
    reason = "records before its first look, or behind a cut-off position, are not copied"
    cost = "groups that stood among them skip them"
    return seen.fail(reason, cost, remedy)


@check("mm2-exactly-once", _FAMILY, Status.WARN)
def exactly_once(observed: Observed) -> Verdict:
    """The workers have `exactly.once.source.support=enabled`."""
    support = required(observed, SOURCE).text("exactly.once.support", "requested")
    if support.value == "required":
        # Connect does not run a connector that requires what its workers do not support.
        return support.ok("it runs with exactly-once support only")
    seen = worker_settings(observed).text("exactly.once.source.support", "disabled")
    if seen.value.lower() == "enabled":
        return seen.ok("no record is copied twice")
    return seen.warn(
        "after a crash, records are copied twice",
        "groups read such copies again, beyond the bound that a translation gives",
        "set exactly.once.source.support, first to preparing and then to enabled, on all workers",
    )


_SLOW_S = 300
_UNKNOWN = (
    "with a dead source, positions are known from anchors and consumer timestamps only; without"
    " these, groups begin where their auto.offset.reset says"
)


@check("mm2-checkpoints-emitted", _FAMILY, Status.FAIL)
def checkpoints_emitted(observed: Observed) -> Verdict:
    """`emit.checkpoints.enabled` is true."""
    enabled = required(observed, CHECKPOINT).flag("emit.checkpoints.enabled", True)
    if enabled.value:
        return enabled.ok("checkpoints are made")
    reason, remedy = "no checkpoints are made", "set emit.checkpoints.enabled=true"
    return enabled.fail(reason, _UNKNOWN, remedy)


@check("mm2-checkpoints-pace", _FAMILY, Status.WARN, Status.FAIL)
def pace(observed: Observed) -> Verdict:
    """`emit.checkpoints.interval.seconds` is above 0, and at most 5 minutes."""
    interval = required(observed, CHECKPOINT).integer("emit.checkpoints.interval.seconds", 60)
    seconds = f"every {interval.value} s"
    cost = f"groups read again what they consumed in the last {interval.value} s or more"
    remedy = "set emit.checkpoints.interval.seconds to 60, its default, or less"
    if interval.value <= 0:
        return interval.fail("no checkpoints are made", _UNKNOWN, remedy)
    if interval.value > _SLOW_S:
        reason = f"checkpoints are made {seconds} only"
        return interval.warn(reason, cost, remedy)
    return interval.ok(f"checkpoints are made {seconds}", cost)


@check("mm2-checkpoints-replicas", _FAMILY, Status.WARN)
def checkpoints_replicas(observed: Observed) -> Verdict:
    """`checkpoints.topic.replication.factor` is above 1."""
    return replicas_of(required(observed, CHECKPOINT), "checkpoints")


@check("mm2-group-sync", _FAMILY, Status.WARN)
def group_sync(observed: Observed) -> Verdict:
    """`sync.group.offsets.enabled` is false: positions are written by drctl, with bounds."""
    enabled = required(observed, CHECKPOINT).flag("sync.group.offsets.enabled", False)
    if not enabled.value:
        return enabled.ok("MirrorMaker 2 moves no group")
    return enabled.warn(
        "MirrorMaker 2 moves groups on the target, and never back",
        "a group that went back on the source skips records on the target; to correct that,"
        " `drctl offsets apply` wants an override",
        "set sync.group.offsets.enabled=false, and use `drctl offsets apply`",
    )
