"""How what copies back is started, so that it brings what is new, and nothing twice."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from drctl.checks.connectors import REPLICATOR, simple_class
from drctl.checks.wording import several
from drctl.engine.source_offsets import ALIAS
from drctl.failback.facts import Began, Replicator
from drctl.failback.situation import Situation
from drctl.failback.steps.reverse_replication import held_before
from drctl.failback.written_to import written_elsewhere
from drctl.model.topology import TopicPartition, Unavailable

_FROM_START = "nothing"


@dataclass(frozen=True, slots=True)
class Start:
    """What has to happen before it is started.

    Attributes:
        body: what Connect is to keep of it, as `PATCH /connectors/NAME/offsets` takes it; empty
            where nothing has to be set.
        unsure: why nobody may start it yet; empty where it may be.
        twice: whether it has brought everything a second time.
    """

    body: str = ""
    unsure: str = ""
    twice: bool = False


def start_of(seen: Situation) -> Start:
    """By where it stands and writes, where new records begin, and what has come already."""
    facts = seen.facts
    if elsewhere := written_elsewhere(facts):
        return Start(unsure=several(f"{each.reason}: {each.cure}" for each in elsewhere))
    if seen.rebuilding:
        return Start()
    if Began.START in seen.arrived.values():
        return Start(twice=True)
    if seen.home is True:
        return Start(unsure=f"clients are home on {facts.source}: compare both directions first")
    if isinstance(facts.reverse, Unavailable):
        return Start(unsure=facts.reverse.reason)
    if not facts.reverse.copying:
        return Start(unsure="the workers have no connector that copies back: create it STOPPED")
    if isinstance(facts.boundaries, Unavailable):
        return Start(unsure=f"where it has to begin is not known: {facts.boundaries.reason}")
    copier = facts.reverse.copying[0]
    if isinstance(copier.positions, Unavailable):
        return Start(unsure=f"where it stands is not known: {copier.positions.reason}")
    behind = several(_behind_what_came(seen, copier.positions))
    if behind:
        return Start(unsure=f"{behind}: what has come since would be copied again")
    return Start(_body(copier, dict(_to_be_set(seen, copier.positions))))


def _behind_what_came(seen: Situation, positions: Mapping[TopicPartition, int]) -> Iterator[str]:
    """Partitions that have begun to come, and that it would begin again."""
    for place, boundary, came in _begun(seen):
        if came is not Began.BOUNDARY and came is not None:
            yield f"what came first of {place} is not the first new record"
        elif came and positions.get(place, 0) < boundary:
            stands = positions.get(place, _FROM_START)
            yield f"of {place} it keeps {stands}, and what comes from {boundary} on is there"


def _to_be_set(
    seen: Situation, positions: Mapping[TopicPartition, int]
) -> Iterator[tuple[TopicPartition, int]]:
    """Where it has to begin, of partitions of which nothing has come."""
    for place, boundary, came in _begun(seen):
        stands = positions.get(place, 0)
        if came is None and stands != boundary and held_before(place, boundary, seen):
            yield place, boundary


def _begun(
    seen: Situation,
) -> Iterator[tuple[TopicPartition, int, Began | Unavailable | None]]:
    """By partition of the target: where what is new begins, and what has come; None: nothing."""
    partitions = seen.first.partitions if seen.first is not None else ()
    for each in partitions:
        boundary = seen.boundaries.get(each.copy)
        if boundary is not None:
            yield each.copy, boundary, seen.arrived.get(each.place)


def _body(copier: Replicator, wanted: Mapping[TopicPartition, int]) -> str:
    """A partition a line; MirrorMaker 2 keeps the last offset that it copied, not the next."""
    if not wanted:
        return ""
    config = copier.connector.config
    mirror = simple_class(config) != REPLICATOR
    named = {"cluster": config.get(ALIAS, "source")} if mirror else {}
    lines = [
        json.dumps(
            {
                "partition": {**named, "topic": place.topic, "partition": place.partition},
                "offset": {"offset": at - 1 if mirror else at},
            }
        )
        for place, at in sorted(wanted.items())
    ]
    return '{"offsets": [\n' + ",\n".join(lines) + "\n]}"
