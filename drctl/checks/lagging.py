"""Asks both clusters how far replication is behind; in a few batches, however many partitions."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from drctl.checks.lag import Ages, Limits, Newest, by_size, lags, limits, tail
from drctl.checks.observed import Topics
from drctl.config.link import Link
from drctl.model.ports import ClusterReader, OffsetReader
from drctl.model.replication import Lag, ReplicatedTo, Tail
from drctl.model.topology import (
    Found,
    Mark,
    OffsetRange,
    TopicPartition,
    TopicState,
    Unavailable,
)

Logs = Mapping[TopicPartition, OffsetRange | Unavailable]
Told = Mapping[TopicPartition, ReplicatedTo]
Lags = Mapping[TopicPartition, Lag | Unavailable]
Tails = Mapping[TopicPartition, Tail | Unavailable]

_FEW = 10
"""So many offsets may be the ends of transactions, which nobody copies, and no record."""

_NEVER = Ages(0, 0)

_ASKED = 500
"""Partitions of which that is found out: a record of each is read."""


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
    newest: Mapping[TopicPartition, Found | Unavailable]
    now_ms: int

    def look(self, places: Sequence[TopicPartition], told: Told, why_not_told: str = "") -> Behind:
        """How far these partitions of the source are behind.

        Args:
            told: how far the replicator says that it came.
            why_not_told: why it says nothing, where it does not.

        Raises:
            Unreachable: the source did not answer.
        """
        logs = log_ranges(self.source, places)
        found = lags(logs, told, self._by_time(logs, told), why_not_told)
        found |= self._nothing_but_marks(logs, found)
        return Behind(found, self._tails(logs, found, told))

    def _by_time(self, logs: Logs, told: Told) -> dict[TopicPartition, Newest]:
        """Where on the source what is newer than the newest copy begins."""
        asked = {p: at for p in logs if (at := self._copied_ms(p, logs[p], told.get(p))) >= 0}
        answers = self.source.look_up([(p, at + 1) for p, at in asked.items()])()
        found = {}
        for (place, at), answer in zip(asked.items(), answers, strict=True):
            log = logs[place]
            if isinstance(answer, Found) and isinstance(log, OffsetRange):
                offset = answer.offset if answer.offset >= 0 else log.end
                found[place] = Newest(at, offset, answer.timestamp_ms)
        return found

    def _copied_ms(
        self, place: TopicPartition, log: OffsetRange | Unavailable, told: ReplicatedTo | None
    ) -> int:
        """The time of the newest copy; -1 where it does not help."""
        if isinstance(log, Unavailable) or (told is not None and told.offset >= log.end):
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

    def _tails(self, logs: Logs, found: Lags, told: Told) -> Tails:
        """What retention does to those that lag."""
        tails: dict[TopicPartition, Tail | Unavailable] = {}
        known = {}
        for place, lag in found.items():
            log, topic = logs[place], self.topics.get(place.topic)
            if not (isinstance(lag, Lag) and isinstance(log, OffsetRange)):
                continue
            if isinstance(topic, TopicState) and _lags(log, lag, told.get(place)):
                known[place] = (log, lag, topic)
        bounds = {p: limits(topic, self.now_ms) for p, (_, _, topic) in known.items()}
        ages = self._ages({p: b for p, b in bounds.items() if isinstance(b, Limits)}, logs)
        for place, (log, lag, topic) in known.items():
            bound, age = bounds[place], ages.get(place, _NEVER)
            why = next((each for each in (bound, age) if isinstance(each, Unavailable)), None)
            if isinstance(age, Ages) and why is None:
                tails[place] = tail(log, lag, told.get(place), age, by_size(topic))
            elif why is not None:
                tails[place] = why
        return tails

    def _ages(
        self, bounds: Mapping[TopicPartition, Limits], logs: Logs
    ) -> dict[TopicPartition, Ages | Unavailable]:
        places = list(bounds)
        questions = [(p, max(0, bounds[p].soon_ms)) for p in places]
        questions += [(p, max(0, bounds[p].later_ms)) for p in places]
        answers = self.source.look_up(questions)() if questions else []
        found: dict[TopicPartition, Ages | Unavailable] = {}
        for place, soon, later in zip(
            places, answers[: len(places)], answers[len(places) :], strict=True
        ):
            log = logs[place]
            if isinstance(soon, Unavailable) or isinstance(later, Unavailable):
                found[place] = next(a for a in (soon, later) if isinstance(a, Unavailable))
            elif isinstance(log, OffsetRange):
                found[place] = Ages(
                    *(f.offset if f.offset >= 0 else log.end for f in (soon, later))
                )
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
    marks = (Mark.START, Mark.END)
    answers = reader.look_up([(place, mark) for mark in marks for place in places])()
    found: dict[TopicPartition, OffsetRange | Unavailable] = {}
    for place, start, end in zip(
        places, answers[: len(places)], answers[len(places) :], strict=True
    ):
        if isinstance(start, Found) and isinstance(end, Found):
            found[place] = OffsetRange(start.offset, end.offset)
        else:
            found[place] = next(a for a in (start, end) if isinstance(a, Unavailable))
    return found


def _lags(log: OffsetRange, lag: Lag, told: ReplicatedTo | None) -> bool:
    return lag.at_most > 0 or (told is not None and told.offset < log.start)
