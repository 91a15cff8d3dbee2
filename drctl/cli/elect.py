"""`drctl elect`: who leads the partitions of one cluster, and who shall."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.app import adapters, election_adapters
from drctl.app.election_adapters import gather, known_ends
from drctl.app.notices import Nobody
from drctl.app.plan_files import check_plan_file, without_secrets
from drctl.cli.console import console
from drctl.cli.grammar import (
    Execute,
    ExpectPlan,
    Overrides,
    PlanOut,
    Yes,
    check_confirming,
    command_line,
    option_words,
    seconds,
)
from drctl.cli.prompts import confirm
from drctl.cli.running import OVER_LINK, carried_out, plan_files
from drctl.cli.settings import configuration
from drctl.cli.stopping import stoppable
from drctl.elections.cluster_state import Kind
from drctl.elections.planning import (
    ElectionPlan,
    Guard,
    parse_overrides,
    preferred_plan,
    unclean_plan,
)
from drctl.elections.results import ElectionResult, results_of
from drctl.engine.kind import Status
from drctl.model.errors import ExitCode, Interrupted, Unreachable
from drctl.model.groups import POSITIONS_TOPIC
from drctl.model.plan import Plan
from drctl.model.topology import TopicPartition
from drctl.plans.elections import election
from drctl.views.plan_text import plan_document as engine_document
from drctl.views.text import plural

if TYPE_CHECKING:
    from drctl.app.link_reader import ClusterLinkReader
    from drctl.config.configuration import Config
    from drctl.elections.cluster_state import PartitionStates

_LEAST_LOOK_S = 1.0

app = typer.Typer(help="Leaders inside one cluster: who is back, preferred, or unclean.")

Cluster = Annotated[
    str | None,
    typer.Option(metavar="CLUSTER", help="A cluster of drctl.yaml; else the only one."),
]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="Only this topic; may be repeated."),
]


@app.command()
def show(cluster: Cluster = None, topic: Topics = None) -> int:
    """Show partitions without a leader, and what each of their replicas holds.

    Reads only. Exit codes: 0 every partition has a leader that answers, 1 some have none, 5 the
    cluster does not answer.
    """
    return _watch(cluster, tuple(topic or ()), 0.0)


@app.command()
def wait(
    cluster: Cluster = None,
    topic: Topics = None,
    within: Annotated[str, typer.Option(metavar="TIME", help="How long, at most.")] = "1h",
) -> int:
    """Wait until every partition has a leader again, and tell who comes back meanwhile.

    Reads only: a replica that was in sync leads again by itself, and nothing is lost. Exit codes:
    0 every partition has a leader that answers, 1 time was up, 5 the cluster does not answer, 130
    interrupted.
    """
    return _watch(cluster, tuple(topic or ()), seconds(within, "--within", zero=True))


def _watch(cluster: str | None, topics: tuple[str, ...], within_s: float) -> int:
    """Wait for leaders, 0 s to look once.

    Raises:
        Interrupted: somebody stopped it.
        Unreachable: no broker answered at the end.
    """
    from drctl.cli.elect_table import show_table
    from drctl.elections.documents import show_document
    from drctl.elections.waiting import Wait

    config = configuration()
    name = config.chosen(cluster)
    # No look at a silent cluster takes longer than the whole wait may.
    longest_s = adapters.PATIENCE_S
    if within_s:
        longest_s = min(longest_s, max(_LEAST_LOOK_S, within_s))
    with (
        adapters.reader(name, config.cluster(name), longest_s).elections as reader,
        stoppable() as clock,
        console().task(f"looking at {name}") as task,
    ):

        def report(states: "PartitionStates | None", words: tuple[str, ...]) -> None:
            at = datetime.now(UTC)
            for line in words:
                console().progress(f"{at:%H:%M:%S} {line}")
            if states is not None and within_s:
                alive = ", ".join(map(str, sorted(states.alive))) or "none"
                missing = f"{len(states.dark)} without a leader"
                task.update(description=f"{missing}; brokers there: {alive}")

        try:
            states = Wait(reader, clock, topics or None, report).run(within_s)
        except Unreachable:
            if not clock.stopping:
                raise
        if clock.stopping:
            raise Interrupted("interrupted; nothing was changed")
    dark = states.dark
    console().result(lambda: show_table(name, states), show_document(name, states, dark))
    return int(ExitCode.FOUND if dark or states.absent else ExitCode.DONE)


@app.command()
def preferred(
    cluster: Cluster = None,
    topic: Topics = None,
    execute: Execute = False,
    yes: Yes = False,
    plan_out: PlanOut = None,
    expect_plan: ExpectPlan = None,
) -> int:
    """Give partitions back to their first replicas, where those are in sync; nothing is lost.

    Exit codes: 0 they lead, or nothing stands against it; 3 nobody was elected; 4 some were; 5 an
    answer did not come: drctl resume looks first; 130 interrupted.
    """
    files = plan_out, expect_plan
    return _elect(
        ElectOptions(Kind.PREFERRED, cluster, tuple(topic or ()), (), execute, yes, *files)
    )


@app.command()
def unclean(
    topic: Annotated[str, typer.Option(metavar="TOPIC", help="Of which all replicas are down.")],
    partition: Annotated[
        list[int], typer.Option(metavar="NUMBER", min=0, help="Of it; may be repeated.")
    ],
    cluster: Cluster = None,
    known_end: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NUMBER=OFFSET",
            help="Where the lost log of a partition ended, read from its disk; may be repeated.",
        ),
    ] = None,
    execute: Execute = False,
    yes: Yes = False,
    override: Overrides = None,
    plan_out: PlanOut = None,
    expect_plan: ExpectPlan = None,
) -> int:
    """Have partitions led by a replica that is behind; what it lacks is lost for good.

    Says first, for each partition, which offsets would be lost and how that is known, or that it
    cannot be. Needs --override unclean=REASON. Exit codes: as of preferred.
    """
    given = ElectOptions(
        Kind.UNCLEAN,
        cluster,
        (topic,),
        tuple(dict.fromkeys(partition)),
        execute,
        yes,
        plan_out,
        expect_plan,
        tuple(override or ()),
        tuple(known_end or ()),
    )
    return _elect(given)


@dataclass(frozen=True, slots=True)
class ElectOptions:
    """What the command line says."""

    kind: Kind
    cluster: str | None
    topics: tuple[str, ...]
    partitions: tuple[int, ...]
    execute: bool
    yes: bool
    plan_out: Path | None = None
    expect_plan: Path | None = None
    overrides: tuple[str, ...] = ()
    known_ends: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The command line that carries this out."""
        words = option_words(
            {
                "--cluster": self.cluster,
                "--topic": self.topics,
                "--partition": self.partitions,
                "--known-end": self.known_ends,
                "--override": self.overrides,
            }
        )
        return ("elect", self.kind.value, *words, "--execute")


