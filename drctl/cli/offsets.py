"""`drctl offsets`: translates, saves, commits and restores consumer group offsets."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from drctl.app import adapters, run_adapters
from drctl.app.connect_adapters import positions_reader
from drctl.app.notices import NoPrompts
from drctl.app.offsets import (
    Origin,
    Undoable,
    link_translated,
    origin_of,
    planned,
    translated,
    undoable,
)
from drctl.cli.console import console
from drctl.cli.grammar import (
    ClusterAlone,
    LinkName,
    PlanRequest,
    Topics,
    Yes,
    check_confirming,
    command_line,
    seconds,
    takes_request,
    words_of,
)
from drctl.cli.options import Output, options
from drctl.cli.prompts import confirm
from drctl.cli.settings import configuration, error_document, without_secrets
from drctl.cli.stopping import repeat_every
from drctl.model.errors import ConfigError, ExitCode, Interrupted, Unknown, UsageError
from drctl.model.plan import parse_overrides
from drctl.model.text import lines as meant
from drctl.model.text import plural, quote
from drctl.offsets.link_translation import Cluster
from drctl.offsets.tracking import Passes, PassResult, Tracker
from drctl.offsets.tracking_log import TRACKED_OFFSETS_TOPIC, scope_of
from drctl.views.offsets import plan_table, result_table, snapshot_table
from drctl.views.tracking import PassDocument, TrackMetrics, pass_line, pass_lines, problem_lines

if TYPE_CHECKING:
    from drctl.app.link_reader import ClusterLinkReader
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.plan import Plan
    from drctl.offsets.applying import ApplyPlan
    from drctl.offsets.link_translation import LinkTranslated
    from drctl.offsets.results import ApplyResult
    from drctl.offsets.snapshot import Filters, Snapshot

EVERY = "30s"

app = typer.Typer(
    help="""Translate, save and restore consumer group offsets.

    Examples:
        drctl offsets translate --group billing
        drctl offsets apply --execute
        drctl offsets track --execute --yes
    """
)

Groups = Annotated[
    tuple[str, ...],
    typer.Option(
        "--group",
        metavar="GROUP",
        help="Only this group, by its exact name. Repeatable.",
        show_default="all groups",
    ),
]
GroupPatterns = Annotated[
    tuple[str, ...],
    typer.Option(
        "--group-regex",
        metavar="REGEX",
        help="Only groups whose full name matches this regex. Repeatable.",
    ),
]
TopicPatterns = Annotated[
    tuple[str, ...],
    typer.Option(
        "--topic-regex",
        metavar="REGEX",
        help="Only topics whose full name matches this regex. Repeatable.",
    ),
]


def patterns(names: Sequence[str], regexes: Sequence[str]) -> tuple[str, ...]:
    """Return regular expressions: one for each of these names, then the given ones."""
    return (*map(re.escape, names), *regexes)


Time = Annotated[
    datetime | None,
    typer.Option(
        metavar="TIME",
        formats=["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S"],
        help="Fallback for groups without better evidence: first record at or after this UTC time,"
        " for example 2026-11-24T18:30:00.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Translate:
    """Arguments and options."""

    link: LinkName = None
    group: Groups = ()
    group_regex: GroupPatterns = ()
    timestamp: Time = None


@app.command()
@takes_request
def translate(given: Translate) -> int:
    """Show the translated offsets of each group, with their evidence.

    Shows for each partition the offset on the target, the method, and how many records may be read
    again or skipped. Read-only.

    Examples:
        drctl offsets translate
        drctl offsets translate --group billing --group-regex 'payments-.*'
        drctl offsets translate --output json > offsets.json   # for apply --from

    Exit codes:
        0: every offset is known
        1: some offsets need review
        5: evidence is missing
    """
    from drctl.offsets.translation_json import exit_code, translation_document
    from drctl.views.translation import translation_table

    chosen = configuration().link(given.link)
    wanted = patterns(given.group, given.group_regex)
    result = _translated(chosen, wanted, given.timestamp)
    ends = chosen.name, chosen.source, chosen.target
    document = partial(translation_document, *ends, result)
    return console().result(translation_table(chosen, result), document, exit_code(result))


@app.command()
def explain(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Consumer group.")],
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic name on the source.")],
    partition: Annotated[int, typer.Argument(metavar="PARTITION", min=0, help="Partition number.")],
    link: LinkName = None,
    timestamp: Time = None,
) -> int:
    """Show how one offset was translated, method by method.

    Examples:
        drctl offsets explain billing orders 0
        drctl offsets explain billing orders 0 --timestamp 2026-11-24T18:30:00

    Exit codes:
        0: the offset is known
        1: the offset needs review
        5: evidence is missing
    """
    from drctl.offsets.translation_json import ExplainedDocument, questionable
    from drctl.views.translation import Explanation

    chosen = configuration().link(link)
    result = _translated(chosen, (re.escape(group),), timestamp)
    for row in result.rows:
        if row.translation.place.partition == (topic, partition):
            break
    else:
        raise UsageError(
            f"group {group} has no offset in {topic}-{partition}",
            "use topic names of the source; `drctl offsets translate` lists all offsets",
        )
    code = ExitCode.FOUND if questionable(row.translation) else ExitCode.DONE
    return console().result(Explanation(row), ExplainedDocument.of(row), code)


def _translated(link: "Link", groups: tuple[str, ...], time: datetime | None) -> "LinkTranslated":
    adapters.probe_clusters(link)
    given_ms = None if time is None else int(time.replace(tzinfo=UTC).timestamp() * 1000)
    return link_translated(link, groups, given_ms, unproven=configuration().policy.commits_unproven)


@app.command()
def track(
    link: LinkName = None,
    once: Annotated[
        bool, typer.Option("--once", help="With --execute: run one pass, then exit.")
    ] = False,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="With --execute: interval between passes.", show_default=EVERY
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="ADDR", help="Serve Prometheus metrics, for example at 127.0.0.1:9095."
        ),
    ] = None,
    execute: Annotated[
        bool,
        typer.Option(
            "--execute", help="Write the tracked offsets. Without --execute, they are only printed."
        ),
    ] = False,
    yes: Yes = False,
) -> int:
    """Track committed offsets, in case the source is lost.

    Saves in a topic on the target which record each group consumed last. With these records,
    offsets can be translated after the source is lost. Joins no consumer group.

    Examples:
        drctl offsets track                       # show what would be written
        drctl offsets track --execute --yes --listen 0.0.0.0:9095
        drctl offsets track --execute --yes --once

    Exit codes:
        0: the offsets of all groups were read
        5: some could not be read, or a cluster did not answer
        130: interrupted
    """
    if once and (every or listen):
        raise UsageError("--once cannot be combined with --every or --listen")
    if not execute and (every or listen):
        raise UsageError(
            "--every and --listen require --execute",
            "without --execute, one pass shows what would be written",
        )
    check_confirming(execute, yes)
    interval = seconds(every or EVERY, "--every")
    chosen = configuration().link(link)
    if not chosen.settings.translate:
        raise ConfigError(
            f"link {chosen.name} has `translate: false`: its groups are not tracked",
            "remove that line, or choose another link with --link",
        )
    if execute:
        confirm(chosen.target, f"tracked offsets in topic {TRACKED_OFFSETS_TOPIC}", yes=yes)
    with _tracking(chosen, execute=execute) as run:
        if execute and not once:
            run.repeat(interval, listen)
        return run.once()


class Tracking:
    """Tracks the groups of one link, with metrics."""

    def __init__(self, link: "Link", passes: Passes) -> None:
        self._link = link
        self._passes = passes
        labels = {"link": link.name, "source": link.source, "target": link.target}
        self._metrics = TrackMetrics(labels)
        self._warned: tuple[str, ...] = ()

    def once(self) -> int:
        """Run one pass; returns the exit code.

        Raises:
            ConfigError: permission to read or write is missing.
            Unknown: the pass could not be completed.
        """
        with console().task("reading the groups") as task:
            result = self._passes.run(lambda phase: task.update(description=phase))
        if result.failed is not None or result.look is None:
            raise result.failed or AssertionError("a pass without a result")
        command = f"drctl offsets track --link {quote(self._link.name)} --execute"
        lines = pass_lines(result, result.look, self._link.target, command)
        return console().result(meant(lines), self._document(result), result.exit_code)

    def repeat(self, interval_s: float, listen: str | None) -> NoReturn:
        """Repeat passes until interrupted; a failed pass is reported and does not end it.

        Args:
            listen: address at which to serve metrics.

        Raises:
            UsageError: that is not an address.
            ConfigError: the address is not available, or the first pass has no permission.
        """
        if listen is None:
            repeat_every(self._pass, interval_s)
        with run_adapters.metrics_server(listen, lambda: self._metrics.text()):
            repeat_every(self._pass, interval_s)

    def _pass(self) -> None:
        result = self._passes.run(lambda _phase: None)
        if isinstance(result.failed, ConfigError) and not self._metrics.passes:
            raise result.failed
        self._metrics = self._metrics.after(result)
        self._tell(result)

    def _tell(self, result: PassResult) -> None:
        """Print the pass; a failure or problem that persists is printed once."""
        problems = () if result.look is None else tuple(problem_lines(result.look))
        if result.failed is not None:
            problems = (f"{without_secrets(result.failed.message)}; retrying",)
        changed, self._warned = problems != self._warned, problems
        for line in problems if changed else ():
            console().warn(line)
        if options().output is Output.JSON:
            console().stream(self._document(result))
        elif changed or result.failed is None:
            console().result(pass_line(result), {})

    def _document(self, result: PassResult) -> PassDocument:
        failed = error_document(result.failed).error if result.failed else None
        link = self._link
        return PassDocument.of(
            result, link=link.name, from_=link.source, to=link.target, failed=failed
        )


@contextmanager
def _tracking(link: "Link", *, execute: bool) -> Iterator[Tracking]:
    """Open the clusters of a link for tracking.

    Args:
        execute: whether tracked offsets are written.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    scope = scope_of(link)
    source, config = link.source, link.source_config

    def now_ms() -> int:
        return int(time.time() * 1000)

    with (
        adapters.reader(source, config).topics as reader,
        adapters.reader(source, config).groups as groups,
    ):
        records = adapters.frugal_range_reader(source, config)
        export = positions_reader(link)
        tracker = Tracker(link, scope, Cluster(reader, groups, records), now_ms, export)
        if execute:
            tracked_offsets = adapters.writer(link.target, link.target_config).tracked_offsets
            yield Tracking(link, Passes(tracker, tracked_offsets, tracked_offsets))
        else:
            noted = adapters.reader(link.target, link.target_config).tracked_offsets
            yield Tracking(link, Passes(tracker, noted, None))


