"""Plans and executes the reconciliation of the records in a gap result."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from drctl.app import adapters, reconcile_adapters
from drctl.app.link_reader import ClusterLinkReader
from drctl.app.link_writer import ClusterLinkWriter
from drctl.app.notices import Task, notices, wants_to_stop
from drctl.app.operation import Operation
from drctl.engine.failback_state import ReconcileRequest, Reconciliation
from drctl.model.errors import (
    DrctlError,
    ExitCode,
    Interrupted,
    Refused,
    Stopped,
    Unknown,
    UsageError,
)
from drctl.model.moments import new_name
from drctl.model.text import plural
from drctl.reconcile.export import digest_of
from drctl.reconcile.policy import POLICIES, Action
from drctl.reconcile.prechecks import Precheck
from drctl.steps.records import ResultSettings
from drctl.views.exports import exports_of, saved_record_sets

if TYPE_CHECKING:
    from drctl.app.reconcile_adapters import ReconcileTopic
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.ports import ClusterReader
    from drctl.reconcile.cluster_state import ClusterStates
    from drctl.reconcile.gap_result import ExportedSet, Exporter, FoundGap, WantedRows
    from drctl.reconcile.planning import Line, ReconcilePlan
    from drctl.reconcile.policy import Policies
    from drctl.reconcile.progress import Kept, RecordSet
    from drctl.reconcile.results import ReconcileResult


@dataclass(frozen=True, slots=True)
class ReconcileOptions:
    """What to do with the records of a result.

    Attributes:
        undecided: whether policies may be missing; records without a policy are refused.
        known_as: the id of an earlier result that this one repeats; records that were reconciled
            for that one are done. Empty if this is no repetition.
        spares_compacted: whether compacted topics are excluded from the override of `target-moved`.
    """

    folder: Path
    policy: str | None
    topics: tuple[str, ...]
    conflicting: Action
    out: Path | None = None
    overrides: "Mapping[Precheck, str]" = field(default_factory=dict)
    undecided: bool = False
    known_as: str = ""
    spares_compacted: bool = False


class MakePlan(Protocol):
    """Makes the plan from the current state of both clusters."""

    def __call__(self, kept: "Kept", *, last: bool) -> "tuple[ReconcilePlan, ClusterStates]":
        """Make the plan.

        Args:
            kept: the recorded progress.
            last: whether records are written next.
        """


@dataclass(frozen=True, slots=True)
class Opened:
    """A gap result with its plan and open clusters.

    Attributes:
        plan: the plan for the current state.
    """

    plan: "ReconcilePlan"
    given: ReconcileOptions
    config: "Config"
    link: "Link"
    gap: "FoundGap"
    rows: "WantedRows"
    topic: "ReconcileTopic"
    target: "ClusterReader"
    make: "MakePlan"


def checked(given: ReconcileOptions) -> str:
    """Check the options before any cluster is contacted, and return the link of the result.

    Raises:
        UsageError: options contradict each other, or there is no such result.
    """
    from drctl.reconcile.gap_result import read_gap

    _policies(given, per_partition=False)
    return read_gap(document_of(given.folder), str(given.folder)).link


@contextmanager
def opened(given: ReconcileOptions, configuration: "Callable[[], Config]") -> "Iterator[Opened]":
    """Open the gap result and both clusters, and make the plan.

    Raises:
        UsageError: options contradict each other, or there is no such result.
        Refused: the result is of other clusters.
    """
    from drctl.reconcile.gap_result import read_gap
    from drctl.reconcile.policy import check_names

    gap = read_gap(document_of(given.folder), str(given.folder))
    gap = replace(gap, id=given.known_as or gap.id)
    config = configuration()
    policies = _policies(given, per_partition=config.file.policy.order == "per-partition")
    check_names(policies, gap.topics)
    link, overrides = config.link(gap.link), given.overrides
    if link.settings.origin_header:
        overrides = {Precheck.SOURCE_MOVED: _BOTH_WRITE, **overrides}
    with (
        adapters.both_readers(link) as (source, target),
        reconcile_adapters.reconcile_topic(link) as topic,
        ExitStack() as stack,
    ):
        with notices().task("reading the gap result"):
            rows = stack.enter_context(reconcile_adapters.wanted_rows(gap, given.folder))
        tasks: list[Task] = []
        changes = reconcile_adapters.target_changes(
            link,
            gap,
            rows,
            lambda done, total: tasks[-1].update(
                done, total, f"searching the new records of {link.target}"
            ),
            per_partition=policies.per_partition,
        )

        def make(kept: "Kept", *, last: bool) -> "tuple[ReconcilePlan, ClusterStates]":
            from drctl.reconcile.cluster_state import look
            from drctl.reconcile.planning import build_plan, compacted, with_appended
            from drctl.reconcile.prechecks import check_clusters

            with notices().task("checking both clusters") as task:
                tasks.append(task)
                chosen = [p for p in gap.partitions if policies.chooses(p.place.topic)]
                reader = look(source, target, chosen)
                check_clusters(gap, reader)
                plan = build_plan(gap, policies, rows, reader, kept, overrides)
                spared = compacted(gap, reader) if given.spares_compacted else ()
                return with_appended(plan, changes.look(plan, reader, last=last), spared), reader

        plan, _ = make(topic.kept(), last=False)
        yield Opened(plan, given, config, link, gap, rows, topic, target, make)


_BOTH_WRITE = "applications write to both clusters (origin_header)"


def _policies(given: ReconcileOptions, *, per_partition: bool) -> "Policies":
    from drctl.reconcile.policy import Policies, parse_policies

    if given.undecided and given.policy is None and not given.topics:
        return Policies(Action.REFUSE, {}, given.conflicting, per_partition)
    return parse_policies(
        _policy(given.policy), given.topics, given.conflicting, per_partition=per_partition
    )


def _policy(name: str | None) -> Action | None:
    if name is None:
        return None
    if name not in list(POLICIES):
        raise UsageError(f"unknown policy {name!r}", f"use one of: {', '.join(POLICIES)}")
    return Action(name)


def document_of(folder: Path) -> str:
    """The text of the `gap.json` in a folder.

    Raises:
        UsageError: there is none.
    """
    try:
        return (folder / "gap.json").read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        raise UsageError(
            f"{folder} has no readable gap.json", "give the output folder of a finished `drctl gap`"
        ) from None


def execute(opened: Opened) -> "ReconcileResult":
    """Execute the plan, and read back the outcome of every line, even if it stopped early.

    Raises:
        Refused: the clusters changed since the plan was made.
        DrctlError: it could not start.
    """
    from drctl.reconcile import results as journals
    from drctl.reconcile.executing import Execution, judged

    plan, began, run = opened.plan, datetime.now(UTC), new_name()
    with reconcile_adapters.journal(opened.config, run) as journal, ExitStack() as stack:
        copier = None
        if plan.recorded or plan.noted:
            _make_topics(plan, opened.topic)
            writer = reconcile_adapters.copier(opened.link, opened.gap.source_id)
            copier = stack.enter_context(writer)
        # The copier has fenced earlier writers, so the recorded progress is final.
        kept = opened.topic.settled() if copier else opened.topic.kept()
        plan, reader = opened.make(kept, last=True)
        if plan.blocked:
            moved = "the clusters changed since the plan was made: " + plan.blocked[0].reason
            raise Refused(moved, "run the command without --execute to see the new plan")
        journal.append([journals.began(run, plan, began)])
        task = stack.enter_context(notices().task("reconciling"))

        def report(done: int, total: int) -> None:
            task.update(done=done, total=total)
            if done < total and wants_to_stop():
                raise Interrupted("interrupted: records committed so far stay reconciled")

        execution = Execution(
            plan,
            opened.rows,
            reconcile_adapters.source_log(opened.link),
            reader,
            copier,
            _exporter(opened),
            journal,
            time.monotonic,
            report,
        )
        failed: DrctlError | None = None
        try:
            execution.run()
        except DrctlError as error:
            failed = error
        why = failed.message if failed else ""
        results = judged(execution, opened.topic.settled, opened.target.offsets, why)
        result = journals.ReconcileResult(
            plan,
            run,
            journal.where,
            results=results,
            gone=execution.gone,
            exported=execution.exported,
            failure=why,
            hint=failed.hint if failed else "",
            failure_code=failed.exit_code if failed else None,
        )
        ended = datetime.now(UTC)
        journal.append([*journals.outcomes(results), journals.ended(result.status, ended)])
        return replace(result, seconds=(ended - began).total_seconds())


def require_done(result: "ReconcileResult") -> None:
    """Check that all records except refused ones are reconciled.

    Raises:
        Stopped: some are not.
        Unknown: it is unknown what was done.
    """
    if result.exit_code not in (ExitCode.DONE, ExitCode.FOUND):
        kind = Unknown if result.exit_code is ExitCode.UNKNOWN else Stopped
        raise kind(result.failure or f"reconcile: {result.status}", result.hint)


_DELETED = "deleted before they were exported"

Saved = Mapping["RecordSet", "ExportedSet"]


def progress_of(found: Opened) -> Reconciliation:
    """The records that are done, and those that are due."""
    lines, saved = found.plan.lines, _saved(found)
    due = sum(_due(line, saved) for line in lines if line.precheck is None)
    due += sum(progress.records for progress in found.plan.noted.values())
    return Reconciliation(due, done=_done(found, saved))


def _due(line: "Line", saved: Saved) -> int:
    return 0 if line.action is Action.EXPORT and line.record_set in saved else line.due.records


def _saved(found: Opened) -> Saved:
    """Record sets that were exported completely to a file on this host.

    Clusters have no record of an export.
    """
    lines = [each for each in found.plan.lines if each.action is Action.EXPORT]
    if not lines:
        return {}
    exported = saved_record_sets(found.config.state_dir, found.gap.id)
    return {
        line.record_set: part
        for line in lines
        for part in exported.get(line.record_set, ())
        if part.after <= line.through and _has_same_records(found, part)
    }


def _has_same_records(found: Opened, part: "ExportedSet") -> bool:
    """Whether the export has the same records; a repeated result may have others."""
    place, order = part.record_set
    return digest_of(found.rows.offsets_after(place, {order: part.after})) == part.offsets


def _done(found: Opened, saved: Saved) -> Mapping[str, int]:
    done: Counter[str] = Counter()
    for line in found.plan.lines:
        for segment in line.done:
            done[segment.action.value] += segment.records + segment.gone
        if line.action is Action.EXPORT and line.record_set in saved:
            deleted = min(saved[line.record_set].gone, line.due.records)
            done[Action.EXPORT.value] += line.due.records - deleted
            done[_DELETED] += deleted
    return +done


def progress_after(result: "ReconcileResult") -> Reconciliation:
    """The records that are done and due after this process has executed the plan.

    Raises:
        Unknown: it is unknown what was done.
    """
    from drctl.reconcile.results import Outcome

    due, done = 0, Counter[str]()
    for each in result.results:
        line, count = each.line, each.count
        if each.outcome is Outcome.UNKNOWN:
            raise Unknown(each.reason or result.failure, result.hint)
        if each.outcome is Outcome.PARTIAL:
            due += max(1, line.due.records - count.records - count.gone)
        for segment in line.done:
            done[segment.action.value] += segment.records + segment.gone
        done[line.action.value] += count.records + count.gone
    return Reconciliation(due, refused_by(result.plan), +done)


def refused_by(plan: "ReconcilePlan") -> tuple[str, ...]:
    """The records without a decision, each partition in words."""
    return tuple(
        f"{plural(line.due.records, f'{line.record_set.order.value} record')} of"
        f" {line.record_set.place}:"
        f" {line.reason}"
        for line in plan.refused
    )


@dataclass(slots=True)
class ResultReader(ClusterLinkReader):
    """Reads the records of one gap result.

    Attributes:
        result: the outcome of this process's execution; None before it.
    """

    result: "ReconcileResult | None" = None
    _of_result: Opened | None = field(default=None, init=False)

    def found(self, given: ReconcileOptions) -> Opened:
        """The result and both clusters, opened once."""
        if self._of_result is None:
            self._of_result = self._open.enter_context(opened(given, lambda: self.config))
        return self._of_result

    def reconciliation(self, request: ReconcileRequest) -> Reconciliation:
        """The progress of reconciling the records.

        Raises:
            Refused: a precheck blocks it.
            Unknown: the result is not on this host, or it is unknown what was done.
        """
        if self.result is not None:
            return progress_after(self.result)
        found = self.found(options_of(request))
        plan, _ = found.make(found.topic.kept(), last=False)
        progress = progress_of(replace(found, plan=plan))
        if progress.due and plan.blocked:
            raise Refused(
                plan.blocked[0].reason, "run the command without --execute to see all prechecks"
            )
        return replace(progress, refused=refused_by(plan))


@dataclass(slots=True)
class ResultWriter(ClusterLinkWriter):
    """Reconciles the records of its reader's gap result."""

    reader: ResultReader = field(kw_only=True)

    def reconcile(self, request: ReconcileRequest) -> None:
        """Reconcile the records, each exactly once, even after a crash.

        Raises:
            DrctlError: some records are not reconciled, or it is unknown what was done.
        """
        self.reader.result = execute(self.reader.found(options_of(request)))
        require_done(self.reader.result)


