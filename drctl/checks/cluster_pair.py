"""Queries both clusters of a link concurrently, and computes how far the target lags.

A cluster that does not answer does not delay the queries to the other one.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from drctl.checks.bounded_query import BoundedQuery
from drctl.checks.observed import Topics
from drctl.checks.ports import ClusterPorts, LinkPorts
from drctl.config.link import Link
from drctl.formats.consumer_timestamps import TOPIC as CONSUMER_TIMESTAMPS
from drctl.model.errors import Unknown
from drctl.model.groups import OFFSETS_TOPIC, Group
from drctl.model.health import ClusterHealth, OpenTransactions
from drctl.model.moments import utc
from drctl.model.ports import ClusterReader, OffsetReader
from drctl.model.producer_ids import Producers
from drctl.model.replication import Lag, ReplicatedTo, Tail
from drctl.model.topology import (
    Found,
    Mark,
    OffsetRange,
    Overview,
    TopicPartition,
    TopicState,
    Unavailable,
)

Logs = Mapping[TopicPartition, OffsetRange | Unavailable]
Replicated = Mapping[TopicPartition, ReplicatedTo]
Lags = Mapping[TopicPartition, Lag | Unavailable]
Tails = Mapping[TopicPartition, Tail | Unavailable]
Newest = Mapping[TopicPartition, Found | Unavailable]

SOON_MS = 10 * 60_000
"""Maximum duration of a drain."""

_KEPT_FOREVER = -1
_UNKNOWN = "the replicator reports no progress, and the newest copy shows none"


class NewestTimes(NamedTuple):
    """The newest copy of a partition, and the first newer record on the source.

    Attributes:
        copied_ms: timestamp of the newest copy, in milliseconds since 1970 UTC.
        offset: source offset of the first newer record; the log end if there is none.
        first_ms: timestamp of that record, in milliseconds since 1970 UTC; -1 if there is none.
    """

    copied_ms: int
    offset: int
    first_ms: int = -1


def lags(
    logs: Logs,
    replicated: Replicated,
    newest: Mapping[TopicPartition, NewestTimes],
    why_unknown: str = "",
) -> dict[TopicPartition, Lag | Unavailable]:
    """Compute the lag of each partition of the source.

    Args:
        replicated: the replicator's own progress.
        why_unknown: why its progress is not known; may be empty.
    """
    unknown = Unavailable(f"{_UNKNOWN}: {why_unknown}" if why_unknown else _UNKNOWN)
    return {
        place: log
        if isinstance(log, Unavailable)
        else _lag(log, replicated.get(place), newest.get(place)) or unknown
        for place, log in logs.items()
    }


def _lag(
    log: OffsetRange, replicated: ReplicatedTo | None, newest: NewestTimes | None
) -> Lag | None:
    if not log.span:
        return Lag(0, 0, "it is empty")
    if replicated is None and newest is None:
        return None
    words = [replicated.evidence] if replicated is not None else []
    if newest is not None:
        words.append(f"its newest copy is from {utc(newest.copied_ms)}")
    places = [each.offset for each in (replicated, newest) if each is not None]
    sure = replicated.offset if replicated is not None else max(places)
    records = _records_from(log, max(places))
    oldest_ms = newest.first_ms if newest is not None and records else -1
    return Lag(records, _records_from(log, sure), ", ".join(words), oldest_ms)


def _records_from(log: OffsetRange, offset: int) -> int:
    return max(0, log.end - max(log.start, offset))


class Limits(NamedTuple):
    """Timestamps before which records of a topic expire soon.

    Attributes:
        soon_ms: they expire within the maximum duration of a drain.
        later_ms: they expire within a quarter of `retention.ms`.
    """

    soon_ms: int
    later_ms: int


def limits(topic: TopicState, now_ms: int) -> Limits | Unavailable | None:
    """Return the limits of a source topic; None if records do not expire by age."""
    if not topic.config:
        return Unavailable("its configuration is not readable")
    text = topic.config.get("retention.ms", "")
    if not text.lstrip("-").isdecimal():
        return Unavailable("its retention.ms is not known")
    kept_ms = int(text)
    if "delete" not in topic.config.get("cleanup.policy", "delete") or kept_ms == _KEPT_FOREVER:
        return None
    return Limits(now_ms - kept_ms + SOON_MS, now_ms - kept_ms + kept_ms // 4)


def by_size(topic: TopicState) -> str:
    """Describe a size limit that deletes records regardless of age; empty if there is none."""
    limit = topic.config.get("retention.bytes", "-1")
    deletes = "delete" in topic.config.get("cleanup.policy", "delete")
    return f"retention.bytes={limit} deletes records regardless of age" * (
        deletes and limit != "-1"
    )


class Ages(NamedTuple):
    """Offsets before which a partition's records expire; see `Limits`."""

    soon: int
    later: int