@dataclass(frozen=True, kw_only=True)
class SaveOffsets:
    """Arguments and options."""

    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="CLUSTER", help="Cluster in drctl.yaml.", show_default="the only cluster"
        ),
    ] = None
    group: Groups = ()
    group_regex: GroupPatterns = ()
    topic: Topics = ()
    topic_regex: TopicPatterns = ()
    output_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to write.", show_default="a file in state_dir"),
    ] = None


@app.command()
@takes_request
def snapshot(given: SaveOffsets) -> int:
    """Save the committed offsets of a cluster's groups to a file.

    `drctl offsets apply --from FILE` restores them. Read-only.

    Examples:
        drctl offsets snapshot --cluster secondary
        drctl offsets snapshot --cluster secondary --group billing --output-file billing.json

    Exit codes:
        0: saved
        5: not all groups could be read
    """
    from drctl.offsets.snapshot import Filters, SnapshotDocument, snapshot_text
    from drctl.views.files import write_whole

    groups = patterns(given.group, given.group_regex)
    filters = Filters(groups, patterns(given.topic, given.topic_regex))
    config = configuration()
    name = config.chosen(given.cluster)
    began = time.monotonic()
    taken = _take(config, name, filters)
    file = (
        given.output_file
        or config.state_dir / "offsets" / f"{name}-{taken.taken:%Y%m%dT%H%M%S.%fZ}.json"
    )
    document = SnapshotDocument.of(taken, out=str(file), seconds=round(time.monotonic() - began, 3))
    try:
        write_whole(file, snapshot_text(document.to_json()))
    except OSError as error:
        raise Unknown(
            f"{file} cannot be written: {error.strerror}", "choose --output-file"
        ) from None
    if shares := taken.without_offsets:
        console().note(f"share groups have no committed offsets: {', '.join(shares)}")
    return console().result(snapshot_table(taken, str(file)), document, taken.exit_code)


