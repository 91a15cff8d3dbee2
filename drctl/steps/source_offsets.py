"""Reads and sets the source offsets that Connect stores for a connector; reads log offsets."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import Field

from drctl.checks.connector_settings import REPLICATOR, SOURCE
from drctl.config.mirrors import NAMED, how_to_write, own_producer, simple_class
from drctl.engine.failback_state import JournaledOffsets, Offsets, OffsetsOrNone
from drctl.engine.kind import Facts
from drctl.engine.ports import ConnectorsReader, LinkReader, LinkWriter
from drctl.formats.connect_offsets import ConnectKey, copied_offset, copied_partition
from drctl.model.errors import Refused, Unreachable
from drctl.model.ports import ClusterReader
from drctl.model.text import put, stop_unassigned
from drctl.model.topology import PartitionOffsets, TopicPartition, Unavailable
from drctl.steps.stop_replication import (
    KEEP_REVERSE_STOPPED,
    KEEP_STOPPED,
    STOPPED,
    UNASSIGNED,
    Kept,
    StopFacts,
)

ALIAS = "source.cluster.alias"


def kept_offsets(
    name: str, entries: Iterable[Mapping[str, Any]], alias: str | None = None
) -> Offsets:
    """The last offset that the connector has copied, by partition, as stored by Connect.

    Args:
        alias: only offsets stored under this `source.cluster.alias`; None for any.
    """
    found = {}
    for each in entries:
        place = copied_partition(ConnectKey(name, dict(each.get("partition") or {})))
        at = copied_offset(dict(each.get("offset") or {}))
        if place is not None and at is not None and alias in (None, place.cluster):
            found[TopicPartition(place.topic, place.partition)] = at
    return found


@dataclass(frozen=True, slots=True)
class SeedFacts:
    """Where replication starts.

    Attributes:
        begins: the start offsets on the source.
        ends: the target's end offsets before anything was copied.
        whole: whether records that drctl copied are replicated too.
    """

    begins: Annotated[JournaledOffsets, Field(alias="from")]
    ends: JournaledOffsets
    whole: bool = False


@dataclass(frozen=True, kw_only=True)
class SeedIntent:
    """The source offsets to set.

    Attributes:
        alias: the connector's `source.cluster.alias`, part of the key of its offsets.
        wanted: the last offset to count as copied; None to start at the beginning.
        before: the previous source offsets.
        begins: where replication then starts on the source.
        ends: the end offsets of the target.
        target: the cluster that the connector writes to, if `verify` reads it.
    """

    connector: str
    alias: str = ""
    wanted: OffsetsOrNone
    before: OffsetsOrNone
    begins: Annotated[JournaledOffsets, Field(alias="from")]
    ends: JournaledOffsets
    target: str = ""


def alter(
    intent: SeedIntent, offsets: Mapping[TopicPartition, int | None], writer: LinkWriter
) -> tuple[str, ...]:
    """Set the source offsets of a stopped connector.

    Raises:
        Unknown: Connect did not respond; the offsets may be set.
    """
    entries = [
        {
            "partition": {"cluster": intent.alias, "topic": topic, "partition": number},
            "offset": None if at is None else {"offset": at},
        }
        for (topic, number), at in offsets.items()
    ]
    if entries:
        writer.connectors().alter_offsets(intent.connector, entries)
    return ()


def log_ends(cluster: ClusterReader, topics: Iterable[str]) -> Offsets:
    """The end offsets of the topics' partitions; leaves out topics that do not exist.

    Raises:
        Unreachable: an offset could not be read.
    """
    return {place: log.end for place, log in logs_of(cluster, topics).items()}


def logs_of(
    cluster: ClusterReader, topics: Iterable[str]
) -> Mapping[TopicPartition, PartitionOffsets]:
    """Start and end offsets; leaves out topics that do not exist.

    Raises:
        Unreachable: an offset could not be read.
    """
    there = cluster.overview().partitions
    places = [TopicPartition(name, n) for name in topics for n in there.get(name, ())]
    found = {}
    for place, log in cluster.offsets(places).items() if places else ():
        if isinstance(log, Unavailable):
            raise Unreachable(
                f"the end offset of {place} of {cluster.name} is unknown: {log.reason}"
            )
        found[place] = log
    return found


def copies_of(reader: LinkReader) -> tuple[str, ...]:
    """The names of the link's topics on the target."""
    return tuple(map(reader.target_topic, reader.topics()))


