"""Parity: whether the target's configuration matches the source's."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from drctl.checks.brokers import Side, sides
from drctl.checks.check import BOTH, PLANNED, Family, Prechecks, check, listed, reasons, several
from drctl.checks.observed import NOT_QUERIED, Observed
from drctl.checks.verdict import NotObserved, Verdict, fail, not_checked, ok, require, warn
from drctl.config.link import Link
from drctl.model.finding import Status
from drctl.model.groups import OFFSETS_TOPIC
from drctl.model.loss import Mode
from drctl.model.survey import quota_of
from drctl.model.text import kafka_tool, on_each, plural, scram_user
from drctl.model.topology import TopicState, Unavailable

_FAMILY = Family.PARITY


def _compare_topics(link: Link) -> str:
    both = on_each("kafka-topics.sh", (link.source, link.target), "--describe")
    return f"compare the topics of both clusters: {both}"


class Pair(NamedTuple):
    """A topic of the source and its copy."""

    topic: TopicState
    copy: TopicState

    def differs(self, key: str) -> str:
        """A setting of the copy and of the topic, for messages."""
        now, was = self.copy.config.get(key), self.topic.config.get(key)
        return f"{self.copy.name}: {key}={now} (source: {was})"


@dataclass(frozen=True, slots=True)
class Compared:
    """All topics of the link and their copies.

    Attributes:
        missing: names of copies that do not exist on the target.
        unread: why a copy or its topic could not be read, by name of the copy.
        remedy: how to compare the topics by hand.
    """

    subject: str
    pairs: tuple[Pair, ...]
    missing: tuple[str, ...]
    unread: Mapping[str, Unavailable]
    remedy: str

    @property
    def configured(self) -> tuple[Pair, ...]:
        """Pairs whose configurations are both readable."""
        return tuple(pair for pair in self.pairs if pair.topic.config and pair.copy.config)


def compared(observed: Observed) -> Compared:
    """Pair the link's topics with their copies.

    Raises:
        NotObserved: the topics of one side are not known.
    """
    link, subject = observed.link, f"topics of cluster {observed.link.target}"
    ours, remedy = f"those of cluster {link.source} are", _compare_topics(link)
    source = require(observed.source_topics, subject, ours, remedy)
    target = require(observed.target_topics, subject, "they are", remedy)
    pairs: list[Pair] = []
    missing: list[str] = []
    unread: dict[str, Unavailable] = {}
    for name in link.topics_of(name for name, state in source.items() if state is not None):
        topic, copy = source[name], target.get(link.target_topic(name), NOT_QUERIED)
        if copy is None:
            missing.append(link.target_topic(name))
        elif isinstance(topic, TopicState) and isinstance(copy, TopicState):
            pairs.append(Pair(topic, copy))
        else:
            why = next(each for each in (topic, copy) if isinstance(each, Unavailable))
            unread[link.target_topic(name)] = why
    return Compared(subject, tuple(pairs), tuple(missing), unread, remedy)


def number(text: str) -> int:
    """The value of a numeric setting; 0 if it is not a number."""
    return int(text) if text.isdecimal() else 0


def limit(text: str) -> float | None:
    """The value of a retention limit, infinite if negative; None if it is not a number."""
    if not text.lstrip("-").isdecimal():
        return None
    return float("inf") if int(text) < 0 else int(text)


def policies(text: str) -> frozenset[str]:
    """The policies in cleanup.policy."""
    return frozenset(text.replace(" ", "").split(","))


def lower(topic: str, copy: str) -> bool:
    """Whether the copy's setting is lower."""
    return number(copy) < number(topic)


def does_more(topic: str, copy: str) -> bool:
    """Whether the copy's cleanup.policy has a policy that the topic's does not have."""
    return bool(policies(copy) - policies(topic))


def does_less(topic: str, copy: str) -> bool:
    """Whether the copy's cleanup.policy is a subset of the topic's."""
    return policies(copy) < policies(topic)


@check("topics-missing-on-target", _FAMILY, Status.FAIL, prechecks=Prechecks(BOTH, PLANNED))
def missing(observed: Observed) -> Iterator[Verdict]:
    """Every topic of the link has a copy on the target."""
    found = compared(observed)
    total = f"{plural(len(found.pairs) + len(found.missing), 'topic')} checked"
    if found.missing:
        yield fail(
            found.subject,
            f"{plural(len(found.missing), 'copy does not', 'copies do not')} exist:"
            f" {listed(found.missing)}",
            total,
            "their records are lost with the source, and their clients fail on the target",
            "find out why they are not replicated; add topics that are not needed to `exclude`",
        )
    elif not found.unread:
        yield ok(found.subject, "every topic has a copy", total)
    yield from _unread(found)