def _take(config: "Config", name: str, filters: "Filters") -> "Snapshot":
    from drctl.offsets.snapshot import take

    settings = config.cluster(name)
    with (
        console().task(f"reading the groups of {name}"),
        adapters.reader(name, settings).groups as groups,
        adapters.reader(name, settings).topics as reader,
    ):
        cluster_id, now = reader.cluster_id(), datetime.now(UTC)
        return take(groups, cluster=name, cluster_id=cluster_id, taken=now, filters=filters)


@dataclass(frozen=True, kw_only=True)
class Apply(PlanRequest):
    """Arguments and options."""

    link: LinkName = None
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="CLUSTER",
            help="Cluster in drctl.yaml to commit the offsets on.",
            show_default="the target of the link",
        ),
    ] = None
    group: Groups = ()
    group_regex: GroupPatterns = ()
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="File of `drctl offsets snapshot` or of `drctl offsets translate --output json`.",
            show_default="translate now",
        ),
    ] = None


@app.command()
@takes_request
def apply(given: Apply) -> int:
    """Commit translated or saved offsets on the target.

    Skips groups with active members. Without --execute nothing is written: the plan is printed.

    Examples:
        drctl offsets apply
        drctl offsets apply --group billing --execute
        drctl offsets apply --from billing.json --cluster secondary --execute

    Exit codes:
        0: all offsets are committed
        3: a precheck failed; nothing was written
        4: some offsets were committed
        5: a cluster did not answer; `drctl resume` checks what was done
        130: interrupted; `drctl resume` continues
    """
    from drctl.cli.running import OVER_LINK
    from drctl.offsets.documents import read_document
    from drctl.plans.single_step import OFFSETS_APPLY

    words = ["offsets", "apply", *words_of(given)]
    overrides, source = _overrides(given), given.source
    wanted = patterns(given.group, given.group_regex)
    document = read_document(source) if source else None
    config = configuration()
    chosen = config.over(given.link, given.cluster)
    if source is None:
        if given.cluster is not None:
            raise UsageError("--cluster requires --from: offsets are translated over a link")
        adapters.probe_clusters(chosen)
    with OVER_LINK.reader(config, chosen, NoPrompts(), False) as reader:
        with console().task(f"reading {chosen.target}"):
            if source and document:
                origin = origin_of(document, source, wanted, reader)
            else:
                origin = translated(reader, wanted)
            found = planned(reader, chosen.target, origin, overrides)
        return _show_or_commit(given, words, reader, OFFSETS_APPLY, origin, found)


