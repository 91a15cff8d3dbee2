"""What became of a plan, position by position."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from drctl.model.errors import ExitCode
from drctl.model.groups import Committed
from drctl.offsets.applying import Action, ApplyPlan, Line


class Outcome(StrEnum):
    """How it ended for one group and partition."""

    COMMITTED = "committed"
    DELETED = "deleted"
    SAME = "same"
    KEPT = "kept"
    REFUSED = "refused"
    FAILED = "failed"
    """It was not written, and nobody had refused it before."""
    UNKNOWN = "unknown"
    """It was sent; whether it was written could not be found out."""


DONE = frozenset({Outcome.COMMITTED, Outcome.DELETED, Outcome.SAME})
WRITTEN = frozenset({Outcome.COMMITTED, Outcome.DELETED})


@dataclass(frozen=True, slots=True)
class LineResult:
    """What became of one line.

    Attributes:
        now: where the group stands as read back; None where it has no position, or where that
            could not be read.
        reason: why it is not done; empty where it is.
    """

    line: Line
    outcome: Outcome
    now: Committed | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What became of a plan.

    Attributes:
        run: by which `undo` finds it; empty where nothing was to be written.
        journal: the file that holds the previous positions; empty as above.
    """

    plan: ApplyPlan
    run: str
    journal: str
    seconds: float
    results: tuple[LineResult, ...]

    @property
    def counts(self) -> Mapping[Outcome, int]:
        """How many positions ended in each way."""
        found = Counter(result.outcome for result in self.results)
        return {outcome: found[outcome] for outcome in Outcome}

    @property
    def not_done(self) -> tuple[LineResult, ...]:
        """Every position that is not where it was wanted, or may not be."""
        return tuple(result for result in self.results if result.outcome not in DONE)

    @property
    def exit_code(self) -> ExitCode:
        """Never 0 where anything was skipped, partial or unknown."""
        outcomes = {result.outcome for result in self.results}
        if Outcome.UNKNOWN in outcomes:
            return ExitCode.UNKNOWN
        if outcomes <= DONE:
            return ExitCode.DONE
        return ExitCode.STOPPED if outcomes & WRITTEN else ExitCode.REFUSED

    @property
    def status(self) -> str:
        """The exit code as a word."""
        return self.exit_code.name.lower()


_BECAME = {Action.SAME: Outcome.SAME, Action.KEPT: Outcome.KEPT, Action.REFUSED: Outcome.REFUSED}


def left_alone(line: Line) -> LineResult:
    """The result of a line that writes nothing."""
    return LineResult(line, _BECAME[line.action], line.before, line.reason)


def nothing_written(plan: ApplyPlan) -> ApplyResult:
    """The result of a plan that writes nothing."""
    return ApplyResult(plan, "", "", 0.0, tuple(map(left_alone, plan.lines)))
