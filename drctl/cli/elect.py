"""`drctl elect`: who leads the partitions of one cluster, and who shall."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.app import adapters, election_adapters
from drctl.app.election_adapters import gather, known_ends
from drctl.app.run_journal import new_run
from drctl.cli.console import console
from drctl.cli.grammar import (
    Execute,
    Overrides,
    Yes,
    check_confirming,
    command_line,
    option_words,
    seconds,
)
from drctl.cli.prompts import confirm
from drctl.cli.settings import configuration
from drctl.cli.stopping import stoppable
from drctl.elections.cluster_state import Kind
from drctl.elections.planning import ElectionPlan, parse_overrides, preferred_plan, unclean_plan
from drctl.model.errors import ExitCode, Interrupted, Unreachable
from drctl.model.groups import POSITIONS_TOPIC
from drctl.model.topology import TopicPartition
from drctl.views.text import plural

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.elections.cluster_state import ElectionReader, PartitionStates
    from drctl.elections.results import ElectionResult

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
    from drctl.elections.executing import Wait
    from drctl.elections.results import show_document

    config = configuration()
    name = election_adapters.chosen(config, cluster)
    # No look at a silent cluster takes longer than the whole wait may.
    longest_s = adapters.PATIENCE_S
    if within_s:
        longest_s = min(longest_s, max(_LEAST_LOOK_S, within_s))
    with (
        election_adapters.reader(name, config.cluster(name), longest_s) as reader,
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
) -> int:
    """Give partitions back to their first replicas, where those are in sync; nothing is lost.

    Exit codes: 0 they lead, or nothing stands against it; 3 nobody was elected; 4 some were; 5 an
    answer did not come.
    """
    return _elect(ElectOptions(Kind.PREFERRED, cluster, tuple(topic or ()), (), execute, yes))


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
    overrides = parse_overrides(given.overrides)
    ends = known_ends(given.known_ends, given.partitions)
    config = configuration()
    cluster = election_adapters.chosen(config, given.cluster)
    with election_adapters.reader(cluster, config.cluster(cluster)) as reader:
        make: Callable[[], ElectionPlan]
        if given.kind is Kind.PREFERRED:

            def make() -> ElectionPlan:
                return preferred_plan(cluster, _looked(reader, given, cluster), None)
        else:
            topic, places = given.topics[0], _places(given)
            with console().task(f"looking for traces of {topic}"):
                found = gather(config, cluster, topic, given.partitions, ends)

            def make() -> ElectionPlan:
                states = _looked(reader, given, cluster)
                known = found.evidence, found.groups, overrides, found.silent
                return unclean_plan(cluster, states, places, *known)

        plan = make()
        if not given.execute:
            return _show(plan, command_line(given.words))
        return _carry_out(plan, config, reader, make, given)


def _places(given: ElectOptions) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(given.topics[0], number) for number in given.partitions)


def _looked(reader: "ElectionReader", given: ElectOptions, cluster: str) -> "PartitionStates":
    with console().task(f"looking at {cluster}"):
        if given.kind is Kind.PREFERRED:
            return reader.look(given.topics or None, ())
        return reader.look((*given.topics, POSITIONS_TOPIC), _places(given))


def _show(plan: ElectionPlan, execute: str) -> int:
    from drctl.cli.elect_table import plan_table
    from drctl.elections.results import plan_document

    console().result(lambda: plan_table(plan, execute), plan_document(plan, execute))
    return int(ExitCode.REFUSED if plan.refused else ExitCode.DONE)


def _carry_out(
    plan: ElectionPlan,
    config: "Config",
    reader: "ElectionReader",
    make: Callable[[], ElectionPlan],
    given: ElectOptions,
) -> int:
    from drctl.cli.elect_table import result_table
    from drctl.elections.results import nothing_asked, result_document

    result = nothing_asked(plan)
    if plan.elected:
        confirm(plan.cluster, _in_words(plan), yes=given.yes)
        result = _elected(plan, config, reader, make)
    console().result(lambda: result_table(result), result_document(result))
    return int(result.exit_code)


def _elected(
    plan: ElectionPlan,
    config: "Config",
    reader: "ElectionReader",
    make: Callable[[], ElectionPlan],
) -> "ElectionResult":
    from drctl.elections.executing import Execution

    run = new_run()
    with (
        election_adapters.writer(plan.cluster, config.cluster(plan.cluster)) as writer,
        election_adapters.journal(config, run) as journal,
        stoppable() as clock,
        console().task(f"electing on {plan.cluster}"),
    ):
        execution = Execution(reader, writer, journal, clock, lambda: datetime.now(UTC), make)
        try:
            return execution.run(plan)
        except KeyboardInterrupt:
            message = f"interrupted: what was asked for stands in {journal.where}"
            raise Interrupted(message, "see who leads: drctl elect show") from None


def _in_words(plan: ElectionPlan) -> str:
    partitions = plural(len(plan.elected), "partition")
    if plan.kind is Kind.PREFERRED:
        return f"gives {partitions} back to their first replicas"
    losses = "; ".join(
        f"{line.place} loses {line.loss.words}" for line in plan.elected if line.loss
    )
    return f"elects leaders of {partitions} that lack records: {losses}"