@check("fewer-partitions-on-target", _FAMILY, Status.FAIL, prechecks=Prechecks(BOTH, PLANNED))
def fewer(observed: Observed) -> Iterator[Verdict]:
    """No copy has fewer partitions than its topic."""
    found = compared(observed)
    short = [p for p in found.pairs if len(p.copy.partitions) < len(p.topic.partitions)]
    yield from _unread(found)
    if not short:
        if not found.unread:
            yield ok(
                found.subject, "no copy has fewer partitions", plural(len(found.pairs), "topic")
            )
        return
    yield fail(
        found.subject,
        plural(
            len(short),
            "copy has fewer partitions than its topic",
            "copies have fewer partitions than their topics",
        ),
        several(
            f"{p.copy.name} has {len(p.copy.partitions)} of {len(p.topic.partitions)}"
            for p in short
        ),
        "the other partitions are not replicated, keys map to other partitions, and offsets cannot"
        " be translated",
        "add partitions: drctl doctor --fix, or kafka-topics.sh --alter --partitions",
    )


@check("topic-config-parity", _FAMILY, Status.WARN, Status.FAIL, prechecks=Prechecks())
def settings(observed: Observed) -> Iterator[Verdict]:
    """Copies are not weaker in `min.insync.replicas`, `max.message.bytes`, `cleanup.policy`."""
    found = compared(observed)
    known = found.configured
    # Where the source is lost, fewer replicas are better than none.
    replicas = Status.FAIL if observed.mode is Mode.PLANNED else Status.WARN
    weaker = [
        *_weaker(
            found,
            replicas,
            "min.insync.replicas",
            ("is lower", lower),
            "acknowledged records are on fewer brokers than on the source",
        ),
        *_weaker(
            found,
            Status.FAIL,
            "max.message.bytes",
            ("is lower", lower),
            "the target rejects records that the source accepts",
        ),
        *_weaker(
            found,
            Status.FAIL,
            "cleanup.policy",
            ("removes more", does_more),
            "the target deletes records that the source keeps; a compacted copy rejects records"
            " without a key",
        ),
        *_weaker(
            found,
            Status.WARN,
            "cleanup.policy",
            ("removes less", does_less),
            "the copies grow without limit on the target",
        ),
    ]
    yield from weaker
    yield from _unread(found)
    silent = sorted({p.copy.name for p in found.pairs} - {p.copy.name for p in known})
    if silent:
        reason = f"the configuration of {listed(silent)} is not readable"
        remedy = f"grant drctl's user DESCRIBE_CONFIGS on them, or {found.remedy}"
        yield not_checked(found.subject, reason, remedy)
    elif not weaker and not found.unread:
        yield ok(
            found.subject,
            "copies are configured like their topics, or stricter",
            plural(len(known), "topic"),
        )


def _weaker(
    found: Compared,
    status: Status,
    key: str,
    weaker: tuple[str, Callable[[str, str], bool]],
    impact: str,
) -> Iterator[Verdict]:
    how, is_weaker = weaker
    default = "delete" if key == "cleanup.policy" else ""
    pairs = [
        pair
        for pair in found.configured
        if is_weaker(*(state.config.get(key, default) for state in pair))
    ]
    if pairs:
        evidence = several(pair.differs(key) for pair in pairs)
        reason = f"{key} of {plural(len(pairs), 'copy', 'copies')} {how} than on the source"
        remedy = f"copy the source's {key}: drctl doctor --fix"
        yield Verdict(status, found.subject, reason, evidence, impact, remedy)


@check("orphaned-copies", _FAMILY, Status.WARN)
def orphans(observed: Observed) -> Verdict:
    """Every copy on the target has its topic on the source."""
    link = observed.link
    here, there = (side.layout() for side in sides(observed))
    ours = {place.topic for place in here.partitions}
    copies = sorted({place.topic for place in there.partitions})
    subject = f"copies on cluster {link.target}"
    origins = {name: link.source_topic(name) for name in copies}
    carried = [name for name, origin in origins.items() if origin and link.carries(origin)]
    orphaned = [name for name in carried if origins[name] not in ours]
    if not orphaned:
        return ok(subject, "every copy has its topic on the source", plural(len(carried), "topic"))
    return warn(
        subject,
        f"without a topic on {link.source}: {listed(orphaned)}",
        "the topic was deleted there, is not visible to drctl's user, or this topic is not a copy",
        "clients that are moved may use topics that no longer exist on the source",
        "delete the copy with kafka-topics.sh --delete if no application needs it; add topics that"
        " are not copies to `exclude` of the link",
    )


