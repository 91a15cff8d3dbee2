"""`drctl offsets`: where consumer groups stand: translated, saved, moved and put back."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from drctl.app import adapters, run_adapters
from drctl.app.offsets import Ids, Translate, link_translated, origin_of, translated, translations
from drctl.app.run_journal import new_run
from drctl.cli.console import console
from drctl.cli.grammar import (
    Execute,
    LinkName,
    Overrides,
    Yes,
    check_confirming,
    command_line,
    option_words,
    seconds,
)
from drctl.cli.options import Output, options
from drctl.cli.prompts import confirm
from drctl.cli.settings import configuration, error_document, without_secrets
from drctl.model.errors import ConfigError, ExitCode, Interrupted, Refused, Unknown, UsageError
from drctl.model.text import lines as meant
from drctl.model.text import quote
from drctl.offsets.anchor_log import ANCHORS_TOPIC, scope_of
from drctl.offsets.link_translation import Cluster
from drctl.offsets.passes import Passes, Tracked, tracked_document
from drctl.offsets.tracking import Tracker
from drctl.views.text import plural
from drctl.views.tracking import TrackMetrics, known, pass_line, pass_lines, problem_lines

if TYPE_CHECKING:
    from rich.console import RenderableType

    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.ports import ClusterReader, GroupReader
    from drctl.offsets.applying import ApplyPlan
    from drctl.offsets.journal import ApplyResult, JournaledRun
    from drctl.offsets.link_translation import LinkTranslated
    from drctl.offsets.snapshot import Filters, Snapshot

EVERY = "30s"

app = typer.Typer(help="Where consumer groups stand: translated, saved, put back.")

Time = Annotated[
    datetime | None,
    typer.Option(
        metavar="TIME",
        formats=["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S"],
        help="Where nothing else is known: the first records of this time (UTC).",
    ),
]


@app.command()
def translate(
    link: LinkName = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="GROUP", help="Only groups that match this; may be repeated."),
    ] = None,
    timestamp: Time = None,
) -> int:
    """Say where each group goes on reading on the target, how sure that is, and why.

    Nothing is written. Exit codes: 0 every position is known, 1 a row must be looked at, 5 evidence
    is missing.
    """
    from drctl.offsets.translation_json import exit_code, translation_document

    chosen = configuration().link(link)
    result = _translated(chosen, tuple(group or ()), timestamp)

    def table() -> "RenderableType":
        from drctl.cli.offsets_table import translation_table

        return translation_table(chosen, result)

    document = translation_document(chosen.name, chosen.source, chosen.target, result)
    console().result(table, document)
    return int(exit_code(result))


@app.command()
def explain(
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Its name on the source.")],
    partition: Annotated[int, typer.Argument(metavar="PARTITION", min=0)],
    link: LinkName = None,
    timestamp: Time = None,
) -> int:
    """Show what every method says of one group and partition, and which one won."""
    from drctl.offsets.translation_json import explained_document, questionable

    chosen = configuration().link(link)
    result = _translated(chosen, (re.escape(group),), timestamp)
    for row in result.rows:
        if row.translation.place.partition == (topic, partition):
            break
    else:
        raise UsageError(
            f"nothing is known of group {group} in {topic}-{partition}",
            "`drctl offsets translate` lists all; topics have their names of the source",
        )

    def table() -> "RenderableType":
        from drctl.cli.offsets_table import Explanation

        return Explanation(row)

    console().result(table, explained_document(row))
    return int(questionable(row.translation))


def _translated(link: "Link", groups: tuple[str, ...], time: datetime | None) -> "LinkTranslated":
    adapters.meet(link)
    given_ms = None if time is None else int(time.replace(tzinfo=UTC).timestamp() * 1000)
    return link_translated(link, groups, given_ms, unproven=configuration().policy.commits_unproven)


@app.command()
def track(
    link: LinkName = None,
    once: Annotated[
        bool, typer.Option("--once", help="One pass; else again and again, until interrupted.")
    ] = False,
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help=f"From pass to pass; else {EVERY}.")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="ADDR", help="Serve metrics at, for example, 127.0.0.1:9095."),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Write; without, one pass says what it would do.")
    ] = False,
    yes: Yes = False,
) -> int:
    """Note on the target what each group consumed last, for the day when the source is dead.

    Looks at groups from outside: no client is changed, no group joined. Exit codes of a single
    pass: 0 all positions were seen, 5 something could not be looked at, or no answer came.
    """
    if once and (every or listen):
        raise UsageError("--every and --listen go with many passes, --once is one")
    if not execute and (every or listen):
        raise UsageError(
            "--every and --listen go with --execute",
            "without --execute one pass says what would be written",
        )
    check_confirming(execute, yes)
    interval = seconds(every or EVERY, "--every")
    chosen = configuration().link(link)
    if not chosen.settings.translate:
        raise ConfigError(
            f"link {chosen.name} has translate: false: its groups are not to be translated",
            "remove it, or choose another link",
        )
    if execute:
        confirm(chosen.target, f"anchors, in topic {ANCHORS_TOPIC}", yes=yes)
    with _tracking(chosen, execute=execute) as run:
        if execute and not once:
            run.repeat(interval, listen)
        return run.once()


class Tracking:
    """Passes over one link, and their numbers."""

    def __init__(self, link: "Link", passes: Passes) -> None:
        self._link = link
        self._passes = passes
        labels = {"link": link.name, "source": link.source, "target": link.target}
        self._metrics = TrackMetrics(labels)

    def once(self) -> int:
        """One pass; the exit code.

        Raises:
            ConfigError: something may not be read or written.
            Unknown: it could not be seen through.
        """
        with console().task("looking at the groups") as task:
            result = self._passes.run(lambda phase: task.update(description=phase))
        if result.failed is not None or result.look is None:
            raise result.failed or AssertionError("a pass without a result")
        command = f"drctl offsets track --link {quote(self._link.name)} --execute"
        lines = pass_lines(result, result.look, self._link.target, command)
        console().result(meant(lines), self._document(result))
        return int(result.exit_code)

    def repeat(self, interval_s: float, listen: str | None) -> NoReturn:
        """Pass after pass, until interrupted; one that fails is told and does not end it.

        Args:
            listen: the address at which metrics are served meanwhile.

        Raises:
            UsageError: that is no address.
            ConfigError: nobody can listen there, or the first pass shows that something may not be
                read or written.
        """
        if listen is None:
            self._repeat(interval_s)
        with run_adapters.metrics_server(listen, lambda: self._metrics.text()):
            self._repeat(interval_s)

    def _repeat(self, interval_s: float) -> NoReturn:
        while True:
            began = time.monotonic()
            result = self._passes.run(lambda _phase: None)
            if isinstance(result.failed, ConfigError) and not self._metrics.passes:
                raise result.failed
            self._metrics = self._metrics.after(result)
            self._tell(result)
            Event().wait(max(0.0, interval_s - (time.monotonic() - began)))

    def _tell(self, result: Tracked) -> None:
        if result.failed is not None:
            message = without_secrets(result.failed.message)
            console().warn(f"{message}; {known(result)}; going on")
        elif result.look is not None:
            for line in problem_lines(result.look):
                console().warn(line)
        if options().output is Output.JSON:
            console().stream(self._document(result))
        else:
            console().result(pass_line(result), {})

    def _document(self, result: Tracked) -> Any:
        failed = error_document(result.failed).error.to_json() if result.failed else None
        link = self._link
        return tracked_document(link.name, link.source, link.target, result, failed)


@contextmanager
def _tracking(link: "Link", *, execute: bool) -> Iterator[Tracking]:
    """Everything opened that passes over a link need.

    Args:
        execute: whether anchors may be written.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    scope = scope_of(link)
    source, config = link.source, link.source_config

    def now_ms() -> int:
        return int(time.time() * 1000)

    with (
        adapters.open_reader(source, config) as reader,
        adapters.open_group_reader(source, config) as groups,
    ):
        records = adapters.frugal_range_reader(source, config)
        tracker = Tracker(link, scope, Cluster(reader, groups, records), now_ms)
        if execute:
            anchors = run_adapters.anchors_topic(link.target, link.target_config)
            yield Tracking(link, Passes(tracker, anchors, anchors))
        else:
            noted = run_adapters.anchors_reader(link.target, link.target_config)
            yield Tracking(link, Passes(tracker, noted, None))


