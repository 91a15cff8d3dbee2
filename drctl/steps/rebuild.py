"""Rebuilds a cluster that has lost records: an operator empties it, then everything is replicated.

drctl deletes no topic: it names them and checks that they are empty.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from drctl.engine.failback_state import drops_copies
from drctl.engine.kind import Description, Facts, Permanent, Polling, Readback, State, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import Refused
from drctl.model.text import plural
from drctl.model.topology import TopicPartition, TopicState
from drctl.steps.first_records import is_prefix_copied_by
from drctl.steps.manual import answered, one_line
from drctl.steps.records import FindMissing
from drctl.steps.set_start_offsets import SeedSettings
from drctl.steps.source_offsets import (
    ALIAS,
    SeedFacts,
    SeedIntent,
    alter,
    copies_of,
    kept_offsets,
    log_ends,
    logs_of,
    must_be_stopped,
)

_SHOWN = 3
_WHY = "deleted topics stay deleted; the surviving cluster has every record that was kept"


@dataclass(frozen=True, slots=True)
class EmptySettings:
    """Settings from the plan.

    Attributes:
        cluster: the recovered cluster, which is emptied.
        source: the surviving cluster, from which everything is replicated.
        connector: the connector that replicates to it; empty if the operator starts replication.
        question: the id of the question; empty if the plan found the topics already empty.
    """

    cluster: str
    source: str
    connector: str = ""
    question: str = ""
    text: str = ""
    undo: str = ""


class Held(NamedTuple):
    """A partition with records: its end offset, and the topic id."""

    topic: str
    partition: int
    end: int
    id: str


@dataclass(frozen=True, slots=True)
class EmptyIntent:
    """The partitions that must be emptied.

    Attributes:
        held: partitions with records.
        started: whether this failback has replicated every record that the topics hold.
    """

    cluster: str
    source: str
    topics: tuple[str, ...]
    question: str
    text: str
    held: tuple[Held, ...]
    started: bool


@dataclass(frozen=True, slots=True)
class EmptyFacts:
    """Whether this failback has replicated every record that the topics hold."""

    started: bool


class EmptyRecovered(Polling[EmptySettings, EmptyIntent, EmptyFacts]):
    """Asks the operator to empty topics with records, and verifies that they are empty."""

    name = "empty-recovered"
    traits = Trait.CHANGES | Trait.EMPTIES | Trait.OPPOSITE_DIRECTION | Trait.IRREVERSIBLE

    def describe(self, settings: EmptySettings) -> Description:
        """Describe the step for plans and reports."""
        cluster = settings.cluster
        title = f"verify that the link's topics on {cluster} are empty"
        if settings.question:
            title = one_line(settings.text)
        proof = f"no record that {cluster} held is left, and no extra partition"
        return Description(title, proof, f"none: {_WHY}")

    def check(self, settings: EmptySettings, facts: Facts, reader: LinkReader) -> EmptyIntent:
        """Find partitions with records.

        Raises:
            Refused: some partitions must be emptied, which the plan did not expect.
            Unreachable: a cluster did not respond.
        """
        cluster = settings.cluster
        topics = sorted({*copies_of(reader), *reader.reversed().topics()})
        logs = logs_of(reader.cluster_reader(cluster), topics)
        held = {place: log.end for place, log in logs.items() if log.log_start < log.end}
        text, question = one_line(settings.text), settings.question
        found = EmptyIntent(
            cluster, settings.source, tuple(topics), question, text, (), started=False
        )
        if held and _has_started(settings, facts, reader):
            return replace(found, started=True)
        ids = _ids(reader, cluster, {place.topic for place in held})
        found = replace(
            found, held=tuple(Held(*p, end, ids[p.topic]) for p, end in sorted(held.items()))
        )
        if not question and (left := tuple(_left(found, reader))):
            raise Refused(
                "topics have to be emptied, which was not needed when the plan was made:"
                f" {'; '.join(left[:_SHOWN])}",
                "make a new plan: run the same command again",
            )
        return found

    def verify(self, intent: EmptyIntent, reader: LinkReader) -> Readback[EmptyFacts]:
        """Verify that the records are gone; the operator's word is not enough."""
        left, facts = tuple(_left(intent, reader)), EmptyFacts(intent.started)
        if not left and intent.started:
            message = f"{intent.cluster} holds only what this failback has replicated"
            return Readback(State.DONE, message, facts)
        if not left:
            held = f"{plural(len(intent.held), 'partition was', 'partitions were')} emptied"
            message = held if intent.held else "there was nothing to empty"
            return Readback(State.DONE, f"{intent.cluster}: {message}", facts)
        answer = answered(intent.question, intent.text, reader)
        if answer.state is not State.DONE:
            return Readback(answer.state, answer.message)
        return Readback(State.WAITING, f"not empty yet: {'; '.join(left[:_SHOWN])}", items=left)

    def verify_undo(self, intent: EmptyIntent, reader: LinkReader) -> Readback[EmptyFacts]:
        """Report that the effect stays."""
        return Readback(State.DONE, _WHY, leaves_changes=bool(intent.held))


def _has_started(settings: EmptySettings, facts: Facts, reader: LinkReader) -> bool:
    """Whether only this failback has written records to the recovered cluster."""
    connector, search = settings.connector, facts.of(FindMissing())
    if not connector or (search and (search.unreplicated or search.aside)):
        return False
    return is_prefix_copied_by(connector, settings.source, settings.cluster, reader)


