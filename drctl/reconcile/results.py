"""The result of a plan, line by line, and the journal entries of its run."""

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
"""Runs of offsets that are named for a partition; the journal has them all."""


class Outcome(StrEnum):
    """How it ended for one record set."""

    PLANNED = "planned"
    DONE = "done"
    REFUSED = "refused"
    PARTIAL = "partial"
    """Some or all of its records are left."""
    UNKNOWN = "unknown"
    """It may be done: that could not be read back."""


_QUIET = frozenset({Outcome.PLANNED, Outcome.DONE})


@dataclass(slots=True)
class Count:
    """What this run did to a record set."""

    records: int = 0
    bytes: int = 0
    gone: int = 0


@dataclass(slots=True)
class Gone:
    """Offsets of records that the source no longer holds, as runs."""

    runs: list[tuple[int, int]] = field(default_factory=list)
    records: int = 0

    def add(self, offset: int) -> None:
        """One more, after those before."""
        self.records += 1
        if self.runs and self.runs[-1][1] == offset - 1:
            self.runs[-1] = (self.runs[-1][0], offset)
        elif len(self.runs) < MOST_RUNS:
            self.runs.append((offset, offset))


@dataclass(frozen=True, slots=True)
class LineResult:
    """What became of one line."""

    line: Line
    outcome: Outcome
    count: Count
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """What became of a plan.

    Attributes:
        run: by which the journal is found; empty where nothing was done.
        failure: why it ended early; empty where it did not.
        failure_code: the exit code of that alone.
        gone: what the source no longer held.
        exported: where the export is; empty where there is none.
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
        """Never 0 where anything was refused, partial, gone or unknown."""
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
        """The exit code as a word; `planned` where it says that a plan may be carried out."""
        code = self.exit_code
        found = any(each.outcome is Outcome.PLANNED for each in self.results)
        found = found or bool(self.plan.noted and not self.run)
        return "planned" if found and code is ExitCode.DONE else code.name.lower()


def _gone(result: LineResult) -> int:
    return result.count.gone + sum(segment.gone for segment in result.line.done)


def left_alone(line: Line) -> LineResult:
    """The result of a line that does nothing."""
    refused = line.precheck is not None or (line.action is Action.REFUSE and line.due.records)
    return LineResult(line, Outcome.REFUSED if refused else Outcome.DONE, Count(), line.reason)


def planned(plan: ReconcilePlan) -> tuple[LineResult, ...]:
    """What each line says before anything is done."""
    return tuple(
        LineResult(line, Outcome.PLANNED, Count(), line.reason) if line.acts else left_alone(line)
        for line in plan.lines
    )


_VERSION = 1


def began(run: str, plan: ReconcilePlan, at: datetime) -> Entry:
    """The first entry."""
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
    """One entry for each record set that takes over another result's decisions."""
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
    """One entry for each record set that is about to be acted upon."""
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
    """One entry for each partition that no longer holds wanted records: their offsets."""
    by_place: dict[TopicPartition, list[int]] = {}
    for place, offset in offsets:
        by_place.setdefault(place, []).append(offset)
    return [
        {"entry": "gone", "topic": place.topic, "partition": place.partition, "offsets": offsets}
        for place, offsets in by_place.items()
    ]


def outcomes(results: Iterable[LineResult]) -> list[Entry]:
    """One entry for each record set."""
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
    """The last entry."""
    return {"entry": "ended", "status": status, "at": at.isoformat()}
