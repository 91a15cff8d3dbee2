"""Translates the committed offsets of a link's groups with every method that has evidence."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from drctl.model.groups import Positions
from drctl.model.ports import ClusterReader, GroupReader
from drctl.model.topology import PartitionOffsets, TopicPartition, TopicState, Unavailable
from drctl.model.translation import Answer, GroupPartition, Method
from drctl.offsets.by_time import ConsumerTimestamps, GivenTime
from drctl.offsets.checkpoints import CheckpointAnswers, OffsetSyncs
from drctl.offsets.consumed import Logs, RangeReader
from drctl.offsets.evidence import Evidence, EvidenceReader, LastKnown, Progress, last_known
from drctl.offsets.identity import SameOffsets
from drctl.offsets.mapping import MappedOffsets
from drctl.offsets.methods import NO_EVIDENCE, Answers, NoAnswer, Question, TranslationMethod
from drctl.offsets.record_match import RecordMatch
from drctl.offsets.searching import TargetSearch
from drctl.offsets.situation import Carried, SourceGroups, Target, look_at_source, look_at_target
from drctl.offsets.tracked_offset import TrackedOffsetAnswers
from drctl.offsets.translating import (
    Explained,
    Results,
    UnreachableSource,
    asked,
    translate,
    unread,
)

Topics = Mapping[str, TopicState | Unavailable | None]
"""By name."""

CommittedOffsets = Mapping[str, Positions | Unavailable]
"""Committed offsets by group; the partitions are those of the target."""


@dataclass(frozen=True, slots=True)
class TargetOffsets:
    """Implements `TranslationMethod` for an unreachable source, with offsets on the target.

    With `sync.group.offsets.enabled` MirrorMaker 2 commits translated offsets on the target. It
    never moves them backwards: if a group was reset, only its newer checkpoint shows it.

    Attributes:
        on_target: committed offsets of the groups on the target.
        targets: logs of the target partitions.
    """

    method = Method.TARGET_OFFSET

    on_target: CommittedOffsets
    targets: Logs

    def answers(self, questions: Sequence[Question]) -> Answers:
        """Return one answer for each question."""
        return {q: self._answer(q) for q in questions}

    def _answer(self, question: Question) -> Answer | NoAnswer:
        held = self.on_target.get(question.place.group, {})
        if isinstance(held, Unavailable):
            return NoAnswer(f"its committed offsets on the target cannot be read: {held.reason}")
        committed = held.get(question.target)
        if committed is None:
            return NoAnswer("the group has no committed offset on the target")
        log = self.targets.get(question.target)
        if isinstance(log, PartitionOffsets) and not log.log_start <= committed.offset <= log.end:
            return NoAnswer(f"its committed offset {committed.offset} is outside the target log")
        evidence = f"committed offset {committed.offset} on the target"
        return Answer(self.method, committed.offset, None, None, evidence)


@dataclass(frozen=True, slots=True)
class Cluster:
    """An open cluster of a link."""

    reader: ClusterReader
    groups: GroupReader
    records: RangeReader


@dataclass(frozen=True, slots=True)
class LinkTranslated:
    """All rows of a link.

    Attributes:
        source: the groups on the source.
        target_id: cluster id of the target.
        missing: evidence that could not be read.
    """

    rows: tuple[Explained, ...]
    source: SourceGroups
    target_id: str
    missing: tuple[str, ...]


class Basis(NamedTuple):
    """What an answer is derived from, besides the question and the records of both logs.

    Attributes:
        logs: of both partitions: log start, last stable and end offset, and leader epoch.
        topics: both topics' ids and configurations.
        evidence: what was recorded about the partition and the group.
    """

    logs: tuple[tuple[int, int, int, int], ...]
    topics: tuple[tuple[str, Mapping[str, str]], ...]
    evidence: tuple[object, ...]


class _Answered(NamedTuple):
    question: Question
    basis: Basis
    results: tuple[tuple[str, Answer | NoAnswer], ...]
    at_ms: int


@dataclass(slots=True)
class EarlierAnswers:
    """Answers of a link's earlier translations in this process, while the source was reachable.

    An answer is used again only for the same committed offset and an equal basis, which is always
    read before the records. This is sound because all that methods read is either in the basis or
    a record before the logs' end offsets. In a log with the same topic id, leader epoch and offsets
    no record was appended, truncated or deleted by retention in between. Compaction may have
    removed records: then the group reads fewer records again than stated, and skips none.
    """

    _answered: Mapping[GroupPartition, _Answered] = field(default_factory=dict)

    def known(self, bases: Mapping[Question, Basis], now_ms: int) -> Results:
        """The earlier results of questions with an unchanged basis, with ages as of now."""
        return {
            question: tuple(
                (name, _older(answer, now_ms - before.at_ms)) for name, answer in before.results
            )
            for question, basis in bases.items()
            if (before := self._answered.get(question.place))
            and (before.question, before.basis) == (question, basis)
        }

    def keep(self, results: Results, bases: Mapping[Question, Basis], now_ms: int) -> None:
        """Keep results for later translations, unless asking again may give better ones."""
        kept = {
            question.place: _Answered(question, bases[question], found, now_ms)
            for question, found in results.items()
            if question in bases and all(_is_lasting(answer) for _, answer in found)
        }
        self._answered = {**self._answered, **kept}


def _is_lasting(answer: Answer | NoAnswer) -> bool:
    """Whether the method would answer the same again; not if bounds are unknown after a failure."""
    if isinstance(answer, NoAnswer):
        return not answer.transient
    return None not in (answer.rereads_at_most, answer.skips_at_most)


def _older(answer: Answer | NoAnswer, by_ms: int) -> Answer | NoAnswer:
    if isinstance(answer, NoAnswer) or answer.age_seconds is None:
        return answer
    return replace(answer, age_seconds=answer.age_seconds + by_ms / 1000)


@dataclass(frozen=True, slots=True)
class LinkTranslation:
    """One translation of a link.

    Attributes:
        same_offsets: whether the mirror preserves offsets.
        named_offsets: whether copies may carry their source offset in a header.
        now_ms: milliseconds UTC.
        given_ms: a timestamp given by the engineer.
        unproven: whether, with an unreachable source, to use answers that assume that the group
            was not reset (`policy.unproven_offsets`).
        earlier: answers that are used again while nothing has changed; None to keep none.
    """

    link: Carried
    source: Cluster
    target: Cluster
    evidence: EvidenceReader
    same_offsets: bool
    named_offsets: bool
    now_ms: int
    given_ms: int | None = None
    unproven: bool = True
    earlier: EarlierAnswers | None = None

    def run(self, wanted: Callable[[str], bool], progress: Progress) -> LinkTranslated:
        """Translate the wanted groups.

        Raises:
            Unreachable: the target did not answer.
            ScanFailed: records could not be read completely.
        """
        progress("reading groups")
        source = look_at_source(self.link, self.source.groups, wanted)
        progress("reading evidence")
        evidence = self.evidence.read(not source.silent, progress)
        on_target = self._committed_on_target(wanted) if source.silent else {}
        known, never, topics = self._positions(source, evidence, on_target, wanted)
        positions = {place: position.offset for place, position in known.items()}
        progress("reading the target")
        rename = self.link.target_topic
        target = look_at_target(positions, rename, self.target.reader, self.target.groups)
        progress("translating")
        unreachable = (
            UnreachableSource(known, self.unproven, self.now_ms) if source.silent else None
        )
        logs: Logs = {}
        if not source.silent and (self.same_offsets or self.earlier is not None):
            logs = self.source.reader.offsets({p.partition for p in known})
        methods = self._methods(known, source, evidence, target, on_target, logs)
        before = _Before(topics, logs, target, evidence)
        ask = partial(self._asked, before) if unreachable is None else None
        rows = translate(positions, never, rename, target, methods, unreachable, ask)
        if unreachable is not None:
            rows = tuple(row for row in rows if not _of_an_empty_log(row, target))
        return LinkTranslated(rows, source, self.target.reader.cluster_id(), evidence.missing)

    def _asked(
        self, now: "_Before", methods: Sequence[TranslationMethod], questions: Sequence[Question]
    ) -> Results:
        """Ask the questions whose basis has changed; use earlier answers to all others."""
        if self.earlier is None:
            return asked(methods, questions)
        bases = {q: basis for q in questions if (basis := now.basis(q))}
        known = self.earlier.known(bases, self.now_ms)
        left = [q for q in questions if q not in known]
        if self.named_offsets:
            # This method also judges the order of the copies that it read for other groups.
            partitions = {q.target for q in left}
            left = [q for q in questions if q.target in partitions]
        found = asked(methods, left)
        self.earlier.keep(found, bases, self.now_ms)
        return {**known, **found}

    def _positions(
        self,
        source: SourceGroups,
        evidence: Evidence,
        on_target: CommittedOffsets,
        wanted: Callable[[str], bool],
    ) -> tuple[Mapping[GroupPartition, LastKnown], frozenset[GroupPartition], Topics]:
        """Return committed offsets, partitions without one, and the source's topics if known."""
        if not source.silent:
            names = {place.partition.topic for place in source.positions}
            topics = self.source.reader.topics(sorted(names)) if names else {}
            positions = {place: LastKnown(offset) for place, offset in source.positions.items()}
            return positions, unread(source.positions, topics), topics
        noted = dict.fromkeys(self._places(on_target), LastKnown(None))
        noted |= last_known(evidence, self.link.source_topic)
        mine = {
            place: position
            for place, position in noted.items()
            if self.link.carries_group(place.group)
            and self.link.carries(place.partition.topic)
            and wanted(place.group)
        }
        return {**dict.fromkeys(self._beside(mine), LastKnown(None)), **mine}, frozenset(), {}

    def _beside(self, known: Mapping[GroupPartition, LastKnown]) -> Iterator[GroupPartition]:
        """Yield the other partitions of topics in which a group has committed offsets.

        Tracked groups are left out: all their committed offsets are known, none of them in other
        partitions.
        """
        followed = {(p.group, p.partition.topic) for p, note in known.items() if note.followed}
        reads = {(p.group, p.partition.topic) for p in known} - followed
        names = {topic: self.link.target_topic(topic) for _, topic in reads}
        topics = self.target.reader.topics(sorted(names.values())) if names else {}
        for group, topic in reads:
            state = topics[names[topic]]
            for number in state.partitions if isinstance(state, TopicState) else ():
                yield GroupPartition(group, TopicPartition(topic, number))

    def _committed_on_target(self, wanted: Callable[[str], bool]) -> CommittedOffsets:
        """Return the committed offsets of the link's groups on the target."""
        groups = self.target.groups
        listed = groups.groups(incomplete=True)
        names = [g for g in listed if self.link.carries_group(g) and wanted(g)]
        return groups.committed(names)

    def _places(self, on_target: CommittedOffsets) -> Iterator[GroupPartition]:
        """Yield the source partitions of these target partitions."""
        for group, held in on_target.items():
            for there in held if not isinstance(held, Unavailable) else ():
                topic = self.link.source_topic(there.topic)
                if topic is not None:
                    yield GroupPartition(group, TopicPartition(topic, there.partition))

    def _methods(
        self,
        positions: Mapping[GroupPartition, LastKnown],
        source: SourceGroups,
        evidence: Evidence,
        target: Target,
        on_target: CommittedOffsets,
        logs: Logs,
    ) -> list[TranslationMethod]:
        search = TargetSearch(self.target.reader, self.target.records, target.timed)
        alive = None if source.silent else (self.source.reader, self.source.records)
        mirrored = evidence.mirrored
        methods: list[TranslationMethod] = []
        syncs = None
        if mirrored is not None:
            noted = {p: at.at_ms for p, at in positions.items() if at.at_ms is not None}
            syncs = OffsetSyncs(mirrored.syncs, target.logs, noted, self.now_ms)
        if self.same_offsets:
            tracked_offsets = evidence.tracked_offsets if source.silent else {}
            readers = self.source.records, self.target.records
            methods.append(SameOffsets(*readers, logs, target.logs, tracked_offsets))
        if evidence.tracked_offsets:
            methods.append(TrackedOffsetAnswers(evidence.tracked_offsets, search, self.now_ms))
        if alive is not None:
            windows = syncs.window if syncs else (lambda _question, _offset: None)
            methods.append(RecordMatch(*alive, search, windows))
        if self.named_offsets:
            methods.append(
                MappedOffsets(
                    evidence.source_id,
                    alive,
                    self.target.records,
                    target.logs,
                    evidence.tracked_offsets,
                )
            )
        if mirrored is not None and syncs is not None:
            methods.append(syncs)
            methods.append(
                CheckpointAnswers(
                    mirrored.checkpoints, target.logs, mirrored.recreated_ms, self.now_ms
                )
            )
        if evidence.consumed:
            methods.append(
                ConsumerTimestamps(
                    alive, self.target.reader, evidence.consumed, target.timed, self.now_ms
                )
            )
        if on_target:
            methods.append(TargetOffsets(on_target, target.logs))
        if self.given_ms is not None:
            methods.append(GivenTime(self.target.reader, self.given_ms))
        return methods


