"""Starts replication, and verifies that the first record to arrive is the expected one."""

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
from drctl.model.text import named, plural
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
from drctl.steps.records import FIND_REVERSE, found
from drctl.steps.reversed import SinceStopped
from drctl.steps.source_offsets import SeedFacts, copies_of, log_ends, logs_of, must_write_to
from drctl.steps.stop_replication import RUNNING, STOPPED, for_each_connector

RESTART_REPLICATION = "restart-replication"
"""The name of `StartReplication` in the direction in which replication ran before the loss."""

SETS_REVERSE_OFFSETS = (
    "set-start-offsets",
    "set-start-offsets-earliest",
    "set-start-offsets-reverse",
)
"""Steps that set offsets of connectors that may never have run in this direction."""


@dataclass(frozen=True, slots=True)
class StartSettings(BothClusters):
    """Settings from the plan.

    Attributes:
        seeded_by: the kind of the step that set the start offsets.
        writes_overridden: whether to skip the check of the cluster to which the connectors write.
        origin_header: header of copies, if applications write to both clusters; else empty.
    """

    connectors: tuple[str, ...]
    seeded_by: str
    writes_overridden: bool = False
    origin_header: str = ""


@dataclass(frozen=True, slots=True)
class StartIntent(BothClusters):
    """The connectors to start, and the start offsets: see `SeedFacts`.

    Attributes:
        before: the previous states of the connectors.
    """

    before: Mapping[str, str]
    begins: Annotated[JournaledOffsets, Field(alias="from")]
    ends: JournaledOffsets
    whole: bool = False
    origin_header: str = ""


