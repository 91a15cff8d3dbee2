"""Translation by a timestamp: that of the last consumed record, or one given by the engineer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from drctl.model.ports import ClusterReader, OffsetReader
from drctl.model.topology import Found, Mark, TopicPartition, Unavailable
from drctl.model.translation import Answer, GroupPartition, Method
from drctl.offsets.consumed import Before, RangeReader, last_consumed
from drctl.offsets.methods import Answers, NoAnswer, Question


class Consumed(NamedTuple):
    """The timestamp of the last record that a group consumed.

    Attributes:
        timestamp_ms: timestamp of the record.
        at_ms: when this was recorded, in milliseconds UTC; None if unknown.
    """

    timestamp_ms: int
    at_ms: int | None


GONE_BACK = "unknown whether the group was reset backwards after this was recorded"
OWN_CLOCK = NoAnswer("the target topic uses LogAppendTime: timestamps cannot be compared")
NOT_YET = NoAnswer("no record on the target has this timestamp or a later one")
WENT_BACK = NoAnswer("the group was reset backwards after its timestamp was recorded")


@dataclass(frozen=True, slots=True)
class ConsumerTimestamps:
    """Implements `TranslationMethod` with the timestamps that consumers write for Replicator.

    The first record with the timestamp of the last consumed one cannot come after it, so nothing
    is skipped, even if timestamps are out of order. Records with the same timestamp are re-read. A
    reset does not update the recorded timestamp; only the source shows whether there was one.

    Attributes:
        source: None if unreachable, else the cluster and the reader of its records.
        timed: whether records keep their timestamps on the target, by target topic.
    """

    method = Method.CONSUMER_TIMESTAMP

    source: tuple[ClusterReader, RangeReader] | None
    target: OffsetReader
    consumed: Mapping[GroupPartition, Consumed]
    timed: Mapping[str, bool]
    now_ms: int

    def answers(self, questions: Sequence[Question]) -> Answers:
        """Return one answer for each question.

        Raises:
            Unreachable: a cluster did not answer.
            ScanFailed: records of the source could not be read to their end.
        """
        known = {q: c for q in questions if (c := self.consumed.get(q.place)) is not None}
        usable = {q: c for q, c in known.items() if self.timed.get(q.target.topic, False)}
        offsets = look_up(self.target, usable)
        back = self._gone_back(usable)
        unbounded = self._passed_uncommitted(usable)
        found: dict[Question, Answer | NoAnswer] = {}
        for question in questions:
            if question not in known:
                found[question] = NoAnswer("its consumers record no timestamps")
            elif question not in usable:
                found[question] = OWN_CLOCK
            elif back.get(question):
                found[question] = WENT_BACK
            else:
                answer = self._answer(usable[question], offsets[question])
                if isinstance(answer, Answer) and question in unbounded:
                    answer = replace(answer, rereads_at_most=None)
                if isinstance(answer, Answer) and question not in back:
                    # With an unreachable source, the row states the condition under which it skips.
                    why = "" if self.source is None else f"; {GONE_BACK}"
                    evidence = f"{answer.evidence}{why}"
                    answer = replace(answer, skips_at_most=None, evidence=evidence)
                found[question] = answer
        return found

    def _passed_uncommitted(self, questions: Iterable[Question]) -> frozenset[Question]:
        """Return questions with uncommitted records after the last consumed one."""
        asked = {q: (q.place.partition, q.committed) for q in questions if q.committed is not None}
        if self.source is None or not asked:
            return frozenset()
        cluster, reader = self.source
        logs = cluster.offsets({partition for partition, _ in asked.values()})
        before = last_consumed(logs, reader, set(asked.values()))
        return frozenset(
            q
            for q, at in asked.items()
            if not isinstance(found := before[at], Before) or found.consumed.passed
        )

    def _gone_back(self, consumed: Mapping[Question, Consumed]) -> Mapping[Question, bool]:
        """Return whether each group was reset to before its recorded record; omit unknown ones."""
        asked = {
            (q.place.partition, c.timestamp_ms)
            for q, c in consumed.items()
            if q.committed is not None
        }
        if self.source is None or not asked:
            return {}
        questions = sorted(asked)
        looked_up = self.source[0].look_up(questions)()
        answers = dict(zip(questions, looked_up, strict=True))
        return {
            q: not 0 <= first.offset < q.committed
            for q, c in consumed.items()
            if q.committed is not None
            and isinstance(first := answers[q.place.partition, c.timestamp_ms], Found)
        }

    def _answer(
        self, consumed: Consumed, offsets: tuple[Found | Unavailable, ...]
    ) -> Answer | NoAnswer:
        known = []
        for offset in offsets:
            if isinstance(offset, Unavailable):
                return NoAnswer(f"the target did not answer: {offset.reason}", transient=True)
            known.append(offset)
        first, after, end = known
        if first.offset < 0:
            return NOT_YET
        last = after.offset if after.offset >= 0 else end.offset
        # A newer first record shows that timestamps are out of order: no bound can be given.
        rereads = last - first.offset if first.timestamp_ms == consumed.timestamp_ms else None
        evidence = f"timestamp of the last consumed record: {consumed.timestamp_ms} ms"
        age = None
        if consumed.at_ms is not None:
            age = max(0.0, (self.now_ms - consumed.at_ms) / 1000)
        return Answer(self.method, first.offset, rereads, 0, evidence, age)


@dataclass(frozen=True, slots=True)
class GivenTime:
    """Implements `TranslationMethod` with a timestamp given by the engineer.

    What groups had consumed by then is unknown, and so are the bounds.
    """

    method = Method.TIMESTAMP

    target: OffsetReader
    timestamp_ms: int

    def answers(self, questions: Sequence[Question]) -> Answers:
        """Return one answer for each question.

        Raises:
            Unreachable: the target did not answer.
        """
        asked = {q: Consumed(self.timestamp_ms, None) for q in questions}
        offsets = look_up(self.target, asked)
        evidence = f"the first record at or after the given timestamp {self.timestamp_ms} ms"
        found: dict[Question, Answer | NoAnswer] = {}
        for question, (first, _, end) in offsets.items():
            if isinstance(first, Unavailable) or isinstance(end, Unavailable):
                found[question] = NoAnswer("the target did not answer", transient=True)
                continue
            position = first.offset if first.offset >= 0 else end.offset
            found[question] = Answer(self.method, position, None, None, evidence)
        return found


def look_up(
    target: OffsetReader, consumed: Mapping[Question, Consumed]
) -> Mapping[Question, tuple[Found | Unavailable, ...]]:
    """Look up the first offset of each timestamp, of the next one, and the end of the log."""
    places = {q: (q.target, c.timestamp_ms) for q, c in consumed.items()}
    asked: list[tuple[TopicPartition, int]] = []
    for place, time in dict.fromkeys(places.values()):
        asked += [(place, time), (place, time + 1)]
    asked += [(place, Mark.END) for place in dict.fromkeys(p for p, _ in places.values())]
    answers = dict(zip(asked, target.look_up(asked)(), strict=True)) if asked else {}
    return {
        q: (answers[place, time], answers[place, time + 1], answers[place, Mark.END])
        for q, (place, time) in places.items()
    }
