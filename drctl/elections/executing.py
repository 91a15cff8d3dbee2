"""Carries out a plan of elections: a second look, the journal, the call, and what is seen then."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from drctl.elections import journal as entries
from drctl.elections.planning import Action, ElectionPlan, Line
from drctl.elections.ports import Clock, Declined, ElectionReader, ElectionWriter, Kind
from drctl.elections.results import (
    ElectionResult,
    LineResult,
    Outcome,
    changed,
    nothing_asked,
    unelected,
)
from drctl.elections.sight import Partition, Sight
from drctl.model.errors import Unknown
from drctl.model.journal import RunJournal
from drctl.model.topology import TopicPartition, Unavailable

_LOOK_EVERY_S = 0.3

Answers = Mapping[TopicPartition, Unavailable | None]


@dataclass(slots=True)
class Execution:
    """One run.

    Attributes:
        again: makes the plan anew from a new look; what differs is not elected.
        patience_s: how long the new leaders may take to be seen.
    """

    reader: ElectionReader
    writer: ElectionWriter
    journal: RunJournal
    clock: Clock
    now: Callable[[], datetime]
    again: Callable[[], ElectionPlan]
    patience_s: float = 30.0

    def run(self, plan: ElectionPlan) -> ElectionResult:
        """Have the leaders elected that still can be, and look.

        Raises:
            Unknown: the journal cannot be written; nothing was asked for.
            Unreachable: the cluster does not answer; what was asked for stands in the journal.
        """
        began = self.now()
        due, held = _still_due(plan, self.again())
        if not due:
            return replace(nothing_asked(plan), results=_in_order(plan, held))
        self.journal.append([entries.began(self.journal.run, plan, began), *entries.intents(due)])
        results = self._elected(plan.kind, due)
        self.journal.append(entries.outcomes(results))
        result = ElectionResult(
            plan,
            _in_order(plan, [*held, *results]),
            self.journal.run,
            self.journal.where,
            (self.now() - began).total_seconds(),
        )
        self.journal.append([entries.ended(result.status, self.now())])
        return result

    def _elected(self, kind: Kind, due: Sequence[Line]) -> list[LineResult]:
        answers, silence = self._asked(kind, due)
        sight = self._settled(kind, due, answers)
        found = {line.place: sight.find(line.place) for line in due}
        cuts = self._cuts(kind, due, sight)
        return [
            _judged(kind, line, found[line.place], sight, answers.get(line.place, silence), cuts)
            for line in due
        ]

    def _asked(self, kind: Kind, due: Sequence[Line]) -> tuple[Answers, Unavailable | None]:
        try:
            return self.writer.elect(kind, [line.place for line in due]), None
        except Unknown as silence:
            return {}, Unavailable(silence.message)

    def _settled(self, kind: Kind, due: Sequence[Line], answers: Answers) -> Sight:
        """A look in which all have their leaders, or the last one before time is up."""
        until = self.clock.monotonic() + self.patience_s
        topics = sorted({line.place.topic for line in due})
        waited = [line for line in due if answers.get(line.place) is None]
        while True:
            sight = self.reader.look(topics, ())
            there = all(_arrived(kind, line, sight) for line in waited)
            if there or self.clock.stopping or self.clock.monotonic() >= until:
                return sight
            self.clock.wait(_LOOK_EVERY_S)

    def _cuts(
        self, kind: Kind, due: Sequence[Line], sight: Sight
    ) -> Mapping[TopicPartition, int | Unavailable]:
        if kind is Kind.PREFERRED:
            return {}
        epochs = {
            line.place: line.partition.epoch
            for line in due
            if line.partition and line.partition.epoch >= 0 and _arrived(kind, line, sight)
        }
        return self.reader.ends_before(epochs) if epochs else {}


def _still_due(plan: ElectionPlan, now: ElectionPlan) -> tuple[list[Line], list[LineResult]]:
    newly = {line.place: line for line in now.lines}
    others = (line for line in plan.lines if line.action is not Action.ELECT)
    due, held = [], [unelected(line) for line in others]
    for line in plan.elected:
        again = newly.get(line.place)
        if again is not None and again.basis == line.basis and not again.refused:
            due.append(line)
        else:
            held.append(changed(line, again))
    return due, held


def _arrived(kind: Kind, line: Line, sight: Sight) -> bool:
    seen = sight.find(line.place)
    if seen is None or not sight.led(seen):
        return False
    return kind is Kind.UNCLEAN or seen.leader == line.to


def _judged(
    kind: Kind,
    line: Line,
    seen: Partition | None,
    sight: Sight,
    answer: Unavailable | None,
    cuts: Mapping[TopicPartition, int | Unavailable],
) -> LineResult:
    leader = seen.leader if seen else None
    if _arrived(kind, line, sight):
        unknown = Unavailable("the brokers do not tell epochs")
        cut = cuts.get(line.place, unknown) if kind is Kind.UNCLEAN else None
        return LineResult(line, Outcome.ELECTED, leader, cut)
    if answer is not None:
        outcome = Outcome.FAILED if isinstance(answer, Declined) else Outcome.UNKNOWN
        return LineResult(line, outcome, leader, reason=answer.reason)
    reason = "the controller elected it, and no leader that answers was seen"
    return LineResult(line, Outcome.UNKNOWN, leader, reason=reason)


def _in_order(plan: ElectionPlan, results: Sequence[LineResult]) -> tuple[LineResult, ...]:
    found = {each.line.place: each for each in results}
    return tuple(found[line.place] for line in plan.lines)
