"""The RPO now: what would be lost if the source were lost at this moment, by topic and in all."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from drctl.checks.observed import Observed
from drctl.model.loss import Figure, LossRange, not_known
from drctl.model.moments import utc
from drctl.model.replication import Lag
from drctl.model.topology import TopicPartition, TopicState, Unavailable

PLAUSIBLE_S = 365 * 86_400
"""A producer gives records a time of its own, as that of an event of years ago: a time older than
this tells nothing of when the record was written. No replication stands still for so long."""

Lags = Mapping[TopicPartition, Lag | Unavailable]


@dataclass(frozen=True, slots=True)
class Rpo:
    """What would be lost.

    Attributes:
        lost: how many records.
        seconds: how old the oldest of them is, or was when the source was last seen alive; None
            where nothing tells.
        how: it was measured, in words for a person.
    """

    lost: LossRange
    seconds: float | None
    how: str

    @property
    def records(self) -> int | None:
        """About so many, by the best that is known; None where nothing tells."""
        return self.lost.likely.records

    @property
    def at_most(self) -> int | None:
        """No more than so many; None where nothing tells."""
        return self.lost.at_most.records


def unknown(why: str) -> Rpo:
    """Where nothing tells."""
    return Rpo(not_known(why), None, why)


def lagging(records: int, at_most: int, seconds: float | None, how: str) -> Rpo:
    """Of a source that answers, so that the lag is measured.

    Args:
        records: about so many.
        at_most: by the replicator's own word.
    """
    beyond = "by the replicator's own word of how far it has copied"
    return Rpo(
        LossRange(Figure(None, how), Figure(records, how), Figure(at_most, beyond)), seconds, how
    )


@dataclass(frozen=True, slots=True)
class TopicRpo:
    """The same of one topic.

    Attributes:
        unknown: partitions of which nothing is known.
    """

    topic: str
    target_topic: str
    partitions: int
    rpo: Rpo
    unknown: int = 0


def topics_now(observed: Observed) -> tuple[TopicRpo, ...]:
    """Each topic of the link, the worst first; nothing where the source did not tell."""
    if isinstance(observed.lag, Unavailable):
        return ()
    by_topic: dict[str, dict[TopicPartition, Lag | Unavailable]] = defaultdict(dict)
    for place, each in observed.lag.items():
        by_topic[place.topic][place] = each
    found = [_topic(observed, topic, lags) for topic, lags in by_topic.items()]
    return tuple(sorted(found, key=_worst))


def link_now(topics: Iterable[TopicRpo], why: str) -> Rpo:
    """Of all topics together.

    Args:
        why: nothing is known, where nothing is.
    """
    rows = tuple(topics)
    known = [row.rpo for row in rows if row.rpo.records is not None]
    if not known:
        return unknown(why)
    seconds = [each.seconds for each in known]
    worst = next(row.rpo for row in rows if row.rpo.records is not None)
    untold = sum(row.unknown for row in rows)
    beside = f"; of {untold:,} partitions nothing is known" if untold else ""
    return lagging(
        sum(each.records or 0 for each in known),
        sum(each.at_most or 0 for each in known),
        None if None in seconds else max(each for each in seconds if each is not None),
        worst.how + beside,
    )


def _topic(observed: Observed, topic: str, lags: Lags) -> TopicRpo:
    known = {p: each for p, each in lags.items() if isinstance(each, Lag)}
    untold = len(lags) - len(known)
    target = observed.link.target_topic(topic)
    if not known:
        why = next(each.reason for each in lags.values() if isinstance(each, Unavailable))
        return TopicRpo(topic, target, len(lags), unknown(why), untold)
    behind = [each for each in known.values() if each.records]
    times = [each.oldest_ms for each in behind]
    seconds = None
    if not behind:
        seconds = 0.0
    elif min(times) >= 0:
        seconds = max(0.0, (observed.now_ms - min(times)) / 1000)
    undated = ""
    if seconds is not None and seconds > PLAUSIBLE_S and not _dated_by_broker(observed, topic):
        undated = f"; the oldest bears the time {utc(min(times))}, which is its producer's: no age"
        seconds = None
    worst = max(known.values(), key=lambda each: (each.records, each.at_most))
    records, at_most = (sum(getattr(e, n) for e in known.values()) for n in ("records", "at_most"))
    return TopicRpo(
        topic,
        target,
        len(lags),
        lagging(records, at_most, seconds, worst.evidence + undated),
        untold,
    )


def _dated_by_broker(observed: Observed, topic: str) -> bool:
    """Whether its records bear the time at which the broker took them."""
    topics = observed.source_topics
    state = None if isinstance(topics, Unavailable) else topics.get(topic)
    return isinstance(state, TopicState) and state.log_append_time


def _worst(row: TopicRpo) -> tuple[bool, float, int, str]:
    """What nobody knows comes first."""
    rpo = row.rpo
    return (rpo.records is not None, -(rpo.seconds or 0), -(rpo.records or 0), row.topic)
