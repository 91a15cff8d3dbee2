"""drctl's own anchors: the last consumed records as they were noted before, found on the target."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from drctl.formats.anchors import Anchor, Milestone
from drctl.model.topology import TopicPartition, Unavailable
from drctl.model.translation import Answer, GroupPartition, Method
from drctl.offsets.choosing import Answers, NoAnswer, Question, not_asked
from drctl.offsets.consumed import LastConsumed, Step
from drctl.offsets.record_match import answer
from drctl.offsets.searching import Match, Sought, TargetSearch

Line = tuple[TopicPartition, tuple[Milestone, ...]]
"""A partition of the target, and milestones of the source, the nearest one first."""


class Copied(NamedTuple):
    """A milestone that is on the target."""

    milestone: Milestone
    match: Match


def nearest_copied(
    search: TargetSearch, lines: Iterable[Line]
) -> Mapping[Line, Copied | Unavailable]:
    """The nearest one of each line; lines of which none was found are left out.

    Raises:
        Unreachable: the target did not answer.
        ScanFailed: records could not be read to their end.
    """
    quests = {line: _Quest(line[1], 0, len(line[1])) for line in lines}
    while waiting := {line: quest for line, quest in quests.items() if quest.low < quest.high}:
        sought = {
            line: Sought(line[0], LastConsumed((quest.step,))) for line, quest in waiting.items()
        }
        matches = search.find(sought.values())
        for line, quest in waiting.items():
            quest.note(matches.get(sought[line]))
    return {line: quest.found for line, quest in quests.items() if quest.found}


@dataclass(slots=True)
class _Quest:
    """One line: its milestones before `low` are not on the target, those from `high` on are."""

    milestones: Sequence[Milestone]
    low: int
    high: int
    found: Copied | Unavailable | None = None

    @property
    def step(self) -> Step:
        milestone = self.milestones[self._middle]
        return Step(milestone.timestamp_ms, milestone.fingerprint)

    def note(self, match: Match | Unavailable | None) -> None:
        middle = self._middle
        if match is None:
            self.low = middle + 1
        elif isinstance(match, Unavailable):
            self.found = self.found or match  # one further back will do
            self.low = self.high
        else:
            self.found, self.high = Copied(self.milestones[middle], match), middle

    @property
    def _middle(self) -> int:
        return (self.low + self.high) // 2


NO_ANCHOR = NoAnswer("`drctl offsets track` has noted nothing of it")


class AnchorAnswers:
    """Implements `TranslationMethod` for every kind of link, whether or not the source lives.

    Args:
        anchors: the newest one of each.
        now_ms: the time, to say how old an anchor is.
    """

    method = Method.ANCHOR

    def __init__(
        self, anchors: Mapping[GroupPartition, Anchor], search: TargetSearch, now_ms: int
    ) -> None:
        self._anchors = anchors
        self._search = search
        self._now_ms = now_ms

    def answers(self, questions: Sequence[Question]) -> Answers:
        """One for each question.

        Raises:
            Unreachable: the target did not answer.
            ScanFailed: records could not be read to their end.
        """
        known = {q: a for q in questions if (a := self._anchors.get(q.place)) is not None}
        usable = {
            q: anchor
            for q, anchor in known.items()
            if anchor.offset and (q.committed is None or anchor.offset <= q.committed)
        }
        sought = {q: Sought(q.target, _trail(anchor)) for q, anchor in usable.items()}
        matches = self._search.find(sought.values())
        lines: dict[Question, Line] = {
            q: (q.target, anchor.milestones)
            for q, anchor in usable.items()
            if sought[q] not in matches and anchor.milestones
        }
        copied = nearest_copied(self._search, dict.fromkeys(lines.values()))
        found: dict[Question, Answer | NoAnswer] = {}
        for question in questions:
            if question not in known:
                found[question] = NO_ANCHOR
                continue
            match = matches.get(sought[question]) if question in sought else None
            further = copied.get(lines[question]) if question in lines else None
            found[question] = self._said(question, known[question], match or further)
        return found

    def _said(
        self, question: Question, anchor: Anchor, found: Match | Copied | Unavailable | None
    ) -> Answer | NoAnswer:
        committed = anchor.offset if question.committed is None else question.committed
        if anchor.offset > committed:
            return NoAnswer(
                f"its anchor is of source offset {anchor.offset}, behind the position "
                f"{committed}: the group went back since"
            )
        moved = committed - anchor.offset
        age = max(0.0, (self._now_ms - anchor.observed_ms) / 1000)
        if anchor.offset == 0:
            said = "anchor of source offset 0: the group had consumed nothing"
            return Answer(self.method, 0, None, 0, said, age)
        if isinstance(found, Unavailable):
            return not_asked(found)
        if isinstance(found, Copied):
            return replace(_behind(anchor, found, moved), age_seconds=age)
        if found is None and not anchor.records:
            return NoAnswer("when its anchor was noted, no record was left that it had consumed")
        if found is None:
            return NoAnswer("none of the records of its anchor was found on the target")
        said = f"anchor of source offset {anchor.offset}: "
        exact = answer(self.method, found, _trail(anchor), said, age)
        if moved and exact.rereads_at_most is not None:
            return replace(exact, rereads_at_most=exact.rereads_at_most + moved)
        return exact


def _trail(anchor: Anchor) -> LastConsumed:
    steps = tuple(Step(record.timestamp_ms, record.fingerprint) for record in anchor.records)
    return LastConsumed(steps, anchor.passed, anchor.uncommitted)


def _behind(anchor: Anchor, copied: Copied, moved: int) -> Answer:
    """Replication was behind by more than the last consumed records."""
    milestone, match = copied
    lacking = anchor.offset - milestone.position + moved
    evidence = (
        f"anchor of source offset {anchor.offset}: the last consumed records are not on the "
        f"target; the one before source offset {milestone.position} is, at {match.position - 1}"
    )
    rereads = match.latest - match.position + lacking
    return Answer(Method.ANCHOR, match.position, rereads, 0, evidence)
