"""Parity: what clients find on the target is what they know from the source."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from drctl.checks.brokers import DESCRIBE_CLUSTER, Side, sides
from drctl.checks.check import BOTH, PLANNED, Family, Prechecks, check, listed, reasons, several
from drctl.checks.observed import NOT_LOOKED_AT, Observed
from drctl.checks.verdict import NotObserved, Verdict, fail, not_checked, ok, require, warn
from drctl.model.finding import Status
from drctl.model.groups import OFFSETS_TOPIC
from drctl.model.loss import Mode
from drctl.model.survey import Entity
from drctl.model.topology import TopicState, Unavailable

_FAMILY = Family.PARITY
DESCRIBE = "compare the topics of both clusters with `kafka-topics --describe`"


class Pair(NamedTuple):
    """A topic of the source, and its copy."""

    topic: TopicState
    copy: TopicState

    def differs(self, key: str) -> str:
        """What a setting is on both sides, in words for a person."""
        now, was = self.copy.config.get(key), self.topic.config.get(key)
        return f"{self.copy.name}: {key}={now}, on the source {was}"


@dataclass(frozen=True, slots=True)
class Compared:
    """All topics that the link carries.

    Attributes:
        missing: names that copies should have, and that the target has not.
        unread: by name of a copy why it, or its topic, could not be looked at.
    """

    subject: str
    pairs: tuple[Pair, ...]
    missing: tuple[str, ...]
    unread: Mapping[str, Unavailable]

    @property
    def configured(self) -> tuple[Pair, ...]:
        """Pairs of which both configurations may be read."""
        return tuple(pair for pair in self.pairs if pair.topic.config and pair.copy.config)


def compared(observed: Observed) -> Compared:
    """Put together what belongs together.

    Raises:
        NotObserved: the topics of one side are not known.
    """
    link, subject = observed.link, f"topics of cluster {observed.link.target}"
    ours = f"those of cluster {link.source} are"
    source = require(observed.source_topics, subject, ours, DESCRIBE)
    target = require(observed.target_topics, subject, "they are", DESCRIBE)
    pairs: list[Pair] = []
    missing: list[str] = []
    unread: dict[str, Unavailable] = {}
    for name in link.topics_of(name for name, state in source.items() if state is not None):
        topic, copy = source[name], target.get(link.target_topic(name), NOT_LOOKED_AT)
        if copy is None:
            missing.append(link.target_topic(name))
        elif isinstance(topic, TopicState) and isinstance(copy, TopicState):
            pairs.append(Pair(topic, copy))
        else:
            why = next(each for each in (topic, copy) if isinstance(each, Unavailable))
            unread[link.target_topic(name)] = why
    return Compared(subject, tuple(pairs), tuple(missing), unread)


def number(text: str) -> int:
    """A setting that is a number; 0 where it is none."""
    return int(text) if text.isdecimal() else 0


def limit(text: str) -> float | None:
    """A setting that bounds what is kept, infinite where it is negative; None where it is none."""
    if not text.lstrip("-").isdecimal():
        return None
    return float("inf") if int(text) < 0 else int(text)


def policies(text: str) -> frozenset[str]:
    """What cleanup.policy names."""
    return frozenset(text.replace(" ", "").split(","))


def lower(topic: str, copy: str) -> bool:
    """Whether the copy's setting is a lower number."""
    return number(copy) < number(topic)


def does_more(topic: str, copy: str) -> bool:
    """Whether the copy's cleanup.policy names something that the topic's does not."""
    return bool(policies(copy) - policies(topic))


def does_less(topic: str, copy: str) -> bool:
    """Whether the copy's cleanup.policy lacks something and names nothing else."""
    return policies(copy) < policies(topic)