def tail(
    log: OffsetRange, lag: Lag, replicated: ReplicatedTo | None, ages: Ages, sized: str
) -> Tail:
    """Count unreplicated records that retention has deleted or will delete."""
    begin = log.end - lag.at_most
    lost = 0 if replicated is None else max(0, log.start - replicated.offset)
    return Tail(lost, max(0, ages.soon - begin), max(0, ages.later - begin), sized)


_FEW = 10
"""So few offsets may all be transaction markers, which are not replicated."""

_NEVER = Ages(0, 0)

_ASKED = 500
"""Maximum number of partitions to check for transaction markers, by reading a record of each."""


@dataclass(frozen=True, slots=True)
class ReplicationLag:
    """The replication lag of a link.

    Attributes:
        tails: of the partitions that lag.
    """

    lag: Lags
    tails: Tails


@dataclass(frozen=True, slots=True)
class LagReader:
    """Reads the lag once.

    Attributes:
        topics: of the source, by name.
        copies: of the target, by name.
        newest: the newest record of each partition of the copies.
    """

    link: Link
    source: ClusterReader
    topics: Topics
    copies: Topics
    newest: Newest
    now_ms: int

    def read(
        self, places: Sequence[TopicPartition], replicated: Replicated, why_unknown: str = ""
    ) -> ReplicationLag:
        """Read the lag of these partitions of the source.

        Args:
            replicated: the replicator's own progress.
            why_unknown: why its progress is not known; may be empty.

        Raises:
            Unreachable: the source did not answer.
        """
        logs = log_ranges(self.source, places)
        found = lags(logs, replicated, self._by_time(logs, replicated), why_unknown)
        found |= self._only_markers(logs, found)
        return ReplicationLag(found, self._tails(logs, found, replicated))

    def _by_time(self, logs: Logs, replicated: Replicated) -> dict[TopicPartition, NewestTimes]:
        """Find the first source record that is newer than the newest copy."""
        asked = {p: at for p in logs if (at := self._copied_ms(p, logs[p], replicated.get(p))) >= 0}
        answers = self.source.look_up([(p, at + 1) for p, at in asked.items()])()
        found = {}
        for (place, at), answer in zip(asked.items(), answers, strict=True):
            log = logs[place]
            if isinstance(answer, Found) and isinstance(log, OffsetRange):
                offset = answer.offset if answer.offset >= 0 else log.end
                found[place] = NewestTimes(at, offset, answer.timestamp_ms)
        return found

    def _copied_ms(
        self, place: TopicPartition, log: OffsetRange | Unavailable, replicated: ReplicatedTo | None
    ) -> int:
        """Return the timestamp of the newest copy; -1 if it cannot be compared."""
        if isinstance(log, Unavailable) or (
            replicated is not None and replicated.offset >= log.end
        ):
            return -1
        copy = self.copies.get(self.link.target_topic(place.topic))
        comparable = isinstance(copy, TopicState) and not copy.log_append_time
        if not comparable or not self.link.settings.keeps_partitions:
            return -1
        newest = self.newest.get(copied(self.link, place))
        return newest.timestamp_ms if isinstance(newest, Found) else -1

    def _only_markers(self, logs: Logs, found: Lags) -> dict[TopicPartition, Lag]:
        """Return partitions with only transaction markers after the last copied record."""
        few: dict[TopicPartition, int] = {}
        for place, lag in found.items():
            log = logs[place]
            if isinstance(lag, Lag) and isinstance(log, OffsetRange) and 0 < lag.at_most <= _FEW:
                few[place] = log.end - lag.at_most
        if not few or len(few) > _ASKED:
            return {}
        records = self.source.first_timestamps(few)
        return {
            place: Lag(0, 0, "only transaction markers follow the last copied record")
            for place in few
            if place not in records
        }

    def _tails(self, logs: Logs, found: Lags, replicated: Replicated) -> Tails:
        """Compute the effect of retention on the partitions that lag."""
        tails: dict[TopicPartition, Tail | Unavailable] = {}
        known = {}
        for place, lag in found.items():
            log, topic, upto = logs[place], self.topics.get(place.topic), replicated.get(place)
            if (
                isinstance(lag, Lag)
                and isinstance(log, OffsetRange)
                and isinstance(topic, TopicState)
                and (lag.at_most > 0 or (upto is not None and upto.offset < log.start))
            ):
                known[place] = (log, lag, topic)
        bounds = {p: limits(topic, self.now_ms) for p, (_, _, topic) in known.items()}
        ages = self._ages({p: b for p, b in bounds.items() if isinstance(b, Limits)}, logs)
        for place, (log, lag, topic) in known.items():
            bound, age = bounds[place], ages.get(place, _NEVER)
            if isinstance(bound, Unavailable):
                tails[place] = bound
            elif isinstance(age, Unavailable):
                tails[place] = age
            else:
                tails[place] = tail(log, lag, replicated.get(place), age, by_size(topic))
        return tails

    def _ages(
        self, bounds: Mapping[TopicPartition, Limits], logs: Logs
    ) -> dict[TopicPartition, Ages | Unavailable]:
        times = {p: (max(0, b.soon_ms), max(0, b.later_ms)) for p, b in bounds.items()}
        found: dict[TopicPartition, Ages | Unavailable] = {}
        for place, answers in _look_up_both(self.source, times).items():
            log = logs[place]
            if isinstance(answers, Unavailable):
                found[place] = answers
            elif isinstance(log, OffsetRange):
                found[place] = Ages(*(f.offset if f.offset >= 0 else log.end for f in answers))
        return found