@dataclass(frozen=True, slots=True)
class _Before:
    """What was read before the methods are asked.

    Attributes:
        topics, logs: of the source.
    """

    topics: Topics
    logs: Logs
    target: Target
    evidence: Evidence

    def basis(self, question: Question) -> Basis | None:
        """The basis of the answers to a question; None if it could change unnoticed."""
        place, here, there = question.place, question.place.partition, question.target
        logs = tuple(map(_log, (self.logs.get(here), self.target.logs.get(there))))
        states = self.topics.get(here.topic), self.target.topics.get(there.topic)
        topics = tuple(
            (s.topic_id, s.config) for s in states if isinstance(s, TopicState) and s.topic_id
        )
        if None in logs or len(topics) < len(states):
            return None
        found, mirrored = self.evidence, self.evidence.mirrored
        noted: tuple[object, ...] = ()
        if mirrored is not None:
            # The history may be very long: its hash is enough.
            syncs = mirrored.syncs.get(here, ())
            checkpoint = mirrored.checkpoints.get((place.group, there))
            noted = len(syncs), hash(syncs), checkpoint, mirrored.recreated_ms.get(here)
        tracked = found.tracked_offsets.get(place), found.consumed.get(place)
        return Basis(
            tuple(filter(None, logs)), topics, (found.source_id, mirrored is None, *noted, *tracked)
        )


def _log(found: PartitionOffsets | Unavailable | None) -> tuple[int, int, int, int] | None:
    """The offsets of a log; None if unknown, or if a truncation could not be detected."""
    if not isinstance(found, PartitionOffsets) or (found.leader_epoch < 0 < found.end):
        return None
    return found.log_start, found.last_stable, found.end, found.leader_epoch


def _of_an_empty_log(row: Explained, target: Target) -> bool:
    """Whether there is no evidence, and the log is empty, so that nothing can be skipped."""
    found = row.translation
    log = None if found.target is None else target.logs.get(found.target)
    empty = isinstance(log, PartitionOffsets) and log.log_start == log.end
    return empty and found.blocked == NO_EVIDENCE