def _elect(given: ElectOptions) -> int:
    check_confirming(given.execute, given.yes)
    if given.expect_plan:
        check_plan_file(given.expect_plan)
    overrides = parse_overrides(given.overrides)
    ends = known_ends(given.known_ends, given.partitions)
    config = configuration()
    cluster = config.chosen(given.cluster)
    link, execute = config.inside(cluster), command_line(given.words)
    with OVER_LINK.sight(config, link, Nobody(), False) as sight:
        found = _planned(config, sight, given, overrides, ends)
        plan = without_secrets(election(found, link.name))
        document = engine_document(plan, (), (), execute)
        plan_files(plan, document, given.plan_out, given.expect_plan)
        if not given.execute:
            return _show(found, execute)
        if not plan.steps:
            return _show_result(ElectionResult(found, results_of(found, {}, {})))
        confirm(cluster, _in_words(found), yes=given.yes)
        return _show_result(_elected(config, sight, found, plan))


def _planned(
    config: "Config",
    sight: "ClusterLinkReader",
    given: ElectOptions,
    overrides: Mapping[Guard, str],
    ends: Mapping[int, int],
) -> ElectionPlan:
    cluster = sight.link.source
    reader = sight.elections(cluster)
    if given.kind is Kind.PREFERRED:
        with console().task(f"looking at {cluster}"):
            return preferred_plan(cluster, reader.look(given.topics or None, ()), None)
    topic = given.topics[0]
    places = [TopicPartition(topic, number) for number in given.partitions]
    with console().task(f"looking for traces of {topic}"):
        found = gather(config, cluster, topic, given.partitions, ends)
    with console().task(f"looking at {cluster}"):
        states = reader.look((topic, POSITIONS_TOPIC), places)
    known = found.evidence, found.groups, overrides, found.silent
    return unclean_plan(cluster, states, places, *known)


def _show(plan: ElectionPlan, execute: str) -> int:
    from drctl.cli.elect_table import plan_table
    from drctl.elections.documents import ElectPlanDocument

    console().result(lambda: plan_table(plan, execute), ElectPlanDocument.of(plan, execute=execute))
    return int(ExitCode.REFUSED if plan.refused else ExitCode.DONE)


def _show_result(result: ElectionResult) -> int:
    from drctl.cli.elect_table import result_table
    from drctl.elections.documents import result_document

    console().result(lambda: result_table(result), result_document(result))
    return int(result.exit_code)


def _elected(
    config: "Config", sight: "ClusterLinkReader", found: ElectionPlan, plan: Plan
) -> ElectionResult:
    """Carry it out; what came of it is looked at, whatever the run saw."""
    began = time.monotonic()
    story, outcome, where = carried_out(config, OVER_LINK, sight, plan)
    resume = command_line(["resume", story.run, "--cluster", found.cluster])
    if outcome.status is Status.INTERRUPTED:
        raise Interrupted(f"interrupted: what was asked for stands in {where}", resume)
    became, changed = election_adapters.became(story, sight)
    return ElectionResult(
        found,
        results_of(found, became, changed),
        story.run,
        where,
        time.monotonic() - began,
        "" if story.status else resume,
    )


def _in_words(plan: ElectionPlan) -> str:
    partitions = plural(len(plan.elected), "partition")
    if plan.kind is Kind.PREFERRED:
        return f"gives {partitions} back to their first replicas"
    losses = "; ".join(
        f"{line.place} loses {line.loss.words}" for line in plan.elected if line.loss
    )
    return f"elects leaders of {partitions} that lack records: {losses}"
