"""From the source itself: the record before the committed offset, found again on the target."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from drctl.model.ports import ClusterReader
from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition, Unavailable
from drctl.model.translation import Answer, Method
from drctl.offsets.question import UNKNOWN_POSITION, Answers, NoAnswer, Question, not_asked
from drctl.offsets.replicated_end import Lost, Reached, ReplicatedEnd
from drctl.offsets.searching import Match, Sought, TargetSearch
from drctl.offsets.trail import LENGTH, RangeReader, Step, Trail, read_ranges

FURTHER = 2_000
"""Offsets looked at where those next to the position hold no record."""

NO_RECORD = NoAnswer(f"the source holds no record within {FURTHER:,} offsets of the position")
NOT_THERE = NoAnswer("none of the last consumed records was found on the target")
NEXT_NOT_THERE = NoAnswer("what was consumed is gone, and the next record is not on the target")

Position = tuple[TopicPartition, int]


class _Clue(NamedTuple):
    """Records of the source that tell a position.

    Attributes:
        ahead: whether it is the next record to consume, for want of a consumed one.
    """

    trail: Trail
    ahead: bool


Windows = Callable[[Question], OffsetRange | None]
"""The target offsets that hold the last consumed record, where something tells them."""


class RecordMatch:
    """Implements `TranslationMethod` while the source can be read.

    Args:
        windows: asked where a topic's records have times of their own on the target.
    """

    method = Method.RECORD_MATCH

    def __init__(
        self, source: ClusterReader, reader: RangeReader, search: TargetSearch, windows: Windows
    ) -> None:
        self._source = source
        self._reader = reader
        self._search = search
        self._windows = windows
        self._logs: Mapping[TopicPartition, PartitionOffsets | Unavailable] = {}

    def answers(self, questions: Sequence[Question]) -> Answers:
        """One for each question; equal positions of several groups are looked up once.

        Raises:
            Unreachable: a cluster did not answer.
            ScanFailed: something could not be read to its end.
        """
        positions = {at: None for q in questions if (at := _at(q))}
        clues: dict[Position | None, _Clue | NoAnswer] = {None: UNKNOWN_POSITION}
        for at, clue in self._clues(positions).items():
            clues[at] = clue
        sought = {
            q: Sought(q.target, clue.trail, self._within(q))
            for q in questions
            if isinstance(clue := clues[_at(q)], _Clue)
        }
        matches = self._search.find(sought.values())
        reached = self._further_back(q for q, s in sought.items() if s not in matches)
        found: dict[Question, Answer | NoAnswer] = {}
        for question in questions:
            clue = clues[_at(question)]
            if isinstance(clue, NoAnswer):
                found[question] = clue
            elif question in reached:
                found[question] = _behind(question, reached[question])
            else:
                found[question] = _said(clue, matches.get(sought[question]))
        return found

    def _further_back(self, questions: Iterable[Question]) -> Mapping[Question, Reached]:
        """Where replication was behind by more than a trail."""
        lost = {
            question: Lost(question.place.partition, at[1], log.log_start, question.target)
            for question in questions
            if (at := _at(question)) and isinstance(log := self._logs.get(at[0]), PartitionOffsets)
        }
        reached = ReplicatedEnd(self._reader, self._search).find(dict.fromkeys(lost.values()))
        return {q: reached[one] for q, one in lost.items() if one in reached}

    def _within(self, question: Question) -> OffsetRange | None:
        timed = self._search.timed(question.target.topic)
        return None if timed else self._windows(question)

    def _clues(self, positions: Mapping[Position, None]) -> Mapping[Position, _Clue | NoAnswer]:
        logs = self._logs = self._source.offsets({partition for partition, _ in positions})
        clues: dict[Position, _Clue | NoAnswer] = {}
        waiting: dict[Position, PartitionOffsets] = {}
        for at in positions:
            log = logs[at[0]]
            if isinstance(log, Unavailable):
                clues[at] = NoAnswer(f"the source's log cannot be read: {log.reason}")
            elif at[1] > log.end:
                clues[at] = NoAnswer(
                    f"offset {at[1]} lies behind the source's end offset {log.end}: its log was "
                    "truncated, or the topic made anew"
                )
            else:
                clues[at] = NO_RECORD
                waiting[at] = log
        for width in (LENGTH, FURTHER):
            clues.update(self._read(waiting, width))
            waiting = {at: log for at, log in waiting.items() if clues[at] == NO_RECORD}
        return clues

    def _read(
        self, waiting: Mapping[Position, PartitionOffsets], width: int
    ) -> Iterator[tuple[Position, _Clue]]:
        windows = {at: _window(at[1], log, width) for at, log in waiting.items()}
        wanted: dict[TopicPartition, list[OffsetRange]] = defaultdict(list)
        for (partition, _), window in windows.items():
            wanted[partition].append(window)
        held = read_ranges(self._reader, wanted)
        for (partition, offset), window in windows.items():
            steps = _inside(held[partition], window)
            if steps and window.start >= offset:
                yield (partition, offset), _Clue((steps[0],), ahead=True)
            elif steps:
                yield (partition, offset), _Clue(tuple(reversed(steps[-LENGTH:])), ahead=False)


def answer(method: Method, match: Match, whose: str, age_seconds: float | None = None) -> Answer:
    """What it means that a trail of consumed records was found.

    Args:
        whose: where the trail comes from, as a beginning of the evidence's words.
    """
    equal = match.latest - match.position
    rereads = None if match.between is None else equal + match.between
    if not match.missing:
        evidence = f"the last consumed record is at offset {match.position - 1} of the target"
        if equal:
            evidence += f", or equal ones up to offset {match.latest - 1}"
    else:
        rereads = rereads if match.to_end else None
        evidence = (
            f"the last {match.missing} consumed records are not on the target, "
            f"one before them is at offset {match.latest - 1}"
        )
    return Answer(method, match.position, rereads, 0, whose + evidence, age_seconds)


def _said(clue: _Clue, match: Match | Unavailable | None) -> Answer | NoAnswer:
    if isinstance(match, Unavailable):
        return not_asked(match)
    if match is None:
        return NEXT_NOT_THERE if clue.ahead else NOT_THERE
    if not clue.ahead:
        return answer(Method.RECORD_MATCH, match, "")
    position = match.position - 1
    evidence = f"the next record to consume is at offset {position} of the target"
    return Answer(Method.RECORD_MATCH, position, match.latest - match.position, 0, evidence)


def _behind(question: Question, reached: Reached) -> Answer:
    assert question.committed is not None
    match = reached.match
    lacking = question.committed - reached.offset + match.missing
    evidence = (
        f"at least the last {lacking:,} offsets that were consumed are not on the target; the "
        f"newest record that is stands at {match.position - 1}"
    )
    again = match.latest - match.position + lacking
    return Answer(Method.RECORD_MATCH, match.position, again, 0, evidence)


def _window(offset: int, log: PartitionOffsets, width: int) -> OffsetRange:
    """Offsets before the position; behind it where the log holds none before."""
    if offset > log.log_start:
        start = max(log.log_start, offset - width)
        return OffsetRange(start, min(offset, log.last_stable))
    return OffsetRange(log.log_start, min(log.log_start + width, log.last_stable))


def _inside(steps: Sequence[tuple[int, Step]], window: OffsetRange) -> list[Step]:
    first, behind = (bisect_left(steps, edge, key=lambda step: step[0]) for edge in window)
    return [step for _, step in steps[first:behind]]


def _at(question: Question) -> Position | None:
    committed = question.committed
    return None if committed is None else (question.place.partition, committed)
