"""Translation by records: finds the record before the committed offset on the target.

Between that record and the offset there may be records of aborted or open transactions. Some
replicators copy them. The group resumes after such copies only if they are certain to be there: an
application may write the same records again after an abort, and those are not consumed yet.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from operator import eq
from typing import NamedTuple

from drctl.formats.tracked_offsets import MOST_RECORDS
from drctl.model.ports import ClusterReader
from drctl.model.text import plural
from drctl.model.topology import (
    OffsetRange,
    PartitionOffsets,
    TopicPartition,
    TopicState,
    Unavailable,
)
from drctl.model.translation import Answer, Method
from drctl.offsets.consumed import (
    WIDTHS,
    LastConsumed,
    Logs,
    Position,
    RangeReader,
    Records,
    by_partition,
    last_consumed,
    next_to_consume,
    read_ranges,
    records_before,
)
from drctl.offsets.methods import UNKNOWN_POSITION, Answers, NoAnswer, Question, not_asked
from drctl.offsets.searching import Match, SearchQuery, TargetSearch

FIRST_STEP, GROWTH = 4 * MOST_RECORDS, 4


class Lost(NamedTuple):
    """A committed offset whose last consumed records are not on the target.

    Attributes:
        offset: source offset.
        log: of the source.
    """

    source: TopicPartition
    offset: int
    log: PartitionOffsets
    target: TopicPartition


class Reached(NamedTuple):
    """The newest consumed record that was found on the target.

    Attributes:
        match: its place on the target.
        offset: source offset before which `consumed` was read.
    """

    match: Match
    offset: int
    consumed: LastConsumed


@dataclass(slots=True)
class _Search:
    """The search for one offset: the target has the record before `low`, not that before `high`."""

    lost: Lost
    high: int
    step: int = FIRST_STEP
    low: int | None = None
    found: Reached | None = None
    ended: bool = False

    @property
    def probe(self) -> int:
        if self.low is not None:
            return (self.low + self.high) // 2
        return max(self.lost.log.log_start + 1, self.lost.offset - self.step)

    def note(self, probe: int, consumed: LastConsumed, match: Match | Unavailable | None) -> None:
        if isinstance(match, Unavailable):
            self.ended = True  # an earlier match stays valid: it is only further back
        elif match is None:
            self.high, self.step = probe, self.step * GROWTH
            self.ended = self.low is None and probe <= self.lost.log.log_start + 1
        else:
            self.low, self.found = probe, Reached(match, probe, consumed)
            self.ended = match.missing > 0
        if self.low is not None and self.high - self.low <= MOST_RECORDS:
            self.ended = True


def replicated_end(
    source: RangeReader, search: TargetSearch, lost: Iterable[Lost]
) -> Mapping[Lost, Reached]:
    """Find the newest consumed record on the target for each offset; omit those without one.

    Goes back in the source in growing steps, then by bisection, for all offsets at once.

    Raises:
        Unreachable: the target did not answer.
        ScanFailed: records could not be read completely.
    """
    searches = {one: _Search(one, one.offset) for one in lost if one.offset > one.log.log_start}
    while waiting := [each for each in searches.values() if not each.ended]:
        probes = {each.lost: each.probe for each in waiting}
        found_records = records_before(
            source, {(one.source, at): one.log for one, at in probes.items()}
        )
        sought = {
            one: SearchQuery(one.target, found_records[one.source, at].consumed)
            for one, at in probes.items()
        }
        matches = search.find(sought.values())
        for each in waiting:
            wanted = sought[each.lost]
            each.note(probes[each.lost], wanted.consumed, matches.get(wanted))
    return {one: each.found for one, each in searches.items() if each.found}


NO_RECORD = NoAnswer(f"no record on the source within {plural(WIDTHS[-1], 'offset')} of the offset")
NOT_THERE = NoAnswer("none of the last consumed records is on the target")
NEXT_NOT_THERE = NoAnswer(
    "the consumed records are deleted, and the next record is not on the target"
)


class _Clue(NamedTuple):
    """Records of the source by which an offset is found.

    Attributes:
        last: source offset of the last consumed record; -1 if none is left: then `consumed` is the
            next record to consume.
    """

    consumed: LastConsumed
    last: int

    @property
    def ahead(self) -> bool:
        return self.last < 0


Windows = Callable[[Question, int], OffsetRange | None]
"""The target offsets that hold the record of a source offset, where they are known."""

FURTHER = 64
"""Records after the uncommitted ones that help to tell whether these were copied."""


@dataclass(frozen=True, slots=True)
class RecordMatch:
    """Implements `TranslationMethod` with the records of a reachable source.

    Attributes:
        windows: offsets to search if records do not keep their timestamps on the target.
    """

    method = Method.RECORD_MATCH

    source: ClusterReader
    reader: RangeReader
    search: TargetSearch
    windows: Windows

    def answers(self, questions: Sequence[Question]) -> Answers:
        """Return one answer for each question; equal offsets of several groups are looked up once.

        Raises:
            Unreachable: a cluster did not answer.
            ScanFailed: records could not be read completely.
        """
        positions = dict.fromkeys(at for q in questions if (at := _at(q)))
        logs = self.source.offsets({partition for partition, _ in positions})
        clues = self._clues(positions, logs)
        sought = {
            q: SearchQuery(q.target, clue.consumed, None if timed else self.windows(q, clue.last))
            for q in questions
            if isinstance(clue := clues[_at(q)], _Clue)
            for timed in [clue.ahead or self.search.timed(q.target.topic)]
        }
        matches = self.search.find(sought.values())
        unfound = [q for q, s in sought.items() if s not in matches]
        reached = self._further_back(unfound, logs)
        found: dict[Question, Answer | NoAnswer] = {}
        exact: dict[Question, _Clue] = {}
        for question in questions:
            clue = clues[_at(question)]
            if isinstance(clue, NoAnswer):
                found[question] = clue
            elif question in reached:
                found[question] = _lagging(question, reached[question])
            else:
                match = matches.get(sought[question])
                found[question] = self._answer(question, clue, match)
                passed = clue.consumed.passed and not clue.ahead
                if passed and isinstance(match, Match) and match.exact:
                    exact[question] = clue
        return {**found, **self._passing(exact, found)}

    def _answer(
        self, question: Question, clue: _Clue, match: Match | Unavailable | None
    ) -> Answer | NoAnswer:
        if isinstance(match, Unavailable):
            return not_asked(match)
        if match is None:
            return NEXT_NOT_THERE if clue.ahead else NOT_THERE
        if not clue.ahead:
            return answer(Method.RECORD_MATCH, match, clue.consumed, "")
        evidence = f"the next record to consume is at target offset {match.position - 1}"
        position = match.position - 1
        if passed := clue.consumed.passed:
            # A reader of uncommitted records has not consumed those before it.
            log = self.search.logs([question.target])[question.target]
            start = log.log_start if isinstance(log, PartitionOffsets) else 0
            position = max(start, position - passed)
        rereads = match.latest - 1 - position
        return Answer(Method.RECORD_MATCH, position, rereads, 0, evidence)

    def _passing(
        self, exact: Mapping[Question, _Clue], found: Mapping[Question, Answer | NoAnswer]
    ) -> Mapping[Question, Answer]:
        """Move answers past copies of uncommitted records, if these are certain to be copies.

        If compaction may have removed the records that would show this, the answer stays: its bound
        counts the copies as re-reads.
        """
        names = sorted({q.place.partition.topic for q in exact})
        topics = self.source.topics(names) if names else {}
        runs: dict[Question, _Run] = {}
        for question, clue in exact.items():
            topic, exact_answer = topics[question.place.partition.topic], found[question]
            if not isinstance(topic, TopicState) or "cleanup.policy" not in topic.config:
                continue
            if topic.compacted or clue.consumed.passed > WIDTHS[-1]:
                continue
            assert isinstance(exact_answer, Answer)
            assert question.committed is not None
            start = exact_answer.target_offset
            runs[question] = _Run(
                question.place.partition,
                OffsetRange(clue.last + 1, question.committed),
                question.target,
                OffsetRange(start, start + clue.consumed.passed + 2 * FURTHER),
            )
        copied = _copied(self.source, self.reader, self.search, set(runs.values()))
        passing: dict[Question, Answer] = {}
        for question, run in runs.items():
            exact_answer, passed = found[question], copied[run]
            if passed is None:
                continue
            assert isinstance(exact_answer, Answer)
            evidence, left = exact_answer.evidence, 0
            if passed:
                evidence += f", followed by copies of {plural(passed, 'uncommitted record')}"
                left = exact[question].consumed.passed - passed
            passing[question] = replace(
                exact_answer,
                target_offset=run.copies.start + passed,
                rereads_at_most=left,
                evidence=evidence,
            )
        return passing

    def _further_back(
        self, questions: Sequence[Question], logs: Logs
    ) -> Mapping[Question, Reached]:
        """Find the newest replicated record if the last consumed ones are not on the target."""
        lost = {
            question: Lost(*at, log, question.target)
            for question in questions
            if (at := _at(question)) and isinstance(log := logs[at[0]], PartitionOffsets)
        }
        reached = replicated_end(self.reader, self.search, dict.fromkeys(lost.values()))
        return {q: reached[one] for q, one in lost.items() if one in reached}

    def _clues(
        self, positions: Mapping[Position, None], logs: Logs
    ) -> Mapping[Position | None, _Clue | NoAnswer]:
        clues: dict[Position | None, _Clue | NoAnswer] = {None: UNKNOWN_POSITION}
        first: dict[Position, PartitionOffsets] = {}
        for at, before in last_consumed(logs, self.reader, positions).items():
            log = logs[at[0]]
            if isinstance(before, Unavailable):
                reason = f"its last consumed records cannot be read: {before.reason}"
                clues[at] = NoAnswer(reason, transient=True)
            elif before.consumed.steps:
                clues[at] = _Clue(*before)
            else:
                clues[at] = NO_RECORD
                if isinstance(log, PartitionOffsets) and at[1] <= log.log_start:
                    first[at] = log
        for at, consumed in next_to_consume(self.reader, first).items():
            if consumed.steps:
                clues[at] = _Clue(consumed, -1)
        return clues


class _Run(NamedTuple):
    """Uncommitted records between the last consumed record and a committed offset.

    Attributes:
        offsets: source offsets, from after the last consumed record to the committed offset.
        copies: target offsets after the copy of the last consumed record that contain all copies
            of these records.
    """

    source: TopicPartition
    offsets: OffsetRange
    target: TopicPartition
    copies: OffsetRange


def _copied(
    source: ClusterReader, reader: RangeReader, search: TargetSearch, runs: Collection[_Run]
) -> Mapping[_Run, int | None]:
    """Count how many records of each run were copied; None if unknown.

    Raises:
        Unreachable: a cluster did not answer.
        ScanFailed: records could not be read completely.
    """
    # Read the target first: the originals of its copies are then on the source.
    there = search.following(by_partition((run.target, run.copies) for run in runs))
    logs = source.offsets({run.source for run in runs}) if runs else {}
    whole: dict[_Run, OffsetRange] = {}
    decided: dict[_Run, OffsetRange] = {}
    for run in runs:
        if isinstance(log := logs[run.source], PartitionOffsets) and run.target in there:
            start = max(run.offsets.start, log.log_start)
            end = run.offsets.end + 2 * (run.copies.span + FURTHER)
            whole[run] = OffsetRange(start, min(end, log.end))
            decided[run] = OffsetRange(start, min(end, log.last_stable))
    wanted = by_partition((run.source, span) for run, span in whole.items())
    every = read_ranges(reader, wanted, uncommitted=True)
    wanted = by_partition((run.source, span) for run, span in decided.items())
    committed = read_ranges(reader, wanted)
    found: dict[_Run, int | None] = dict.fromkeys(runs)
    for run in whole:
        if _inside(committed[run.source], run.offsets):
            continue  # committed since
        log, copies = there[run.target]
        source_log = logs[run.source]
        assert isinstance(source_log, PartitionOffsets)
        rows = (
            (copies, run.copies, log.last_stable),
            (every[run.source], whole[run], source_log.end),
            (committed[run.source], decided[run], source_log.last_stable),
        )
        topic, count = run.target.topic, len(_inside(every[run.source], run.offsets))
        here, all_of_source, committed_of_source = (
            _Row([search.name(topic, step) for _, step in _inside(records, span)], span.end >= end)
            for records, span, end in rows
        )
        found[run] = _certain(here, all_of_source, committed_of_source, count)
    return found


class _Row(NamedTuple):
    """Names of consecutive records, and whether the log ends after them."""

    names: Sequence[object]
    ended: bool


def _certain(here: _Row, every: _Row, committed: _Row, count: int) -> int | None:
    """Count how many of the first `count` source records, all uncommitted, were copied.

    Args:
        here: records after the last consumed one on the target.
        every: records after it on the source.
        committed: the committed ones among these.
    """
    same = sum(1 for _ in takewhile(bool, map(eq, here.names, every.names)))
    as_committed = sum(1 for _ in takewhile(bool, map(eq, here.names, committed.names)))
    if not same and as_committed:
        return 0
    whole = same >= count or (same == len(here.names) and here.ended)
    # If all of them equal committed records, they may be copies of those instead.
    other = as_committed < min(same, len(committed.names) + committed.ended)
    return min(same, count) if same and whole and other else None


def _inside(records: Records, span: OffsetRange) -> Records:
    return [record for record in records if span.start <= record[0] < span.end]


def answer(
    method: Method,
    match: Match,
    consumed: LastConsumed,
    whose: str,
    age_seconds: float | None = None,
) -> Answer:
    """Build the answer from a match.

    Args:
        whose: where the consumed records come from; the evidence begins with it.
    """
    equal = match.latest - match.position
    rereads = None if match.between is None else equal + match.between + consumed.passed
    if not match.missing:
        evidence = f"the last consumed record is at target offset {match.position - 1}"
        if equal:
            evidence += f", and equal records follow up to {match.latest - 1}"
    else:
        rereads = rereads if match.to_end else None
        evidence = (
            f"the last {plural(match.missing, 'consumed record is', 'consumed records are')} not on"
            f" the target; the record before them is at offset {match.latest - 1}"
        )
    return Answer(method, match.position, rereads, 0, whose + evidence, age_seconds)


def _lagging(question: Question, reached: Reached) -> Answer:
    """Build the answer if the last consumed records are not on the target."""
    assert question.committed is not None
    match = reached.match
    lag = question.committed - reached.offset + reached.consumed.passed
    evidence = (
        "at least the last"
        f" {plural(lag + match.missing, 'consumed offset is', 'consumed offsets are')}"
        " not on the target; the"
        f" newest replicated record is at {match.position - 1}"
    )
    rereads = None
    if match.between is not None:
        rereads = match.latest - match.position + lag + match.between
    return Answer(Method.RECORD_MATCH, match.position, rereads, 0, evidence)


def _at(question: Question) -> Position | None:
    committed = question.committed
    return None if committed is None else (question.place.partition, committed)
