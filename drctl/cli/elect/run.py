"""Shows a plan of elections, or carries it out once somebody said so."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from drctl.cli.confirmation import confirm
from drctl.cli.console import console
from drctl.cli.elect import wiring as elect_wiring
from drctl.cli.elect.evidence import gather, known_ends
from drctl.cli.offsets.writing import check_confirming, command_line
from drctl.cli.settings import configuration
from drctl.cli.stopping import stoppable
from drctl.elections.planning import (
    ElectionPlan,
    parse_overrides,
    preferred_plan,
    unclean_plan,
)
from drctl.elections.ports import Kind
from drctl.model.errors import ExitCode, Interrupted
from drctl.model.groups import POSITIONS_TOPIC
from drctl.model.topology import TopicPartition
from drctl.report.printable import plural

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.elections.ports import ElectionReader
    from drctl.elections.results import ElectionResult
    from drctl.elections.sight import Sight


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
        words = ["elect", self.kind.value]
        words += ["--cluster", self.cluster] if self.cluster else []
        for name, values in (
            ("--topic", self.topics),
            ("--partition", self.partitions),
            ("--known-end", self.known_ends),
            ("--override", self.overrides),
        ):
            for value in values:
                words += [name, str(value)]
        return (*words, "--execute")


def elect(given: ElectOptions) -> int:
    """Make the plan, and with `--execute` carry it out."""
    check_confirming(given.execute, given.yes)
    overrides = parse_overrides(given.overrides)
    ends = known_ends(given.known_ends, given.partitions)
    config = configuration()
    cluster = elect_wiring.chosen(config, given.cluster)
    with elect_wiring.reader(cluster, config.cluster(cluster)) as reader:
        make: Callable[[], ElectionPlan]
        if given.kind is Kind.PREFERRED:

            def make() -> ElectionPlan:
                return preferred_plan(cluster, _looked(reader, given, cluster), None)
        else:
            topic, places = given.topics[0], _places(given)
            with console().task(f"looking for traces of {topic}"):
                found = gather(config, cluster, topic, given.partitions, ends)

            def make() -> ElectionPlan:
                sight = _looked(reader, given, cluster)
                told = found.evidence, found.groups, overrides, found.silent
                return unclean_plan(cluster, sight, places, *told)

        plan = make()
        if not given.execute:
            return _show(plan, command_line(given.words))
        return _carry_out(plan, config, reader, make, given)


def _places(given: ElectOptions) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(given.topics[0], number) for number in given.partitions)


def _looked(reader: "ElectionReader", given: ElectOptions, cluster: str) -> "Sight":
    with console().task(f"looking at {cluster}"):
        if given.kind is Kind.PREFERRED:
            return reader.look(given.topics or None, ())
        return reader.look((*given.topics, POSITIONS_TOPIC), _places(given))


def _show(plan: ElectionPlan, execute: str) -> int:
    from drctl.cli.elect.table import plan_table
    from drctl.elections.documents import plan_document

    console().result(lambda: plan_table(plan, execute), plan_document(plan, execute))
    return int(ExitCode.REFUSED if plan.refused else ExitCode.DONE)


def _carry_out(
    plan: ElectionPlan,
    config: "Config",
    reader: "ElectionReader",
    make: Callable[[], ElectionPlan],
    given: ElectOptions,
) -> int:
    from drctl.cli.elect.table import result_table
    from drctl.elections.documents import result_document
    from drctl.elections.results import nothing_asked

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

    run = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    with (
        elect_wiring.writer(plan.cluster, config.cluster(plan.cluster)) as writer,
        elect_wiring.journal(config, run) as journal,
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