@app.command()
def snapshot(
    cluster: Annotated[
        str | None, typer.Option(metavar="CLUSTER", help="A cluster of drctl.yaml.")
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="REGEX", help="Only groups of such a whole name; may be repeated."),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="REGEX", help="Only topics of such a whole name; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What to write; else in the state_dir.")
    ] = None,
) -> int:
    """Save where all groups of a cluster stand, to a file that apply --from takes.

    Reads only. Exit codes: 0 saved, 5 not all groups could be read.
    """
    from drctl.cli.offsets_table import snapshot_table
    from drctl.offsets.snapshot import Filters, snapshot_document, snapshot_text
    from drctl.views.files import write_whole

    filters = Filters(tuple(group or ()), tuple(topic or ()))
    config = configuration()
    name = cluster or _only(config)
    began = time.monotonic()
    taken = _take(config, name, filters)
    file = out or config.state_dir / "offsets" / f"{name}-{taken.taken:%Y%m%dT%H%M%S.%fZ}.json"
    document = snapshot_document(taken, str(file), time.monotonic() - began)
    try:
        write_whole(file, snapshot_text(document))
    except OSError as error:
        raise Unknown(f"{file} cannot be written: {error.strerror}", "choose --out") from None
    if shares := taken.without_positions:
        console().note(f"share groups have no committed offsets: {', '.join(shares)}")
    console().result(lambda: snapshot_table(taken, str(file)), document)
    return int(taken.exit_code)


