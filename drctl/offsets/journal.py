"""The result of a run that commits offsets, its journal, and what can be read from that.

An entry is a mapping that becomes a line of JSON. `intent` is in the journal, on disk, before the
write that it announces is sent; so every offset that a run may have changed is there with its
previous value. `outcome` comes afterwards and is for people: `undo` does not need it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from drctl.model.errors import ExitCode
from drctl.model.groups import Committed
from drctl.model.journal import Entry
from drctl.model.topology import TopicPartition
from drctl.offsets.applying import ApplyPlan, Line
from drctl.offsets.wanted import Wanted, Written


class Outcome(StrEnum):
    """How it ended for one group and partition."""

    COMMITTED = "committed"
    DELETED = "deleted"
    SAME = "same"
    KEPT = "kept"
    REFUSED = "refused"
    FAILED = "failed"
    """It was not written, and no guard had refused it."""
    UNKNOWN = "unknown"
    """It was sent; whether it was written is not known."""


WRITTEN = frozenset({Outcome.COMMITTED, Outcome.DELETED})
DONE = WRITTEN | {Outcome.SAME}


@dataclass(frozen=True, slots=True)
class LineResult:
    """What became of one line.

    Attributes:
        now: the committed offset as read back; None where there is none, or it could not be read.
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


def left_alone(line: Line) -> LineResult:
    """The result of a line that writes nothing."""
    return LineResult(line, Outcome(line.action.value), line.before, line.reason)


def nothing_written(plan: ApplyPlan) -> ApplyResult:
    """The result of a plan that writes nothing."""
    return ApplyResult(plan, "", "", 0.0, tuple(map(left_alone, plan.lines)))


_VERSION = 1


class Damaged(ValueError):
    """An entry is not what this drctl writes."""


class Change(NamedTuple):
    """A committed offset that a run may have changed; None is no committed offset."""

    group: str
    partition: TopicPartition
    before: Committed | None
    to: Committed | None


@dataclass(frozen=True, slots=True)
class JournaledRun:
    """A run as its journal has it.

    Attributes:
        undone: the run that this one rolled back; empty where it rolled back none.
        changes: every committed offset that it may have changed, each once.
        ended: whether it came to its end.
    """

    run: str
    undone: str
    cluster: str
    cluster_id: str
    began: str
    changes: tuple[Change, ...]
    ended: bool


def began(run: str, plan: ApplyPlan, at: datetime, undone: str = "") -> Entry:
    """The first entry."""
    return {
        "entry": "began",
        "version": _VERSION,
        "run": run,
        "undoes": undone,
        "at": at.isoformat(),
        "cluster": plan.cluster,
        "cluster_id": plan.cluster_id,
        "origin": plan.origin,
        "overrides": {each.guard.value: each.reason for each in plan.overrides},
    }


def intents(lines: Iterable[Line]) -> list[Entry]:
    """One entry for each group that is about to be written."""
    by_group: dict[str, list[list[Any]]] = {}
    for line in lines:
        change = [*line.partition, _to_json(line.before), _to_json(line.to)]
        by_group.setdefault(line.group, []).append(change)
    return [
        {"entry": "intent", "group": group, "changes": changes}
        for group, changes in by_group.items()
    ]


def outcomes(results: Iterable[LineResult]) -> list[Entry]:
    """One entry for each group that was written."""
    by_group: dict[str, list[list[Any]]] = {}
    for each in results:
        told = [*each.line.partition, each.outcome.value, _to_json(each.now), each.reason]
        by_group.setdefault(each.line.group, []).append(told)
    return [
        {"entry": "outcome", "group": group, "results": told} for group, told in by_group.items()
    ]


def ended(status: str, at: datetime) -> Entry:
    """The last entry."""
    return {"entry": "ended", "status": status, "at": at.isoformat()}


def read_run(entries: Sequence[Entry]) -> JournaledRun | None:
    """The run; None where it ended before it had begun.

    Raises:
        Damaged: an entry is not what this drctl writes.
    """
    if not entries:
        return None
    try:
        first = entries[0]
        if first["entry"] != "began" or first["version"] != _VERSION:
            raise Damaged("it does not begin as a journal of this drctl does")
        changes: dict[tuple[str, TopicPartition], Change] = {}
        for entry in entries[1:]:
            for topic, number, before, to in entry["changes"] if entry["entry"] == "intent" else ():
                place = TopicPartition(topic, number)
                change = Change(entry["group"], place, _position(before), _position(to))
                changes.setdefault((change.group, place), change)
        return JournaledRun(
            first["run"],
            first["undoes"],
            first["cluster"],
            first["cluster_id"],
            first["at"],
            tuple(changes.values()),
            entries[-1]["entry"] == "ended",
        )
    except (KeyError, TypeError, ValueError) as wrong:
        raise Damaged(str(wrong)) from wrong


def _to_json(position: Committed | None) -> list[Any] | None:
    return None if position is None else list(position)


def _position(data: Any) -> Committed | None:
    if data is None:
        return None
    offset, leader_epoch, metadata = data
    return Committed(int(offset), int(leader_epoch), str(metadata))


def taken_back(run: JournaledRun) -> tuple[Wanted, ...]:
    """Every offset that the run may have changed, as it was; none where there was none.

    Whether an announced write was made is seen on the cluster, not in the journal: an offset that
    is as it was before is left alone.
    """
    return tuple(
        Wanted(change.group, change.partition, change.before, undoes=Written(change.to))
        for change in run.changes
    )
