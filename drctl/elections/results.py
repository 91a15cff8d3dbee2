"""What elections led to, by looking: what the controller answered is only told."""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from drctl.elections.loss import lost_behind
from drctl.elections.planning import Action, ElectionPlan, Guard, Line, Objection
from drctl.model.errors import ExitCode
from drctl.model.topology import OffsetRange, Unavailable


class Outcome(StrEnum):
    """How a partition stands after a run."""

    ELECTED = "elected"
    NOT_NEEDED = "not-needed"
    REFUSED = "refused"
    FAILED = "failed"
    """The controller said why, and it has not the leader that it should."""
    UNKNOWN = "unknown"
    """Asked for, and not seen."""


@dataclass(frozen=True, slots=True)
class LineResult:
    """One partition of a run.

    Attributes:
        leader: now; None where there is none.
        cut: where the log that was kept ended when it was elected, by the new leader's own epochs;
            None where nothing was lost by design.
        objections: for which it was refused.
        reason: why it was not elected.
    """

    line: Line
    outcome: Outcome
    leader: int | None = None
    cut: int | Unavailable | None = None
    objections: tuple[Objection, ...] = ()
    reason: str = ""

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
        journal: where it stands.
    """

    plan: ElectionPlan
    results: tuple[LineResult, ...]
    run: str = ""
    journal: str = ""
    seconds: float = 0.0

    @property
    def counts(self) -> Counter[Outcome]:
        """How many of each."""
        return Counter(each.outcome for each in self.results)

    @property
    def exit_code(self) -> ExitCode:
        """Of the command."""
        counts = self.counts
        if counts[Outcome.UNKNOWN]:
            return ExitCode.UNKNOWN
        if counts[Outcome.REFUSED] or counts[Outcome.FAILED]:
            return ExitCode.STOPPED if counts[Outcome.ELECTED] else ExitCode.REFUSED
        return ExitCode.DONE

    @property
    def status(self) -> str:
        """The exit code in a word."""
        return self.exit_code.name.lower()


def unelected(line: Line) -> LineResult:
    """What becomes of a line that gets no election."""
    leader = line.partition.leader if line.partition else None
    if line.action is Action.NOTHING:
        return LineResult(line, Outcome.NOT_NEEDED, leader)
    return LineResult(line, Outcome.REFUSED, leader, objections=line.refused)


def changed(line: Line, now: Line | None) -> LineResult:
    """What becomes of a line whose partition is not what it was when the plan was made."""
    leader = now.partition.leader if now and now.partition else None
    against = Objection(Guard.CHANGED, "it has changed since the plan was made: make it anew")
    return LineResult(line, Outcome.REFUSED, leader, objections=(against,))


def nothing_asked(plan: ElectionPlan) -> ElectionResult:
    """The result of a plan that has nothing to do."""
    return ElectionResult(plan, tuple(map(unelected, plan.lines)))