def _left(intent: EmptyIntent, reader: LinkReader) -> Iterator[str]:
    """Partitions that still hold old records, and topics with a wrong number of partitions."""
    cluster = intent.cluster
    logs = logs_of(reader.cluster_reader(cluster), intent.topics)
    ids = _ids(reader, cluster, {each.topic for each in intent.held})
    for topic, number, end, before in intent.held:
        log = logs.get(TopicPartition(topic, number))
        recreated = bool(before) and ids.get(topic, "") != before
        if log is None or recreated or log.log_start >= min(end, log.end):
            continue
        yield f"{topic}-{number} holds records from offset {log.log_start} on"
    yield from wrong_partition_counts(intent.source, cluster, reader)


def wrong_partition_counts(source: str, target: str, reader: LinkReader) -> Iterator[str]:
    """Topics whose number of partitions prevents an identical copy."""
    there, here = (
        reader.cluster_reader(source).overview().partitions,
        reader.cluster_reader(target).overview().partitions,
    )
    for topic in reader.topics():
        copy, wanted = reader.target_topic(topic), len(there.get(topic, ()))
        number = len(here.get(copy, ()))
        if number > wanted:
            yield (
                f"{copy} has {plural(number, 'partition')}, and replication needs {wanted}:"
                " delete the topic"
            )
        elif copy != topic and number < wanted:
            # MirrorMaker 2 recreates only topics whose names follow its replication policy.
            yield (
                f"{copy} has {plural(number, 'partition')}; replication does not recreate this"
                f" topic: create it with {plural(wanted, 'partition')}"
            )


def _ids(reader: LinkReader, cluster: str, topics: set[str]) -> Mapping[str, str]:
    """The topic ids; empty if Kafka reports none."""
    found = reader.cluster_reader(cluster).topics(sorted(topics)) if topics else {}
    return {
        topic: state.topic_id if isinstance(state, TopicState) else ""
        for topic, state in found.items()
    }


_STAYS = (
    "the connector's old offsets refer to deleted records; without offsets it replicates everything"
)


class SetStartOffsetsEarliest(Permanent[SeedSettings, SeedIntent, SeedFacts]):
    """Deletes the connector's source offsets through Connect, and verifies that they are gone."""

    name = "set-start-offsets-earliest"
    traits = Trait.CHANGES | Trait.IRREVERSIBLE

    def describe(self, settings: SeedSettings) -> Description:
        """Describe the step for plans and reports."""
        return Description(
            f"set connector {settings.connector} to start at the first record that"
            f" {settings.source} has in each partition",
            "it is STOPPED and Connect stores no offsets for it",
            f"none: {_STAYS}",
        )

    def check(self, settings: SeedSettings, facts: Facts, reader: LinkReader) -> SeedIntent:
        """Read the connector's source offsets, and the offsets of both clusters' logs.

        Raises:
            Refused: the connector is not stopped, or excludes records that drctl copied.
            UsageError: the connector does not exist.
            Unreachable: a cluster, or Connect, did not respond.
        """
        name, target, connectors = settings.connector, settings.target, reader.connectors()
        copies, source = copies_of(reader), reader.cluster_reader(settings.source)
        start = {place: log.log_start for place, log in logs_of(source, reader.topics()).items()}
        target_logs, empty = (
            logs_of(reader.cluster_reader(target), copies),
            facts.of(EmptyRecovered()),
        )
        if empty and empty.started:
            # Replication has started there already: it resumes.
            ends = {place: log.log_start for place, log in target_logs.items()}
            return SeedIntent(
                connector=name, target=target, wanted={}, before={}, begins=start, ends=ends
            )
        must_be_stopped(name, connectors)
        config = connectors.config(name)
        if drops_copies(config):
            raise Refused(
                f"connector {name} excludes records that drctl copied: they would not be replicated"
                " to a cluster that was emptied",
                "remove the filter from its `transforms` until it has replicated everything",
            )
        kept = kept_offsets(name, connectors.offsets(name))
        return SeedIntent(
            connector=name,
            target=target,
            alias=config.get(ALIAS, "source"),
            wanted=dict.fromkeys(sorted(start)),
            before={place: kept.get(place) for place in sorted(start)},
            begins=start,
            ends={place: log.end for place, log in target_logs.items()},
        )

    def apply(self, intent: SeedIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Delete the source offsets."""
        return alter(intent, intent.wanted, writer)

    def verify(self, intent: SeedIntent, reader: LinkReader) -> Readback[SeedFacts]:
        """Verify that Connect stores no offsets, or only those of records copied since."""
        name, facts = intent.connector, SeedFacts(intent.begins, intent.ends, whole=True)
        if not intent.wanted:
            message = f"nothing to set: {name} resumes where it stopped"
            return Readback(State.DONE, message, facts)
        kept = kept_offsets(name, reader.connectors().offsets(name))
        held = {place: at for place, at in kept.items() if place in intent.begins}
        others = tuple(_not_deleted(held, intent, reader)) if held else ()
        if others:
            message = (
                f"{plural(len(others), 'offset is', 'offsets are')} still stored:"
                f" {'; '.join(others[:_SHOWN])}"
            )
            return Readback(State.WAITING, message, items=others)
        return Readback(State.DONE, f"{name} starts at the earliest offset", facts)

    def verify_undo(self, intent: SeedIntent, reader: LinkReader) -> Readback[SeedFacts]:
        """Report that the effect stays."""
        return Readback(State.DONE, _STAYS, leaves_changes=True)


def _not_deleted(
    kept: dict[TopicPartition, int], intent: SeedIntent, reader: LinkReader
) -> Iterator[str]:
    """Stored offsets of partitions without new copies: these offsets are still the old ones."""
    now = log_ends(reader.cluster_reader(intent.target), copies_of(reader))
    for place, at in sorted(kept.items()):
        copy = TopicPartition(reader.target_topic(place.topic), place.partition)
        if now.get(copy, 0) <= intent.ends.get(copy, 0):
            yield f"{place}: offset {at} of connector {intent.connector}"