@dataclass(frozen=True, kw_only=True)
class Undo(PlanRequest):
    """Arguments and options."""

    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="Run of `drctl offsets apply`.", show_default="the newest"
        ),
    ] = ""
    link: LinkName = None
    cluster: ClusterAlone = None


@app.command()
@takes_request
def undo(given: Undo) -> int:
    """Restore the offsets that a run of `offsets apply` changed.

    Skips offsets that have changed since. Without --execute nothing is written: the plan is
    printed.

    Examples:
        drctl offsets undo
        drctl offsets undo RUN --execute

    Exit codes:
        0: all offsets are restored
        3: a precheck failed; nothing was written
        4: some offsets were restored
        5: a cluster did not answer; `drctl resume` checks what was done
        130: interrupted; `drctl resume` continues
    """
    from drctl.cli.running import OVER_LINK
    from drctl.plans.single_step import OFFSETS_UNDO

    overrides = _overrides(given)
    config = configuration()
    with console().task("reading the journal"):
        undone = undoable(config, given.run or None, given.link, given.cluster)
    words = ["offsets", "undo", undone.run, *words_of(given)]
    with OVER_LINK.reader(config, undone.link, NoPrompts(), False) as reader:
        with console().task(f"reading {undone.cluster}"):
            of = undone.cluster, undone.origin, overrides, undone.cluster_id
            found = planned(reader, *of)
        return _show_or_commit(given, words, reader, OFFSETS_UNDO, undone.origin, found, undone)


