"""GO or NO-GO: what blocks a failover now, and how many records it would lose."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from drctl.checks.causes import MOVED, causes_first
from drctl.checks.diagnosis import blockers_among
from drctl.checks.observed import Observed
from drctl.checks.registry import precheck_findings
from drctl.config.schema import PolicyConfig
from drctl.model.errors import ExitCode
from drctl.model.finding import Finding, Status
from drctl.model.loss import Figure, LossRange, Mode, not_known
from drctl.model.moments import utc
from drctl.model.replication import Connector, Lag, LeftOut
from drctl.model.text import plural
from drctl.model.topology import TopicPartition, TopicState, Unavailable

PLAUSIBLE_S = 365 * 86_400
"""Producers may set event times of years ago: an older timestamp does not show when its record was
written."""

Lags = Mapping[TopicPartition, Lag | Unavailable]


@dataclass(frozen=True, slots=True)
class Rpo:
    """What would not be replicated if the source failed now.

    Attributes:
        lost: number of records.
        seconds: age of the oldest of them, now or when the source was last alive; None if
            unknown.
        how: how it was measured, for messages.
    """

    lost: LossRange
    seconds: float | None
    how: str

    @property
    def records(self) -> int | None:
        """Best estimate of the records; None if unknown."""
        return self.lost.likely.records

    @property
    def at_most(self) -> int | None:
        """Upper bound of the records; None if unknown."""
        return self.lost.at_most.records


def unknown(why: str) -> Rpo:
    """An unknown RPO."""
    return Rpo(not_known(why), None, why)


def lagging(records: int, at_most: int, seconds: float | None, how: str) -> Rpo:
    """The RPO of a source that answers, from its measured lag.

    Args:
        records: best estimate.
        at_most: upper bound, from the replicator's committed offset.
    """
    beyond = "from the replicator's committed offset"
    return Rpo(
        LossRange(Figure(None, how), Figure(records, how), Figure(at_most, beyond)), seconds, how
    )


@dataclass(frozen=True, slots=True)
class TopicRpo:
    """The RPO of one topic.

    Attributes:
        unknown: number of partitions with unknown lag.
    """

    topic: str
    target_topic: str
    partitions: int
    rpo: Rpo
    unknown: int = 0


def topics_now(observed: Observed) -> tuple[TopicRpo, ...]:
    """The RPO of each topic, the worst first; empty if the lag is unknown."""
    if isinstance(observed.lag, Unavailable):
        return ()
    by_topic: dict[str, dict[TopicPartition, Lag | Unavailable]] = defaultdict(dict)
    for place, each in observed.lag.items():
        by_topic[place.topic][place] = each
    found = [_topic(observed, topic, lags) for topic, lags in by_topic.items()]
    return tuple(sorted(found, key=_worst))


def link_now(topics: Iterable[TopicRpo], why: str) -> Rpo:
    """The RPO of all topics together.

    Args:
        why: the reason if nothing is known.
    """
    rows = tuple(topics)
    known = [row.rpo for row in rows if row.rpo.records is not None]
    if not known:
        return unknown(why)
    seconds = [each.seconds for each in known]
    worst = next(row.rpo for row in rows if row.rpo.records is not None)
    unknown_lag = sum(row.unknown for row in rows)
    beside = f"; the lag of {plural(unknown_lag, 'partition')} is not known" if unknown_lag else ""
    return lagging(
        sum(each.records or 0 for each in known),
        sum(each.at_most or 0 for each in known),
        None if None in seconds else max(each for each in seconds if each is not None),
        worst.how + beside,
    )


def _topic(observed: Observed, topic: str, lags: Lags) -> TopicRpo:
    known = {p: each for p, each in lags.items() if isinstance(each, Lag)}
    unknown_lag = len(lags) - len(known)
    target = observed.link.target_topic(topic)
    if not known:
        why = next(each.reason for each in lags.values() if isinstance(each, Unavailable))
        return TopicRpo(topic, target, len(lags), unknown(why), unknown_lag)
    behind = [each for each in known.values() if each.records]
    times = [each.oldest_ms for each in behind]
    seconds = None
    if not behind:
        seconds = 0.0
    elif min(times) >= 0:
        seconds = max(0.0, (observed.now_ms - min(times)) / 1000)
    undated = ""
    if seconds is not None and seconds > PLAUSIBLE_S and not _dated_by_broker(observed, topic):
        undated = f"; record timestamps from {utc(min(times))}, set by the producer"
        seconds = None
    worst = max(known.values(), key=lambda each: (each.records, each.at_most))
    records, at_most = (sum(getattr(e, n) for e in known.values()) for n in ("records", "at_most"))
    return TopicRpo(
        topic,
        target,
        len(lags),
        lagging(records, at_most, seconds, worst.evidence + undated),
        unknown_lag,
    )


def _dated_by_broker(observed: Observed, topic: str) -> bool:
    """Whether its records have LogAppendTime timestamps."""
    topics = observed.source_topics
    state = None if isinstance(topics, Unavailable) else topics.get(topic)
    return isinstance(state, TopicState) and state.log_append_time


def _worst(row: TopicRpo) -> tuple[bool, float, int, str]:
    """Sort key: unknown first, then by age and records."""
    rpo = row.rpo
    return (rpo.records is not None, -(rpo.seconds or 0), -(rpo.records or 0), row.topic)


SKIPPED_CHECKS = ("groups-not-translated", "hanging-transactions", "producer-ids-collide")
"""Prechecks that `status` skips because they take too long to run every few seconds."""

_IF_LOST = "source-alive"
RPO = "policy.max_rpo_seconds"


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a failover could start.

    Attributes:
        blockers: the findings that block it.
    """

    blockers: tuple[Finding, ...]

    @property
    def go(self) -> bool:
        """Nothing blocks it."""
        return not self.blockers


