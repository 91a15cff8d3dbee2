"""`drctl elect`: shows and elects the partition leaders of one cluster."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.app import adapters, election_adapters
from drctl.app.election_adapters import gather, known_ends
from drctl.app.notices import NoPrompts
from drctl.app.plan_files import without_secrets
from drctl.cli.console import console
from drctl.cli.grammar import PlanRequest, Topics, command_line, seconds, takes_request, words_of
from drctl.cli.prompts import confirm
from drctl.cli.running import OVER_LINK, execute_plan, plan_files
from drctl.cli.settings import configuration
from drctl.cli.stopping import stoppable
from drctl.elections.cluster_state import Kind
from drctl.elections.documents import ElectPlanDocument, result_document, show_document
from drctl.elections.planning import OVERRIDABLE, ElectionPlan, preferred_plan, unclean_plan
from drctl.elections.results import ElectionResult, results_of
from drctl.engine.kind import Status
from drctl.model.errors import ExitCode, Interrupted, Unreachable
from drctl.model.groups import OFFSETS_TOPIC
from drctl.model.plan import Plan, parse_overrides
from drctl.model.text import plural
from drctl.model.topology import TopicPartition
from drctl.plans.single_step import election_plan
from drctl.views.elections import plan_table, result_table, show_table
from drctl.views.plan_text import plan_document as engine_document

if TYPE_CHECKING:
    from drctl.app.link_reader import ClusterLinkReader
    from drctl.config.configuration import Config
    from drctl.elections.cluster_state import PartitionStates

_LEAST_LOOK_S = 1.0

app = typer.Typer(
    help="""Elect partition leaders inside a cluster.

    Examples:
        drctl elect show --cluster primary
        drctl elect wait --cluster primary --timeout 30m
        drctl elect preferred --cluster primary --execute
    """
)

Cluster = Annotated[
    str | None,
    typer.Option(metavar="CLUSTER", help="Cluster in drctl.yaml.", show_default="the only cluster"),
]
TopicList = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="TOPIC",
        help="Only this topic, by its exact name. Repeatable.",
        show_default="all topics",
    ),
]


@app.command()
def show(cluster: Cluster = None, topic: TopicList = None) -> int:
    """Show partitions without a leader, and what each replica holds.

    Read-only.

    Examples:
        drctl elect show --cluster primary
        drctl elect show --cluster primary --topic orders

    Exit codes:
        0: every partition has a leader that answers
        1: some partitions have no leader
        5: the cluster does not answer
    """
    return _watch(cluster, tuple(topic or ()), 0.0)


@app.command()
def wait(
    cluster: Cluster = None,
    topic: TopicList = None,
    timeout: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Time limit for the leaders to return, for example 90s, 10m or 2h."
        ),
    ] = "1h",
) -> int:
    """Wait until every partition has a leader again.

    Reports brokers as they return. Read-only: in-sync replicas become leaders by themselves,
    without loss.

    Examples:
        drctl elect wait --cluster primary
        drctl elect wait --cluster primary --topic orders --timeout 10m

    Exit codes:
        0: every partition has a leader that answers
        1: timed out
        5: the cluster does not answer
        130: interrupted
    """
    return _watch(cluster, tuple(topic or ()), seconds(timeout, "--timeout", zero=True))


def _watch(cluster: str | None, topics: tuple[str, ...], within_s: float) -> int:
    """Wait for leaders; with 0 s, read once.

    Raises:
        Interrupted: Ctrl-C.
        Unreachable: no broker answered at the end.
    """
    from drctl.elections.waiting import Wait

    config = configuration()
    name = config.chosen(cluster)
    # One read must not take longer than the whole wait.
    longest_s = adapters.TIMEOUT_S
    if within_s:
        longest_s = min(longest_s, max(_LEAST_LOOK_S, within_s))
    with (
        adapters.reader(name, config.cluster(name), longest_s).elections as reader,
        stoppable() as clock,
        console().task(f"reading {name}") as task,
    ):

        def report(states: "PartitionStates | None", words: tuple[str, ...]) -> None:
            at = datetime.now(UTC)
            for line in words:
                console().progress(f"{at:%H:%M:%S} {line}")
            if states is not None and within_s:
                alive = ", ".join(map(str, sorted(states.alive))) or "none"
                missing = f"{len(states.leaderless)} without a leader"
                task.update(description=f"{missing}; brokers online: {alive}")

        try:
            states = Wait(reader, clock, topics or None, report).run(within_s)
        except Unreachable:
            if not clock.stopping:
                raise
        if clock.stopping:
            raise Interrupted("interrupted; nothing was changed")
    leaderless = states.leaderless
    code = ExitCode.FOUND if leaderless or states.absent else ExitCode.DONE
    document = show_document(name, states, leaderless)
    return console().result(show_table(name, states), document, code)


@dataclass(frozen=True, kw_only=True)
class Preferred(PlanRequest):
    """Arguments and options."""

    cluster: Cluster = None
    topic: Topics = ()
    override: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Unclean(PlanRequest):
    """Arguments and options of an unclean election."""

    cluster: Cluster = None
    topic: Annotated[
        str, typer.Option(metavar="TOPIC", help="Topic whose partitions have no leader.")
    ]
    partition: Annotated[
        tuple[int, ...], typer.Option(metavar="N", min=0, help="Partition to elect. Repeatable.")
    ]
    known_end: Annotated[
        tuple[str, ...],
        typer.Option(
            metavar="PARTITION=OFFSET",
            help="End offset of the lost replica's log, as read from its disk. Repeatable.",
        ),
    ] = ()


@app.command()
@takes_request
def preferred(given: Preferred) -> int:
    """Make preferred replicas leaders again.

    Only replicas that are in sync are elected: nothing is lost. Without --execute nothing is
    changed: the plan is printed.

    Examples:
        drctl elect preferred --cluster primary
        drctl elect preferred --cluster primary --topic orders --execute

    Exit codes:
        0: the leaders are elected, or the plan has no blockers
        3: refused; no leader was elected
        4: some leaders were elected
        5: the cluster did not answer; `drctl resume` checks what was done
        130: interrupted
    """

    def planned(reader: "ClusterLinkReader", cluster: str) -> ElectionPlan:
        with console().task(f"reading {cluster}"):
            states = reader.elections(cluster).look(given.topic or None, ())
        return preferred_plan(cluster, states, None)

    return _elect(given, given.cluster, Kind.PREFERRED, planned)


@app.command()
@takes_request
def unclean(given: Unclean) -> int:
    """Elect out-of-sync replicas as leaders; loses records.

    Shows for each partition which offsets would be lost, with the evidence, or that the loss
    is unknown. Requires --override unclean=REASON. Without --execute nothing is changed.

    Examples:
        drctl elect unclean --cluster primary --topic orders --partition 0
        drctl elect unclean --cluster primary --topic orders --partition 0 --execute
            --override unclean=disks-lost

    Exit codes:
        0: the leaders are elected, or the plan has no blockers
        3: refused; no leader was elected
        4: some leaders were elected
        5: the cluster did not answer; `drctl resume` checks what was done
        130: interrupted
    """
    overrides, topic = parse_overrides(given.override, OVERRIDABLE), given.topic
    numbers = tuple(dict.fromkeys(given.partition))
    ends = known_ends(given.known_end, numbers)

    def planned(reader: "ClusterLinkReader", cluster: str) -> ElectionPlan:
        places = [TopicPartition(topic, number) for number in numbers]
        with console().task(f"searching for evidence about {topic}"):
            found = gather(reader.config, cluster, topic, numbers, ends)
        with console().task(f"reading {cluster}"):
            states = reader.elections(cluster).look((topic, OFFSETS_TOPIC), places)
        known = found.evidence, found.groups, overrides, found.silent
        return unclean_plan(cluster, states, places, *known)

    return _elect(given, given.cluster, Kind.UNCLEAN, planned)


def _elect(
    given: PlanRequest,
    name: str | None,
    kind: Kind,
    planned: "Callable[[ClusterLinkReader, str], ElectionPlan]",
) -> int:
    given.check()
    config = configuration()
    cluster = config.chosen(name)
    link = config.inside(cluster)
    execute = command_line(["elect", kind.value, *words_of(given), "--execute"])
    with OVER_LINK.reader(config, link, NoPrompts(), False) as reader:
        found = planned(reader, cluster)
        plan = without_secrets(election_plan(found, link.name))
        plan_files(plan, partial(engine_document, plan, (), (), execute), given)
        if not given.execute:
            return _show(found, execute)
        if not plan.steps:
            return _show_result(ElectionResult(found, results_of(found, {}, {})))
        confirm(cluster, _in_words(found), yes=given.yes)
        return _show_result(_elected(config, reader, found, plan))


def _show(plan: ElectionPlan, execute: str) -> int:
    code = ExitCode.REFUSED if plan.refused else ExitCode.DONE
    document = ElectPlanDocument.of(plan, execute=execute)
    return console().result(plan_table(plan, execute), document, code)


def _show_result(result: ElectionResult) -> int:
    return console().result(result_table(result), result_document(result), result.exit_code)


def _elected(
    config: "Config", reader: "ClusterLinkReader", found: ElectionPlan, plan: Plan
) -> ElectionResult:
    """Execute the plan; the result is read back from the cluster."""
    began = time.monotonic()
    state, outcome, where = execute_plan(config, OVER_LINK, reader, plan)
    resume = command_line(["resume", state.run, "--cluster", found.cluster])
    if outcome.status is Status.INTERRUPTED:
        raise Interrupted(f"interrupted: for requested elections, see {where}", resume)
    outcomes, changed = election_adapters.outcomes_of(state, reader)
    return ElectionResult(
        found,
        results_of(found, outcomes, changed),
        state.run,
        where,
        time.monotonic() - began,
        "" if state.status else resume,
    )


def _in_words(plan: ElectionPlan) -> str:
    partitions = plural(len(plan.elected), "partition")
    if plan.kind is Kind.PREFERRED:
        return f"elects the preferred leaders of {partitions}"
    losses = "; ".join(
        f"{line.place} loses {line.loss.message}" for line in plan.elected if line.loss
    )
    return f"elects out-of-sync leaders of {partitions}: {losses}"
