"""Translation by tracked offsets: finds the last consumed records on the target."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from drctl.formats.tracked_offsets import Milestone, TrackedOffset
from drctl.model.topology import TopicPartition, Unavailable
from drctl.model.translation import Answer, GroupPartition, Method
from drctl.offsets.consumed import LastConsumed, Step
from drctl.offsets.methods import Answers, NoAnswer, Question, not_asked
from drctl.offsets.record_match import answer
from drctl.offsets.searching import Match, SearchQuery, TargetSearch

Line = tuple[TopicPartition, tuple[Milestone, ...]]
"""A target partition, and milestones of the source, the nearest one first."""


class Copied(NamedTuple):
    """A milestone that is on the target."""

    milestone: Milestone
    match: Match


def nearest_copied(
    search: TargetSearch, lines: Iterable[Line]
) -> Mapping[Line, Copied | Unavailable]:
    """Find the nearest milestone of each line on the target; omit lines without a match.

    Raises:
        Unreachable: the target did not answer.
        ScanFailed: records could not be read completely.
    """
    # Milestones before the start of a range are not on the target, those from its end on are.
    ranges = {line: range(len(line[1])) for line in lines}
    found: dict[Line, Copied | Unavailable] = {}
    while waiting := {line: left for line, left in ranges.items() if left}:
        middles = {line: (left.start + left.stop) // 2 for line, left in waiting.items()}
        sought: dict[Line, SearchQuery] = {}
        for line, middle in middles.items():
            milestone = line[1][middle]
            sought[line] = SearchQuery(line[0], LastConsumed((Step(*milestone[1:]),)))
        matches = search.find(sought.values())
        for line, middle in middles.items():
            match = matches.get(sought[line])
            if match is None:
                ranges[line] = range(middle + 1, waiting[line].stop)
            elif isinstance(match, Unavailable):
                found.setdefault(line, match)  # an older one is good enough
                ranges[line] = range(0)
            else:
                found[line] = Copied(line[1][middle], match)
                ranges[line] = range(waiting[line].start, middle)
    return found


NOT_TRACKED = NoAnswer("no tracked offset: drctl offsets track has not recorded it")


@dataclass(frozen=True, slots=True)
class TrackedOffsetAnswers:
    """Implements `TranslationMethod` for every kind of link, even if the source is unreachable.

    Attributes:
        tracked_offsets: by group and partition, the newest one.
        now_ms: current time, for the age of a tracked offset.
    """

    method = Method.TRACKED_OFFSET

    tracked_offsets: Mapping[GroupPartition, TrackedOffset]
    search: TargetSearch
    now_ms: int

    def answers(self, questions: Sequence[Question]) -> Answers:
        """Return one answer for each question.

        Raises:
            Unreachable: the target did not answer.
            ScanFailed: records could not be read to their end.
        """
        known = {q: a for q in questions if (a := self.tracked_offsets.get(q.place)) is not None}
        usable = {
            q: tracked
            for q, tracked in known.items()
            if tracked.offset and (q.committed is None or tracked.offset <= q.committed)
        }
        sought = {q: SearchQuery(q.target, _last_consumed(t)) for q, t in usable.items()}
        matches = self.search.find(sought.values())
        lines: dict[Question, Line] = {
            q: (q.target, tracked.milestones)
            for q, tracked in usable.items()
            if sought[q] not in matches and tracked.milestones
        }
        copied = nearest_copied(self.search, dict.fromkeys(lines.values()))
        found: dict[Question, Answer | NoAnswer] = {}
        for question in questions:
            if question not in known:
                found[question] = NOT_TRACKED
                continue
            match = matches.get(sought[question]) if question in sought else None
            further = copied.get(lines[question]) if question in lines else None
            found[question] = self._answer(question, known[question], match or further)
        return found

    def _answer(
        self, question: Question, tracked: TrackedOffset, found: Match | Copied | Unavailable | None
    ) -> Answer | NoAnswer:
        committed = tracked.offset if question.committed is None else question.committed
        if tracked.offset > committed:
            return NoAnswer(
                f"the tracked offset {tracked.offset} is after the committed offset "
                f"{committed}: the group was reset backwards after its offset was tracked"
            )
        moved = committed - tracked.offset
        age = max(0.0, (self.now_ms - tracked.observed_ms) / 1000)
        if tracked.offset == 0:
            evidence = "tracked offset 0: the group had consumed nothing"
            return Answer(self.method, 0, None, 0, evidence, age)
        if isinstance(found, Unavailable):
            return not_asked(found)
        if isinstance(found, Copied):
            milestone, match = found
            missing = tracked.offset - milestone.position + moved
            evidence = (
                f"tracked offset {tracked.offset}: the last consumed records are not on"
                f" the target; the record before source offset {milestone.position} is there, at"
                f" target offset {match.position - 1}"
            )
            rereads = match.latest - match.position + missing
            return Answer(self.method, match.position, rereads, 0, evidence, age)
        if found is None and not tracked.records:
            return NoAnswer("no consumed records were left when its offset was tracked")
        if found is None:
            return NoAnswer("none of the last consumed records were found on the target")
        whose = f"tracked offset {tracked.offset}: "
        exact = answer(self.method, found, _last_consumed(tracked), whose, age)
        if moved and exact.rereads_at_most is not None:
            return replace(exact, rereads_at_most=exact.rereads_at_most + moved)
        return exact


def _last_consumed(tracked: TrackedOffset) -> LastConsumed:
    return LastConsumed(tracked.records, tracked.passed, tracked.uncommitted)
