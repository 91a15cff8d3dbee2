"""Estimates how many records are missing, and since when, without reading records.

Compares totals first, then looks up offsets by timestamp if totals or newest records differ.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple

from drctl.config.link import Link
from drctl.gap.comparison import Progress
from drctl.gap.estimating import Log, Narrowing, Terms, Timeline, Unit, judge
from drctl.gap.freeze import choose_topics
from drctl.model.estimate import EstimateResult, PartitionEstimate, TopicEstimate
from drctl.model.gap import NotCompared
from drctl.model.ports import OffsetReader
from drctl.model.topology import Found, Mark, Overview, TopicPartition, TopicState, Unavailable

TRANSACTIONS = "__transaction_state"
"""Internal topic of Kafka; it exists only if transactions were ever used."""

Numbers = tuple[int, ...]
Logs = dict[int, Log | None]
Place = tuple[str, TopicPartition]
"""The topic's name on the source, and a partition on either cluster."""
Answer = Found | Unavailable
Answers = Sequence[Answer]
Configuration = Mapping[str, str] | Unavailable
_NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class EstimateInputs:
    """The inputs of an estimate.

    Attributes:
        topics: topics that can be compared.
        terms: conditions that apply to all topics.
    """

    topics: tuple[str, ...]
    units: tuple[Unit, ...]
    terms: Terms
    not_compared: tuple[NotCompared, ...]


class Side(NamedTuple):
    """One cluster and its overview."""

    reader: OffsetReader
    overview: Overview


class BothLogs:
    """Reads the logs of both clusters, and records what could not be read."""

    def __init__(self, link: Link, source: Side, target: Side) -> None:
        self._link = link
        self._source = source
        self._target = target
        self._left_out: list[NotCompared] = []

    def look(self, names: Sequence[str]) -> EstimateInputs:
        """Read the start and end offsets of all logs.

        The source is read first, so that records copied in between are on the target.
        """
        target_names = {self._link.target_topic(name): name for name in names}
        ours, runs = self._partitions(self._source, {name: name for name in names})
        theirs, target_runs = self._partitions(
            self._target, {t: name for t, name in target_names.items() if name in ours}
        )
        both = [name for name in ours if name in theirs]
        here = [(name, TopicPartition(name, n)) for name in both for n in ours[name]]
        there = [
            (name, TopicPartition(self._link.target_topic(name), n))
            for name in both
            for n in theirs[name]
        ]
        ends = _ask(self._source, here, _ends(runs))()
        # Log start offsets can be read later: they only increase. Both clusters work in parallel.
        starts = _ask(self._source, here, (Mark.START,))
        target_logs = _ask(self._target, there, (Mark.START, *_ends(target_runs)))()
        source = self._logs(self._source, both, here, (*starts(), *ends))
        target = self._logs(self._target, both, there, target_logs)
        return EstimateInputs(
            tuple(both),
            tuple(unit for n in both for unit in self._units(n, source[n], target[n])),
            Terms(
                "timestamp" in self._link.settings.identity,
                transactions=runs,
                target_transactions=target_runs,
            ),
            tuple(self._left_out),
        )

    def terms(self, topics: Sequence[str], known: Terms) -> dict[str, Terms]:
        """Return the conditions of topics on both clusters, from their configurations.

        Raises:
            Unreachable: a cluster did not answer.
        """
        renamed = {name: self._link.target_topic(name) for name in topics}
        ours = self._source.reader.configurations(topics)
        theirs = self._target.reader.configurations(tuple(renamed.values()))
        return {name: _terms(ours[name], theirs[renamed[name]], known) for name in topics}

    def _leave_out(self, topic: str, partition: int | None, reason: str) -> None:
        self._left_out.append(NotCompared(topic, partition, reason))

    def _partitions(self, side: Side, names: Mapping[str, str]) -> tuple[dict[str, Numbers], bool]:
        """Return the partitions on one cluster, by source topic; () if the target has none.

        Also return whether transactions were used, or cannot be ruled out.
        """
        seen = side.overview.partitions
        unseen = [name for name in (*names, TRANSACTIONS) if name not in seen]
        states = side.reader.topics(unseen) if unseen else {}
        found = {topic: seen[name] for name, topic in names.items() if name in seen}
        for name in unseen:
            if name != TRANSACTIONS:
                self._add_unseen(side, names[name], states[name], found)
        if TRANSACTIONS in states:
            return found, states[TRANSACTIONS] is not None
        return found, self._was_used(side, seen[TRANSACTIONS])

    def _add_unseen(
        self,
        side: Side,
        topic: str,
        state: TopicState | Unavailable | None,
        found: dict[str, Numbers],
    ) -> None:
        cluster = side.reader.name
        if isinstance(state, TopicState):  # just created
            found[topic] = tuple(state.partitions)
        elif isinstance(state, Unavailable):
            self._leave_out(topic, None, f"{cluster}: {state.reason}")
        elif side is self._source:
            self._leave_out(topic, None, f"does not exist on {cluster}")
        else:
            found[topic] = ()

    def _was_used(self, side: Side, numbers: Numbers) -> bool:
        places = [(TopicPartition(TRANSACTIONS, n), int(Mark.END)) for n in numbers]
        ends = side.reader.look_up(places)()
        return any(isinstance(end, Unavailable) or end.offset > 0 for end in ends)

    def _logs(
        self, side: Side, names: Sequence[str], places: Sequence[Place], marks: Sequence[Answers]
    ) -> dict[str, Logs]:
        """Return the logs by source topic; None for those that could not be read.

        Args:
            marks: answers for all places: start, end, and last stable offset if requested.
        """
        found: dict[str, Logs] = {name: {} for name in names}
        for (topic, place), start, end, last in zip(
            places, marks[0], marks[1], marks[-1], strict=True
        ):
            log = _log(place, start, last, end)
            found[topic][place.partition] = None if isinstance(log, Unavailable) else log
            if isinstance(log, Unavailable):
                self._leave_out(topic, place.partition, f"{side.reader.name}: {log.reason}")
        return found

    def _units(self, topic: str, source: Logs, target: Logs) -> Iterator[Unit]:
        unreadable = {n for logs in (source, target) for n, log in logs.items() if log is None}
        if self._link.settings.keeps_partitions:
            for n in sorted({*source, *target} - unreadable):
                yield Unit(topic, n, _some(source.get(n)), _some(target.get(n)))
        elif unreadable:
            self._leave_out(
                topic, None, "all partitions are compared together, and some are not readable"
            )
        else:
            yield Unit(topic, None, _some(*source.values()), _some(*target.values()))


