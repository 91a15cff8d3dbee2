"""Parity of topics: what clients find on the target is what they know from the source."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from drctl.checks.brokers import DESCRIBE as brokers_DESCRIBE
from drctl.checks.brokers import Side, sides
from drctl.checks.check import (
    BOTH,
    PLANNED,
    Family,
    Guards,
    NotObserved,
    Verdict,
    check,
    fail,
    listed,
    not_checked,
    ok,
    reasons,
    seen,
    several,
    warn,
)
from drctl.checks.observed import NOT_LOOKED_AT, Observed
from drctl.model.finding import Status
from drctl.model.loss import Mode
from drctl.model.survey import Entity
from drctl.model.topology import TopicState, Unavailable

_FAMILY = Family.PARITY
_USER = "User:"


@check(
    "parity-of-scram-users",
    _FAMILY,
    "every SCRAM user of the source is one of the target, too",
    Status.WARN,
    Status.FAIL,
)
def scram_users(observed: Observed) -> Verdict:
    """Whether applications can log in; whether with the same password nobody can see."""
    link, survey = observed.link, observed.survey
    subject = f"SCRAM users of cluster {link.target}"
    cure = "compare `kafka-configs --describe --entity-type users` of both clusters"
    ours = seen(survey.source.scram_users, subject, f"those of {link.source} are", cure)
    theirs = seen(survey.target.scram_users, subject, "they are", cure)
    missing = sorted(ours - theirs)
    applications = {p.removeprefix(_USER) for p in link.settings.fence.principals}
    if not missing:
        told = f"{len(ours):,} users; whether their passwords are the same nobody can see"
        return ok(subject, "nobody is missing", told)
    known = sorted(set(missing) & applications)
    told = f"{len(ours):,} on {link.source}, {len(theirs):,} on {link.target}"
    cure = "add them there with the same password: kafka-configs --alter --entity-type users"
    if not theirs:
        cure += "; where there were any, read docs/checks.md on KAFKA-20774 before"
    if known:
        cost = "they cannot log in after the switch: an outage of these applications"
        return fail(subject, f"applications are missing: {listed(known)}", told, cost, cure)
    cost = "if somebody uses them, they cannot log in after the switch"
    return warn(subject, f"{len(missing):,} are missing: {listed(missing)}", told, cost, cure)


@check(
    "parity-of-quotas",
    _FAMILY,
    "nobody has a lower quota on the target than on the source",
    Status.WARN,
)
def quotas(observed: Observed) -> Verdict:
    """Whether clients are held back on the target, or not held back any more."""
    link, survey = observed.link, observed.survey
    subject = f"client quotas of cluster {link.target}"
    cure = "compare `kafka-configs --describe --entity-type users` (and clients) of both clusters"
    ours = seen(survey.source.quotas, subject, f"those of {link.source} are", cure)
    theirs = seen(survey.target.quotas, subject, "they are", cure)
    lower = [row for who in theirs for row in _differing(who, ours.get(who, {}), theirs[who])]
    lost = [f"{_name(who)}: {listed(list(ours[who]))}" for who in ours if who not in theirs]
    if lower:
        cost = "these clients are slowed down after the switch"
        cure = "give them the source's: kafka-configs --alter"
        return warn(subject, f"{len(lower):,} are lower there", several(lower), cost, cure)
    if lost:
        cost = "nothing keeps these clients from taking all of the target"
        cure = "set them there, too: kafka-configs --alter"
        return warn(subject, f"{len(lost):,} are missing there", several(lost), cost, cure)
    told = f"{len(ours):,} and {len(theirs):,} quotas"
    return ok(subject, "none is lower or missing", told)


def _differing(
    who: Entity, ours: Mapping[str, float], theirs: Mapping[str, float]
) -> Iterator[str]:
    for key, limit in sorted(theirs.items()):
        wanted = ours.get(key)
        if wanted is None or limit < wanted:
            there = "none" if wanted is None else f"{wanted:g}"
            yield f"{_name(who)}: {key}={limit:g}, on the source {there}"


def _name(who: Entity) -> str:
    return ", ".join(f"{kind} {name if name is not None else '(default)'}" for kind, name in who)


DESCRIBE = "compare the topics of both clusters with `kafka-topics --describe`"


class Pair(NamedTuple):
    """A topic of the source, and its copy."""

    topic: TopicState
    copy: TopicState


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


def compared(observed: Observed) -> Compared:
    """Put together what belongs together.

    Raises:
        NotObserved: the topics of one side are not known.
    """
    link, subject = observed.link, f"topics of cluster {observed.link.target}"
    ours = f"those of cluster {link.source} are"
    source = seen(observed.source_topics, subject, ours, DESCRIBE)
    target = seen(observed.target_topics, subject, "they are", DESCRIBE)
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


_OFFSETS = "__consumer_offsets"
_KEPT = ("retention.ms", "retention.bytes", "delete.retention.ms")
_TIMES = "message.timestamp.type"
_LEAST = {
    "message.max.bytes": "records that the source takes are refused",
    "offsets.retention.minutes": "positions that are put there ahead of time expire sooner",
    "group.max.session.timeout.ms": "consumers with a longer session are refused",
    "transaction.max.timeout.ms": "producers with a longer transaction are refused",
    "max.connections": "clients are turned away",
}
"""Settings of brokers that must not be lower on the target, and what it costs where they are."""


@check(
    "parity-of-retention", _FAMILY, "copies are kept at least as long as their topics", Status.WARN
)
def retention(observed: Observed) -> Verdict:
    """Whether the target deletes what the source would still have."""
    pairs = _pairs(observed)
    subject = f"topics of cluster {observed.link.target}"
    shorter = [(p, key) for p in pairs for key in _KEPT if _less(p, key)]
    if not shorter:
        return ok(subject, "copies are kept as long as their topics", f"{len(pairs):,} topics")
    told = several(_difference(pair, key) for pair, key in shorter)
    reason = f"{len({p.copy.name for p, _ in shorter}):,} copies are kept for less"
    cost = "what consumers still want to read may be gone there, and lost records are not found"
    return warn(subject, reason, told, cost, "give them the source's")


@check(
    "parity-of-timestamps",
    _FAMILY,
    "copies keep the time of their records where their topics do",
    Status.WARN,
)
def timestamps(observed: Observed) -> Verdict:
    """Whether positions can be translated by time."""
    pairs = _pairs(observed)
    subject = f"topics of cluster {observed.link.target}"
    bad = [p for p in pairs if p.copy.log_append_time and not p.topic.log_append_time]
    if not bad:
        return ok(subject, "copies keep the time of their records", f"{len(pairs):,} topics")
    told = several(_difference(pair, _TIMES) for pair in bad)
    cost = "lag in seconds, and positions by time, cannot be told; records are harder to compare"
    reason = f"{len(bad):,} copies have the time at which they were copied"
    return warn(subject, reason, told, cost, f"set {_TIMES}=CreateTime on them")


@check(
    "parity-of-broker-settings",
    _FAMILY,
    "the target's brokers allow what the source's do, and do not create topics by themselves",
    Status.WARN,
)
def brokers(observed: Observed) -> Verdict:
    """Whether defaults of the target surprise clients."""
    here, there = sides(observed)
    subject = f"brokers of cluster {there.name}"
    ours, theirs = _settings(here), _settings(there)
    lower = [
        key
        for key in _LEAST
        if _parity_settings_number(theirs, key) < _parity_settings_number(ours, key)
    ]
    told = [f"{key}={theirs[key]}, on the source {ours[key]}" for key in lower]
    cost = "; ".join(_LEAST[key] for key in lower)
    creates = theirs.get("auto.create.topics.enable") == "true"
    if creates:
        told.append("auto.create.topics.enable=true")
        early = "a client that comes early makes a topic of its own, with other partitions"
        cost = f"{cost}; {early}" if cost else early
    if told:
        reason = f"{len(told):,} settings are weaker than on the source, or surprise clients"
        return warn(subject, reason, several(told), cost, "change them on the target's brokers")
    return ok(subject, "they allow what the source's do", f"compared: {', '.join(_LEAST)}")


@check(
    "parity-of-offsets-partitions",
    _FAMILY,
    f"`{_OFFSETS}` has as many partitions on both sides, where it is mirrored",
    Status.FAIL,
)
def offsets_partitions(observed: Observed) -> Verdict:
    """Whether a copied position lies where its group looks for it."""
    counts = []
    for side in sides(observed):
        known = side.layout().partitions
        counts.append(sum(place.topic == _OFFSETS for place in known))
    subject = f"{_OFFSETS} of both clusters"
    told = f"{counts[0]} and {counts[1]} partitions"
    replicator = observed.link.settings.replicator
    mirrored = replicator.kind == "offset-preserving" or replicator.copied_offsets_topic
    if not all(counts):
        raise NotObserved(
            subject, "nobody has committed yet on one of them", brokers_DESCRIBE, told
        )
    if counts[0] == counts[1]:
        return ok(subject, "it has as many partitions on both", told)
    if mirrored:
        cost = "a group's positions are looked for in another partition than they were copied to"
        cure = "make the target anew with the source's offsets.topic.num.partitions"
        return fail(subject, "they differ, and it is mirrored", told, cost, cure)
    return ok(subject, "they differ, and it is not mirrored: that costs nothing", told)


def _pairs(observed: Observed) -> list[Pair]:
    """Those of which both configurations may be read.

    Raises:
        NotObserved: no configuration may be read.
    """
    seen_ = compared(observed)
    known = [pair for pair in seen_.pairs if pair.topic.config and pair.copy.config]
    if seen_.pairs and not known:
        raise NotObserved(seen_.subject, "their settings may not be read", brokers_DESCRIBE)
    return known


def _less(pair: Pair, key: str) -> bool:
    here, there = _limit(pair.topic, key), _limit(pair.copy, key)
    return here is not None and there is not None and there < here


def _limit(topic: TopicState, key: str) -> float | None:
    text = topic.config.get(key, "")
    if not text.lstrip("-").isdecimal():
        return None
    return float("inf") if int(text) < 0 else int(text)


def _difference(pair: Pair, key: str) -> str:
    now, was = pair.copy.config.get(key), pair.topic.config.get(key)
    return f"{pair.copy.name}: {key}={now}, on the source {was}"


def _settings(side: Side) -> Mapping[str, str]:
    """Of one broker that tells them; they are to be the same on all.

    Raises:
        NotObserved: none does.
    """
    asked = seen(side.survey.settings, side.subject, "its brokers' settings are", brokers_DESCRIBE)
    known = [each for each in asked.values() if not isinstance(each, Unavailable) and each]
    if not known:
        why = next((e.reason for e in asked.values() if isinstance(e, Unavailable)), "no answer")
        cure = "grant drctl's user DESCRIBE_CONFIGS on the cluster"
        raise NotObserved(side.subject, "its brokers do not tell their settings", cure, why)
    return known[0]


def _parity_settings_number(settings: Mapping[str, str], key: str) -> int:
    text = settings.get(key, "")
    return int(text) if text.isdecimal() else 0


_POLICY = "cleanup.policy"
_FIX = "drctl doctor --fix does it"


@check(
    "topics-missing-on-target",
    _FAMILY,
    "every topic of the link has its copy on the target",
    Status.FAIL,
    guards=Guards(BOTH, PLANNED),
)
def missing(observed: Observed) -> Iterator[Verdict]:
    """Whether clients would look for topics that do not exist."""
    seen = compared(observed)
    total = f"{len(seen.pairs) + len(seen.missing):,} topics looked at"
    if seen.missing:
        yield fail(
            seen.subject,
            f"{len(seen.missing):,} copies are not there: {listed(seen.missing)}",
            total,
            "their records are lost with the source, and clients that want them fail",
            "see why they are not replicated; topics that nobody needs belong into `exclude`",
        )
    elif not seen.unread:
        yield ok(seen.subject, "every topic has its copy", total)
    yield from _unread(seen)


@check(
    "fewer-partitions-on-target",
    _FAMILY,
    "no copy has fewer partitions than its topic",
    Status.FAIL,
    guards=Guards(BOTH, PLANNED),
)
def fewer(observed: Observed) -> Iterator[Verdict]:
    """Whether keys would come to other partitions."""
    seen = compared(observed)
    short = [p for p in seen.pairs if len(p.copy.partitions) < len(p.topic.partitions)]
    yield from _unread(seen)
    if not short:
        if not seen.unread:
            yield ok(seen.subject, "no copy has fewer partitions", f"{len(seen.pairs):,} topics")
        return
    yield fail(
        seen.subject,
        f"{len(short):,} copies have fewer partitions than their topics",
        several(
            f"{p.copy.name} has {len(p.copy.partitions)} of {len(p.topic.partitions)}"
            for p in short
        ),
        "what is in the others is not copied; keys come to other partitions than before, and"
        " groups have no place to go on",
        "add partitions to them: kafka-topics --alter --partitions",
    )


@check(
    "parity-of-settings",
    _FAMILY,
    "copies are not weaker than their topics in `min.insync.replicas`, `max.message.bytes` and"
    " `cleanup.policy`",
    Status.WARN,
    Status.FAIL,
    guards=Guards(),
)
def settings(observed: Observed) -> Iterator[Verdict]:
    """Whether the copies take, and keep, what their topics do."""
    seen = compared(observed)
    known = [pair for pair in seen.pairs if pair.topic.config and pair.copy.config]
    found = [*_min_isr(observed.mode, seen, known)]
    found += [verdict for judge in _JUDGES for verdict in judge(seen, known)]
    yield from found
    yield from _unread(seen)
    silent = sorted({p.copy.name for p in seen.pairs} - {p.copy.name for p in known})
    if silent:
        reason = f"on one side or both, settings of {listed(silent)} may not be read"
        cure = f"grant drctl's user DESCRIBE_CONFIGS on them, or {DESCRIBE}"
        yield not_checked(seen.subject, reason, cure)
    elif not found and not seen.unread:
        yield ok(seen.subject, "copies are as their topics, or stricter", f"{len(known):,} topics")


def _unread(seen: Compared) -> Iterator[Verdict]:
    if seen.unread:
        reason = f"{len(seen.unread):,} of them could not be looked at"
        yield not_checked(seen.subject, reason, DESCRIBE, reasons(seen.unread))


def _min_isr(mode: Mode, seen: Compared, pairs: Sequence[Pair]) -> Iterator[Verdict]:
    # Where the source is lost, fewer replicas are better than none.
    status = Status.FAIL if mode is Mode.PLANNED else Status.WARN
    cost = "acknowledged records are on fewer brokers than the applications count on"
    yield from _lower(status, "min.insync.replicas", cost, seen, pairs)


def _message_bytes(seen: Compared, pairs: Sequence[Pair]) -> Iterator[Verdict]:
    cost = "the target refuses records that the source takes, of producers and of the replicator"
    yield from _lower(Status.FAIL, "max.message.bytes", cost, seen, pairs)


def _cleanup(seen: Compared, pairs: Sequence[Pair]) -> Iterator[Verdict]:
    adding = [p for p in pairs if _policies(p.copy) - _policies(p.topic)]
    if adding:
        cost = "the target deletes what the source keeps; where it compacts, it takes no record"
        yield _drift(Status.FAIL, _POLICY, "does more", f"{cost} without a key", seen, adding)
    lacking = [p for p in pairs if _policies(p.copy) < _policies(p.topic)]
    if lacking:
        cost = "they grow on the target without the bound that they have on the source"
        yield _drift(Status.WARN, _POLICY, "does less", cost, seen, lacking)


_JUDGES: tuple[Callable[[Compared, Sequence[Pair]], Iterable[Verdict]], ...] = (
    _message_bytes,
    _cleanup,
)


def _lower(
    status: Status, key: str, cost: str, seen: Compared, pairs: Sequence[Pair]
) -> Iterator[Verdict]:
    lower = [p for p in pairs if _number(p.copy, key) < _number(p.topic, key)]
    if lower:
        yield _drift(status, key, "is lower", cost, seen, lower)


def _drift(
    status: Status, key: str, how: str, cost: str, seen: Compared, pairs: Sequence[Pair]
) -> Verdict:
    values = ((p.copy.name, p.copy.config.get(key), p.topic.config.get(key)) for p in pairs)
    told = several(f"{name}: {key}={now}, on the source {was}" for name, now, was in values)
    reason = f"{key} of {len(pairs):,} copies {how} than on the source"
    return Verdict(
        status, seen.subject, reason, told, cost, f"give them the source's {key}: {_FIX}"
    )


def _number(topic: TopicState, key: str) -> int:
    text = topic.config.get(key, "")
    return int(text) if text.isdecimal() else 0


def _policies(topic: TopicState) -> frozenset[str]:
    return frozenset(topic.config.get(_POLICY, "delete").replace(" ", "").split(","))