def _overrides(given: PlanRequest) -> Mapping[str, str]:
    """The reason of each override, by precheck.

    Raises:
        UsageError: options contradict each other, or the expected plan cannot be read.
        ConfigError: the expected plan is invalid.
    """
    from drctl.offsets.applying import OVERRIDABLE

    given.check()
    return parse_overrides(given.override, OVERRIDABLE)


def _show_or_commit(
    given: PlanRequest,
    words: list[str],
    reader: "ClusterLinkReader",
    name: str,
    origin: Origin,
    found: "ApplyPlan",
    undone: Undoable | None = None,
) -> int:
    """Show the plan, or execute it after confirmation.

    Raises:
        Refused: it was not confirmed, or another run holds the link.
        Interrupted: Ctrl-C; `drctl resume` continues.
    """
    from drctl.app import plan_files
    from drctl.cli import running
    from drctl.cli.resume import abandon_run
    from drctl.offsets import results
    from drctl.plans.single_step import offsets_plan
    from drctl.views import plan_text

    execute, unproven = command_line([*words, "--execute"]), reader.config.policy.commits_unproven
    plan = offsets_plan(name, reader.link, found, origin.wanted, unproven=unproven)
    plan = plan_files.without_secrets(plan)
    running.plan_files(plan, partial(plan_text.plan_document, plan, (), (), execute), given)
    code = ExitCode.REFUSED if found.refused else ExitCode.DONE
    if not given.execute:
        shown = results.OffsetsPlanDocument.of(found, execute=execute)
        console().result(plan_table(found, execute), shown)
    elif not plan.steps:
        lines = results.results_of(found, {}, "")
        _show_result(results.ApplyResult(found, lines, code.name.lower()), "")
    else:
        names = {line.group for line in found.writes}
        what = f"{plural(len(found.writes), 'offset')} of {plural(len(names), 'group')}"
        confirm(found.cluster, what, yes=given.yes)
        if undone is not None and not undone.ended:
            abandon_run(reader.config, undone.link, undone.run, "drctl offsets undo")
        return _committed(reader, plan, found)
    return int(code)


def _committed(reader: "ClusterLinkReader", plan: "Plan", found: "ApplyPlan") -> int:
    """Execute the plan; the result is read back from the cluster."""
    from drctl.cli.running import OVER_LINK, execute_plan
    from drctl.engine.kind import Status
    from drctl.offsets.results import ApplyResult, results_of
    from drctl.steps.apply_offsets import outcomes_of

    began, link = time.monotonic(), reader.link
    state, outcome, where = execute_plan(reader.config, OVER_LINK, reader, plan)
    of = ("--cluster", link.target) if link.is_inside else ("--link", link.name)
    over = (state.run, *of)
    resume = command_line(["resume", *over])
    if outcome.status is Status.INTERRUPTED:
        raise Interrupted(f"interrupted: for what was written, see {where}", resume)
    lines = results_of(found, outcomes_of(state, reader), outcome.message)
    seconds = time.monotonic() - began
    result = ApplyResult(found, lines, outcome.status.value, state.run, where, seconds)
    _show_result(result, command_line(["offsets", "undo", *over]))
    if not state.status:
        console().note(f"to continue: {resume}")
    return int(outcome.exit_code)


def _show_result(result: "ApplyResult", undo: str) -> None:
    from drctl.offsets.results import result_document

    console().result(result_table(result, undo), result_document(result, undo))
