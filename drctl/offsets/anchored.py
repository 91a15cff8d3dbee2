"""drctl's own anchors: the last consumed records as they were noted before, found on the target."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from drctl.model.topology import Unavailable
from drctl.model.translation import Answer, GroupPartition, Method
from drctl.offsets.question import Answers, NoAnswer, Question, not_asked
from drctl.offsets.record_match import answer
from drctl.offsets.searching import Match, Sought, TargetSearch
from drctl.offsets.trail import Step
from drctl.wire.anchors import Anchor

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
        sought = {
            q: Sought(q.target, tuple(Step(r.timestamp_ms, r.fingerprint) for r in anchor.records))
            for q, anchor in known.items()
            if anchor.records and (q.committed is None or anchor.offset <= q.committed)
        }
        matches = self._search.find(sought.values())
        found: dict[Question, Answer | NoAnswer] = {}
        for question in questions:
            if question not in known:
                found[question] = NO_ANCHOR
                continue
            wanted = sought.get(question)
            match = matches.get(wanted) if wanted else None
            found[question] = self._said(question, known[question], match)
        return found

    def _said(
        self, question: Question, anchor: Anchor, match: Match | Unavailable | None
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
        if not anchor.records:
            return NoAnswer("when its anchor was noted, no record was left that it had consumed")
        if isinstance(match, Unavailable):
            return not_asked(match)
        if match is None:
            return NoAnswer("none of the records of its anchor was found on the target")
        found = answer(self.method, match, f"anchor of source offset {anchor.offset}: ", age)
        if moved and found.rereads_at_most is not None:
            return replace(found, rereads_at_most=found.rereads_at_most + moved)
        return found