def settings_of(found: Opened) -> ResultSettings:
    """The options as settings of a plan; the inverse of `options_of`."""
    given = found.given
    return ResultSettings(
        folder=str(given.folder.absolute()),
        result=found.gap.id,
        policy=given.policy,
        topics=given.topics,
        conflicting=given.conflicting.value,
        records=sum(line.all.records for line in found.plan.lines),
        target=found.gap.target,
        out=str(given.out.absolute()) if given.out else "",
        overrides={precheck.value: why for precheck, why in given.overrides.items()},
    )


def options_of(request: ReconcileRequest) -> ReconcileOptions:
    """The options in the settings of a plan.

    Raises:
        Unknown: the gap result is not on this host.
    """
    from drctl.reconcile.gap_result import read_gap

    assert isinstance(request, ResultSettings)
    folder = Path(request.folder)
    here = (folder / "gap.json").is_file() and read_gap(document_of(folder), request.folder).id
    if here != request.result:
        raise Unknown(
            f"gap result {request.result}: {folder}: not on this host",
            "resume on the host that has it, or copy the folder here",
        )
    out, conflicting = Path(request.out) if request.out else None, Action(request.conflicting)
    return ReconcileOptions(
        folder,
        request.policy,
        request.topics,
        conflicting,
        out,
        {Precheck(name): why for name, why in request.overrides.items()},
    )


