"""Translation by offset snapshots: finds the last consumed records on the target."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from drctl.formats.anchors import Anchor, Milestone
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


NO_ANCHOR = NoAnswer("no offset snapshot: drctl offsets track has not recorded it")


@dataclass(frozen=True, slots=True)
class AnchorAnswers:
    """Implements `TranslationMethod` for every kind of link, even if the source is unreachable.

    Attributes:
        anchors: the newest snapshot of each committed offset.
        now_ms: current time, for the age of a snapshot.
    """

    method = Method.SNAPSHOT

    anchors: Mapping[GroupPartition, Anchor]
    search: TargetSearch
    now_ms: int

    def answers(self, questions: Sequence[Question]) -> Answers:
        """One for each question.

        Raises:
            Unreachable: the target did not answer.
            ScanFailed: records could not be read to their end.
        """
        known = {q: a for q in questions if (a := self.anchors.get(q.place)) is not None}
        usable = {
            q: anchor
            for q, anchor in known.items()
            if anchor.offset and (q.committed is None or anchor.offset <= q.committed)
        }
        sought = {q: SearchQuery(q.target, _trail(anchor)) for q, anchor in usable.items()}
        matches = self.search.find(sought.values())
        lines: dict[Question, Line] = {
            q: (q.target, anchor.milestones)
            for q, anchor in usable.items()
            if sought[q] not in matches and anchor.milestones
        }
        copied = nearest_copied(self.search, dict.fromkeys(lines.values()))
        found: dict[Question, Answer | NoAnswer] = {}
        for question in questions:
            if question not in known:
                found[question] = NO_ANCHOR
                continue
            match = matches.get(sought[question]) if question in sought else None
            further = copied.get(lines[question]) if question in lines else None
            found[question] = self._answer(question, known[question], match or further)
        return found

    def _answer(
        self, question: Question, anchor: Anchor, found: Match | Copied | Unavailable | None
    ) -> Answer | NoAnswer:
        committed = anchor.offset if question.committed is None else question.committed
        if anchor.offset > committed:
            return NoAnswer(
                f"its snapshot is of source offset {anchor.offset}, after the committed offset "
                f"{committed}: the group was reset backwards since"
            )
        moved = committed - anchor.offset
        age = max(0.0, (self.now_ms - anchor.observed_ms) / 1000)
        if anchor.offset == 0:
            evidence = "snapshot of source offset 0: the group had consumed nothing"
            return Answer(self.method, 0, None, 0, evidence, age)
        if isinstance(found, Unavailable):
            return not_asked(found)
        if isinstance(found, Copied):
            milestone, match = found
            missing = anchor.offset - milestone.position + moved
            evidence = (
                f"snapshot of source offset {anchor.offset}: the last consumed records are not on"
                f" the target; the record before source offset {milestone.position} is, at"
                f" {match.position - 1}"
            )
            rereads = match.latest - match.position + missing
            return Answer(self.method, match.position, rereads, 0, evidence, age)
        if found is None and not anchor.records:
            return NoAnswer("its snapshot has no records: none that it had consumed were left")
        if found is None:
            return NoAnswer("no record of its snapshot was found on the target")
        whose = f"snapshot of source offset {anchor.offset}: "
        exact = answer(self.method, found, _trail(anchor), whose, age)
        if moved and exact.rereads_at_most is not None:
            return replace(exact, rereads_at_most=exact.rereads_at_most + moved)
        return exact


def _trail(anchor: Anchor) -> LastConsumed:
    return LastConsumed(anchor.records, anchor.passed, anchor.uncommitted)
