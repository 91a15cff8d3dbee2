"""What elections led to: as observed afterwards, not as the controller reported it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from drctl.elections.cluster_state import (
    Declined,
    ElectionReader,
    Kind,
    Partition,
    PartitionStates,
    Replica,
)
from drctl.elections.loss import Loss, lost_behind
from drctl.elections.planning import Action, Aim, ElectionPlan, Guard, Line, Objection
from drctl.model.errors import ExitCode
from drctl.model.health import Controller
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable


class Outcome(StrEnum):
    """What became of a partition in a run."""

    ELECTED = "elected"
    NOT_NEEDED = "not-needed"
    REFUSED = "refused"
    FAILED = "failed"
    """The controller said why, and it has not the leader that it should."""
    UNKNOWN = "unknown"
    """Asked for, and not observed."""


@dataclass(frozen=True, slots=True)
class Became:
    """What became of a partition.

    Attributes:
        leader: now; None where there is none.
        cut: where the log that was kept ended when it was elected, by the new leader's own epochs;
            None where nothing was lost by design.
        reason: why it was not elected.
    """

    outcome: Outcome
    leader: int | None = None
    cut: int | Unavailable | None = None
    reason: str = ""


def observed(
    kind: Kind,
    aims: Sequence[Aim],
    reader: ElectionReader,
    answers: Mapping[TopicPartition, Unavailable | None],
) -> Mapping[TopicPartition, Became]:
    """Look who leads them now.

    Args:
        answers: what the controller said, of the partitions that it was asked for.

    Raises:
        Unreachable: no broker answered.
    """
    if not aims:
        return {}
    states = reader.look(sorted({aim.topic for aim in aims}), ())
    cuts: Mapping[TopicPartition, int | Unavailable] = {}
    epochs = {a.place: a.epoch for a in aims if a.epoch >= 0 and a.is_led(kind, states)}
    if kind is Kind.UNCLEAN and epochs:
        cuts = reader.ends_before(epochs)
    return {aim.place: _became(kind, aim, states, answers, cuts) for aim in aims}


def _became(
    kind: Kind,
    aim: Aim,
    states: PartitionStates,
    answers: Mapping[TopicPartition, Unavailable | None],
    cuts: Mapping[TopicPartition, int | Unavailable],
) -> Became:
    found = states.find(aim.place)
    leader = found.leader if found else None
    if aim.is_led(kind, states):
        unknown = Unavailable("the brokers do not tell epochs")
        cut = cuts.get(aim.place, unknown) if kind is Kind.UNCLEAN else None
        return Became(Outcome.ELECTED, leader, cut)
    if aim.place not in answers:
        return Became(Outcome.UNKNOWN, leader, reason="the controller was not asked for it")
    answer = answers[aim.place]
    if answer is not None:
        outcome = Outcome.FAILED if isinstance(answer, Declined) else Outcome.UNKNOWN
        return Became(outcome, leader, reason=answer.reason)
    reason = "the controller elected it, and no leader that answers was seen"
    return Became(Outcome.UNKNOWN, leader, reason=reason)


@dataclass(frozen=True, slots=True)
class LineResult:
    """One partition of a run.

    Attributes:
        objections: for which it was refused.
    """

    line: Line
    became: Became
    objections: tuple[Objection, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """What became of it."""
        return self.became.outcome

    @property
    def cut(self) -> int | Unavailable | None:
        """Where the log that was kept ended."""
        return self.became.cut

    @property
    def lost(self) -> OffsetRange | None:
        """What is known to be lost, measured; None where nothing can be told."""
        loss = self.line.loss
        if loss is None or self.cut is None or loss.candidate.clean:
            return None
        return lost_behind(self.cut, loss.known_end)

    @property
    def as_stated(self) -> bool | None:
        """Whether as much was lost as was said before; None where that cannot be told."""
        loss = self.line.loss
        if loss is None or not isinstance(self.cut, int):
            return None
        return self.cut == loss.log_end


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """A run.

    Attributes:
        run: empty where nothing was asked for.
        journal: where it is kept.
        resume: the command line that goes on with it; empty where it has ended.
    """

    plan: ElectionPlan
    results: tuple[LineResult, ...]
    run: str = ""
    journal: str = ""
    seconds: float = 0.0
    resume: str = ""

    @property
    def counts(self) -> Counter[Outcome]:
        """How many of each."""
        return Counter(each.outcome for each in self.results)

    @property
    def exit_code(self) -> ExitCode:
        """Of the command."""
        counts = self.counts
        if counts[Outcome.UNKNOWN] or self.resume:
            return ExitCode.UNKNOWN
        if counts[Outcome.REFUSED] or counts[Outcome.FAILED]:
            return ExitCode.STOPPED if counts[Outcome.ELECTED] else ExitCode.REFUSED
        return ExitCode.DONE

    @property
    def status(self) -> str:
        """The exit code in a word."""
        return self.exit_code.name.lower()


def results_of(
    plan: ElectionPlan,
    found: Mapping[TopicPartition, Became],
    changed: Mapping[TopicPartition, int | None],
) -> tuple[LineResult, ...]:
    """What became of each line of the plan.

    Args:
        changed: partitions that were left alone, for they had changed; with their leaders now.
    """
    return tuple(_result_of(line, found, changed) for line in plan.lines)


def _result_of(
    line: Line,
    found: Mapping[TopicPartition, Became],
    changed: Mapping[TopicPartition, int | None],
) -> LineResult:
    if line.place in found:
        return LineResult(line, found[line.place])
    if line.place in changed:
        against = Objection(Guard.CHANGED, "it has changed since the plan was made: make it anew")
        return LineResult(line, Became(Outcome.REFUSED, changed[line.place]), (against,))
    leader = line.partition.leader if line.partition else None
    if line.action is Action.NOTHING:
        return LineResult(line, Became(Outcome.NOT_NEEDED, leader))
    return LineResult(line, Became(Outcome.REFUSED, leader), line.refused)


Document = dict[str, Any]


def show_document(cluster: str, states: PartitionStates, shown: tuple[Partition, ...]) -> Document:
    """Partitions without leaders, and who is there."""
    controller = states.controller
    return {
        "schema": "drctl/elect-show/1",
        "cluster": {"name": cluster, "id": states.cluster_id},
        "controller": controller.node if isinstance(controller, Controller) else None,
        "brokers": {
            "alive": sorted(states.alive),
            "silent": [
                {"broker": node, "reason": why.reason} for node, why in states.silent.items()
            ],
        },
        "partitions": len(states.partitions),
        "leaderless": [_partition(each, states) for each in shown],
        "absent": sorted(states.absent),
    }


def plan_document(plan: ElectionPlan, execute: str) -> Document:
    """What would be done."""
    return {
        "schema": "drctl/elect-plan/1",
        **_head(plan),
        "lines": [_line(line) for line in plan.lines],
        "execute": execute,
    }


def result_document(result: ElectionResult) -> Document:
    """What was done."""
    return {
        "schema": "drctl/elect/1",
        **_head(result.plan),
        "run": result.run,
        "status": result.status,
        "journal": result.journal,
        "seconds": round(result.seconds, 3),
        "lines": [_result(each) for each in result.results],
    }


def _head(plan: ElectionPlan) -> Document:
    return {
        "kind": plan.kind.value,
        "cluster": {"name": plan.cluster, "id": plan.cluster_id},
        "overrides": {guard.value: reason for guard, reason in plan.overrides.items()},
        "notes": list(plan.notes),
    }


def _partition(seen: Partition, states: PartitionStates) -> Document:
    ends = {node: states.log_ends.get(Replica(seen.place, node)) for node in seen.replicas}
    return {
        "topic": seen.place.topic,
        "partition": seen.place.partition,
        "leader": seen.leader,
        "epoch": seen.epoch,
        "replicas": [
            {
                "broker": node,
                "alive": node in states.alive,
                "in_sync": node in seen.in_sync,
                "eligible": None if seen.eligible is None else node in seen.eligible,
                "last_known": None if seen.last_known is None else node in seen.last_known,
                "log_end": end if isinstance(end, int) else None,
            }
            for node, end in ends.items()
        ],
    }


def _line(line: Line) -> Document:
    seen = line.partition
    return {
        "topic": line.place.topic,
        "partition": line.place.partition,
        "leader": seen.leader if seen else None,
        "replicas": list(seen.replicas) if seen else [],
        "in_sync": list(seen.in_sync) if seen else [],
        "eligible": list(seen.eligible) if seen and seen.eligible is not None else None,
        "action": line.action.value,
        "to": line.to,
        "refused": [_objection(each) for each in line.refused],
        "overridden": [_objection(each) for each in line.overridden],
        "loss": None if line.loss is None else _loss(line.loss),
    }


def _result(each: LineResult) -> Document:
    cut = each.cut
    measured = {
        "cut": cut if isinstance(cut, int) else None,
        "why_not": cut.reason if isinstance(cut, Unavailable) else "",
        "lost": _range(each.lost),
        "as_stated": each.as_stated,
    }
    return {
        **_line(each.line),
        "outcome": each.outcome.value,
        "leader_now": each.became.leader,
        "reason": each.became.reason,
        "refused": [_objection(one) for one in each.objections],
        "measured": None if each.line.loss is None or cut is None else measured,
    }


def _loss(loss: Loss) -> Mapping[str, Any]:
    return {
        "words": loss.words,
        "clean": loss.candidate.clean,
        "log_end": loss.log_end if isinstance(loss.log_end, int) else None,
        "lost": _range(loss.offsets),
        "exact": loss.exact,
        "elsewhere": loss.elsewhere,
        "longer": [{"broker": node, "log_end": end} for node, end in loss.longer],
        "evidence": [
            {"words": each.words, "upto": each.upto, "exact": each.exact, "copied": each.copied}
            for each in loss.evidence
        ],
        "groups_behind_the_end": [
            {"group": each.group, "offset": each.offset} for each in loss.beyond
        ],
    }


def _range(offsets: OffsetRange | None) -> Mapping[str, int] | None:
    if offsets is None:
        return None
    return {"from": offsets.start, "before": offsets.end, "offsets": offsets.span}


def _objection(each: Objection) -> Mapping[str, str]:
    return {"guard": each.guard.value, "reason": each.reason}