def _unread(found: Compared) -> Iterator[Verdict]:
    if found.unread:
        reason = f"could not be read: {len(found.unread):,}"
        yield not_checked(found.subject, reason, found.remedy, reasons(found.unread))


_KEPT = ("retention.ms", "retention.bytes", "delete.retention.ms")
_TIMES = "message.timestamp.type"


@check("retention-parity", _FAMILY, Status.WARN)
def retention(observed: Observed) -> Verdict:
    """Copies are retained at least as long as their topics."""
    subject, pairs = _configured(observed)
    shorter = [(p, key) for p in pairs for key in _KEPT if _kept_for_less(p, key)]
    if not shorter:
        return ok(
            subject, "copies are retained as long as their topics", plural(len(pairs), "topic")
        )
    details = several(pair.differs(key) for pair, key in shorter)
    reason = plural(
        len({p.copy.name for p, _ in shorter}),
        "copy has a shorter retention",
        "copies have a shorter retention",
    )
    impact = "records may expire before they are consumed, or before drctl gap can compare them"
    return warn(subject, reason, details, impact, "copy the source's retention: drctl doctor --fix")


@check("timestamp-type-parity", _FAMILY, Status.WARN)
def timestamps(observed: Observed) -> Verdict:
    """Copies keep record timestamps if their topics do."""
    subject, pairs = _configured(observed)
    bad = [p for p in pairs if p.copy.log_append_time and not p.topic.log_append_time]
    if not bad:
        return ok(subject, "copies keep record timestamps", plural(len(pairs), "topic"))
    details = several(pair.differs(_TIMES) for pair in bad)
    impact = "lag in seconds, and offsets by timestamp, are unknown; records are harder to compare"
    reason = (
        f"{plural(len(bad), 'copy has', 'copies have')} LogAppendTime instead of the record"
        " timestamps"
    )
    return warn(subject, reason, details, impact, f"set {_TIMES}=CreateTime on them")


def _configured(observed: Observed) -> tuple[str, tuple[Pair, ...]]:
    """The subject, and the pairs whose configurations are both readable.

    Raises:
        NotObserved: no configuration may be read.
    """
    found = compared(observed)
    if found.pairs and not found.configured:
        raise NotObserved(found.subject, "their configuration is not readable", found.remedy)
    return found.subject, found.configured


def _kept_for_less(pair: Pair, key: str) -> bool:
    there, here = (limit(each.config.get(key, "")) for each in (pair.copy, pair.topic))
    return there is not None and here is not None and there < here


_LEAST = {
    "message.max.bytes": "records that the source accepts are rejected",
    "offsets.retention.minutes": "offsets that are committed ahead of a failover expire sooner",
    "group.max.session.timeout.ms": "consumers with a longer session timeout are rejected",
    "transaction.max.timeout.ms": "producers with a longer transaction timeout are rejected",
    "max.connections": "client connections are rejected",
}
"""Broker settings that must not be lower on the target, and the impact if they are."""


@check("broker-config-parity", _FAMILY, Status.WARN)
def brokers(observed: Observed) -> Verdict:
    """The target's broker limits are not lower, and topics are not auto-created."""
    here, there = sides(observed)
    subject = f"brokers of cluster {there.name}"
    ours, theirs = _settings(here), _settings(there)
    weaker = [key for key in _LEAST if lower(ours.get(key, ""), theirs.get(key, ""))]
    details = [f"{key}={theirs[key]} (source: {ours[key]})" for key in weaker]
    impact = "; ".join(_LEAST[key] for key in weaker)
    creates = theirs.get("auto.create.topics.enable") == "true"
    if creates:
        details.append("auto.create.topics.enable=true")
        early = (
            "clients can auto-create a topic, with the wrong number of partitions, before"
            " replication creates it"
        )
        impact = f"{impact}; {early}" if impact else early
    if details:
        reason = (
            f"{plural(len(details), 'broker setting is', 'broker settings are')} unsafe or"
            " lower than on the source"
        )
        return warn(
            subject, reason, several(details), impact, "change them on the target's brokers"
        )
    return ok(subject, "no limit is lower than on the source", f"compared: {', '.join(_LEAST)}")


def _settings(side: Side) -> Mapping[str, str]:
    """The settings of one broker that reports them; all brokers should have the same.

    Raises:
        NotObserved: none does.
    """
    remedy = f"{kafka_tool('kafka-configs.sh', side.name)} --describe --entity-type brokers --all"
    asked = require(side.survey.settings, side.subject, "its brokers' settings are", remedy)
    known = [each for each in asked.values() if not isinstance(each, Unavailable) and each]
    if not known:
        why = next((e.reason for e in asked.values() if isinstance(e, Unavailable)), "no answer")
        remedy = "grant drctl's user DESCRIBE_CONFIGS on the cluster"
        raise NotObserved(side.subject, "its brokers do not report their settings", remedy, why)
    return known[0]