def _take(config: "Config", name: str, filters: "Filters") -> "Snapshot":
    from drctl.offsets.snapshot import take

    settings = config.cluster(name)
    with (
        console().task(f"reading the groups of {name}"),
        adapters.open_group_reader(name, settings) as groups,
        adapters.open_reader(name, settings) as reader,
    ):
        cluster_id, now = reader.cluster_id(), datetime.now(UTC)
        return take(groups, cluster=name, cluster_id=cluster_id, taken=now, filters=filters)


def _only(config: "Config") -> str:
    from drctl.config.problems import one_of

    names = tuple(config.clusters)
    if len(names) == 1:
        return names[0]
    raise UsageError("which cluster?", f"--cluster: {one_of(names)}")


@app.command()
def apply(
    link: LinkName = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="CLUSTER", help="Write to this cluster, not to a link's target."),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="REGEX", help="Only groups of such a whole name; may be repeated."),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="A snapshot, or what translate printed."),
    ] = None,
    execute: Execute = False,
    yes: Yes = False,
    override: Overrides = None,
) -> int:
    """Commit positions on the target, where no group is read; without --execute say which.

    Exit codes: 0 all are there, 3 a guard refused and nothing was written, 4 some were written,
    5 an answer did not come.
    """
    groups, overrides = tuple(group or ()), tuple(override or ())
    return apply_offsets(ApplyOptions(link, cluster, groups, source, execute, yes, overrides))


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """What the command line says."""

    link: str | None
    cluster: str | None
    groups: tuple[str, ...]
    source: Path | None
    execute: bool
    yes: bool
    overrides: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The command line that carries this out."""
        words = option_words(
            {
                "--link": self.link,
                "--cluster": self.cluster,
                "--group": self.groups,
                "--from": self.source,
                "--override": self.overrides,
            }
        )
        return ("offsets", "apply", *words, "--execute")


def apply_offsets(given: ApplyOptions, translate: Translate = translations) -> int:
    """Make the plan, and with `--execute` carry it out."""
    from drctl.offsets.applying import build_plan, parse_overrides
    from drctl.offsets.documents import read_document
    from drctl.offsets.wanted import look

    if given.cluster and given.link:
        raise UsageError("--cluster and --link exclude each other", "a link has its own target")
    check_confirming(given.execute, given.yes)
    overrides = parse_overrides(given.overrides)
    document = read_document(given.source) if given.source else None
    config = configuration()
    link = None if given.cluster else config.link(given.link)
    target = link.target if link else str(given.cluster)
    settings = config.cluster(target)
    if link is not None and not given.source:
        adapters.meet(link)
    with (
        adapters.open_group_reader(target, settings) as groups,
        adapters.open_reader(target, settings) as reader,
    ):
        with console().task(f"looking at {target}"):
            ids = Ids(reader.cluster_id(), lambda: _source_id(link))
            if given.source and document:
                origin = origin_of(document, given.source, given.groups, link, target, ids)
            else:
                origin = translated(config, link, given.groups, translate)
            plan = build_plan(
                origin.wanted,
                look(groups, reader, origin.wanted),
                cluster=target,
                cluster_id=ids.target,
                origin=origin.told,
                made=datetime.now(UTC),
                overrides=overrides,
                notes=origin.notes,
                unproven=config.policy.commits_unproven,
            )
        if not given.execute:
            return _show_plan(plan, command_line(given.words))
        return _carry_out(plan, config, groups, yes=given.yes)


def _source_id(link: "Link | None") -> str:
    if link is None:
        return ""
    with adapters.open_reader(link.source, link.source_config) as reader:
        return reader.cluster_id()


@app.command()
def undo(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="As apply named it; else the last one.")
    ] = "",
    execute: Execute = False,
    yes: Yes = False,
    override: Overrides = None,
) -> int:
    """Put back what a run of apply changed, as far as nobody has moved it since.

    Exit codes: as of apply.
    """
    overrides = tuple(override or ())
    check_confirming(execute, yes)
    config = configuration()
    journaled = _named(config, run) if run else _last(config)
    settings = config.cluster(journaled.cluster)
    with (
        adapters.open_group_reader(journaled.cluster, settings) as groups,
        adapters.open_reader(journaled.cluster, settings) as reader,
    ):
        with console().task(f"looking at {journaled.cluster}"):
            plan = _undo_plan(journaled, groups, reader, overrides)
        if not execute:
            words = option_words({"--override": overrides, "--execute": True})
            return _show_plan(plan, command_line(["offsets", "undo", journaled.run, *words]))
        return _carry_out(plan, config, groups, yes=yes, undone=journaled.run)


def _undo_plan(
    run: "JournaledRun", groups: "GroupReader", reader: "ClusterReader", overrides: tuple[str, ...]
) -> "ApplyPlan":
    from drctl.offsets.applying import build_plan, parse_overrides
    from drctl.offsets.journal import taken_back
    from drctl.offsets.wanted import look

    passed = parse_overrides(overrides)
    cluster_id = reader.cluster_id()
    if cluster_id != run.cluster_id:
        raise Refused(
            f"run {run.run} wrote to cluster {run.cluster_id}; {run.cluster} of drctl.yaml is"
            f" {cluster_id} now",
            "use the drctl.yaml with which it was run",
        )
    wanted = taken_back(run)
    return build_plan(
        wanted,
        look(groups, reader, wanted),
        cluster=run.cluster,
        cluster_id=cluster_id,
        origin=f"undo of run {run.run}",
        made=datetime.now(UTC),
        overrides=passed,
        notes=() if run.ended else ("the run did not come to its end",),
    )


def _named(config: "Config", run: str) -> "JournaledRun":
    found = _read(config, run)
    if found is None:
        raise UsageError(f"run {run} wrote nothing", "its journal has no entry")
    return found


def _last(config: "Config") -> "JournaledRun":
    """The newest run that is not itself an undo and may have written something."""
    for run in run_adapters.offsets_runs(config):
        found = _read(config, run)
        if found is not None and found.changes and not found.undone:
            return found
    raise UsageError("there is no run to undo", f"journals are in {config.state_dir / 'offsets'}")


def _read(config: "Config", run: str) -> "JournaledRun | None":
    from drctl.offsets.journal import Damaged, read_run

    try:
        return read_run(run_adapters.offsets_entries(config, run))
    except Damaged as damaged:
        raise Unknown(
            f"the journal of run {run} is damaged: {damaged}",
            "restore it, or put positions back with `drctl offsets apply --from` a snapshot",
        ) from damaged


def _show_plan(plan: "ApplyPlan", command_line: str) -> int:
    """Print what would be done."""
    from drctl.cli.offsets_table import plan_table
    from drctl.offsets.plan_json import plan_document

    document = plan_document(plan, command_line)
    console().result(lambda: plan_table(plan, command_line), document)
    return int(ExitCode.REFUSED if plan.refused else ExitCode.DONE)


def _carry_out(
    plan: "ApplyPlan", config: "Config", groups: "GroupReader", *, yes: bool, undone: str = ""
) -> int:
    """Write what the plan says, once the cluster's name was typed.

    Raises:
        Refused: nobody confirmed.
        Interrupted: Ctrl-C; the journal says how far it got.
    """
    from drctl.cli.offsets_table import result_table
    from drctl.offsets.plan_json import result_document

    result = _written(plan, config, groups, yes, undone)
    undo = _undo_line(result.run) if result.run else ""
    document = result_document(result, undo)
    console().result(lambda: result_table(result, undo), document)
    return int(result.exit_code)


def _written(
    plan: "ApplyPlan", config: "Config", groups: "GroupReader", yes: bool, undone: str
) -> "ApplyResult":
    from drctl.offsets.executing import Execution
    from drctl.offsets.journal import nothing_written

    if not plan.writes:
        return nothing_written(plan)
    names = {line.group for line in plan.writes}
    what = f"{plural(len(plan.writes), 'position')} of {plural(len(names), 'group')}"
    confirm(plan.cluster, what, yes=yes)
    run = new_run()
    with (
        adapters.group_writer(plan.cluster, config.cluster(plan.cluster)) as writer,
        run_adapters.offsets_journal(config, run) as journal,
        console().task(f"writing {what} to {plan.cluster}", len(names)) as task,
    ):
        execution = Execution(
            groups,
            writer,
            journal,
            lambda: datetime.now(UTC),
            lambda done, total: task.update(done=done, total=total),
            undone,
        )
        try:
            return execution.run(plan)
        except KeyboardInterrupt:
            message = f"interrupted: what may have been written stands in {journal.where}"
            raise Interrupted(message, f"see and put it back: {_undo_line(run)}") from None


def _undo_line(run: str) -> str:
    """The command line that takes a run back."""
    return command_line(["offsets", "undo", run])
