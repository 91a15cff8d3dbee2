"""Results for connectors and their source offsets, as read back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from drctl.connectors.applying import Action, Line, OffsetsPlan
from drctl.connectors.diagnosis import Explained, explain
from drctl.model.errors import ExitCode
from drctl.model.replication import Connector, Position


class Ending(StrEnum):
    """The result of restarting a connector."""

    RUNNING = "running"
    FAILING = "failing"
    """All attempts are used up, or the cause needs manual repair."""
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Restarted:
    """A restarted connector.

    Attributes:
        response: the worker's error response to the last restart; empty if it was accepted.
    """

    name: str
    ending: Ending
    attempts: int
    response: str = ""
    explained: Explained | None = None


def restarted(name: str, now: Connector | None, attempts: int, response: str) -> Restarted:
    """The result, from the current state."""
    if now is None:
        return Restarted(name, Ending.GONE, attempts, response)
    if now.running:
        return Restarted(name, Ending.RUNNING, attempts, response)
    why = explain(now.failed[0].stack_trace) if now.failed else None
    return Restarted(name, Ending.FAILING, attempts, response, why)


@dataclass(frozen=True, slots=True)
class RemedyResult:
    """The result of a remedy.

    Attributes:
        before: file with the previous offsets; empty if they were not saved.
        done: completed steps, as text.
    """

    code: ExitCode
    message: str
    before: str
    done: tuple[str, ...]


class Outcome(StrEnum):
    """The result for one source offset, as read back."""

    WRITTEN = "written"
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LineResult:
    """One source offset of a run."""

    line: Line
    outcome: Outcome
    now: Mapping[str, Any] | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class OffsetsResult:
    """A run.

    Attributes:
        run: id of the run; empty if nothing was written.
        before: file with the previous offsets, for `apply --from`.
    """

    plan: OffsetsPlan
    results: tuple[LineResult, ...]
    run: str = ""
    before: str = ""

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of the command."""
        found = {each.outcome for each in self.results}
        if Outcome.UNKNOWN in found:
            return ExitCode.UNKNOWN
        if found & {Outcome.REFUSED, Outcome.FAILED}:
            return ExitCode.STOPPED if Outcome.WRITTEN in found else ExitCode.REFUSED
        return ExitCode.DONE


def results_of(
    plan: OffsetsPlan, now: Mapping[str, Sequence[Position]], why: str, *, open_: bool = False
) -> tuple[LineResult, ...]:
    """The result of each line.

    Args:
        now: current offsets by connector; one that is absent could not be queried.
        why: why something was not written.
        open_: whether missing offsets may still be written.
    """
    return tuple(_result(line, now, why, open_) for line in plan.lines)


def _result(line: Line, now: Mapping[str, Sequence[Position]], why: str, open_: bool) -> LineResult:
    if line.action is not Action.WRITE:
        outcome = Outcome.UNCHANGED if line.action is Action.KEEP else Outcome.REFUSED
        return LineResult(line, outcome, line.before, line.reason)
    if line.connector not in now:
        return LineResult(line, Outcome.UNKNOWN, None, why)
    positions = now[line.connector]
    found = next((p.offset for p in positions if p.partition == line.partition), None)
    if found == line.to:
        return LineResult(line, Outcome.WRITTEN, found)
    return LineResult(line, Outcome.UNKNOWN if open_ else Outcome.FAILED, found, why)