@dataclass(frozen=True, slots=True)
class GroupsNow:
    """Groups of the link, if the source were lost now.

    Attributes:
        groups: number of groups with committed offsets in topics of the link.
        positions: number of these offsets.
        left_out: offsets that cannot be translated.
        unknown: why this is not known; empty if it is.
    """

    groups: int = 0
    positions: int = 0
    left_out: tuple[LeftOut, ...] = ()
    unknown: str = ""

    @property
    def groups_left_out(self) -> tuple[str, ...]:
        """Sorted names of groups with an offset that cannot be translated."""
        return tuple(sorted({row.group for row in self.left_out}))


@dataclass(frozen=True, slots=True)
class StatusNow:
    """The result of one status check.

    Attributes:
        took_s: its duration, in seconds.
        planned: whether a planned failover could start now.
        unplanned: whether an unplanned one could, if the source were lost now.
        others: findings that are not ok and block nothing.
        allowed: the limits of the policy.
        connectors: of the workers that replicate the link.
    """

    link: str
    source: str
    target: str
    at_ms: int
    took_s: float
    source_id: str | Unavailable
    target_id: str | Unavailable
    planned: Answer
    unplanned: Answer
    others: tuple[Finding, ...]
    rpo: Rpo
    allowed: PolicyConfig
    topics: tuple[TopicRpo, ...]
    groups: GroupsNow
    connectors: Mapping[str, Connector]

    @property
    def silent(self) -> tuple[str, ...]:
        """Clusters that did not answer."""
        ends = ((self.source, self.source_id), (self.target, self.target_id))
        return tuple(name for name, answer in ends if isinstance(answer, Unavailable))

    @property
    def undone(self) -> tuple[Finding, ...]:
        """Parts of the last failover that no longer hold: source fence, stopped connectors."""
        # The first finding says where the clients are.
        return tuple(f for f in self.planned.blockers if f.check == MOVED)[1:]

    @property
    def exit_code(self) -> ExitCode:
        """5 if a cluster did not answer, 1 if something is no-go, else 0."""
        if self.silent:
            return ExitCode.UNKNOWN
        return ExitCode.DONE if self.planned.go and self.unplanned.go else ExitCode.FOUND


def judged(observed: Observed, groups: GroupsNow, lost: Rpo | None, took_s: float) -> StatusNow:
    """Judge an observed link.

    Args:
        lost: the estimated loss, if the source does not answer.
    """
    link = observed.link
    topics = topics_now(observed)
    why = observed.lag.reason if isinstance(observed.lag, Unavailable) else "the link has no topics"
    rpo = lost if lost is not None else link_now(topics, why)
    planned = _asked(replace(observed, mode=Mode.PLANNED))
    if any(f.check == MOVED and f.status is Status.FAIL for f in planned):
        # Clients write to the target: records missing there are no loss.
        topics, rpo = (), unknown(f"clients are on {link.target}")
    unplanned = _asked(replace(observed, mode=Mode.UNPLANNED))
    unplanned = causes_first((*unplanned, *_beyond(rpo, observed)))
    blocking = _blockers(planned, Mode.PLANNED), _blockers(unplanned, Mode.UNPLANNED)
    others = [f for f in planned if f.status is not Status.OK and f not in blocking[0]]
    connectors = observed.connectors
    return StatusNow(
        link.name,
        link.source,
        link.target,
        observed.now_ms,
        took_s,
        observed.source,
        observed.target,
        Answer(blocking[0]),
        Answer(blocking[1]),
        tuple(others),
        rpo,
        observed.policy,
        topics,
        groups,
        {} if isinstance(connectors, Unavailable) else connectors,
    )


def _asked(observed: Observed) -> tuple[Finding, ...]:
    """Findings of the prechecks, except that the source is alive."""
    beside = (*SKIPPED_CHECKS, _IF_LOST)
    found = tuple(f for f in precheck_findings(observed) if f.check not in beside)
    return causes_first(found)


def _blockers(findings: tuple[Finding, ...], mode: Mode) -> tuple[Finding, ...]:
    limits = tuple(f for f in findings if f.check == RPO)
    return (*blockers_among((f for f in findings if f.check != RPO), (), mode), *limits)


def _beyond(rpo: Rpo, observed: Observed) -> tuple[Finding, ...]:
    """A finding if the RPO exceeds the policy."""
    limit = observed.policy.max_rpo_seconds
    if rpo.seconds is None or rpo.seconds <= limit:
        return ()
    return (
        Finding(
            RPO,
            Status.FAIL,
            f"link {observed.link.name}",
            f"writes of the last {rpo.seconds:,.0f} s are not replicated (limit {limit:g} s)",
            rpo.how,
            "they exist on the source only: lost if its disks are lost",
            "find out why replication lags: drctl doctor",
        ),
    )