@check("topics-missing-on-target", _FAMILY, Status.FAIL, prechecks=Prechecks(BOTH, PLANNED))
def missing(observed: Observed) -> Iterator[Verdict]:
    """Every topic of the link has its copy on the target."""
    found = compared(observed)
    total = f"{len(found.pairs) + len(found.missing):,} topics looked at"
    if found.missing:
        yield fail(
            found.subject,
            f"{len(found.missing):,} copies are not there: {listed(found.missing)}",
            total,
            "their records are lost with the source, and clients that want them fail",
            "see why they are not replicated; topics that nobody needs belong into `exclude`",
        )
    elif not found.unread:
        yield ok(found.subject, "every topic has its copy", total)
    yield from _unread(found)


@check("fewer-partitions-on-target", _FAMILY, Status.FAIL, prechecks=Prechecks(BOTH, PLANNED))
def fewer(observed: Observed) -> Iterator[Verdict]:
    """No copy has fewer partitions than its topic."""
    found = compared(observed)
    short = [p for p in found.pairs if len(p.copy.partitions) < len(p.topic.partitions)]
    yield from _unread(found)
    if not short:
        if not found.unread:
            yield ok(found.subject, "no copy has fewer partitions", f"{len(found.pairs):,} topics")
        return
    yield fail(
        found.subject,
        f"{len(short):,} copies have fewer partitions than their topics",
        several(
            f"{p.copy.name} has {len(p.copy.partitions)} of {len(p.topic.partitions)}"
            for p in short
        ),
        "what is in the others is not copied; keys come to other partitions than before, and"
        " groups have no place to go on",
        "add partitions to them: kafka-topics --alter --partitions",
    )


@check("parity-of-settings", _FAMILY, Status.WARN, Status.FAIL, prechecks=Prechecks())
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
            "acknowledged records are on fewer brokers than the applications count on",
        ),
        *_weaker(
            found,
            Status.FAIL,
            "max.message.bytes",
            ("is lower", lower),
            "the target refuses records that the source takes, of producers and of the replicator",
        ),
        *_weaker(
            found,
            Status.FAIL,
            "cleanup.policy",
            ("does more", does_more),
            "the target deletes what the source keeps; where it compacts, it takes no record"
            " without a key",
        ),
        *_weaker(
            found,
            Status.WARN,
            "cleanup.policy",
            ("does less", does_less),
            "they grow on the target without the bound that they have on the source",
        ),
    ]
    yield from weaker
    yield from _unread(found)
    silent = sorted({p.copy.name for p in found.pairs} - {p.copy.name for p in known})
    if silent:
        reason = f"on one side or both, settings of {listed(silent)} may not be read"
        remedy = f"grant drctl's user DESCRIBE_CONFIGS on them, or {DESCRIBE}"
        yield not_checked(found.subject, reason, remedy)
    elif not weaker and not found.unread:
        yield ok(found.subject, "copies are as their topics, or stricter", f"{len(known):,} topics")


