"""Source offsets that Connect keeps for a connector, how they are set, and where logs end."""

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
from drctl.model.text import put
from drctl.model.topology import PartitionOffsets, TopicPartition, Unavailable
from drctl.steps.stop_replication import KEEP_STOPPED, STOPPED, Kept, StopFacts

ALIAS = "source.cluster.alias"


def kept_offsets(
    name: str, entries: Iterable[Mapping[str, Any]], alias: str | None = None
) -> Offsets:
    """The last offset that the connector says it copied, by partition.

    Args:
        alias: of its source, by which it finds them again; None for whatever there is.
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
    """Where copying begins.

    Attributes:
        begins: on the source, by its names.
        ends: of the target's logs before anything came, by its names.
        whole: whether drctl's own copies travel, too.
    """

    begins: Annotated[JournaledOffsets, Field(alias="from")]
    ends: JournaledOffsets
    whole: bool = False


@dataclass(frozen=True, kw_only=True)
class SeedIntent:
    """Which offsets a connector is to keep.

    Attributes:
        alias: of its source, by which it finds them again.
        wanted: the last offset it copied, by its own account; None to begin at the beginning.
        before: what it kept.
        begins: where copying begins then, on the source.
        ends: of the target's logs.
        target: the cluster that it writes to, where that is asked again.
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
    """Have a stopped connector keep these offsets.

    Raises:
        Unknown: no answer came.
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


def log_ends(site: ClusterReader, topics: Iterable[str]) -> Offsets:
    """Where the topics' partitions end; without those of topics that are not there.

    Raises:
        Unreachable: one of them does not tell.
    """
    return {place: log.end for place, log in logs_of(site, topics).items()}


def logs_of(
    site: ClusterReader, topics: Iterable[str]
) -> Mapping[TopicPartition, PartitionOffsets]:
    """Where they begin and end; without those of topics that are not there.

    Raises:
        Unreachable: one of them does not tell.
    """
    there = site.overview().partitions
    places = [TopicPartition(name, n) for name in topics for n in there.get(name, ())]
    found = {}
    for place, log in site.offsets(places).items() if places else ():
        if isinstance(log, Unavailable):
            raise Unreachable(f"where {place} of {site.name} ends is not known: {log.reason}")
        found[place] = log
    return found


def copies_of(reader: LinkReader) -> tuple[str, ...]:
    """What the link's topics are called on its target."""
    return tuple(map(reader.target_topic, reader.topics()))


def going_on(facts: Facts, reader: LinkReader) -> tuple[str, ...]:
    """Connectors of the old replication that are not stopped any more, each in words.

    Args:
        facts: of the steps before; where none has stopped connectors, there is nothing to look at.

    Raises:
        Unreachable: no worker responded.
    """
    boundary = _boundary(facts)
    if not boundary:
        return ()
    connectors = reader.reversed().connectors()
    states = {name: connectors.state(name).state for name in boundary}
    return tuple(f"{name} is {state}" for name, state in states.items() if state != STOPPED)


def gone_on(
    facts: Facts, reader: LinkReader, expected: Offsets = MappingProxyType({})
) -> tuple[str, ...]:
    """Partitions in which the old replication is not where it was stopped, each in words.

    Args:
        facts: as above.
        expected: where an earlier attempt may have told it to begin; that is no move.

    Raises:
        Unreachable: no worker responded.
    """
    boundary = _boundary(facts)
    if not boundary:
        return ()
    connectors, moved = reader.reversed().connectors(), []
    for name, before in boundary.items():
        stood, stands = kept_offsets(name, before), kept_offsets(name, connectors.offsets(name))
        for place in sorted(stood.keys() | stands.keys()):
            was, at = stood.get(place), stands.get(place)
            if at != was and (place not in expected or at != expected[place]):
                moved.append(f"{name} was at {_at(was)} of {place} and is now at {_at(at)}")
    return tuple(moved)


def _boundary(facts: Facts) -> Kept:
    """What the connectors kept when they were stopped, by name."""
    found = facts.named(KEEP_STOPPED, StopFacts)
    return found.boundary if found else {}


def _at(offset: int | None) -> str:
    return "the beginning" if offset is None else f"offset {offset}"


def must_be_stopped(name: str, connectors: ConnectorsReader) -> None:
    """See that a connector takes offsets.

    Raises:
        Refused: it is not stopped.
        UsageError: there is no such connector.
        Unreachable: no worker responded.
    """
    state = connectors.state(name).state
    if state != STOPPED:
        raise Refused(
            f"connector {name} is {state}: where it begins can be set only while it is stopped",
            f"stop it: {put('', name, 'stop')}",
        )


def must_write_to(target: str, names: Iterable[str], reader: LinkReader) -> None:
    """See that none of them is left to a worker of another cluster.

    Raises:
        Refused: one is.
        UsageError: there is no such connector.
        Unreachable: no worker answered, or not the cluster.
    """
    connectors = reader.connectors()
    for name in names:
        config = connectors.config(name)
        if simple_class(config) not in (SOURCE, REPLICATOR) or own_producer(config):
            continue
        if connectors.kafka_cluster_id() != reader.cluster_reader(target).cluster_id():
            raise Refused(
                f"connector {name} would not write to {target}: Connect writes to the cluster of"
                f" its worker, which is another one, and the connector has no {NAMED}",
                how_to_write(name, config, target),
            )