@check("offsets-topic-parity", _FAMILY, Status.FAIL)
def offsets_partitions(observed: Observed) -> Verdict:
    """If `__consumer_offsets` is mirrored, it has the same number of partitions on both."""
    counts = [
        sum(place.topic == OFFSETS_TOPIC for place in side.layout().partitions)
        for side in sides(observed)
    ]
    link, subject = observed.link, f"{OFFSETS_TOPIC} of both clusters"
    details = f"{plural(counts[0], 'partition')} on {link.source}, {counts[1]} on {link.target}"
    replicator = observed.link.settings.replicator
    mirrored = replicator.kind == "offset-preserving" or replicator.copied_offsets_topic
    if not all(counts):
        remedy = "run drctl doctor again once groups have committed offsets on both clusters"
        raise NotObserved(subject, "one cluster has no committed offsets yet", remedy, details)
    if counts[0] == counts[1]:
        return ok(subject, "it has the same number of partitions on both", details)
    if mirrored:
        impact = "committed offsets are replicated to the wrong partition and not found"
        remedy = "recreate the target with the source's offsets.topic.num.partitions"
        return fail(
            subject, "the partition counts differ, and it is mirrored", details, impact, remedy
        )
    return ok(subject, "the partition counts differ, but it is not mirrored", details)


def _describe_users(link: Link) -> str:
    words = "--describe --entity-type users"
    return on_each("kafka-configs.sh", (link.source, link.target), words)


@check("scram-user-parity", _FAMILY, Status.WARN, Status.FAIL)
def scram_users(observed: Observed) -> Verdict:
    """Every SCRAM user of the source exists on the target."""
    link, survey = observed.link, observed.survey
    subject = f"SCRAM users of cluster {link.target}"
    remedy = f"compare the users of both clusters: {_describe_users(link)}"
    ours = require(survey.source.scram_users, subject, f"those of {link.source} are", remedy)
    theirs = require(survey.target.scram_users, subject, "they are", remedy)
    missing = sorted(ours - theirs)
    applications = {p.removeprefix("User:") for p in link.settings.fence.principals}
    if not missing:
        details = f"{plural(len(ours), 'user')}; whether passwords match is not visible"
        return ok(subject, "all users exist", details)
    known = sorted(set(missing) & applications)
    details = f"{len(ours):,} on {link.source}, {len(theirs):,} on {link.target}"
    remedy = f"add each with its existing password: {scram_user(link.target, missing[0])}"
    if not theirs:
        remedy += "; if users existed there before, see KAFKA-20774 in docs/troubleshooting.md"
    if known:
        impact = "these applications cannot log in after a failover"
        return fail(
            subject, f"users of applications are missing: {listed(known)}", details, impact, remedy
        )
    impact = "clients with these users cannot log in after a failover"
    return warn(subject, f"missing: {listed(missing)}", details, impact, remedy)


@check("quota-parity", _FAMILY, Status.WARN)
def quotas(observed: Observed) -> Verdict:
    """No client quota is lower or missing on the target."""
    link, survey = observed.link, observed.survey
    subject = f"client quotas of cluster {link.target}"
    remedy = f"compare the quotas of users, then of clients: {_describe_users(link)}"
    ours = require(survey.source.quotas, subject, f"those of {link.source} are", remedy)
    theirs = require(survey.target.quotas, subject, "they are", remedy)
    slower = [
        f"{quota_of(who)}: {key}={rate:g} (source: {'none' if was is None else f'{was:g}'})"
        for who, limits in theirs.items()
        for key, rate in sorted(limits.items())
        if (was := ours.get(who, {}).get(key)) is None or rate < was
    ]
    lost = [f"{quota_of(who)}: {listed(list(ours[who]))}" for who in ours if who not in theirs]
    if slower:
        impact = "these clients are throttled after a failover"
        remedy = "set the source's quotas: drctl doctor --fix"
        return warn(
            subject, f"lower than on the source: {len(slower):,}", several(slower), impact, remedy
        )
    if lost:
        impact = "these clients are not throttled on the target"
        remedy = "set the source's quotas: drctl doctor --fix"
        return warn(subject, f"missing: {len(lost):,}", several(lost), impact, remedy)
    details = f"{plural(len(ours), 'quota')} on {link.source}, {len(theirs):,} on {link.target}"
    return ok(subject, "none is lower or missing", details)
