"""MirrorMaker 2: whether group offsets are checkpointed on the target, often and safely."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial

from drctl.checks.check import SHOWN, Family, check, duration, listed
from drctl.checks.connector_settings import (
    CHECKPOINT,
    SOURCE,
    WORKER_OPTION,
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
from drctl.model.text import plural
from drctl.model.topology import Unavailable

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
    CHECKPOINT: "if the source is lost, offsets are only translated from tracked offsets and"
    " consumer timestamps",
}


@check("mm2-connectors", _FAMILY, Status.FAIL)
def connectors(observed: Observed) -> Iterator[Verdict]:
    """The link's source and checkpoint connectors exist and connect the same clusters."""
    found = {name: find(observed, name) for name in (SOURCE, CHECKPOINT)}
    evidence = f"connectors: {', '.join(sorted(all_connectors(observed))) or 'none'}"
    for class_name, connector in found.items():
        if connector is None:
            role = "source" if class_name == SOURCE else "checkpoint"
            remedy = f"deploy it, or correct `replicator.connectors.{role}` of the link"
            reason = f"the link's {class_name} is not deployed on the workers"
            yield fail("Connect", reason, evidence, _WITHOUT[class_name], remedy)
    pairs = {c.name: _clusters(c.config) for c in found.values() if c is not None}
    evidence = "; ".join(f"{name}: {pair}" for name, pair in pairs.items())
    if len(set(pairs.values())) > 1:
        reason = "they connect different clusters"
        remedy = "give both the same source.cluster.alias and target.cluster.alias"
        yield fail(f"connectors {', '.join(pairs)}", reason, evidence, _WITHOUT[CHECKPOINT], remedy)
    elif len(pairs) == len(found):
        yield ok(
            f"connectors {', '.join(pairs)}",
            "both are deployed and connect the same clusters",
            evidence,
        )


@check("mm2-topics", _FAMILY, Status.WARN, Status.FAIL)
def topics(observed: Observed) -> Iterator[Verdict]:
    """`topics` and `topics.exclude` of both connectors include all of the link's topics."""
    return separately(
        partial(_topics, observed, class_name, status)
        for class_name, status in ((SOURCE, Status.FAIL), (CHECKPOINT, Status.WARN))
    )


@check("mm2-groups", _FAMILY, Status.WARN)
def groups(observed: Observed) -> Verdict:
    """`groups` and `groups.exclude` of the checkpoint connector include all groups of the link."""
    settings = required(observed, CHECKPOINT)
    look = f"check `groups` of {settings.subject}"
    known = require(observed.source_groups, settings.subject, "the source's groups are", look)
    wanted = sorted(filter(observed.link.carries_group, known))
    impact = f"{_WITHOUT[CHECKPOINT]} for these groups"
    return _covered(settings, "groups", _GROUPS_EXCLUDE, wanted, Status.WARN, impact)


@check("mm2-names", _FAMILY, Status.FAIL)
def names(observed: Observed) -> Iterator[Verdict]:
    """`replication.policy.class` and `.separator` match the link's `rename`."""
    return separately(partial(_names, observed, name) for name in (SOURCE, CHECKPOINT))


def _topics(observed: Observed, class_name: str, status: Status) -> Verdict:
    settings = required(observed, class_name)
    look = f"check `topics` of {settings.subject}"
    known = require(observed.source_topics, settings.subject, "the source's topics are", look)
    wanted = observed.link.topics_of(name for name, state in known.items() if state is not None)
    impact = "they are not replicated: their records are lost with the source"
    if class_name == CHECKPOINT:
        impact = f"{_WITHOUT[CHECKPOINT]} in these topics"
    return _covered(settings, "topics", _TOPICS_EXCLUDE, wanted, status, impact)


