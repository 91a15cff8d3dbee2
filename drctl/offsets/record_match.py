"""From the source itself: the record before the committed offset, found again on the target."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from drctl.model.ports import ClusterReader
from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition, Unavailable
from drctl.model.translation import Answer, Method
from drctl.offsets.consumed import WIDTHS, Position, last_consumed, next_to_consume
from drctl.offsets.question import UNKNOWN_POSITION, Answers, NoAnswer, Question, not_asked
from drctl.offsets.replicated_end import Lost, Reached, ReplicatedEnd
from drctl.offsets.searching import Match, Sought, TargetSearch
from drctl.offsets.trail import RangeReader, Trail

NO_RECORD = NoAnswer(f"the source holds no record within {WIDTHS[-1]:,} offsets of the position")
NOT_THERE = NoAnswer("none of the last consumed records was found on the target")
NEXT_NOT_THERE = NoAnswer("what was consumed is gone, and the next record is not on the target")

Logs = Mapping[TopicPartition, PartitionOffsets | Unavailable]


class _Clue(NamedTuple):
    """Records of the source that tell a position.

    Attributes:
        ahead: whether it is the next record to consume, for want of a consumed one.
    """

    trail: Trail
    ahead: bool


Clues = Mapping[Position | None, _Clue | NoAnswer]

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

    def answers(self, questions: Sequence[Question]) -> Answers:
        """One for each question; equal positions of several groups are looked up once.

        Raises:
            Unreachable: a cluster did not answer.
            ScanFailed: something could not be read to its end.
        """
        positions = dict.fromkeys(at for q in questions if (at := _at(q)))
        logs = self._source.offsets({partition for partition, _ in positions})
        clues = self._clues(positions, logs)
        sought = {
            q: Sought(q.target, clue.trail, self._within(q))
            for q in questions
            if isinstance(clue := clues[_at(q)], _Clue)
        }
        matches = self._search.find(sought.values())
        unfound = [q for q, s in sought.items() if s not in matches]
        reached = self._further_back(unfound, logs)
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

    def _further_back(
        self, questions: Sequence[Question], logs: Logs
    ) -> Mapping[Question, Reached]:
        """Where replication was behind by more than a trail."""
        lost = {
            question: Lost(*at, log, question.target)
            for question in questions
            if (at := _at(question)) and isinstance(log := logs[at[0]], PartitionOffsets)
        }
        reached = ReplicatedEnd(self._reader, self._search).find(dict.fromkeys(lost.values()))
        return {q: reached[one] for q, one in lost.items() if one in reached}

    def _within(self, question: Question) -> OffsetRange | None:
        timed = self._search.timed(question.target.topic)
        return None if timed else self._windows(question)

    def _clues(self, positions: Mapping[Position, None], logs: Logs) -> Clues:
        clues: dict[Position | None, _Clue | NoAnswer] = {None: UNKNOWN_POSITION}
        first: dict[Position, PartitionOffsets] = {}
        for at, trail in last_consumed(logs, self._reader, positions).items():
            log = logs[at[0]]
            if isinstance(trail, Unavailable):
                clues[at] = NoAnswer(f"what it consumed last cannot be read: {trail.reason}")
            elif trail:
                clues[at] = _Clue(trail, ahead=False)
            else:
                clues[at] = NO_RECORD
                if isinstance(log, PartitionOffsets) and at[1] <= log.log_start:
                    first[at] = log
        for at, step in next_to_consume(self._reader, first).items():
            if step is not None:
                clues[at] = _Clue((step,), ahead=True)
        return clues


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


def _at(question: Question) -> Position | None:
    committed = question.committed
    return None if committed is None else (question.place.partition, committed)
