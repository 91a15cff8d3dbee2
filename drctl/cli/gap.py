"""`drctl gap`: which records of the source are not on the target."""

import gc
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from drctl.app import adapters, reconcile_adapters
from drctl.cli.console import console
from drctl.cli.grammar import LinkName, Yes, asks, check_confirming, seconds
from drctl.cli.options import Output, options
from drctl.cli.prompts import confirm
from drctl.cli.settings import configuration, error_document, without_secrets
from drctl.cli.stopping import again_and_again
from drctl.model.errors import DrctlError, ExitCode, Refused, UsageError
from drctl.model.gap import Engine, RecordClass
from drctl.model.moments import new_name
from drctl.model.topology import PartitionOffsets

if TYPE_CHECKING:
    from drctl.app.gap import GapRuns
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.config.schema import ClusterConfig
    from drctl.gap.event_duplicates import EventCounter
    from drctl.model.event_duplicates import EventDuplicates, EventFormat
    from drctl.model.gap import GapResult
    from drctl.reconcile.cluster_state import ClusterStates
    from drctl.reconcile.gap_result import FoundGap, WantedRows
    from drctl.reconcile.planning import ReconcilePlan


class Scope(StrEnum):
    """How much is read."""

    AUTO = "auto"
    FULL = "full"
    TAIL = "tail"
    ESTIMATE = "estimate"


class Identity(StrEnum):
    """Who gave events an identity of their own."""

    DEBEZIUM = "debezium"


class View(StrEnum):
    """What is shown of the answer."""

    RECORDS = "records"
    TRUNCATION = "truncation"


@dataclass(frozen=True, kw_only=True)
class Gap:
    """What the command line says."""

    link: LinkName = None
    topic: Annotated[
        tuple[str, ...],
        typer.Option(metavar="TOPIC", help="Only this topic of the link; may be repeated."),
    ] = ()
    scope: Annotated[
        Scope,
        typer.Option(
            help="full: every record. tail: from where the replicator says it got. estimate: no"
            " record, only offsets. auto: full if --budget allows, else tail."
        ),
    ] = Scope.AUTO
    order: Annotated[
        bool,
        typer.Option(
            "--order", help="Look also whether replicated records kept their order; reads twice."
        ),
    ] = False
    view: Annotated[
        View,
        typer.Option(
            help="truncation: what would be destroyed if the source were cut back or made anew."
        ),
    ] = View.RECORDS
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="With --view truncation: write these records to files first."
        ),
    ] = None
    others: Annotated[
        bool, typer.Option("--others", help="With --export: superseded and expired records, too.")
    ] = False
    identity: Annotated[
        Identity | None,
        typer.Option(
            help="Look for change events that are in a topic twice, by the place in the database's"
            " log; in one cluster, of topics named with --topic."
        ),
    ] = None
    cluster: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --identity: that cluster; else the link's source."),
    ] = None
    ledger: Annotated[
        bool,
        typer.Option("--ledger", help="Keep what was read, and do not read it again next time."),
    ] = False
    execute: Annotated[
        bool, typer.Option("--execute", help="Write the ledger, where it lives on a cluster.")
    ] = False
    yes: Yes = False
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="Again and again, for example 5m.")
    ] = None
    budget: Annotated[
        str, typer.Option(metavar="TIME", help="How long --scope auto may take to read all.")
    ] = "2m"
    settle: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="How long records may be on their way, for example 30s; else none."
        ),
    ] = None
    engine: Annotated[
        Engine,
        typer.Option(
            help="What compares the records. auto: Spark from spark.from_offsets offsets on, drctl"
            " itself below. direct: drctl itself, without Java."
        ),
    ] = Engine.AUTO
    submit: Annotated[
        bool,
        typer.Option("--submit", help="Run on the Spark cluster of drctl.yaml by spark-submit."),
    ] = False
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the result; else one in the state_dir."),
    ] = None

    @property
    def truncation(self) -> bool:
        """Whether what cutting the source back would destroy is shown."""
        return self.view is View.TRUNCATION

    def check(self) -> None:
        """See that it goes together.

        Raises:
            UsageError: it does not.
        """
        check_confirming(self.execute, self.yes)
        for wrong, message, hint in _rules(self):
            if wrong:
                raise UsageError(message, hint)


_LEAVE_ONE_OUT = "leave out one of them"


