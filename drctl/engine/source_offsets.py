"""How far a connector of MirrorMaker 2 says that it got, how that is set, and where logs end."""

from collections.abc import Iterable, Mapping
from typing import Any

from drctl.engine.ports import Hands, Look
from drctl.engine.returning import Offsets
from drctl.model.errors import Unreachable
from drctl.model.plan import Json
from drctl.model.ports import ClusterReader
from drctl.model.topology import PartitionOffsets, TopicPartition, Unavailable
from drctl.wire.connect_offsets import ConnectKey, copied_offset, copied_partition

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


def lines_of(offsets: Mapping[TopicPartition, int | None]) -> list[list[Any]]:
    """As they stand in journals: `[topic, partition, offset]` each; no offset is none."""
    return [[place.topic, place.partition, at] for place, at in sorted(offsets.items())]


def by_place(lines: Iterable[Any]) -> Mapping[TopicPartition, int | None]:
    """From what `lines_of` made."""
    return {TopicPartition(topic, number): at for topic, number, at in lines}


def alter(intent: Json, which: str, hands: Hands) -> tuple[str, ...]:
    """Have a stopped connector keep these lines of the intent.

    Raises:
        Unknown: no answer came.
    """
    entries = [
        {
            "partition": {"cluster": intent["alias"], "topic": topic, "partition": number},
            "offset": None if at is None else {"offset": at},
        }
        for topic, number, at in intent[which]
    ]
    if entries:
        hands.connectors().alter_offsets(intent["connector"], entries)
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


def copies_of(look: Look) -> tuple[str, ...]:
    """What the link's topics are called on its target."""
    return tuple(map(look.target_topic, look.topics()))