def _names(observed: Observed, class_name: str) -> Verdict:
    wanted = observed.link.settings.replicator.rename
    settings = required(observed, class_name)
    seen = [settings.text(key, default) for key, default in _NAMING.items()]
    evidence = "; ".join(each.evidence for each in seen)
    rename, unsure = renaming(settings.values)
    if unsure:
        remedy = "check how the policy names topics, and compare that with the link's `rename`"
        raise NotObserved(settings.subject, unsure[0], remedy, evidence)
    if rename == wanted:
        return ok(
            settings.subject,
            f"target topics are named {rename}, as configured in the link",
            evidence,
        )
    reason = f"target topics are named {rename}, but the link's `rename` is {wanted}"
    impact = "drctl looks for topics that do not exist: no group offset is translated"
    remedy = f"set the link's `rename` to {rename}, or change the policy of both connectors"
    return fail(settings.subject, reason, evidence, impact, remedy)


def _covered(
    settings: Settings, key: str, excluded: str, wanted: Iterable[str], status: Status, impact: str
) -> Verdict:
    kind = key.removesuffix("s")
    filter_class = settings.text(f"{kind}.filter.class", "")
    if filter_class.value and not filter_class.value.endswith(f"Default{kind.title()}Filter"):
        remedy = f"check which {key} the custom filter includes"
        raise NotObserved(
            settings.subject, "it has a custom filter class", remedy, filter_class.evidence
        )
    within, without = settings.listed(key, ".*"), settings.listed(f"{key}.exclude", excluded)
    evidence = f"{within.evidence}; {without.evidence}"
    passing, stopped = (_matcher(settings, words.value) for words in (within, without))
    left_out = [n for n in wanted if not passing.fullmatch(n) or stopped.fullmatch(n)]
    if not left_out:
        return ok(settings.subject, f"all {key} of the link are included", evidence)
    more = f" and {len(left_out) - SHOWN} more" if len(left_out) > SHOWN else ""
    shown = ", ".join(left_out[:SHOWN]) + more
    remedy = f"extend `{key}` or narrow `{key}.exclude` of {settings.subject}"
    reason = f"{key} of the link that are excluded: {shown}"
    return Verdict(status, settings.subject, reason, evidence, impact, remedy)


