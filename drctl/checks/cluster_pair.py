"""Both clusters of a link, asked at once, and how far the target lags behind the source.

A cluster that does not answer keeps nobody from asking the other one.
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
"""How long a drain may take."""

_KEPT_FOREVER = -1
_NOBODY = "nobody says how far replication came, and the newest copy does not tell"


class NewestTimes(NamedTuple):
    """What the newest copy says.

    Attributes:
        copied_ms: its time, milliseconds UTC.
        offset: on the source, of the first record that is newer; the end where none is.
        first_ms: the time of that record, milliseconds UTC; -1 where there is none.
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
    """By partition of the source.

    Args:
        replicated: how far the replicator says that it came.
        why_unknown: why it says nothing, where it does not.
    """
    nobody = Unavailable(f"{_NOBODY}: {why_unknown}" if why_unknown else _NOBODY)
    return {
        place: log
        if isinstance(log, Unavailable)
        else _lag(log, replicated.get(place), newest.get(place)) or nobody
        for place, log in logs.items()
    }


def _lag(
    log: OffsetRange, replicated: ReplicatedTo | None, newest: NewestTimes | None
) -> Lag | None:
    if not log.span:
        return Lag(0, 0, "it holds nothing")
    if replicated is None and newest is None:
        return None
    words = [replicated.evidence] if replicated is not None else []
    if newest is not None:
        words.append(f"its newest copy is of {utc(newest.copied_ms)}")
    places = [each.offset for each in (replicated, newest) if each is not None]
    sure = replicated.offset if replicated is not None else max(places)
    records = _behind(log, max(places))
    oldest_ms = newest.first_ms if newest is not None and records else -1
    return Lag(records, _behind(log, sure), ", ".join(words), oldest_ms)


def _behind(log: OffsetRange, position: int) -> int:
    return max(0, log.end - max(log.start, position))


class Limits(NamedTuple):
    """Times of a topic: what is older than these is deleted within a while.

    Attributes:
        soon_ms: within the time of a drain.
        later_ms: within a quarter of the time that records are kept.
    """

    soon_ms: int
    later_ms: int