def running_connectors(
    facts: Facts, reader: LinkReader, stopped_by: str = KEEP_STOPPED
) -> tuple[str, ...]:
    """Connectors of one direction that run again, each with its state.

    Args:
        facts: the facts of the previous steps; the result is empty if none stopped connectors.
        stopped_by: the kind of the step that stopped the connectors.

    Raises:
        Unreachable: no worker responded.
    """
    boundary = _boundary(facts, stopped_by)
    if not boundary:
        return ()
    connectors = _stopped(reader, stopped_by).connectors()
    states = {name: connectors.state(name).state for name in boundary}
    return tuple(f"{name} is {state}" for name, state in states.items() if state != STOPPED)


def moved_partitions(
    facts: Facts,
    reader: LinkReader,
    expected: Offsets = MappingProxyType({}),
    stopped_by: str = KEEP_STOPPED,
) -> tuple[str, ...]:
    """Partitions in which replication has moved since it was stopped, described.

    Args:
        facts: as in `running_connectors`.
        expected: offsets that an earlier attempt may have set; these do not count as moved.
        stopped_by: as in `running_connectors`.

    Raises:
        Unreachable: no worker responded.
    """
    boundary = _boundary(facts, stopped_by)
    if not boundary:
        return ()
    connectors, moved = _stopped(reader, stopped_by).connectors(), []
    for name, before in boundary.items():
        old, new = kept_offsets(name, before), kept_offsets(name, connectors.offsets(name))
        for place in sorted(old.keys() | new.keys()):
            was, at = old.get(place), new.get(place)
            if at != was and (place not in expected or at != expected[place]):
                moved.append(f"{name} was at {_at(was)} of {place} and is now at {_at(at)}")
    return tuple(moved)


def _boundary(facts: Facts, stopped_by: str) -> Kept:
    """The source offsets of the connectors when they were stopped, by name."""
    found = facts.named(stopped_by, StopFacts)
    return found.boundary if found else {}


def _stopped(reader: LinkReader, stopped_by: str) -> LinkReader:
    """The reader of the direction that a step stopped."""
    return reader if stopped_by == KEEP_REVERSE_STOPPED else reader.reversed()


def _at(offset: int | None) -> str:
    return "the beginning" if offset is None else f"offset {offset}"


def must_be_stopped(name: str, connectors: ConnectorsReader) -> None:
    """Check that a connector is stopped, so that its offsets can be set.

    Raises:
        Refused: it is not stopped.
        UsageError: the connector does not exist.
        Unreachable: no worker responded.
    """
    state = connectors.state(name).state
    if state != STOPPED:
        command = stop_unassigned("", name) if state == UNASSIGNED else put("", name, "stop")
        raise Refused(
            f"connector {name} is {state}: its start offsets can be set only while it is stopped",
            f"stop it: {command}",
        )


def must_write_to(target: str, names: Iterable[str], reader: LinkReader) -> None:
    """Check that the connectors write to the target, not to the workers' own cluster.

    Raises:
        Refused: a connector would write to another cluster.
        UsageError: the connector does not exist.
        Unreachable: no worker answered, or the cluster did not answer.
    """
    connectors = reader.connectors()
    for name in names:
        config = connectors.config(name)
        if simple_class(config) not in (SOURCE, REPLICATOR) or own_producer(config):
            continue
        if connectors.kafka_cluster_id() != reader.cluster_reader(target).cluster_id():
            raise Refused(
                f"connector {name} would not write to {target}: Connect writes to the cluster of"
                f" its worker, which is another cluster, and the connector has no {NAMED}",
                how_to_write(name, config, target),
            )