def _weaker(
    found: Compared,
    status: Status,
    key: str,
    weaker: tuple[str, Callable[[str, str], bool]],
    cost: str,
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
        reason = f"{key} of {len(pairs):,} copies {how} than on the source"
        remedy = f"give them the source's {key}: drctl doctor --fix does it"
        yield Verdict(status, found.subject, reason, evidence, cost, remedy)


def _unread(found: Compared) -> Iterator[Verdict]:
    if found.unread:
        reason = f"{len(found.unread):,} of them could not be looked at"
        yield not_checked(found.subject, reason, DESCRIBE, reasons(found.unread))


_KEPT = ("retention.ms", "retention.bytes", "delete.retention.ms")
_TIMES = "message.timestamp.type"


@check("parity-of-retention", _FAMILY, Status.WARN)
def retention(observed: Observed) -> Verdict:
    """Copies are kept at least as long as their topics."""
    subject, pairs = _configured(observed)
    shorter = [(p, key) for p in pairs for key in _KEPT if _kept_for_less(p, key)]
    if not shorter:
        return ok(subject, "copies are kept as long as their topics", f"{len(pairs):,} topics")
    told = several(pair.differs(key) for pair, key in shorter)
    reason = f"{len({p.copy.name for p, _ in shorter}):,} copies are kept for less"
    cost = "what consumers still want to read may be gone there, and lost records are not found"
    return warn(subject, reason, told, cost, "give them the source's")


@check("parity-of-timestamps", _FAMILY, Status.WARN)
def timestamps(observed: Observed) -> Verdict:
    """Copies keep the time of their records where their topics do."""
    subject, pairs = _configured(observed)
    bad = [p for p in pairs if p.copy.log_append_time and not p.topic.log_append_time]
    if not bad:
        return ok(subject, "copies keep the time of their records", f"{len(pairs):,} topics")
    told = several(pair.differs(_TIMES) for pair in bad)
    cost = "lag in seconds, and positions by time, cannot be told; records are harder to compare"
    reason = f"{len(bad):,} copies have the time at which they were copied"
    return warn(subject, reason, told, cost, f"set {_TIMES}=CreateTime on them")


def _configured(observed: Observed) -> tuple[str, tuple[Pair, ...]]:
    """The subject, and the pairs of which both configurations may be read.

    Raises:
        NotObserved: no configuration may be read.
    """
    found = compared(observed)
    if found.pairs and not found.configured:
        raise NotObserved(found.subject, "their settings may not be read", DESCRIBE_CLUSTER)
    return found.subject, found.configured


def _kept_for_less(pair: Pair, key: str) -> bool:
    there, here = (limit(each.config.get(key, "")) for each in (pair.copy, pair.topic))
    return there is not None and here is not None and there < here


_LEAST = {
    "message.max.bytes": "records that the source takes are refused",
    "offsets.retention.minutes": "positions that are put there ahead of time expire sooner",
    "group.max.session.timeout.ms": "consumers with a longer session are refused",
    "transaction.max.timeout.ms": "producers with a longer transaction are refused",
    "max.connections": "clients are turned away",
}
"""Settings of brokers that must not be lower on the target, and what it costs where they are."""


@check("parity-of-broker-settings", _FAMILY, Status.WARN)
def brokers(observed: Observed) -> Verdict:
    """The target's brokers allow what the source's do, and do not create topics by themselves."""
    here, there = sides(observed)
    subject = f"brokers of cluster {there.name}"
    ours, theirs = _settings(here), _settings(there)
    weaker = [key for key in _LEAST if lower(ours.get(key, ""), theirs.get(key, ""))]
    told = [f"{key}={theirs[key]}, on the source {ours[key]}" for key in weaker]
    cost = "; ".join(_LEAST[key] for key in weaker)
    creates = theirs.get("auto.create.topics.enable") == "true"
    if creates:
        told.append("auto.create.topics.enable=true")
        early = "a client that comes early makes a topic of its own, with other partitions"
        cost = f"{cost}; {early}" if cost else early
    if told:
        reason = f"{len(told):,} settings are weaker than on the source, or surprise clients"
        return warn(subject, reason, several(told), cost, "change them on the target's brokers")
    return ok(subject, "they allow what the source's do", f"compared: {', '.join(_LEAST)}")


def _settings(side: Side) -> Mapping[str, str]:
    """Of one broker that tells them; they are to be the same on all.

    Raises:
        NotObserved: none does.
    """
    asked = require(
        side.survey.settings, side.subject, "its brokers' settings are", DESCRIBE_CLUSTER
    )
    known = [each for each in asked.values() if not isinstance(each, Unavailable) and each]
    if not known:
        why = next((e.reason for e in asked.values() if isinstance(e, Unavailable)), "no answer")
        remedy = "grant drctl's user DESCRIBE_CONFIGS on the cluster"
        raise NotObserved(side.subject, "its brokers do not tell their settings", remedy, why)
    return known[0]


@check("parity-of-offsets-partitions", _FAMILY, Status.FAIL)
def offsets_partitions(observed: Observed) -> Verdict:
    """`__consumer_offsets` has as many partitions on both sides, where it is mirrored."""
    counts = [
        sum(place.topic == OFFSETS_TOPIC for place in side.layout().partitions)
        for side in sides(observed)
    ]
    subject = f"{OFFSETS_TOPIC} of both clusters"
    told = f"{counts[0]} and {counts[1]} partitions"
    replicator = observed.link.settings.replicator
    mirrored = replicator.kind == "offset-preserving" or replicator.copied_offsets_topic
    if not all(counts):
        raise NotObserved(
            subject, "nobody has committed yet on one of them", DESCRIBE_CLUSTER, told
        )
    if counts[0] == counts[1]:
        return ok(subject, "it has as many partitions on both", told)
    if mirrored:
        cost = "a group's positions are looked for in another partition than they were copied to"
        remedy = "make the target anew with the source's offsets.topic.num.partitions"
        return fail(subject, "they differ, and it is mirrored", told, cost, remedy)
    return ok(subject, "they differ, and it is not mirrored: that costs nothing", told)


@check("parity-of-scram-users", _FAMILY, Status.WARN, Status.FAIL)
def scram_users(observed: Observed) -> Verdict:
    """Every SCRAM user of the source is one of the target, too."""
    link, survey = observed.link, observed.survey
    subject = f"SCRAM users of cluster {link.target}"
    remedy = "compare `kafka-configs --describe --entity-type users` of both clusters"
    ours = require(survey.source.scram_users, subject, f"those of {link.source} are", remedy)
    theirs = require(survey.target.scram_users, subject, "they are", remedy)
    missing = sorted(ours - theirs)
    applications = {p.removeprefix("User:") for p in link.settings.fence.principals}
    if not missing:
        told = f"{len(ours):,} users; whether their passwords are the same nobody can see"
        return ok(subject, "nobody is missing", told)
    known = sorted(set(missing) & applications)
    told = f"{len(ours):,} on {link.source}, {len(theirs):,} on {link.target}"
    remedy = "add them there with the same password: kafka-configs --alter --entity-type users"
    if not theirs:
        remedy += "; where there were any, read docs/troubleshooting.md on KAFKA-20774 before"
    if known:
        cost = "they cannot log in after the switch: an outage of these applications"
        return fail(subject, f"applications are missing: {listed(known)}", told, cost, remedy)
    cost = "if somebody uses them, they cannot log in after the switch"
    return warn(subject, f"{len(missing):,} are missing: {listed(missing)}", told, cost, remedy)


@check("parity-of-quotas", _FAMILY, Status.WARN)
def quotas(observed: Observed) -> Verdict:
    """Nobody has a lower quota on the target than on the source."""
    link, survey = observed.link, observed.survey
    subject = f"client quotas of cluster {link.target}"
    remedy = "compare `kafka-configs --describe --entity-type users` (and clients) of both clusters"
    ours = require(survey.source.quotas, subject, f"those of {link.source} are", remedy)
    theirs = require(survey.target.quotas, subject, "they are", remedy)
    slower = [
        f"{quota_of(who)}: {key}={rate:g}, on the source {'none' if was is None else f'{was:g}'}"
        for who, limits in theirs.items()
        for key, rate in sorted(limits.items())
        if (was := ours.get(who, {}).get(key)) is None or rate < was
    ]
    lost = [f"{quota_of(who)}: {listed(list(ours[who]))}" for who in ours if who not in theirs]
    if slower:
        cost = "these clients are slowed down after the switch"
        remedy = "give them the source's: kafka-configs --alter"
        return warn(subject, f"{len(slower):,} are lower there", several(slower), cost, remedy)
    if lost:
        cost = "nothing keeps these clients from taking all of the target"
        remedy = "set them there, too: kafka-configs --alter"
        return warn(subject, f"{len(lost):,} are missing there", several(lost), cost, remedy)
    told = f"{len(ours):,} and {len(theirs):,} quotas"
    return ok(subject, "none is lower or missing", told)


def quota_of(who: Entity) -> str:
    """Whose quota it is, in words for a person."""
    return ", ".join(f"{kind} {name if name is not None else '(default)'}" for kind, name in who)