def reader_of(config: "Config", link: "Link") -> ResultReader:
    """A reader of the records of a gap result of a link."""
    return ResultReader(config, link, lambda _reader, _mode: ())


def _writer(config: "Config", reader: ClusterLinkReader, folder: Path) -> ResultWriter:
    assert isinstance(reader, ResultReader)
    return ResultWriter(config, reader.link, folder, reader.commands, reader=reader)


RECONCILE = Operation(
    lambda config, link, _asked, _lost: reader_of(config, link),
    _writer,
    lambda _given: {},
    lambda _plan: "",
)
"""Reconciliation of a gap result."""


def _make_topics(plan: "ReconcilePlan", topic: "ReconcileTopic") -> None:
    """Create drctl's own topics and quarantines, never topics of applications."""
    topic.make()
    quarantines = {
        line.to: line.target_topic for line in plan.recorded if line.action is Action.QUARANTINE
    }
    for name, like in quarantines.items():
        topic.make_quarantine(name, like, _partitions(plan, like))


def _partitions(plan: "ReconcilePlan", target_topic: str) -> int:
    """The number of partitions on the source."""
    numbers = [p.place.partition for p in plan.gap.partitions if p.target_topic == target_topic]
    return max(numbers, default=0) + 1


def _exporter(opened: Opened) -> "Exporter":
    if opened.given.out is not None:
        return reconcile_adapters.exporter(opened.given.out, opened.gap)
    folder = exports_of(opened.config.state_dir, opened.gap.id)
    return reconcile_adapters.exporter(folder, opened.gap, beside=True)