def _matcher(settings: Settings, patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Match whole names against any of the patterns, as MirrorMaker 2 does."""
    text = "|".join(patterns) if patterns else r"(?!)"
    if all(map(compiled, patterns)):
        with suppress(re.error):  # named groups may be defined twice after joining
            return re.compile(text)
    reason = "it has a pattern that only Java can evaluate"
    raise NotObserved(settings.subject, reason, "test the pattern against the names", text)


def _clusters(config: Mapping[str, str]) -> str:
    source = config.get("source.cluster.alias", "source")
    return f"{source} -> {config.get('target.cluster.alias', 'target')}"


_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_HEADER = "header.converter"
_CONVERTERS = ("key.converter", "value.converter", _HEADER)
# Connect's default encodes the bytes of headers in Base64.
_SIMPLE = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_OTHER_HEADERS = (
    "copies of records with headers have different bytes: consumers may fail to read these headers,"
    " and `drctl gap` reports the records as not replicated"
)
_HEARTBEAT_MS = 60_000
_CHECKPOINT_MS = 10 * 60_000


@check("mm2-converters", _FAMILY, Status.WARN, Status.FAIL)
def converters(observed: Observed) -> Verdict:
    """No converter of the source connector, or of its workers, changes records."""
    settings = required(observed, SOURCE)
    missing = [key for key in _CONVERTERS if key not in settings.values]
    known = {key: settings.text(key, "") for key in _CONVERTERS if key not in missing}
    remedy = f"set {listed(_CONVERTERS)} of {settings.subject} to {_BYTES}"
    if missing and not isinstance(observed.worker, Unavailable):
        workers = worker_settings(observed)
        # Workers need the other two: a file without them is not a worker's whole configuration.
        stated = [key for key in missing if key == _HEADER or key in workers.values]
        known |= {key: workers.text(key, _SIMPLE) for key in stated}
    changing = {key: each.evidence for key, each in known.items() if each.value != _BYTES}
    evidence = "; ".join(changing.values())
    if set(changing) - {_HEADER}:
        impact = (
            "copies have different bytes: consumers cannot read them, and drctl cannot match them"
            " with the source's records"
        )
        return fail(settings.subject, "converters change records", evidence, impact, remedy)
    if changing:
        reason, impact = "the header converter changes headers", _OTHER_HEADERS
        return warn(settings.subject, reason, evidence, impact, remedy)
    if len(known) < len(_CONVERTERS):
        reason = f"the workers' properties, which were not given, set {listed(missing)}"
        if not isinstance(observed.worker, Unavailable):
            unknown = [key for key in _CONVERTERS if key not in known]
            reason = f"neither the connector nor the workers' properties set {listed(unknown)}"
        raise NotObserved(settings.subject, reason, f"{remedy}, or run: {WORKER_OPTION}")
    return ok(settings.subject, "records are copied byte for byte", f"converters {_BYTES}")


@check("mm2-isolation-level", _FAMILY, Status.WARN)
def isolation_level(observed: Observed) -> Verdict:
    """`consumer.isolation.level` is `read_committed`, or no producer uses transactions."""
    settings = required(observed, SOURCE)
    keys = ("source.consumer.isolation.level", "consumer.isolation.level")
    key = next((key for key in keys if key in settings.values), keys[1])
    level = settings.text(key, "read_uncommitted")
    if level.value == "read_committed":
        return level.ok("only committed records are copied")
    remedy = f"set {keys[0]}=read_committed on it"
    what = f"aborted records are copied, too ({level.evidence}); whether producers use"
    known = require(
        observed.survey.transactional_ids, settings.subject, f"{what} transactions is", remedy
    )
    ours = of_applications(known)
    if not ours:
        return level.ok("no producer uses transactions")
    return warn(
        settings.subject,
        "aborted records are copied and become visible on the target",
        f"{level.evidence};"
        f" {plural(len(ours), 'transactional id is', 'transactional ids are')} known:"
        f" {listed(ours)}",
        f"consumers on {observed.link.target} read aborted records; a failback takes them for new"
        " records and is refused without --rebuild",
        remedy,
    )


@check("mm2-heartbeat-age", _FAMILY, Status.WARN)
def heartbeat(observed: Observed) -> Verdict:
    """The newest copied heartbeat is at most a minute old."""
    impact = "stalled replication looks the same as an idle source"
    remedy = "check that a MirrorHeartbeatConnector runs and that `heartbeats` is replicated"
    subject = "heartbeats of MirrorMaker 2"
    ages = require(observed.survey.ages, subject, "their age is", remedy)
    return _aged(observed, subject, ages.heartbeat_ms, _HEARTBEAT_MS, (impact, remedy))


@check("mm2-checkpoint-age", _FAMILY, Status.WARN)
def checkpoint(observed: Observed) -> Verdict:
    """The newest checkpoint is at most 10 minutes old."""
    impact = (
        "groups reprocess what they consumed after the newest checkpoint, unless a better source of"
        " offsets exists"
    )
    remedy = "check that the MirrorCheckpointConnector runs and that a group of the link is active"
    subject = "checkpoints of MirrorMaker 2"
    ages = require(observed.survey.ages, subject, "their age is", remedy)
    return _aged(observed, subject, ages.checkpoint_ms, _CHECKPOINT_MS, (impact, remedy))


def _aged(
    observed: Observed, subject: str, at_ms: int | None, limit_ms: int, advice: tuple[str, str]
) -> Verdict:
    impact, remedy = advice
    if at_ms is None:
        raise NotObserved(subject, "the target has none", remedy)
    age_ms = max(0, observed.now_ms - at_ms)
    evidence = f"the newest is {duration(age_ms)} old"
    if age_ms > limit_ms:
        return warn(subject, f"none for {duration(age_ms)}", evidence, impact, remedy)
    return ok(subject, "they arrive", evidence)


_LOCATION = "offset-syncs.topic.location"
_SPARSE = 1000
_NO_SYNCS = (
    "offsets can only be translated from tracked offsets and from records; if the source is lost"
    " and `drctl offsets track` did not run, groups start at their auto.offset.reset"
)


@check("mm2-syncs-emitted", _FAMILY, Status.FAIL)
def syncs_emitted(observed: Observed) -> Verdict:
    """`emit.offset-syncs.enabled` is true."""
    enabled = required(observed, SOURCE).flag("emit.offset-syncs.enabled", True)
    if enabled.value:
        return enabled.ok("offset syncs are emitted")
    reason, remedy = "no offset syncs or checkpoints are emitted", "set emit.offset-syncs.enabled"
    return enabled.fail(reason, _NO_SYNCS, f"{remedy}=true")


@check("mm2-syncs-location", _FAMILY, Status.WARN, Status.FAIL)
def location(observed: Observed) -> Iterator[Verdict]:
    """`offset-syncs.topic.location` is `target` for both connectors."""
    written = required(observed, SOURCE).text(_LOCATION, "source")
    remedy = f"set {_LOCATION}=target on both connectors"
    if written.value == "target":
        yield written.ok("offset syncs are kept on the target")
    else:
        reason = "offset syncs are kept on the source"
        impact = "they are lost with the source: the error of a checkpoint is then unknown"
        yield written.warn(reason, impact, remedy)
    read = required(observed, CHECKPOINT).text(_LOCATION, "source")
    if read.value == written.value:
        yield read.ok("both connectors use the same cluster for offset syncs")
        return
    reason = (
        f"it reads offset syncs from one cluster, but {written.subject} writes them to the other"
    )
    yield read.fail(reason, f"no checkpoint is emitted; {_NO_SYNCS}", remedy)


@check("mm2-syncs-density", _FAMILY, Status.WARN)
def density(observed: Observed) -> Verdict:
    """`offset.lag.max` is at most 1000."""
    apart = required(observed, SOURCE).integer("offset.lag.max", 100)
    impact = (
        f"a lagging group reprocesses about {plural(apart.value, 'record')} of each"
        " partition, or more"
    )
    if apart.value <= _SPARSE:
        return apart.ok("offset syncs are dense", impact)
    reason, remedy = "offset syncs are sparse", "lower offset.lag.max; its default is 100"
    return apart.warn(reason, impact, remedy)


@check("mm2-syncs-replicas", _FAMILY, Status.WARN)
def syncs_replicas(observed: Observed) -> Verdict:
    """`offset-syncs.topic.replication.factor` is above 1."""
    return replicas_of(required(observed, SOURCE), "offset-syncs")


def replicas_of(settings: Settings, topic: str) -> Verdict:
    """Check that an internal topic of MirrorMaker 2 survives the loss of a broker.

    Raises:
        NotObserved: the brokers' default applies.
    """
    key = f"{topic}.topic.replication.factor"
    factor = settings.integer(key, 3)
    if factor.value < 1:
        reason, remedy = "the brokers' default applies", f"describe the {topic} topic"
        raise NotObserved(settings.subject, reason, remedy, factor.evidence)
    if factor.value > 1:
        return factor.ok(f"the {topic} topic has {plural(factor.value, 'replica')}")
    return factor.warn(
        f"the {topic} topic has one replica (unless it was created by hand)",
        "the loss of one broker loses the topic",
        f"raise {key} and add replicas to the existing topic with kafka-reassign-partitions.sh",
    )


@check("mm2-offset-reset", _FAMILY, Status.WARN, Status.FAIL)
def start(observed: Observed) -> Verdict:
    """`consumer.auto.offset.reset` of the source connector is `earliest`."""
    settings = required(observed, SOURCE)
    keys = ("source.consumer.auto.offset.reset", "consumer.auto.offset.reset")
    key = next((key for key in keys if key in settings.values), keys[1])
    seen = settings.text(key, "earliest")
    remedy = f"remove {key}: the default is earliest"
    if seen.value == "earliest":
        return seen.ok("topics are replicated from their earliest offset")
    if seen.value == "none":
        impact = "it fails at the first new or truncated partition, and replicates nothing more"
        return seen.warn("it does not start without a committed offset", impact, remedy)
    reason = "records written before it first polls a partition are not replicated"
    impact = "groups skip these records on the target"
    return seen.fail(reason, impact, remedy)


@check("mm2-exactly-once", _FAMILY, Status.WARN)
def exactly_once(observed: Observed) -> Verdict:
    """The workers have `exactly.once.source.support=enabled`."""
    support = required(observed, SOURCE).text("exactly.once.support", "requested")
    if support.value == "required":
        # Connect does not run a connector that requires what its workers do not support.
        return support.ok("it only runs with exactly-once support")
    seen = worker_settings(observed).text("exactly.once.source.support", "disabled")
    if seen.value.lower() == "enabled":
        return seen.ok("records are not duplicated after a crash")
    return seen.warn(
        "records are duplicated after a crash",
        "groups reprocess these duplicates, beyond the bound that drctl states",
        "set exactly.once.source.support on all workers: first to preparing, then to enabled",
    )


_SLOW_S = 300
_UNKNOWN = (
    "if the source is lost, offsets can only be translated from tracked offsets and consumer"
    " timestamps; without these, groups start at their auto.offset.reset"
)


@check("mm2-checkpoints-emitted", _FAMILY, Status.FAIL)
def checkpoints_emitted(observed: Observed) -> Verdict:
    """`emit.checkpoints.enabled` is true."""
    enabled = required(observed, CHECKPOINT).flag("emit.checkpoints.enabled", True)
    if enabled.value:
        return enabled.ok("checkpoints are emitted")
    reason, remedy = "no checkpoints are emitted", "set emit.checkpoints.enabled=true"
    return enabled.fail(reason, _UNKNOWN, remedy)


@check("mm2-checkpoints-interval", _FAMILY, Status.WARN, Status.FAIL)
def checkpoint_interval(observed: Observed) -> Verdict:
    """`emit.checkpoints.interval.seconds` is above 0, and at most 5 minutes."""
    interval = required(observed, CHECKPOINT).integer("emit.checkpoints.interval.seconds", 60)
    seconds = f"every {interval.value} s"
    impact = f"groups reprocess what they consumed in the last {interval.value} s or more"
    remedy = "set emit.checkpoints.interval.seconds to 60, its default, or less"
    if interval.value <= 0:
        return interval.fail("no checkpoints are emitted", _UNKNOWN, remedy)
    if interval.value > _SLOW_S:
        reason = f"checkpoints are only emitted {seconds}"
        return interval.warn(reason, impact, remedy)
    return interval.ok(f"checkpoints are emitted {seconds}", impact)


@check("mm2-checkpoints-replicas", _FAMILY, Status.WARN)
def checkpoints_replicas(observed: Observed) -> Verdict:
    """`checkpoints.topic.replication.factor` is above 1."""
    return replicas_of(required(observed, CHECKPOINT), "checkpoints")


@check("mm2-group-sync", _FAMILY, Status.WARN)
def group_sync(observed: Observed) -> Verdict:
    """`sync.group.offsets.enabled` is false: drctl commits group offsets, with known bounds."""
    enabled = required(observed, CHECKPOINT).flag("sync.group.offsets.enabled", False)
    if not enabled.value:
        return enabled.ok("MirrorMaker 2 commits no group offsets")
    return enabled.warn(
        "MirrorMaker 2 commits group offsets on the target, and never rewinds them",
        "a group that was rewound on the source skips records on the target;"
        " `drctl offsets apply` needs an override to correct that",
        "set sync.group.offsets.enabled=false and use `drctl offsets apply`",
    )
