"""Writes source positions to connectors: keeps the old ones first, and reads everything back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from drctl.connectors.applying import Action, Export, Line, OffsetsPlan, kept
from drctl.connectors.connector import Clock, Position, Workers, WorkersWriter
from drctl.model.errors import DrctlError, ExitCode, Refused, UsageError
from drctl.model.journal import ENDED, Entry

_POLL_S = 0.2


class Outcome(StrEnum):
    """How it ended for one position, as read back."""

    WRITTEN = "written"
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LineResult:
    """One position of a run."""

    line: Line
    outcome: Outcome
    now: Mapping[str, Any] | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class OffsetsResult:
    """A run.

    Attributes:
        run: empty where nothing was written.
        before: the file with what was there before; `apply --from` takes it.
    """

    plan: OffsetsPlan
    results: tuple[LineResult, ...]
    run: str = ""
    before: str = ""

    @property
    def exit_code(self) -> ExitCode:
        """Of the command."""
        found = {each.outcome for each in self.results}
        if Outcome.UNKNOWN in found:
            return ExitCode.UNKNOWN
        if found & {Outcome.REFUSED, Outcome.FAILED}:
            return ExitCode.STOPPED if Outcome.WRITTEN in found else ExitCode.REFUSED
        return ExitCode.DONE


class Notebook(Protocol):
    """Keeps what a run did, and the positions before it."""

    def append(self, entries: Sequence[Entry]) -> None:
        """Write entries down; on disk when this returns.

        Raises:
            Unknown: that is not possible.
        """

    def keep(self, before: Export) -> str:
        """Write down what was there; the file.

        Raises:
            Unknown: that is not possible.
        """


@dataclass(slots=True)
class Writing:
    """One run.

    Attributes:
        patience_s: how long what was written may take to be read back.
    """

    workers: Workers
    writer: WorkersWriter
    notebook: Notebook
    clock: Clock
    now: Callable[[], datetime]
    patience_s: float = 10.0

    def run(self, plan: OffsetsPlan, run: str, cluster_id: str) -> OffsetsResult:
        """Write what the plan says, connector after connector, and read it back.

        Raises:
            Unreachable: the workers do not answer; nothing was written.
            Unknown: the old positions could not be kept; nothing was written.
        """
        names = list(dict.fromkeys(line.connector for line in plan.writes))
        before = self.notebook.keep(self._before(plan, names, cluster_id))
        began: Entry = {
            "entry": "began",
            "version": 1,
            "run": run,
            "at": self.now().isoformat(),
            "what": "offsets apply",
            "workers": plan.workers,
            "origin": plan.origin,
            "overrides": {guard.value: reason for guard, reason in plan.overrides.items()},
        }
        self.notebook.append([began])
        results = [_unwritten(line) for line in plan.lines if line.action is not Action.WRITE]
        for name in names:
            results += self._write(name, [ln for ln in plan.writes if ln.connector == name])
        results.sort(key=lambda each: plan.lines.index(each.line))
        result = OffsetsResult(plan, tuple(results), run, before)
        status, at = result.exit_code.name.lower(), self.now().isoformat()
        ended: Entry = {"entry": ENDED, "status": status, "at": at}
        self.notebook.append([*map(_outcome, results), ended])
        return result

    def _before(self, plan: OffsetsPlan, names: Sequence[str], cluster_id: str) -> Export:
        """With None for what was not there: written back, it is removed again."""
        there = self.workers.all()
        connectors = []
        for name in names:
            lines = [line for line in plan.writes if line.connector == name]
            positions = [Position(line.partition, line.before) for line in lines]
            connectors.append(kept(there[name], positions))
        return Export(plan.workers, cluster_id, self.now().isoformat(), tuple(connectors))

    def _write(self, name: str, lines: Sequence[Line]) -> list[LineResult]:
        self.notebook.append([_intent(line) for line in lines])
        refused = silent = ""
        try:
            self.writer.put_positions(name, [Position(ln.partition, ln.to) for ln in lines])
        except (Refused, UsageError) as error:
            refused = error.message
        except DrctlError as error:
            silent = error.message
        try:
            now = self._read_back(name, lines, bool(refused))
        except DrctlError as error:
            reason = refused or silent or error.message
            return [LineResult(line, Outcome.UNKNOWN, None, reason) for line in lines]
        return [_judged(line, now, refused, silent) for line in lines]

    def _read_back(self, name: str, lines: Sequence[Line], refused: bool) -> Sequence[Position]:
        """Polled, because a worker may report the old positions for a moment."""
        until = self.clock.monotonic() + self.patience_s
        while True:
            now = self.workers.positions(name)
            there = all(_found(line, now) == line.to for line in lines)
            if there or refused or self.clock.stopping or self.clock.monotonic() >= until:
                return now
            self.clock.wait(_POLL_S)


def nothing_written(plan: OffsetsPlan) -> OffsetsResult:
    """The result of a plan that writes nothing."""
    return OffsetsResult(plan, tuple(map(_unwritten, plan.lines)))


def _unwritten(line: Line) -> LineResult:
    outcome = Outcome.UNCHANGED if line.action is Action.KEEP else Outcome.REFUSED
    return LineResult(line, outcome, line.before, line.reason)


def _judged(line: Line, now: Sequence[Position], refused: str, silent: str) -> LineResult:
    found = _found(line, now)
    if found == line.to:
        return LineResult(line, Outcome.WRITTEN, found)
    if refused:
        return LineResult(line, Outcome.FAILED, found, refused)
    reason = silent or "it was taken, and is not what is read back"
    return LineResult(line, Outcome.UNKNOWN, found, reason)


def _found(line: Line, now: Sequence[Position]) -> Mapping[str, Any] | None:
    return next((p.offset for p in now if p.partition == line.partition), None)


def _intent(line: Line) -> Entry:
    return {
        "entry": "intent",
        "connector": line.connector,
        "partition": dict(line.partition),
        "before": line.before,
        "to": line.to,
    }


def _outcome(each: LineResult) -> Entry:
    return {
        "entry": "outcome",
        "connector": each.line.connector,
        "partition": dict(each.line.partition),
        "outcome": each.outcome.value,
        "now": each.now,
        "reason": each.reason,
    }
