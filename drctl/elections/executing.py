"""Carries out a plan of elections: a second look, the journal, the call, and what is seen then."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from drctl.elections.cluster_state import (
    Clock,
    Declined,
    ElectionReader,
    ElectionWriter,
    Kind,
    Partition,
    PartitionStates,
)
from drctl.elections.planning import Action, ElectionPlan, Line, Objection
from drctl.elections.results import (
    ElectionResult,
    LineResult,
    Outcome,
    changed,
    nothing_asked,
    unelected,
)
from drctl.model.errors import Unknown, Unreachable
from drctl.model.journal import ENDED, Entry, RunJournal
from drctl.model.topology import TopicPartition, Unavailable

_VERSION = 1


def began(run: str, plan: ElectionPlan, at: datetime) -> Entry:
    """The first entry."""
    return {
        "entry": "began",
        "version": _VERSION,
        "run": run,
        "at": at.isoformat(),
        "kind": plan.kind.value,
        "cluster": plan.cluster,
        "cluster_id": plan.cluster_id,
        "overrides": {guard.value: reason for guard, reason in plan.overrides.items()},
    }


def intents(lines: Iterable[Line]) -> list[Entry]:
    """One entry for each partition that is about to get an election."""
    return [{"entry": "intent", **_intent(line)} for line in lines]


def outcomes(results: Iterable[LineResult]) -> list[Entry]:
    """One entry for each partition that got one."""
    return [
        {
            "entry": "outcome",
            "topic": each.line.place.topic,
            "partition": each.line.place.partition,
            "outcome": each.outcome.value,
            "leader": each.leader,
            "cut": each.cut.reason if isinstance(each.cut, Unavailable) else each.cut,
            "reason": each.reason,
        }
        for each in results
    ]


def ended(status: str, at: datetime) -> Entry:
    """The last entry."""
    return {"entry": ENDED, "status": status, "at": at.isoformat()}


def _intent(line: Line) -> dict[str, Any]:
    seen, loss = line.partition, line.loss
    assert seen is not None
    return {
        "topic": line.place.topic,
        "partition": line.place.partition,
        "leader": seen.leader,
        "epoch": seen.epoch,
        "replicas": list(seen.replicas),
        "in_sync": list(seen.in_sync),
        "to": line.to,
        "loss": None if loss is None else loss.words,
        "overridden": [_objection(each) for each in line.overridden],
    }


def _objection(each: Objection) -> list[str]:
    return [each.guard.value, each.reason]


_WAITING_LOOK_EVERY_S = 1.0


@dataclass(slots=True)
class Wait:
    """Looks again and again until all have leaders, time is up, or somebody stops it.

    Attributes:
        topics: None waits for all.
        told: gets each look, and what is new in it, in words; None where nobody answered.
    """

    reader: ElectionReader
    clock: Clock
    topics: Collection[str] | None
    told: Callable[[PartitionStates | None, tuple[str, ...]], None]

    def run(self, within_s: float) -> PartitionStates:
        """The last look.

        Raises:
            Unreachable: no broker answered at the end.
        """
        until = self.clock.monotonic() + within_s
        before: PartitionStates | None = None
        while True:
            over = self.clock.stopping or self.clock.monotonic() >= until
            try:
                sight = self.reader.look(self.topics)
            except Unreachable as silent:
                if over or self.clock.monotonic() >= until:
                    raise
                self.told(None, (silent.message,))
            else:
                self.told(sight, news(before, sight))
                before = sight
                if over or not sight.dark:
                    return sight
            self.clock.wait(min(_WAITING_LOOK_EVERY_S, max(0.0, until - self.clock.monotonic())))


def news(before: PartitionStates | None, now: PartitionStates) -> tuple[str, ...]:
    """What has happened between two looks, a line each."""
    return tuple(_news(before, now)) if before else ()


def _news(before: PartitionStates, now: PartitionStates) -> Iterator[str]:
    for node in sorted(now.alive - before.alive):
        yield f"broker {node} answers"
    for node in sorted(before.alive - now.alive):
        yield f"broker {node} does not answer any more"
    earlier = {each.place: each for each in before.partitions}
    for each in now.partitions:
        then = earlier.get(each.place)
        if then is not None and before.led(then) != now.led(each):
            led = now.led(each)
            yield f"{each.place}: " + (f"broker {each.leader} leads it" if led else "no leader")
        elif then is not None and then.leader != each.leader and each.leader is not None:
            yield f"{each.place}: broker {each.leader} leads it, no longer broker {then.leader}"


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
        start = self.now()
        due, held = _still_due(plan, self.again())
        if not due:
            return replace(nothing_asked(plan), results=_in_order(plan, held))
        self.journal.append([began(self.journal.run, plan, start), *intents(due)])
        results = self._elected(plan.kind, due)
        self.journal.append(outcomes(results))
        result = ElectionResult(
            plan,
            _in_order(plan, [*held, *results]),
            self.journal.run,
            self.journal.where,
            (self.now() - start).total_seconds(),
        )
        self.journal.append([ended(result.status, self.now())])
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

    def _settled(self, kind: Kind, due: Sequence[Line], answers: Answers) -> PartitionStates:
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
        self, kind: Kind, due: Sequence[Line], sight: PartitionStates
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


def _arrived(kind: Kind, line: Line, sight: PartitionStates) -> bool:
    seen = sight.find(line.place)
    if seen is None or not sight.led(seen):
        return False
    return kind is Kind.UNCLEAN or seen.leader == line.to


def _judged(
    kind: Kind,
    line: Line,
    seen: Partition | None,
    sight: PartitionStates,
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
