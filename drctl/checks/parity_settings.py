"""Parity beyond what producers meet at once: time, retention, brokers' defaults, positions."""

from collections.abc import Iterator, Mapping

from drctl.checks.check import Family, NotObserved, Verdict, check, fail, ok, seen, warn
from drctl.checks.copies import Pair, compared
from drctl.checks.observed import Observed
from drctl.checks.sides import DESCRIBE, Side, sides
from drctl.checks.wording import several
from drctl.model.finding import Status
from drctl.model.topology import TopicState, Unavailable

_FAMILY = Family.PARITY
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
    "parity-of-retention",
    _FAMILY,
    "copies are kept at least as long as their topics",
    Status.WARN,
)
def retention(observed: Observed) -> Iterator[Verdict]:
    """Whether the target deletes what the source would still have."""
    pairs = _pairs(observed)
    subject = f"topics of cluster {observed.link.target}"
    shorter = [(p, key) for p in pairs for key in _KEPT if _less(p, key)]
    if not shorter:
        yield ok(subject, "copies are kept as long as their topics", f"{len(pairs):,} topics")
        return
    told = several(_difference(pair, key) for pair, key in shorter)
    reason = f"{len({p.copy.name for p, _ in shorter}):,} copies are kept for less"
    cost = "what consumers still want to read may be gone there, and lost records are not found"
    yield warn(subject, reason, told, cost, "give them the source's")


@check(
    "parity-of-timestamps",
    _FAMILY,
    "copies keep the time of their records where their topics do",
    Status.WARN,
)
def timestamps(observed: Observed) -> Iterator[Verdict]:
    """Whether positions can be translated by time."""
    pairs = _pairs(observed)
    subject = f"topics of cluster {observed.link.target}"
    bad = [p for p in pairs if p.copy.log_append_time and not p.topic.log_append_time]
    if not bad:
        yield ok(subject, "copies keep the time of their records", f"{len(pairs):,} topics")
        return
    told = several(_difference(pair, _TIMES) for pair in bad)
    cost = "lag in seconds, and positions by time, cannot be told; records are harder to compare"
    reason = f"{len(bad):,} copies have the time at which they were copied"
    yield warn(subject, reason, told, cost, f"set {_TIMES}=CreateTime on them")


@check(
    "parity-of-broker-settings",
    _FAMILY,
    "the target's brokers allow what the source's do, and do not create topics by themselves",
    Status.WARN,
)
def brokers(observed: Observed) -> Iterator[Verdict]:
    """Whether defaults of the target surprise clients."""
    here, there = sides(observed)
    subject = f"brokers of cluster {there.name}"
    ours, theirs = _settings(here), _settings(there)
    lower = [key for key in _LEAST if _number(theirs, key) < _number(ours, key)]
    told = [f"{key}={theirs[key]}, on the source {ours[key]}" for key in lower]
    cost = "; ".join(_LEAST[key] for key in lower)
    creates = theirs.get("auto.create.topics.enable") == "true"
    if creates:
        told.append("auto.create.topics.enable=true")
        early = "a client that comes early makes a topic of its own, with other partitions"
        cost = f"{cost}; {early}" if cost else early
    if told:
        reason = f"{len(told):,} settings are weaker than on the source, or surprise clients"
        yield warn(subject, reason, several(told), cost, "change them on the target's brokers")
        return
    yield ok(subject, "they allow what the source's do", f"compared: {', '.join(_LEAST)}")


@check(
    "parity-of-offsets-partitions",
    _FAMILY,
    f"`{_OFFSETS}` has as many partitions on both sides, where it is mirrored",
    Status.FAIL,
)
def offsets_partitions(observed: Observed) -> Iterator[Verdict]:
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
        raise NotObserved(subject, "nobody has committed yet on one of them", DESCRIBE, told)
    if counts[0] == counts[1]:
        yield ok(subject, "it has as many partitions on both", told)
    elif mirrored:
        cost = "a group's positions are looked for in another partition than they were copied to"
        cure = "make the target anew with the source's offsets.topic.num.partitions"
        yield fail(subject, "they differ, and it is mirrored", told, cost, cure)
    else:
        yield ok(subject, "they differ, and it is not mirrored: that costs nothing", told)


def _pairs(observed: Observed) -> list[Pair]:
    """Those of which both configurations may be read.

    Raises:
        NotObserved: no configuration may be read.
    """
    seen_ = compared(observed)
    known = [pair for pair in seen_.pairs if pair.topic.config and pair.copy.config]
    if seen_.pairs and not known:
        raise NotObserved(seen_.subject, "their settings may not be read", DESCRIBE)
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
    asked = seen(side.survey.settings, side.subject, "its brokers' settings are", DESCRIBE)
    known = [each for each in asked.values() if not isinstance(each, Unavailable) and each]
    if not known:
        why = next((e.reason for e in asked.values() if isinstance(e, Unavailable)), "no answer")
        cure = "grant drctl's user DESCRIBE_CONFIGS on the cluster"
        raise NotObserved(side.subject, "its brokers do not tell their settings", cure, why)
    return known[0]


def _number(settings: Mapping[str, str], key: str) -> int:
    text = settings.get(key, "")
    return int(text) if text.isdecimal() else 0