def _rules(given: Gap) -> Iterator[tuple[object, str, str]]:
    """What does not go together: whether that was typed, and what is said of it."""
    events, scope, export = given.identity is not None, given.scope, given.export
    estimate = scope is Scope.ESTIMATE
    yield (
        given.cluster is not None and not events,
        "--cluster goes with --identity: everything else looks at both ends of a link",
        "name a link with --link",
    )
    many = given.ledger, given.every, given.submit, given.out, given.order, given.truncation
    yield (
        events and (any(many) or given.settle or scope is not Scope.AUTO),
        "--identity looks within topics of one cluster, and goes with --topic, --cluster and"
        " --link only",
        "leave out the other options",
    )
    yield (
        events and not given.topic,
        "--identity looks within topics that are named",
        "add --topic TOPIC",
    )
    yield (
        given.ledger and (estimate or scope is Scope.TAIL),
        f"--ledger goes with --scope full or auto, not with {scope}",
        "with a ledger, full reads no more than the tail",
    )
    once = given.every or given.submit or given.out
    yield estimate and once, "--scope estimate needs no Spark, runs once, and leaves no files", ""
    yield (
        estimate and (given.order or given.truncation),
        "--order and --view truncation go by records, and --scope estimate reads none",
        "use --scope full or tail",
    )
    yield (
        estimate and given.settle,
        "--settle waits for records to arrive, and --scope estimate reads none",
        "use --scope full or tail",
    )
    yield (
        given.every and given.submit,
        "--every keeps one Spark session; --submit starts one for each run",
        "",
    )
    yield (
        given.execute and not given.ledger,
        "--execute goes with --ledger: nothing else of drctl gap writes",
        "",
    )
    yield (
        given.order and given.ledger,
        "--order does not go with --ledger: a ledger does not know in which order records are",
        _LEAVE_ONE_OUT,
    )
    yield (
        given.others and export is None,
        "--others goes with --export",
        "add --view truncation --export DIR",
    )
    yield (
        export and not given.truncation,
        "--export goes with --view truncation",
        "drctl reconcile exports any result of drctl gap",
    )
    yield export and given.every, "--export runs once: it does not go with --every", ""
    yield (
        export and export.exists() and (not export.is_dir() or any(export.iterdir())),
        f"{export} is not an empty folder",
        "name another with --export",
    )
    chosen = given.engine is not Engine.AUTO
    yield (
        chosen and (estimate or events),
        "--engine is for comparing records; it does not go with"
        f" {'--identity' if events else '--scope estimate'}",
        _LEAVE_ONE_OUT,
    )
    yield (
        chosen and given.submit and given.engine is Engine.DIRECT,
        "--submit runs on a Spark cluster; it does not go with --engine direct",
        _LEAVE_ONE_OUT,
    )


@asks
def gap(given: Gap) -> int:
    """Find every record that is not on the target.

    Reads both sides of a link and joins no group; writes nothing to a cluster but, with
    --execute, a ledger that lives there. Exit codes: 0 nothing is missing, 1 unreplicated records
    were found, 5 not everything could be compared; an estimate is no proof and ends with 5.
    """
    given.check()
    budget_s = seconds(given.budget, "--budget", zero=True)
    settle_s = seconds(given.settle, "--settle", zero=True) if given.settle else 0.0
    every_s = seconds(given.every, "--every") if given.every else 0.0
    config = configuration()
    if given.identity:
        return _find_repeated(config, given)
    if given.scope is Scope.ESTIMATE:
        return _estimate(config.link(given.link), given.topic)
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
        truncation=given.truncation,
        settle_s=settle_s,
        engine=given.engine,
    )
    results = config.state_dir / "gap"
    folder = given.out or results / f"{chosen.name}-{new_name()}"
    with GapRuns(config, chosen, wanted) as runs:
        if given.every:
            _repeat(runs, given.out or results / chosen.name, every_s)
        result = runs.run(folder)
    if given.export:
        result = _exported(result, config, chosen, folder, given.export, others=given.others)
    _show(result)
    return int(result.exit_code)


def _show(result: "GapResult", *, stream: bool = False) -> None:
    """The view, or the document; one line of it in a stream."""
    from drctl.views.estimate_text import truncation_table
    from drctl.views.gap_text import gap_table

    cut = result.truncation
    if stream and options().output is Output.JSON:
        console().stream(result.to_json())
    else:
        shown = gap_table(result) if cut is None else truncation_table(result, cut)
        console().result(shown, result.to_json())