def limits(topic: TopicState, now_ms: int) -> Limits | Unavailable | None:
    """Of a topic of the source; None where it deletes nothing for its age."""
    if not topic.config:
        return Unavailable("its configuration may not be read")
    text = topic.config.get("retention.ms", "")
    if not text.lstrip("-").isdecimal():
        return Unavailable("its retention.ms is not known")
    kept_ms = int(text)
    if "delete" not in topic.config.get("cleanup.policy", "delete") or kept_ms == _KEPT_FOREVER:
        return None
    return Limits(now_ms - kept_ms + SOON_MS, now_ms - kept_ms + kept_ms // 4)


def by_size(topic: TopicState) -> str:
    """By which size it deletes records whatever their age; empty where by none."""
    limit = topic.config.get("retention.bytes", "-1")
    deletes = "delete" in topic.config.get("cleanup.policy", "delete")
    return f"retention.bytes={limit} deletes records whatever their age" * (
        deletes and limit != "-1"
    )


class Ages(NamedTuple):
    """Offsets up to which a partition's records are deleted within a while."""

    soon: int
    later: int


def tail(
    log: OffsetRange, lag: Lag, replicated: ReplicatedTo | None, ages: Ages, sized: str
) -> Tail:
    """What retention has done, and is about to do, to what lags."""
    begin = log.end - lag.at_most
    lost = 0 if replicated is None else max(0, log.start - replicated.offset)
    return Tail(lost, max(0, ages.soon - begin), max(0, ages.later - begin), sized)


_FEW = 10
"""As few offsets as this may all be ends of transactions, which nobody copies."""

_NEVER = Ages(0, 0)

_ASKED = 500
"""For more partitions this is not looked up: it reads a record of each."""


@dataclass(frozen=True, slots=True)
class Behind:
    """How far replication is behind.

    Attributes:
        tails: of those partitions that lag.
    """

    lag: Lags
    tails: Tails


@dataclass(frozen=True, slots=True)
class Lagging:
    """One look at the source.

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

    def look(
        self, places: Sequence[TopicPartition], replicated: Replicated, why_unknown: str = ""
    ) -> Behind:
        """How far these partitions of the source are behind.

        Args:
            replicated: how far the replicator says that it came.
            why_unknown: why it says nothing, where it does not.

        Raises:
            Unreachable: the source did not answer.
        """
        logs = log_ranges(self.source, places)
        found = lags(logs, replicated, self._by_time(logs, replicated), why_unknown)
        found |= self._nothing_but_marks(logs, found)
        return Behind(found, self._tails(logs, found, replicated))

    def _by_time(self, logs: Logs, replicated: Replicated) -> dict[TopicPartition, NewestTimes]:
        """Where on the source what is newer than the newest copy begins."""
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
        """The time of the newest copy; -1 where it does not help."""
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

    def _nothing_but_marks(self, logs: Logs, found: Lags) -> dict[TopicPartition, Lag]:
        """Partitions behind whose last copy there are only the ends of transactions."""
        few: dict[TopicPartition, int] = {}
        for place, lag in found.items():
            log = logs[place]
            if isinstance(lag, Lag) and isinstance(log, OffsetRange) and 0 < lag.at_most <= _FEW:
                few[place] = log.end - lag.at_most
        if not few or len(few) > _ASKED:
            return {}
        records = self.source.first_timestamps(few)
        return {
            place: Lag(0, 0, "behind what was copied there is no record")
            for place in few
            if place not in records
        }

    def _tails(self, logs: Logs, found: Lags, replicated: Replicated) -> Tails:
        """What retention does to those that lag."""
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
    """The partition of the target that holds the copies."""
    return TopicPartition(link.target_topic(place.topic), place.partition)


def log_ranges(
    reader: OffsetReader, places: Collection[TopicPartition]
) -> dict[TopicPartition, OffsetRange | Unavailable]:
    """Where the logs of partitions begin and end.

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
    """Two questions of each partition."""
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
    """The cluster that replication reads from; it may be dead.

    Attributes:
        topics: those that the link carries, and those that checks ask for by name.
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
        """All their partitions.

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
        # Its configuration is of no concern here, and not asked for.
        return self._ports.health.health([OFFSETS_TOPIC], {OFFSETS_TOPIC: {}})

    def _transactions(self) -> OpenTransactions:
        _must_be_asked(self._ports)
        return self._ports.health.open_transactions(self.places())

    def _producers(self) -> Producers:
        _must_be_asked(self._ports)
        return self._ports.producers.in_use(self.places())


class Target:
    """The cluster that replication writes to.

    Attributes:
        topics: the copies that are there, and those that should be.
        groups: those that the link carries.
        newest: the newest record of each partition of the copies.
    """

    def __init__(self, link: Link, ports: ClusterPorts, source: Source, timeout_s: float) -> None:
        self._link, self._ports, self._source = link, ports, source
        self.overview = BoundedQuery(ports.reader.overview, timeout_s)
        self.groups = BoundedQuery(self._groups, timeout_s)
        self.acls = BoundedQuery(ports.acls.acls, timeout_s)
        self.topics = BoundedQuery(self._topics, timeout_s)
        # These wait for others, which have to be there by then.
        self.health = BoundedQuery(self._health, timeout_s)
        self.newest = BoundedQuery(self._newest, timeout_s)
        self.producers = BoundedQuery(self._producers, timeout_s)

    def copies(self) -> tuple[str, ...]:
        """Topics that are there, and that are called as copies are.

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
        # Of very many topics configurations are most of the work: they are read once.
        known = {n: s.config for n, s in states.items() if isinstance(s, TopicState) and s.config}
        return self._ports.health.health(self.copies(), known)

    def _groups(self) -> Mapping[str, Group | Unavailable]:
        groups = self._ports.groups
        return groups.described(tuple(filter(self._link.carries_group, groups.groups())))

    def _newest(self) -> Newest:
        # One reader is asked in turn: by now nobody else asks it.
        self.topics.answer()
        places = _places(self.overview.value(), self.copies())
        answers = self._ports.reader.look_up([(place, Mark.NEWEST) for place in places])()
        return dict(zip(places, answers, strict=True))

    def _producers(self) -> Producers:
        _must_be_asked(self._ports)
        return self._ports.producers.in_use(_places(self.overview.value(), self.copies()))


class Ends:
    """Both, and how far the one is behind the other."""

    def __init__(self, link: Link, ports: LinkPorts, now_ms: int, timeout_s: float) -> None:
        self._link, self._ports, self._now_ms = link, ports, now_ms
        self.source = Source(link, ports.source, timeout_s)
        self.target = Target(link, ports.target, self.source, timeout_s)
        self._replicated = BoundedQuery(self._progress, timeout_s)
        self.behind = BoundedQuery(self._behind, timeout_s)

    def _progress(self) -> Mapping[TopicPartition, ReplicatedTo]:
        progress = self._ports.progress
        return progress.positions(self.source.carried()) if progress is not None else {}

    def _behind(self) -> Behind:
        # The readers are asked in turn: these answers come before.
        topics, copies = self.source.topics.value(), self.target.topics.value()
        newest, replicated = self.target.newest.answer(), self._replicated.answer()
        known = {} if isinstance(newest, Unavailable) else newest
        reader = self._ports.source.reader
        look = Lagging(self._link, reader, topics, copies, known, self._now_ms)
        if isinstance(replicated, Unavailable):
            return look.look(self.source.places(), {}, replicated.reason)
        return look.look(self.source.places(), replicated)


def _must_be_asked(ports: ClusterPorts) -> None:
    if ports.not_asked:
        raise Unknown(ports.not_asked)


def _places(overview: Overview, topics: Collection[str]) -> list[TopicPartition]:
    return [TopicPartition(t, number) for t in topics for number in overview.partitions.get(t, ())]
