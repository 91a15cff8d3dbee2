"""Carries out a plan of elections, and waits for leaders.

A run looks a second time, writes its intents to the journal, asks the controller, and looks what
came of it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from drctl.elections.cluster_state import (
    Clock,
    Declined,
    ElectionReader,
    ElectionWriter,
    Kind,
    PartitionStates,
)
from drctl.elections.planning import Action, ElectionPlan, Line
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
        self.journal.append([_began(self.journal.run, plan, start), *map(_intent, due)])
        results = self._elected(plan.kind, due)
        self.journal.append([*map(_outcome, results)])
        result = ElectionResult(
            plan,
            _in_order(plan, [*held, *results]),
            self.journal.run,
            self.journal.where,
            (self.now() - start).total_seconds(),
        )
        end = {"entry": ENDED, "status": result.status, "at": self.now().isoformat()}
        self.journal.append([end])
        return result

    def _elected(self, kind: Kind, due: Sequence[Line]) -> list[LineResult]:
        answers: Answers = {}
        silence = None
        try:
            answers = self.writer.elect(kind, [line.place for line in due])
        except Unknown as unknown:
            silence = Unavailable(unknown.message)
        states = self._settled(kind, due, answers)
        cuts = self._cuts(kind, due, states)
        return [_judged(kind, line, states, answers.get(line.place, silence), cuts) for line in due]

    def _settled(self, kind: Kind, due: Sequence[Line], answers: Answers) -> PartitionStates:
        """A look in which all have their leaders, or the last one before time is up."""
        until = self.clock.monotonic() + self.patience_s
        topics = sorted({line.place.topic for line in due})
        waited = [line for line in due if answers.get(line.place) is None]
        while True:
            states = self.reader.look(topics, ())
            there = all(_arrived(kind, line, states) for line in waited)
            if there or self.clock.stopping or self.clock.monotonic() >= until:
                return states
            self.clock.wait(_LOOK_EVERY_S)

    def _cuts(
        self, kind: Kind, due: Sequence[Line], states: PartitionStates
    ) -> Mapping[TopicPartition, int | Unavailable]:
        if kind is Kind.PREFERRED:
            return {}
        epochs = {
            line.place: line.partition.epoch
            for line in due
            if line.partition and line.partition.epoch >= 0 and _arrived(kind, line, states)
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


def _arrived(kind: Kind, line: Line, states: PartitionStates) -> bool:
    """Whether the partition has a leader that answers, and the one that it was to get."""
    found = states.find(line.place)
    if found is None or not states.led(found):
        return False
    return kind is Kind.UNCLEAN or found.leader == line.to


def _judged(
    kind: Kind,
    line: Line,
    states: PartitionStates,
    answer: Unavailable | None,
    cuts: Mapping[TopicPartition, int | Unavailable],
) -> LineResult:
    found = states.find(line.place)
    leader = found.leader if found else None
    if _arrived(kind, line, states):
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


def _began(run: str, plan: ElectionPlan, at: datetime) -> Entry:
    return {
        "entry": "began",
        "version": 1,
        "run": run,
        "at": at.isoformat(),
        "kind": plan.kind.value,
        "cluster": plan.cluster,
        "cluster_id": plan.cluster_id,
        "overrides": {guard.value: reason for guard, reason in plan.overrides.items()},
    }


def _intent(line: Line) -> Entry:
    """A partition is about to get an election."""
    partition, loss = line.partition, line.loss
    assert partition is not None
    return {
        "entry": "intent",
        "topic": line.place.topic,
        "partition": line.place.partition,
        "leader": partition.leader,
        "epoch": partition.epoch,
        "replicas": list(partition.replicas),
        "in_sync": list(partition.in_sync),
        "to": line.to,
        "loss": None if loss is None else loss.words,
        "overridden": [[each.guard.value, each.reason] for each in line.overridden],
    }


def _outcome(result: LineResult) -> Entry:
    """A partition got one."""
    return {
        "entry": "outcome",
        "topic": result.line.place.topic,
        "partition": result.line.place.partition,
        "outcome": result.outcome.value,
        "leader": result.leader,
        "cut": result.cut.reason if isinstance(result.cut, Unavailable) else result.cut,
        "reason": result.reason,
    }


_WAIT_EVERY_S = 1.0


@dataclass(slots=True)
class Wait:
    """Looks again and again until all have leaders, time is up, or somebody stops it.

    Attributes:
        topics: None waits for all.
        report: gets each look, and what is new in it, in words; None where nobody answered.
    """

    reader: ElectionReader
    clock: Clock
    topics: Collection[str] | None
    report: Callable[[PartitionStates | None, tuple[str, ...]], None]

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
                states = self.reader.look(self.topics)
            except Unreachable as silent:
                if over or self.clock.monotonic() >= until:
                    raise
                self.report(None, (silent.message,))
            else:
                self.report(states, news(before, states))
                before = states
                if over or not states.dark:
                    return states
            self.clock.wait(min(_WAIT_EVERY_S, max(0.0, until - self.clock.monotonic())))


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