def _repeat(runs: "GapRuns", out: Path, seconds: float) -> NoReturn:
    """Run again and again, until interrupted; a run that fails is reported and does not end it.

    Each run gets a folder of its own in `out`. Those of runs that found nothing do not stay.
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

    again_and_again(once, seconds)


def _confirm_writing(config: "Config", *, execute: bool, yes: bool) -> None:
    """Ask where a cluster is to be written, say so where one is not; a file needs neither.

    Raises:
        Refused: nobody said yes.
    """
    place = config.file.ledger
    if place is None:
        return
    if execute:
        config.cluster(place.cluster)
        confirm(place.cluster, f"the ledger, in topic {place.topic}", yes=yes)
    else:
        console().note(
            f"the ledger in topic {place.topic} of {place.cluster} is only read: what was read now"
            " is not kept: add --execute"
        )


def _estimate(link: "Link", topics: Sequence[str]) -> int:
    """Show what may be missing on the target; always 5, for an estimate is no proof.

    Raises:
        UsageError: the link carries none of the source's topics, or not a named one.
        Unreachable: a cluster did not answer.
    """
    from drctl.gap.estimate import GapEstimate
    from drctl.views.estimate_text import estimate_table

    # A fifth of the time would go into looking for cycles among answers that have none.
    gc.disable()
    try:
        adapters.meet(link)
        with (
            adapters.both_readers(link) as (source, target),
            console().task("looking at both clusters") as task,
        ):

            def progress(phase: str, done: int = 0, total: int = 0) -> None:
                task.update(done=done, total=total or None, description=phase)

            gap = GapEstimate(link, source, target, progress, lambda: datetime.now(UTC))
            result = gap.run(topics)
    finally:
        gc.enable()
    return console().result(estimate_table(result), result.to_json(), result.exit_code)


_REASON = "--export takes what there is"
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
    """The result with what was exported of it, as `drctl reconcile --policy export` does it.

    Args:
        folder: of the result.
        to: of the export.
        others: whether superseded and expired records are exported, too, to a folder within.

    Raises:
        DrctlError: not all of it could be exported.
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
        console().warn(f"{lost} of the records were gone before they could be exported")
    if since:
        console().warn(f"{since} offsets came to the source since the comparison: not exported")
    assert result.truncation is not None
    done = Export(str(to), kept, gone, more, more_gone, since)
    return replace(result, truncation=replace(result.truncation, export=done))


@dataclass(frozen=True, slots=True)
class _ExportPart:
    """An export of its own.

    Attributes:
        folder: of the gap result.
        gap: what it found, counting the records of this part only.
        name: of the folder in it that lists them.
        to: where they go.
        classes: of these records.
    """

    config: "Config"
    link: "Link"
    folder: Path
    gap: "FoundGap"
    name: str
    to: Path
    classes: tuple[str, ...]

    def export(self) -> tuple[int, int, int]:
        """How many were exported, how many were gone, and how many offsets came since.

        Raises:
            DrctlError: not all of it could be exported.
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
    """How many offsets came to the source since it was compared: they are in no result."""
    logs = ((p.source_range.end, states.source.log(p.place)) for p in gap.partitions)
    return sum(max(0, log.end - end) for end, log in logs if isinstance(log, PartitionOffsets))


def _plan(
    link: "Link", gap: "FoundGap", rows: "WantedRows"
) -> "tuple[ReconcilePlan, ClusterStates]":
    """All of these records, whatever stands against acting upon a part of them.

    Raises:
        Refused: these are not the logs any more that were compared a moment ago.
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
        raise Refused(
            f"nothing was exported: {plan.blocked[0].reason}", "see what moved, and run it again"
        )
    return plan, states


def _find_repeated(config: "Config", given: Gap) -> int:
    """Show which events are there more than once.

    Raises:
        UsageError: there is no such cluster or topic.
        Unreachable: the cluster did not answer.
        ScanFailed: something could not be read to its end.
    """
    from drctl.model.event_duplicates import EventFormat
    from drctl.views.estimate_text import event_table

    assert given.identity is not None
    name, events = given.cluster or config.link(given.link).source, EventFormat(given.identity)
    result = _look(config, name, config.cluster(name), given.topic, events)
    return console().result(event_table(result), result.to_json(), result.exit_code)


def _look(
    config: "Config",
    name: str,
    cluster: "ClusterConfig",
    topics: Sequence[str],
    events: "EventFormat",
) -> "EventDuplicates":
    from drctl.gap.event_duplicates import EventAnalysis

    with (
        adapters.reader(name, cluster).topics as reader,
        ExitStack() as opened,
        console().task("looking at the cluster") as task,
    ):

        def progress(phase: str, done: int = 0, total: int = 0) -> None:
            task.update(done=done, total=total or None, description=phase)

        def open_counter(offsets: int) -> "EventCounter":
            from drctl.gap.event_duplicates import DirectEventCounter

            if offsets < config.spark.from_offsets:
                return DirectEventCounter(adapters.range_reader(name, cluster).read)
            log = opened.enter_context(_log())
            counter = adapters.spark_events(config, cluster, log, progress, offsets)
            return opened.enter_context(counter)

        analysis = EventAnalysis(events, reader, open_counter, progress, lambda: datetime.now(UTC))
        return analysis.run(tuple(dict.fromkeys(topics)))


@contextmanager
def _log() -> "Iterator[Path | None]":
    """A file for what the JVM prints; None where it may be seen."""
    if options().verbose:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="drctl-") as folder:
        yield Path(folder) / "spark.log"
