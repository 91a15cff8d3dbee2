"""Starts replication, and checks that the first record to arrive is the one that had to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import Field

from drctl.engine.failback_state import JournaledOffsets, Offsets, rows
from drctl.engine.kind import (
    BothClusters,
    Description,
    Facts,
    Polling,
    Readback,
    State,
    StepKind,
    Trait,
)
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import Refused
from drctl.model.topology import TopicPartition
from drctl.steps.first_records import FIELDS, first_arrivals
from drctl.steps.manual import (
    ConfirmationFacts,
    ManualIntent,
    ManualSettings,
    answered,
    asked,
    changing,
    verify_undo,
)
from drctl.steps.records import found
from drctl.steps.reversed import SinceStopped
from drctl.steps.source_offsets import SeedFacts, copies_of, log_ends, logs_of, must_write_to
from drctl.steps.stop_replication import RUNNING, STOPPED, for_each_connector

RESTART_REPLICATION = "restart-replication"
"""The name of `StartReplication` in the direction in which replication ran before the loss."""

SETS_REVERSE_OFFSETS = ("set-start-offsets", "set-start-offsets-earliest")
"""Steps that set offsets of connectors that may never have run in this direction."""


@dataclass(frozen=True, slots=True)
class StartSettings(BothClusters):
    """Settings from the plan.

    Attributes:
        seeded_by: the kind of the step that told the connectors where to begin.
        writes_overridden: whether nobody looks to which cluster they write.
    """

    connectors: tuple[str, ...]
    seeded_by: str
    writes_overridden: bool = False


@dataclass(frozen=True, slots=True)
class StartIntent(BothClusters):
    """What is started, and where it begins: see `SeedFacts`.

    Attributes:
        before: the states of the connectors.
    """

    before: Mapping[str, str]
    begins: Annotated[JournaledOffsets, Field(alias="from")]
    ends: JournaledOffsets
    whole: bool = False


class StartReplication(StepKind[StartSettings, StartIntent, None]):
    """Resumes from the offsets that were set; the first record of each partition proves it."""

    name = "start-replication"
    traits = Trait.CHANGES | Trait.STARTS_REPLICATION

    def describe(self, settings: StartSettings) -> Description:
        """Describe the step for plans and reports."""
        names, source, target = settings.connectors, settings.source, settings.target
        return Description(
            f"start replication from {source} to {target}: connectors {', '.join(names)}",
            f"they are RUNNING, and what comes first to {target} is the first new record",
            "stop them: what came stays, and how far they got is kept",
        )

    def check(self, settings: StartSettings, facts: Facts, reader: LinkReader) -> StartIntent:
        """Where it begins.

        Raises:
            Refused: one of them would write to another cluster.
            UsageError: there is no such connector.
            Unreachable: no worker responded.
        """
        names, connectors = settings.connectors, reader.connectors()
        if settings.seeded_by in SETS_REVERSE_OFFSETS and not settings.writes_overridden:
            must_write_to(settings.target, names, reader)
        seeds = facts.named(settings.seeded_by, SeedFacts)
        if seeds is None:
            raise Refused(f"no step {settings.seeded_by} was done before")
        before = {name: connectors.state(name).state for name in names}
        return StartIntent(
            settings.source, settings.target, before, seeds.begins, seeds.ends, seeds.whole
        )

    def apply(self, intent: StartIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Resume them."""
        return for_each_connector(intent.before, writer.connectors().resume)

    def verify(self, intent: StartIntent, reader: LinkReader) -> Readback[None]:
        """How they stand, and what came first."""
        connectors = reader.connectors()
        states = [connectors.state(name) for name in intent.before]
        others = tuple(each.summary for each in states if each.state != RUNNING)
        if others:
            return Readback(State.WAITING, "; ".join(others), items=others)
        return first_arrivals(intent, SeedFacts(intent.begins, intent.ends, intent.whole), reader)

    def undo(self, intent: StartIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Stop those that did not run."""
        idle = [name for name, before in intent.before.items() if before != RUNNING]
        return for_each_connector(idle, writer.connectors().stop)

    def verify_undo(self, intent: StartIntent, reader: LinkReader) -> Readback[None]:
        """Whether they are stopped again."""
        connectors = reader.connectors()
        others = tuple(
            f"{name} is {state}"
            for name, before in intent.before.items()
            if before != RUNNING and (state := connectors.state(name).state) != STOPPED
        )
        if others:
            return Readback(State.WAITING, "; ".join(others), items=others)
        return Readback(State.DONE, "the connectors do not run any more")


@dataclass(frozen=True, kw_only=True)
class EndsIntent(SinceStopped):
    """Where the partitions of both sides end: see `SeedFacts`."""

    source: str
    begins: Annotated[JournaledOffsets, Field(alias="from")]
    ends: JournaledOffsets


class RecordEndOffsets(Polling[BothClusters, EndsIntent, SeedFacts]):
    """The ends of the link's partitions, by their names on either side."""

    name = "record-end-offsets"
    traits = Trait.NONE

    def describe(self, settings: BothClusters) -> Description:
        """Describe the step for plans and reports."""
        source, target = settings.source, settings.target
        title = f"write down where {source} and {target} end: there copying begins later"
        return Description(title, "the journal has the end of each partition")

    def check(self, settings: BothClusters, facts: Facts, reader: LinkReader) -> EndsIntent:
        """Where they end.

        Raises:
            Unreachable: a cluster did not respond.
        """
        start = log_ends(reader.cluster_reader(settings.source), reader.topics())
        ends = log_ends(reader.cluster_reader(settings.target), copies_of(reader))
        return EndsIntent(source=settings.source, begins=start, ends=ends)

    def verify(self, intent: EndsIntent, reader: LinkReader) -> Readback[SeedFacts]:
        """Done: the journal has it."""
        words = f"the ends of {len(intent.begins)} partitions of {intent.source} are known"
        return Readback(State.DONE, words, SeedFacts(intent.begins, intent.ends))


BOUNDARY, END, START = "boundary", "end", "start"
"""Where it begins: at the first new record, where its source ended, at the first record of all."""

PROOF = "the operator confirms it, and the first record replicated to {target} is the expected one"
_SHOWN = 5
_TELLS_NOTHING = "the first record proves nothing: `identity` names none of a record's own fields"


@dataclass(frozen=True, kw_only=True)
class ManualStartSettings(ManualSettings):
    """What a person is asked, and where copying begins.

    Attributes:
        begins: one of the words above; empty where the question says it.
        mirrors: whether offsets are kept.
        fields: by which a record is known again.
        connect: whether Connect keeps its position as Confluent Replicator has it there: the next
            offset.
    """

    source: str = ""
    target: str = ""
    begins: str = ""
    mirrors: bool = False
    fields: tuple[str, ...] = FIELDS
    connect: bool = False


@dataclass(frozen=True, kw_only=True)
class ManualStartIntent(ManualIntent):
    """The same; and where it begins, by partition: see `SeedFacts`.

    Attributes:
        begins: None where the question says it.
        begun: whether it was begun before.
    """

    source: str = ""
    target: str = ""
    mirrors: bool = False
    fields: tuple[str, ...] = FIELDS
    connect: bool = False
    begins: Annotated[JournaledOffsets | None, Field(alias="from")] = None
    ends: JournaledOffsets = field(default_factory=dict)
    whole: bool = False
    started: bool = False


@dataclass(frozen=True, slots=True)
class ManualStart(Polling[ManualStartSettings, ManualStartIntent, ConfirmationFacts]):
    """Asks; where the settings say where it begins, that is told, and looked at."""

    name: str
    traits: Trait

    def describe(self, settings: ManualStartSettings) -> Description:
        """Describe the step for plans and reports."""
        told = changing(settings)
        return (
            replace(told, proof=PROOF.format(target=settings.target)) if settings.begins else told
        )

    def check(
        self, settings: ManualStartSettings, facts: Facts, reader: LinkReader
    ) -> ManualStartIntent:
        """Where it begins.

        Raises:
            Unreachable: a cluster did not respond.
        """
        if not settings.begins:
            return ManualStartIntent(**asked(settings))
        seeds, started = _WHERE[settings.begins](settings, facts, reader)
        if settings.mirrors:
            # What it appends stands at the same offset, whatever stood there before.
            ends = {
                TopicPartition(reader.target_topic(topic), number): at
                for (topic, number), at in seeds.begins.items()
            }
            seeds = SeedFacts(seeds.begins, ends, whole=True)
        intent = ManualStartIntent(
            **asked(settings),
            source=settings.source,
            target=settings.target,
            mirrors=settings.mirrors,
            fields=settings.fields,
            connect=settings.connect,
            begins=seeds.begins,
            ends=seeds.ends,
            whole=seeds.whole,
            started=started,
        )
        return replace(intent, text=f"{intent.text}; {_told(intent, seeds.begins)}")

    def apply(self, intent: ManualStartIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Put where it begins into the run's folder, as commands take it; the person does it."""
        if intent.begins is not None:
            lines = [f"{topic},{number},{at}\n" for topic, number, at in rows(intent.begins)]
            writer.save_evidence(_file(intent, "csv"), "".join(lines))
            if intent.connect:
                writer.save_evidence(_file(intent, "json"), _connect_offsets(intent.begins))
        return ()

    def verify(self, intent: ManualStartIntent, reader: LinkReader) -> Readback[ConfirmationFacts]:
        """What the person says; then, what came first."""
        said = answered(intent.question, intent.text, reader)
        if said.state is not State.DONE or intent.begins is None:
            return said
        told = f"confirmed by the operator, from {_places(intent.begins) or 'no partition'} on"
        if not intent.fields:
            return replace(said, words=f"{told}; {_TELLS_NOTHING}")
        clusters = BothClusters(intent.source, intent.target)
        seeds = SeedFacts(intent.begins, intent.ends, intent.whole)
        seen = first_arrivals(clusters, seeds, reader, intent.fields)
        if seen.state is State.DONE:
            return Readback(State.DONE, f"{told}; {seen.words}", said.facts)
        if seen.state is State.FAILED and intent.mirrors:
            words = (
                f"{intent.target} still holds something else than {intent.source} from where"
                f" both part: {', '.join(seen.items[:_SHOWN])}"
            )
            return Readback(State.WAITING, words, items=seen.items)
        return seen

    def verify_undo(
        self, intent: ManualStartIntent, reader: LinkReader
    ) -> Readback[ConfirmationFacts]:
        """What the person says; where nothing undoes it, that it stays."""
        return verify_undo(intent, reader)


Seeds = tuple[SeedFacts, bool]
"""Where it begins, and whether it was begun before."""


def _at_boundary(settings: ManualStartSettings, facts: Facts, reader: LinkReader) -> Seeds:
    search = found(facts)
    return SeedFacts(search.boundaries, search.ends), search.started


def _at_end(settings: ManualStartSettings, facts: Facts, reader: LinkReader) -> Seeds:
    noted = facts.of(RecordEndOffsets())
    if noted is None:
        raise Refused(f"no step {RecordEndOffsets.name} was done before")
    return noted, False


def _at_start(settings: ManualStartSettings, facts: Facts, reader: LinkReader) -> Seeds:
    there = logs_of(reader.cluster_reader(settings.source), reader.topics())
    # Something may have come already: what is emptied has nothing else to begin with.
    here = logs_of(reader.cluster_reader(settings.target), copies_of(reader))
    start, ends = ({place: log.log_start for place, log in logs.items()} for logs in (there, here))
    return SeedFacts(start, ends, whole=True), False


_WHERE: Mapping[str, Callable[[ManualStartSettings, Facts, LinkReader], Seeds]] = {
    BOUNDARY: _at_boundary,
    END: _at_end,
    START: _at_start,
}


def _told(intent: ManualStartIntent, begins: Offsets) -> str:
    """Where it begins, and where all of that is to be found, in words."""
    at = _places(begins)
    if not at:
        return "there is no partition yet"
    words = f"{'both part at' if intent.mirrors else 'begin at'} {at}"
    if intent.started:
        words = f"it began at {at}: let it go on from where it came to, do not set it back"
    words += f"; all of it, as topic,partition,offset: {_file(intent, 'csv')} in the run's folder"
    words += ", and the journal"
    if intent.connect:
        words += f"; as the body of PATCH /connectors/NAME/offsets: {_file(intent, 'json')}"
    return words


def _places(begins: Offsets) -> str:
    at = [f"{place} offset {offset}" for place, offset in sorted(begins.items())]
    more = [f"and {len(at) - _SHOWN:,} more"] if len(at) > _SHOWN else []
    return ", ".join((*at[:_SHOWN], *more))


def _file(intent: ManualStartIntent, ending: str) -> str:
    return f"begin-{intent.question}.{ending}"


def _connect_offsets(begins: Offsets) -> Mapping[str, Any]:
    """As Confluent Replicator has it in Connect: the next record of each partition."""
    entries = [
        {"partition": {"topic": topic, "partition": number}, "offset": {"offset": at}}
        for topic, number, at in rows(begins)
    ]
    return {"offsets": entries}


MANUAL_START_REPLICATION = ManualStart(
    "manual-start-replication", Trait.CHANGES | Trait.STARTS_REPLICATION
)