def copied(link: Link, place: TopicPartition) -> TopicPartition:
    """Return the partition of the target that holds the copies."""
    return TopicPartition(link.target_topic(place.topic), place.partition)


def log_ranges(
    reader: OffsetReader, places: Collection[TopicPartition]
) -> dict[TopicPartition, OffsetRange | Unavailable]:
    """Read log starts and log ends.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    found = _look_up_both(reader, dict.fromkeys(places, (Mark.START, Mark.END)))
    return {
        place: each
        if isinstance(each, Unavailable)
        else OffsetRange(each[0].offset, each[1].offset)
        for place, each in found.items()
    }


def _look_up_both(
    reader: OffsetReader, questions: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, tuple[Found, Found] | Unavailable]:
    """Look up the offsets of two timestamps, or of the log start and end, of each partition."""
    rows = [(place, both[number]) for number in (0, 1) for place, both in questions.items()]
    answers, half = reader.look_up(rows)() if rows else (), len(questions)
    found: dict[TopicPartition, tuple[Found, Found] | Unavailable] = {}
    for place, one, two in zip(questions, answers[:half], answers[half:], strict=True):
        if isinstance(one, Found) and isinstance(two, Found):
            found[place] = one, two
        else:
            found[place] = next(each for each in (one, two) if isinstance(each, Unavailable))
    return found


class Source:
    """Queries to the source, which may be down.

    Attributes:
        topics: topics of the link, and others that checks need.
    """

    def __init__(self, link: Link, ports: ClusterPorts, timeout_s: float) -> None:
        self._link, self._ports = link, ports
        self.overview = BoundedQuery(ports.reader.overview, timeout_s)
        self.groups = BoundedQuery(ports.groups.groups, timeout_s)
        self.acls = BoundedQuery(ports.acls.acls, timeout_s)
        self.rights = BoundedQuery(ports.rights.operations, timeout_s)
        self.topics = BoundedQuery(self._topics, timeout_s)
        self.coordinators = BoundedQuery(self._coordinators, timeout_s)
        self.transactions = BoundedQuery(self._transactions, timeout_s)
        self.producers = BoundedQuery(self._producers, timeout_s)

    def carried(self) -> tuple[str, ...]:
        """Topics of the link.

        Raises:
            Unreachable: the source does not answer.
        """
        return self._link.topics_of(self.overview.value().partitions)

    def places(self) -> list[TopicPartition]:
        """All partitions of these topics.

        Raises:
            Unreachable: the source does not answer.
        """
        return _places(self.overview.value(), self.carried())

    def _topics(self) -> Topics:
        names = self.carried()
        if self._link.settings.replicator.kind == "confluent-replicator":
            names = tuple({*names, CONSUMER_TIMESTAMPS})
        return self._ports.reader.topics(names)

    def _coordinators(self) -> ClusterHealth:
        # The empty configuration avoids a request that is not needed here.
        return self._ports.health.health([OFFSETS_TOPIC], {OFFSETS_TOPIC: {}})

    def _transactions(self) -> OpenTransactions:
        _require_queried(self._ports)
        return self._ports.health.open_transactions(self.places())

    def _producers(self) -> Producers:
        _require_queried(self._ports)
        return self._ports.producers.in_use(self.places())


class Target:
    """Queries to the target.

    Attributes:
        topics: existing copies, and copies that should exist.
        groups: groups of the link.
        newest: the newest record of each partition of the copies.
    """

    def __init__(self, link: Link, ports: ClusterPorts, source: Source, timeout_s: float) -> None:
        self._link, self._ports, self._source = link, ports, source
        self.overview = BoundedQuery(ports.reader.overview, timeout_s)
        self.groups = BoundedQuery(self._groups, timeout_s)
        self.acls = BoundedQuery(ports.acls.acls, timeout_s)
        self.topics = BoundedQuery(self._topics, timeout_s)
        # These wait for the results of the queries above.
        self.health = BoundedQuery(self._health, timeout_s)
        self.newest = BoundedQuery(self._newest, timeout_s)
        self.producers = BoundedQuery(self._producers, timeout_s)

    def copies(self) -> tuple[str, ...]:
        """Names of existing topics that are named like copies.

        Raises:
            Unreachable: the target does not answer.
        """
        return self._link.copies_among(self.overview.value().partitions)

    def _topics(self) -> Topics:
        there = self.copies()
        overview = self._source.overview.answer()
        known = () if isinstance(overview, Unavailable) else self._source.carried()
        return self._ports.reader.topics(tuple({*there, *map(self._link.target_topic, known)}))

    def _health(self) -> ClusterHealth:
        topics = self.topics.answer()
        states = {} if isinstance(topics, Unavailable) else topics
        # With many topics, reading configurations dominates: read them once.
        known = {n: s.config for n, s in states.items() if isinstance(s, TopicState) and s.config}
        return self._ports.health.health(self.copies(), known)

    def _groups(self) -> Mapping[str, Group | Unavailable]:
        groups = self._ports.groups
        return groups.described(tuple(filter(self._link.carries_group, groups.groups())))

    def _newest(self) -> Newest:
        # A reader is not thread-safe: wait until the other query has finished with it.
        self.topics.answer()
        places = _places(self.overview.value(), self.copies())
        answers = self._ports.reader.look_up([(place, Mark.NEWEST) for place in places])()
        return dict(zip(places, answers, strict=True))

    def _producers(self) -> Producers:
        _require_queried(self._ports)
        return self._ports.producers.in_use(_places(self.overview.value(), self.copies()))


class ClusterPair:
    """Queries to both clusters, and the replication lag."""

    def __init__(self, link: Link, ports: LinkPorts, now_ms: int, timeout_s: float) -> None:
        self._link, self._ports, self._now_ms = link, ports, now_ms
        self.source = Source(link, ports.source, timeout_s)
        self.target = Target(link, ports.target, self.source, timeout_s)
        self._replicated = BoundedQuery(self._progress, timeout_s)
        self.lag = BoundedQuery(self._lag, timeout_s)

    def _progress(self) -> Mapping[TopicPartition, ReplicatedTo]:
        progress = self._ports.progress
        return progress.positions(self.source.carried()) if progress is not None else {}

    def _lag(self) -> ReplicationLag:
        # A reader is not thread-safe: wait until these queries have finished with it.
        topics, copies = self.source.topics.value(), self.target.topics.value()
        newest, replicated = self.target.newest.answer(), self._replicated.answer()
        known = {} if isinstance(newest, Unavailable) else newest
        reader = self._ports.source.reader
        lag_reader = LagReader(self._link, reader, topics, copies, known, self._now_ms)
        if isinstance(replicated, Unavailable):
            return lag_reader.read(self.source.places(), {}, replicated.reason)
        return lag_reader.read(self.source.places(), replicated)


def _require_queried(ports: ClusterPorts) -> None:
    if ports.not_asked:
        raise Unknown(ports.not_asked)


def _places(overview: Overview, topics: Collection[str]) -> list[TopicPartition]:
    return [TopicPartition(t, number) for t in topics for number in overview.partitions.get(t, ())]
