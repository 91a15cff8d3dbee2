"""`drctl gap`: finds records of the source that are not on the target."""

import gc
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from drctl.app import adapters, reconcile_adapters
from drctl.cli.console import console
from drctl.cli.grammar import LinkName, Topics, Yes, check_confirming, seconds, takes_request
from drctl.cli.options import Output, options
from drctl.cli.prompts import confirm
from drctl.cli.settings import configuration, error_document, without_secrets
from drctl.cli.stopping import repeat_every
from drctl.model.errors import DrctlError, ExitCode, Refused, UsageError
from drctl.model.gap import Engine, RecordClass
from drctl.model.moments import new_name
from drctl.model.text import plural
from drctl.model.topology import PartitionOffsets

if TYPE_CHECKING:
    from drctl.app.gap import GapRuns
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.gap import GapResult
    from drctl.reconcile.cluster_state import ClusterStates
    from drctl.reconcile.gap_result import FoundGap, WantedRows
    from drctl.reconcile.planning import ReconcilePlan


class Scope(StrEnum):
    """What is read."""

    AUTO = "auto"
    FULL = "full"
    TAIL = "tail"
    ESTIMATE = "estimate"


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Arguments and options."""

    link: LinkName = None
    topic: Topics = ()
    scope: Annotated[
        Scope,
        typer.Option(
            help="What to read. full: every record. tail: from the replicator's committed offset."
            " estimate: only offsets. auto: full if --timeout allows, otherwise tail."
        ),
    ] = Scope.AUTO
    timeout: Annotated[
        str,
        typer.Option(metavar="TIME", help="Time limit for a full comparison, with --scope auto."),
    ] = "2m"
    stabilize: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="How long to wait for records in flight before the target's offsets are read.",
        ),
    ] = "0s"
    order: Annotated[
        bool,
        typer.Option(
            "--order", help="Also check the order of replicated records, which takes longer."
        ),
    ] = False
    ledger: Annotated[
        bool,
        typer.Option(
            "--ledger", help="Store digests of what was compared, and skip it in the next run."
        ),
    ] = False
    execute: Annotated[
        bool, typer.Option("--execute", help="With --ledger: write to a ledger in a Kafka topic.")
    ] = False
    yes: Yes = False
    every: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Repeat at this interval, for example 5m.", show_default="run once"
        ),
    ] = None
    engine: Annotated[
        Engine,
        typer.Option(
            help="Comparison engine. spark: Apache Spark. direct: drctl itself, without Java."
            " auto: the faster one, unless spark.from_offsets is set."
        ),
    ] = Engine.AUTO
    submit: Annotated[
        bool,
        typer.Option("--submit", help="Run on the Spark cluster in drctl.yaml with spark-submit."),
    ] = False
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder for the result.", show_default="a folder in state_dir"
        ),
    ] = None

    @property
    def stabilize_s(self) -> float:
        """How long to wait for records in flight."""
        return seconds(self.stabilize, "--stabilize", zero=True)

    def rules(self) -> Iterator[tuple[object, str, str]]:
        """Refused combinations of options: whether one was given, the message and a hint."""
        scope, estimate = self.scope, self.scope is Scope.ESTIMATE
        yield (
            self.ledger and (estimate or scope is Scope.TAIL),
            f"--ledger and --scope {scope} cannot be combined",
            "use --scope full: with a ledger it reads no more than the tail",
        )
        once = self.every or self.submit or self.out
        yield (
            estimate and once,
            "--scope estimate cannot be combined with --every, --submit or --out",
            "",
        )
        yield (
            estimate and (self.order or isinstance(self, Truncation)),
            "--scope estimate reads no records: use neither --order nor truncation with it",
            "use --scope full or tail",
        )
        yield (
            estimate and self.stabilize_s,
            "--scope estimate reads no records: it cannot be combined with --stabilize",
            "use --scope full or tail",
        )
        one = "leave out one of them"
        yield self.every and self.submit, "--every and --submit cannot be combined", one
        yield self.execute and not self.ledger, "--execute requires --ledger", "add --ledger"
        yield (
            self.order and self.ledger,
            "--order and --ledger cannot be combined: a ledger does not store the order of records",
            one,
        )
        yield (
            self.engine is not Engine.AUTO and estimate,
            "--engine and --scope estimate cannot be combined",
            one,
        )
        yield (
            self.submit and self.engine is Engine.DIRECT,
            "--submit and --engine direct cannot be combined",
            one,
        )

    def check(self) -> None:
        """Check the combination of options.

        Raises:
            UsageError: two of them cannot be combined.
        """
        check_confirming(self.execute, self.yes)
        for wrong, message, hint in self.rules():
            if wrong:
                raise UsageError(message, hint)


@dataclass(frozen=True, kw_only=True)
class Truncation(Gap):
    """Arguments and options of `drctl gap truncation`."""

    export: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Also save the unreplicated records as files in this folder."
        ),
    ] = None
    include_superseded: Annotated[
        bool,
        typer.Option(
            "--include-superseded",
            help="With --export: also export superseded and expired records.",
        ),
    ] = False

    def rules(self) -> Iterator[tuple[object, str, str]]:
        """Refused combinations of options: whether one was given, the message and a hint."""
        yield from super().rules()
        export = self.export
        yield (
            self.include_superseded and export is None,
            "--include-superseded requires --export",
            "add --export DIR",
        )
        yield export and self.every, "--export and --every cannot be combined", "leave out --every"
        yield (
            export and export.exists() and (not export.is_dir() or any(export.iterdir())),
            f"--export: {export} is not an empty folder",
            "choose an empty or new folder",
        )


@takes_request
def gap(given: Gap) -> int:
    """Find records that are not replicated to the target.

    Compares the records of both clusters without joining a consumer group. Read-only, except
    with --ledger --execute, which may write a ledger to a Kafka topic.

    Examples:
        drctl gap                               # full, if it takes at most 2 minutes
        drctl gap --scope full --topic orders
        drctl gap --scope estimate              # offsets only: takes seconds
        drctl gap --ledger --every 5m           # continuous comparison

    Exit codes:
        0: no unreplicated records
        1: unreplicated records were found
        5: not everything could be compared; always with --scope estimate
    """
    return _compare(given)


@takes_request
def truncation(given: Truncation) -> int:
    """Show which records would be lost if the source were truncated.

    Lists the records that exist only on the source: they are lost if its topics are truncated or
    recreated.

    Examples:
        drctl gap truncation --scope full
        drctl gap truncation --scope full --export saved --include-superseded

    Exit codes:
        0: no unreplicated records
        1: unreplicated records were found
        5: not everything could be compared
    """
    return _compare(given)


def _compare(given: Gap) -> int:
    given.check()
    budget_s = seconds(given.timeout, "--timeout", zero=True)
    stabilize_s = given.stabilize_s
    every_s = seconds(given.every, "--every") if given.every else 0.0
    config = configuration()
    if given.scope is Scope.ESTIMATE:
        return _estimate(_with_one_writer(config.link(given.link)), given.topic)
    from drctl.app.gap import GapOptions, GapRuns

    chosen = config.link(given.link)
    if given.ledger:
        _confirm_writing(config, execute=given.execute, yes=given.yes)
    wanted = GapOptions(
        given.topic,
        given.scope.value,
        given.ledger,
        given.submit,
        budget_s,
        given.execute,
        order=given.order,
        truncation=isinstance(given, Truncation),
        stabilize_s=stabilize_s,
        engine=given.engine,
    )
    results = config.state_dir / "gap"
    folder = given.out or results / f"{chosen.name}-{new_name()}"
    with GapRuns(config, chosen, wanted) as runs:
        if given.every:
            _repeat(runs, given.out or results / chosen.name, every_s)
        result = runs.run(folder)
    if isinstance(given, Truncation) and given.export:
        superseded = given.include_superseded
        result = _exported(result, config, chosen, folder, given.export, others=superseded)
    _show(result)
    return int(result.exit_code)


def _show(result: "GapResult", *, stream: bool = False) -> None:
    """Print the result; with `stream`, JSON on one line."""
    from drctl.views.estimate_text import truncation_table
    from drctl.views.gap_text import gap_table

    cut = result.truncation
    if stream and options().output is Output.JSON:
        console().stream(result.to_json())
    else:
        shown = gap_table(result) if cut is None else truncation_table(result, cut)
        console().result(shown, result.to_json())


def _repeat(runs: "GapRuns", out: Path, seconds: float) -> NoReturn:
    """Repeat until interrupted; a failed run is reported and does not end it.

    Each run has its own folder in `out`. Folders of runs that found nothing are deleted.
    """
    uneventful: Path | None = None

    def once() -> None:
        nonlocal uneventful
        folder = out / new_name()
        try:
            result = runs.run(folder)
        except DrctlError as error:
            if options().output is Output.JSON:
                console().stream(error_document(error))
            else:
                console().error(without_secrets(error.message), without_secrets(error.hint))
        else:
            _show(result, stream=True)
            if uneventful:
                shutil.rmtree(uneventful, ignore_errors=True)
            uneventful = folder if result.exit_code is ExitCode.DONE else None

    repeat_every(once, seconds)


def _confirm_writing(config: "Config", *, execute: bool, yes: bool) -> None:
    """Ask for confirmation if the ledger is a topic and --execute is given.

    Raises:
        Refused: it was not confirmed.
    """
    place = config.file.ledger
    if place is None:
        return
    if execute:
        config.cluster(place.cluster)
        confirm(place.cluster, f"the ledger, in topic {place.topic}", yes=yes)
    else:
        console().note(
            f"the ledger in topic {place.topic} of {place.cluster} is only read; to update it, add"
            " --execute"
        )


def _with_one_writer(link: "Link") -> "Link":
    """The link, if a comparison of offset counts can show unreplicated records.

    Raises:
        UsageError: applications write to its topics on both clusters.
    """
    if link.settings.origin_header:
        raise UsageError(
            f"--scope estimate: link {link.name} has `origin_header`: applications write to both"
            " clusters, so comparing offset counts does not show which records are missing",
            "use --scope full, which compares the records of each cluster",
        )
    return link


def _estimate(link: "Link", topics: Sequence[str]) -> int:
    """Print an estimate; the exit code is always 5: it proves nothing.

    Raises:
        UsageError: the link replicates none of the source's topics, or not all of the named ones.
        Unreachable: a cluster did not answer.
    """
    from drctl.gap.estimate import GapEstimate
    from drctl.views.estimate_text import estimate_table

    # Garbage collection would take a fifth of the time, and finds no cycles here.
    gc.disable()
    try:
        adapters.probe_clusters(link)
        with (
            adapters.both_readers(link) as (source, target),
            console().task("reading both clusters") as task,
        ):

            def progress(phase: str, done: int = 0, total: int = 0) -> None:
                task.update(done=done, total=total or None, description=phase)

            gap = GapEstimate(link, source, target, progress, lambda: datetime.now(UTC))
            result = gap.run(topics)
    finally:
        gc.enable()
    return console().result(estimate_table(result), result.to_json(), result.exit_code)


_REASON = "--export exports all records"
_FIRST = (RecordClass.UNREPLICATED.value,)
_REST = (RecordClass.SUPERSEDED.value, RecordClass.EXPIRED.value)


def _exported(
    result: "GapResult",
    config: "Config",
    link: "Link",
    folder: Path,
    to: Path,
    *,
    others: bool = False,
) -> "GapResult":
    """Export records like `drctl reconcile --policy export`, and add that to the result.

    Args:
        folder: folder of the result.
        to: folder of the export.
        others: whether superseded and expired records are exported to a subfolder.

    Raises:
        DrctlError: not all records could be exported.
    """
    from drctl.model.gap import Export
    from drctl.reconcile.gap_result import others_of, read_gap

    gap = read_gap((folder / "gap.json").read_text(encoding="utf-8"), str(folder))
    kept, gone, since = _ExportPart(config, link, folder, gap, "records", to, _FIRST).export()
    more: int | None = None
    more_gone = 0
    if others:
        rest = _ExportPart(
            config, link, folder, others_of(gap, result), "others", to / "others", _REST
        )
        more, more_gone, since = rest.export()
    if lost := gone + more_gone:
        console().warn(
            f"{plural(lost, 'record was', 'records were')} deleted before they could be exported"
        )
    if since:
        console().warn(
            f"not exported: {plural(since, 'offset')} that were written since the comparison"
        )
    assert result.truncation is not None
    done = Export(str(to), kept, gone, more, more_gone, since)
    return replace(result, truncation=replace(result.truncation, export=done))


@dataclass(frozen=True, slots=True)
class _ExportPart:
    """One part of an export.

    Attributes:
        folder: folder of the gap result.
        gap: the result, with counts of this part only.
        name: the folder in the result that lists the records.
        to: folder of the export.
        classes: classes of the records.
    """

    config: "Config"
    link: "Link"
    folder: Path
    gap: "FoundGap"
    name: str
    to: Path
    classes: tuple[str, ...]

    def export(self) -> tuple[int, int, int]:
        """Export; returns the numbers of exported records, deleted records and new offsets.

        Raises:
            DrctlError: not all records could be exported.
        """
        from drctl.reconcile import results
        from drctl.reconcile.executing import Execution

        began = datetime.now(UTC)
        run = new_name()
        with (
            console().task(f"exporting {' and '.join(self.classes)} records") as task,
            reconcile_adapters.wanted_rows(self.gap, self.folder, self.name) as rows,
            reconcile_adapters.journal(self.config, run) as journal,
        ):
            plan, states = _plan(self.link, self.gap, rows)
            journal.append([results.began(run, plan, began)])
            execution = Execution(
                plan,
                rows,
                reconcile_adapters.source_log(self.link),
                states,
                None,
                reconcile_adapters.exporter(self.to, self.gap, self.classes),
                journal,
                time.monotonic,
                lambda done, total: task.update(done=done, total=total),
            )
            execution.run()
            journal.append([results.ended("done", datetime.now(UTC))])
        gone = sum(each.records for each in execution.gone.values())
        kept = sum(each.records for each in execution.counts.values())
        return kept, gone, appended(self.gap, states)


def appended(gap: "FoundGap", states: "ClusterStates") -> int:
    """The number of offsets written to the source since the comparison."""
    logs = ((p.source_range.end, states.source.log(p.place)) for p in gap.partitions)
    return sum(max(0, log.end - end) for end, log in logs if isinstance(log, PartitionOffsets))


def _plan(
    link: "Link", gap: "FoundGap", rows: "WantedRows"
) -> "tuple[ReconcilePlan, ClusterStates]":
    """Plan the export of all these records.

    Raises:
        Refused: the topics changed since the comparison.
    """
    from drctl.reconcile.cluster_state import look
    from drctl.reconcile.planning import build_plan
    from drctl.reconcile.policy import Action, Policies
    from drctl.reconcile.prechecks import OVERRIDABLE, check_clusters

    with adapters.both_readers(link) as (source, target):
        states = look(source, target, gap.partitions)
    check_clusters(gap, states)
    overrides = dict.fromkeys(OVERRIDABLE, _REASON)
    policies = Policies(everywhere=Action.EXPORT, conflicting=Action.EXPORT)
    plan = build_plan(gap, policies, rows, states, {}, overrides)
    if plan.blocked:
        raise Refused(f"nothing was exported: {plan.blocked[0].reason}", "run the command again")
    return plan, states