class StartReplication(StepKind[StartSettings, StartIntent, None]):
    """Resumes connectors at the offsets that were set, as the first record to arrive proves."""

    name = "start-replication"
    traits = Trait.CHANGES | Trait.STARTS_REPLICATION

    def describe(self, settings: StartSettings) -> Description:
        """Describe the step for plans and reports."""
        names, source, target = settings.connectors, settings.source, settings.target
        return Description(
            f"start replication from {source} to {target}: {named('connector', names)}",
            f"they are RUNNING, and the first record replicated to {target} is the first new one",
            "stop them: replicated records stay, and Connect keeps their offsets",
        )

    def check(self, settings: StartSettings, facts: Facts, reader: LinkReader) -> StartIntent:
        """Take the start offsets from the step that set them.

        Raises:
            Refused: a connector would write to another cluster.
            UsageError: the connector does not exist.
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
            settings.source,
            settings.target,
            before,
            seeds.begins,
            seeds.ends,
            seeds.whole,
            settings.origin_header,
        )

    def apply(self, intent: StartIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Resume the connectors."""
        return for_each_connector(intent.before, writer.connectors().resume)

    def verify(self, intent: StartIntent, reader: LinkReader) -> Readback[None]:
        """Verify that the connectors run, and the first record to arrive."""
        connectors = reader.connectors()
        states = [connectors.state(name) for name in intent.before]
        others = tuple(each.summary for each in states if each.state != RUNNING)
        if others:
            return Readback(State.WAITING, "; ".join(others), items=others)
        seeds = SeedFacts(intent.begins, intent.ends, intent.whole)
        return first_arrivals(intent, seeds, reader, origin_header=intent.origin_header)

    def undo(self, intent: StartIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Stop the connectors that were not running before."""
        idle = [name for name, before in intent.before.items() if before != RUNNING]
        return for_each_connector(idle, writer.connectors().stop)

    def verify_undo(self, intent: StartIntent, reader: LinkReader) -> Readback[None]:
        """Verify that these connectors are stopped again."""
        connectors = reader.connectors()
        others = tuple(
            f"{name} is {state}"
            for name, before in intent.before.items()
            if before != RUNNING and (state := connectors.state(name).state) != STOPPED
        )
        if others:
            return Readback(State.WAITING, "; ".join(others), items=others)
        return Readback(State.DONE, "the connectors are stopped again")


@dataclass(frozen=True, kw_only=True)
class EndsIntent(SinceStopped):
    """The end offsets of both clusters: see `SeedFacts`."""

    source: str
    begins: Annotated[JournaledOffsets, Field(alias="from")]
    ends: JournaledOffsets


class RecordEndOffsets(Polling[BothClusters, EndsIntent, SeedFacts]):
    """Records the end offsets of the link's partitions on both clusters."""

    name = "record-end-offsets"
    traits = Trait.NONE

    def describe(self, settings: BothClusters) -> Description:
        """Describe the step for plans and reports."""
        source, target = settings.source, settings.target
        title = f"record the end offsets of {source} and {target}: replication will start there"
        return Description(title, "the journal has the end offset of each partition")

    def check(self, settings: BothClusters, facts: Facts, reader: LinkReader) -> EndsIntent:
        """Read the end offsets.

        Raises:
            Unreachable: a cluster did not respond.
        """
        start = log_ends(reader.cluster_reader(settings.source), reader.topics())
        ends = log_ends(reader.cluster_reader(settings.target), copies_of(reader))
        return EndsIntent(source=settings.source, begins=start, ends=ends)

    def verify(self, intent: EndsIntent, reader: LinkReader) -> Readback[SeedFacts]:
        """Report the number of partitions; the journal has the offsets already."""
        message = (
            f"the end offsets of {plural(len(intent.begins), 'partition')} of {intent.source} are"
            " recorded"
        )
        return Readback(State.DONE, message, SeedFacts(intent.begins, intent.ends))


BOUNDARY, END, START = "boundary", "end", "start"
"""Where replication starts: the first new record, the recorded end, or the first record."""

REVERSE_BOUNDARY = "reverse-boundary"
"""Where a comparison of the reverse direction ended: see `FIND_REVERSE`."""

PROOF = "the operator confirms it, and the first record replicated to {target} is the expected one"
_SHOWN = 5
_NO_IDENTITY = "the first record cannot be verified: `identity` has none of a record's own fields"


@dataclass(frozen=True, kw_only=True)
class ManualStartSettings(ManualSettings):
    """What the operator is asked, and where replication starts.

    Attributes:
        begins: one of the constants above; empty if only the text says where replication starts.
        mirrors: whether the replicator preserves offsets.
        fields: the fields that identify a record.
        connect: whether to write a Connect offsets file for Confluent Replicator, which stores the
            next offset.
        origin_header: as in `StartSettings`.
    """

    source: str = ""
    target: str = ""
    begins: str = ""
    mirrors: bool = False
    fields: tuple[str, ...] = FIELDS
    connect: bool = False
    origin_header: str = ""


@dataclass(frozen=True, kw_only=True)
class ManualStartIntent(ManualIntent):
    """What the operator is asked, and the start offsets by partition: see `SeedFacts`.

    Attributes:
        begins: the start offsets; None if only the text says where replication starts.
        started: whether replication was started before.
    """

    source: str = ""
    target: str = ""
    mirrors: bool = False
    fields: tuple[str, ...] = FIELDS
    connect: bool = False
    origin_header: str = ""
    begins: Annotated[JournaledOffsets | None, Field(alias="from")] = None
    ends: JournaledOffsets = field(default_factory=dict)
    whole: bool = False
    started: bool = False


@dataclass(frozen=True, slots=True)
class ManualStart(Polling[ManualStartSettings, ManualStartIntent, ConfirmationFacts]):
    """Asks the operator to start replication, and verifies the start offsets if they are known."""

    name: str
    traits: Trait

    def describe(self, settings: ManualStartSettings) -> Description:
        """Describe the step for plans and reports."""
        described = changing(settings)
        return (
            replace(described, proof=PROOF.format(target=settings.target))
            if settings.begins
            else described
        )

    def check(
        self, settings: ManualStartSettings, facts: Facts, reader: LinkReader
    ) -> ManualStartIntent:
        """Determine the start offsets, and add them to the question.

        Raises:
            Unreachable: a cluster did not respond.
        """
        if not settings.begins:
            return ManualStartIntent(**asked(settings))
        seeds, started = _WHERE[settings.begins](settings, facts, reader)
        if settings.mirrors:
            # Mirrored records have the same offsets as on the source.
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
            origin_header=settings.origin_header,
            begins=seeds.begins,
            ends=seeds.ends,
            whole=seeds.whole,
            started=started,
        )
        return replace(intent, text=f"{intent.text}; {_start_in_words(intent, seeds.begins)}")

    def apply(self, intent: ManualStartIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Write files with the start offsets to the run's folder; the operator does the rest."""
        if intent.begins is not None:
            lines = [f"{topic},{number},{at}\n" for topic, number, at in rows(intent.begins)]
            writer.save_evidence(_file(intent, "csv"), "".join(lines))
            if intent.connect:
                writer.save_evidence(_file(intent, "json"), _connect_offsets(intent.begins))
        return ()

    def verify(self, intent: ManualStartIntent, reader: LinkReader) -> Readback[ConfirmationFacts]:
        """Ask the operator, then verify the first record to arrive."""
        answer = answered(intent.question, intent.text, reader)
        if answer.state is not State.DONE or intent.begins is None:
            return answer
        confirmed = "confirmed by the operator"
        if intent.begins:
            confirmed += f": replication starts at {_places(intent.begins)}"
        if not intent.fields:
            return replace(answer, message=f"{confirmed}; {_NO_IDENTITY}")
        clusters = BothClusters(intent.source, intent.target)
        seeds = SeedFacts(intent.begins, intent.ends, intent.whole)
        seen = first_arrivals(clusters, seeds, reader, intent.fields, intent.origin_header)
        if seen.state is State.DONE:
            return Readback(State.DONE, f"{confirmed}; {seen.message}", answer.facts)
        if seen.state is State.FAILED and intent.mirrors:
            message = (
                f"{intent.target} still differs from {intent.source} after the point where they"
                f" diverged: {', '.join(seen.items[:_SHOWN])}"
            )
            return Readback(State.WAITING, message, items=seen.items)
        return seen

    def verify_undo(
        self, intent: ManualStartIntent, reader: LinkReader
    ) -> Readback[ConfirmationFacts]:
        """Ask whether the step was rolled back; fails if that is impossible."""
        return verify_undo(intent, reader)


Seeds = tuple[SeedFacts, bool]
"""The start offsets, and whether replication was started before."""


def _at_boundary(settings: ManualStartSettings, facts: Facts, reader: LinkReader) -> Seeds:
    search = found(facts)
    ends = search.ends or log_ends(reader.cluster_reader(settings.target), copies_of(reader))
    return SeedFacts(search.boundaries, ends), search.started


def _at_reverse_boundary(settings: ManualStartSettings, facts: Facts, reader: LinkReader) -> Seeds:
    ends = log_ends(reader.cluster_reader(settings.target), copies_of(reader))
    return SeedFacts(found(facts, FIND_REVERSE).boundaries, ends), False


def _at_end(settings: ManualStartSettings, facts: Facts, reader: LinkReader) -> Seeds:
    recorded = facts.of(RecordEndOffsets())
    if recorded is None:
        raise Refused(f"no step {RecordEndOffsets.name} was done before")
    return recorded, False


def _at_start(settings: ManualStartSettings, facts: Facts, reader: LinkReader) -> Seeds:
    there = logs_of(reader.cluster_reader(settings.source), reader.topics())
    # Records may have arrived already: the target was empty, so use its log start offsets.
    here = logs_of(reader.cluster_reader(settings.target), copies_of(reader))
    start, ends = ({place: log.log_start for place, log in logs.items()} for logs in (there, here))
    return SeedFacts(start, ends, whole=True), False


_WHERE: Mapping[str, Callable[[ManualStartSettings, Facts, LinkReader], Seeds]] = {
    BOUNDARY: _at_boundary,
    REVERSE_BOUNDARY: _at_reverse_boundary,
    END: _at_end,
    START: _at_start,
}


def _start_in_words(intent: ManualStartIntent, begins: Offsets) -> str:
    """The start offsets, shortened, and the files that list all of them."""
    at = _places(begins)
    if not at:
        return "there are no partitions yet"
    message = f"{'the clusters diverge at' if intent.mirrors else 'start at'} {at}"
    if intent.started:
        message = (
            f"replication was already started at {at}: let it continue and do not reset its"
            " position"
        )
    message += (
        f"; all offsets: {_file(intent, 'csv')} (topic,partition,offset) in the run's folder,"
    )
    message += " and the journal"
    if intent.connect:
        message += f"; body for PATCH /connectors/NAME/offsets: {_file(intent, 'json')}"
    return message


def _places(begins: Offsets) -> str:
    at = [f"{place} offset {offset}" for place, offset in sorted(begins.items())]
    more = [f"and {len(at) - _SHOWN:,} more"] if len(at) > _SHOWN else []
    return ", ".join((*at[:_SHOWN], *more))


def _file(intent: ManualStartIntent, ending: str) -> str:
    return f"start-offsets-{intent.question}.{ending}"


def _connect_offsets(begins: Offsets) -> Mapping[str, Any]:
    """Connect offsets as Confluent Replicator stores them: the next offset of each partition."""
    entries = [
        {"partition": {"topic": topic, "partition": number}, "offset": {"offset": at}}
        for topic, number, at in rows(begins)
    ]
    return {"offsets": entries}


MANUAL_START_REPLICATION = ManualStart(
    "manual-start-replication", Trait.CHANGES | Trait.STARTS_REPLICATION
)