def _ends(transactions: bool) -> tuple[Mark, ...]:
    return (Mark.END, Mark.STABLE) if transactions else (Mark.END,)


def _ask(
    side: Side, places: Sequence[Place], marks: Sequence[Mark]
) -> Callable[[], tuple[Answers, ...]]:
    """Send the request; the result waits for the answers, grouped by mark."""
    count = len(places)
    asked = side.reader.look_up([(place, int(mark)) for mark in marks for _, place in places])

    def finish() -> tuple[Answers, ...]:
        answers = asked()
        return tuple(answers[n * count : (n + 1) * count] for n in range(len(marks)))

    return finish


def _some(*logs: Log | None) -> tuple[Log, ...]:
    return tuple(log for log in logs if log is not None)


def _log(place: TopicPartition, start: Answer, last: Answer, end: Answer) -> Log | Unavailable:
    for each in (start, last, end):
        if isinstance(each, Unavailable):
            return each
    begins, stable, ends = (each.offset for each in (start, last, end) if isinstance(each, Found))
    # Requested in parallel: the log may have changed between the answers.
    stable = max(begins, stable)
    return Log(place, begins, stable, max(stable, ends))


def _terms(source: Configuration, target: Configuration, known: Terms) -> Terms:
    readable = not isinstance(source, Unavailable) and not isinstance(target, Unavailable)
    ours = _NOTHING if isinstance(source, Unavailable) else source
    theirs = _NOTHING if isinstance(target, Unavailable) else target
    return replace(
        known,
        timed=known.timed and theirs.get("message.timestamp.type") != "LogAppendTime",
        compacted=_compacts(ours) or _compacts(theirs),
        source_compacted=_compacts(ours),
        known=readable,
    )


def _compacts(configuration: Mapping[str, str]) -> bool:
    return "compact" in configuration.get("cleanup.policy", "")


@dataclass(frozen=True, slots=True)
class GapEstimate:
    """Estimates what is missing on the target of a link.

    Attributes:
        now: the clock, UTC.
    """

    link: Link
    source: OffsetReader
    target: OffsetReader
    progress: Progress
    now: Callable[[], datetime]

    def run(self, topics: Sequence[str] = ()) -> EstimateResult:
        """Estimate the gap.

        Args:
            topics: only these topics of the link; all if empty.

        Raises:
            UsageError: the link matches no topics on the source, or not all of the given topics.
            Unreachable: a cluster did not answer.
        """
        started = self.now()
        self.progress("reading topics and offsets", 0, 0)
        ends = Side(self.source, self.source.overview()), Side(self.target, self.target.overview())
        names = choose_topics(self.link, ends[0].overview.partitions.keys(), topics)
        reader = BothLogs(self.link, *ends)
        seen = reader.look(names)
        narrowing = Narrowing(self.source, self.target, self.progress)
        differing = narrowing.differing(seen.units, seen.terms.timed)
        # Configurations explain differences; they are needed only for topics that differ.
        terms = reader.terms(sorted({u.topic for u in differing if u.target}), seen.terms)
        timed = {u: n for u, n in differing.items() if terms.get(u.topic, seen.terms).timed}
        judged = self._judged(seen, terms, narrowing.run(timed))
        return EstimateResult(
            link=self.link.name,
            source=self.source.name,
            source_id=ends[0].overview.cluster_id,
            target=self.target.name,
            target_id=ends[1].overview.cluster_id,
            started=started.astimezone(UTC),
            seconds=(self.now() - started).total_seconds(),
            topics=judged,
            not_compared=seen.not_compared,
        )

    def _judged(
        self, seen: EstimateInputs, terms: Mapping[str, Terms], lines: Mapping[Unit, Timeline]
    ) -> tuple[TopicEstimate, ...]:
        judged: dict[str, list[PartitionEstimate]] = {topic: [] for topic in seen.topics}
        for unit in seen.units:
            known = terms.get(unit.topic, seen.terms)
            judged[unit.topic].append(judge(unit, known, lines.get(unit)))
        return tuple(
            TopicEstimate(topic, self.link.target_topic(topic), tuple(partitions))
            for topic, partitions in judged.items()
        )
