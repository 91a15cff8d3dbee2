"""The result of a reconcile run, line by line, and its journal entries."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from drctl.model.errors import ExitCode
from drctl.model.journal import Entry
from drctl.model.topology import TopicPartition
from drctl.reconcile.planning import Line, ReconcilePlan
from drctl.reconcile.policy import Action
from drctl.reconcile.progress import Progress, RecordSet

MOST_RUNS = 1_000
"""Maximum number of offset ranges listed per partition; the journal lists all."""


class Outcome(StrEnum):
    """Outcome for one record set."""

    PLANNED = "planned"
    DONE = "done"
    REFUSED = "refused"
    PARTIAL = "partial"
    """Some or all of its records are still to do."""
    UNKNOWN = "unknown"
    """It may be done, but could not be verified."""


_QUIET = frozenset({Outcome.PLANNED, Outcome.DONE})


@dataclass(slots=True)
class Count:
    """What this run did with a record set."""

    records: int = 0
    bytes: int = 0
    gone: int = 0


@dataclass(slots=True)
class Gone:
    """Offset ranges of records that no longer exist on the source."""

    runs: list[tuple[int, int]] = field(default_factory=list)
    records: int = 0

    def add(self, offset: int) -> None:
        """Add the next offset."""
        self.records += 1
        if self.runs and self.runs[-1][1] == offset - 1:
            self.runs[-1] = (self.runs[-1][0], offset)
        elif len(self.runs) < MOST_RUNS:
            self.runs.append((offset, offset))


@dataclass(frozen=True, slots=True)
class LineResult:
    """The result of one line."""

    line: Line
    outcome: Outcome
    count: Count
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """The result of a plan.

    Attributes:
        run: id of the run and its journal; empty if nothing was done.
        failure: why it ended early; empty if it did not.
        failure_code: exit code of the failure alone.
        gone: records that no longer existed on the source.
        exported: directory of the export; empty if there is none.
    """

    plan: ReconcilePlan
    run: str = ""
    journal: str = ""
    seconds: float = 0.0
    results: tuple[LineResult, ...] = ()
    gone: Mapping[TopicPartition, Gone] = field(default_factory=dict)
    exported: str = ""
    failure: str = ""
    hint: str = ""
    failure_code: ExitCode | None = None

    @property
    def exit_code(self) -> ExitCode:
        """Exit code; never 0 if anything was refused, partial, deleted or unknown."""
        outcomes = {each.outcome for each in self.results}
        changed = any(r.count.records or r.count.gone for r in self.results)
        if Outcome.UNKNOWN in outcomes:
            return ExitCode.UNKNOWN
        if not self.plan.blocked and Outcome.PLANNED in outcomes <= _QUIET:
            return ExitCode.DONE
        if self.failure_code not in (None, ExitCode.STOPPED) and not changed:
            return self.failure_code
        if self.plan.blocked or outcomes - {Outcome.DONE}:
            return ExitCode.STOPPED if changed else ExitCode.REFUSED
        return ExitCode.FOUND if any(map(_gone, self.results)) else ExitCode.DONE

    @property
    def status(self) -> str:
        """The exit code as a word; `planned` if the plan can be executed."""
        code = self.exit_code
        found = any(each.outcome is Outcome.PLANNED for each in self.results)
        found = found or bool(self.plan.noted and not self.run)
        return "planned" if found and code is ExitCode.DONE else code.name.lower()


def _gone(result: LineResult) -> int:
    return result.count.gone + sum(segment.gone for segment in result.line.done)


def left_alone(line: Line) -> LineResult:
    """Return the result of a line with nothing to do."""
    refused = line.precheck is not None or (line.action is Action.REFUSE and line.due.records)
    return LineResult(line, Outcome.REFUSED if refused else Outcome.DONE, Count(), line.reason)


def planned(plan: ReconcilePlan) -> tuple[LineResult, ...]:
    """Return the results of a plan that was not executed."""
    return tuple(
        LineResult(line, Outcome.PLANNED, Count(), line.reason) if line.acts else left_alone(line)
        for line in plan.lines
    )


_VERSION = 1


def began(run: str, plan: ReconcilePlan, at: datetime) -> Entry:
    """Build the first journal entry."""
    gap = plan.gap
    return {
        "entry": "began",
        "version": _VERSION,
        "run": run,
        "at": at.isoformat(),
        "result": gap.id,
        "link": gap.link,
        "source": [gap.source, gap.source_id],
        "target": [gap.target, gap.target_id],
        "overrides": dict(plan.overrides),
        "overridden": [
            f"{o.precheck}: {o.place}: {o.reason}" for o in plan.blockers if o.overridden
        ],
    }


def taken(over: Mapping[RecordSet, Progress]) -> list[Entry]:
    """Build an entry for each record set that takes over decisions of other gap results."""
    return [
        {
            "entry": "taken-over",
            "record_set": [*record_set.place, record_set.order.value],
            "through": progress.through,
            "records": progress.records,
        }
        for record_set, progress in over.items()
    ]


def intents(lines: Iterable[Line]) -> list[Entry]:
    """Build an entry for each record set before it is processed."""
    return [
        {
            "entry": "intent",
            "record_set": [*line.record_set.place, line.record_set.order.value],
            "action": line.action.value,
            "to": line.to,
            "after": line.through,
            "records": line.due.records,
        }
        for line in lines
    ]


def gone(offsets: Iterable[tuple[TopicPartition, int]]) -> list[Entry]:
    """Build an entry for each partition with deleted records: their offsets."""
    by_place: dict[TopicPartition, list[int]] = {}
    for place, offset in offsets:
        by_place.setdefault(place, []).append(offset)
    return [
        {"entry": "gone", "topic": place.topic, "partition": place.partition, "offsets": offsets}
        for place, offsets in by_place.items()
    ]


def outcomes(results: Iterable[LineResult]) -> list[Entry]:
    """Build an entry for each record set."""
    return [
        {
            "entry": "outcome",
            "record_set": [*each.line.record_set.place, each.line.record_set.order.value],
            "action": each.line.action.value,
            "outcome": each.outcome.value,
            "records": each.count.records,
            "gone": each.count.gone,
            "reason": each.reason,
        }
        for each in results
    ]


def ended(status: str, at: datetime) -> Entry:
    """Build the last journal entry."""
    return {"entry": "ended", "status": status, "at": at.isoformat()}
