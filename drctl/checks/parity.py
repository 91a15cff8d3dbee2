"""Parity of topics: what clients find on the target is what they know from the source."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from drctl.checks.check import BOTH, PLANNED, Family, Guards, Verdict, check, fail, ok
from drctl.checks.copies import DESCRIBE, Compared, Pair, compared
from drctl.checks.observed import Observed
from drctl.checks.wording import listed, several
from drctl.model.failover import Mode
from drctl.model.finding import Status
from drctl.model.topology import TopicState

_FAMILY = Family.PARITY
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
        yield Verdict(Status.NOT_CHECKED, seen.subject, reason, cure=cure)
    elif not found and not seen.unread:
        yield ok(seen.subject, "copies are as their topics, or stricter", f"{len(known):,} topics")


def _unread(seen: Compared) -> Iterator[Verdict]:
    if seen.unread:
        why = several(f"{name}: {each.reason}" for name, each in seen.unread.items())
        reason = f"{len(seen.unread):,} of them could not be looked at"
        yield Verdict(Status.NOT_CHECKED, seen.subject, reason, why, cure=DESCRIBE)


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
