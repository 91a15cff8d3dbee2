"""What the source says of the positions of a link now, and of those that were known before."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from drctl.model.groups import Committed, Group, GroupState, Positions
from drctl.model.ports import ClusterReader, GroupReader
from drctl.model.topology import TopicState, Unavailable
from drctl.model.translation import GroupPartition
from drctl.offsets.situation import Carried


class Problem(NamedTuple):
    """Something that could not be looked at, and why.

    Attributes:
        topic: empty where all of the group is meant.
        partition: -1 then.
    """

    group: str
    topic: str
    partition: int
    reason: str


@dataclass(frozen=True, slots=True)
class Sight:
    """One look at a source.

    Attributes:
        groups: how many the link carries.
        positions: in topics that it carries.
        topics: those of the positions.
        gone: known positions of which the source says that they are no more.
        unseen: known positions of which it says nothing.
    """

    groups: int
    positions: Mapping[GroupPartition, Committed]
    topics: Mapping[str, TopicState]
    gone: frozenset[GroupPartition]
    unseen: frozenset[GroupPartition]
    problems: tuple[Problem, ...]


def look_around(
    link: Carried,
    cluster: ClusterReader,
    groups: GroupReader,
    known: Collection[GroupPartition],
) -> Sight:
    """Ask for everything once; reads no record.

    Raises:
        Unreachable: the source did not answer.
    """
    carries = cache(link.carries)
    names = [name for name in groups.groups() if link.carries_group(name)]
    committed = groups.committed(names)
    found = dict(_positions(committed, carries))
    missing = [place for place in known if place not in found]
    strange = {place.group for place in missing} - committed.keys()
    lost = groups.described(strange) if strange else {}
    wanted = {place.partition.topic for place in (*found, *missing)}
    states = cluster.topics(sorted(wanted)) if wanted else {}
    seen = {name: state for name, state in states.items() if isinstance(state, TopicState)}
    positions = {place: c for place, c in found.items() if place.partition.topic in seen}
    hidden = found.keys() - positions.keys()
    gone = {place for place in missing if _denied(place, committed, lost, states)}
    return Sight(
        groups=len(names),
        positions=positions,
        topics=seen,
        gone=frozenset(gone),
        unseen=frozenset({*missing, *hidden} - gone),
        problems=tuple(sorted({*_unread({**committed, **lost}), *_hidden(hidden, states)})),
    )


def _positions(
    committed: Mapping[str, Positions | Unavailable], carries: Callable[[str], bool]
) -> Iterator[tuple[GroupPartition, Committed]]:
    for group, positions in committed.items():
        if not isinstance(positions, Unavailable):
            for partition, position in positions.items():
                if carries(partition.topic):
                    yield GroupPartition(group, partition), position


def _denied(
    place: GroupPartition,
    committed: Mapping[str, Positions | Unavailable],
    lost: Mapping[str, Group | Unavailable],
    states: Mapping[str, TopicState | Unavailable | None],
) -> bool:
    """Whether the source says that there is no such position: silence says nothing."""
    if place.group in lost:
        group = lost[place.group]
        return isinstance(group, Group) and group.state is GroupState.DEAD
    if isinstance(committed[place.group], Unavailable):
        return False
    # Kafka leaves out positions in topics that this user may not see.
    return not isinstance(states[place.partition.topic], Unavailable)


def _unread(groups: Mapping[str, object]) -> Iterator[Problem]:
    for name, found in groups.items():
        if isinstance(found, Unavailable):
            yield Problem(name, "", -1, found.reason)


def _hidden(
    places: Iterable[GroupPartition], states: Mapping[str, TopicState | Unavailable | None]
) -> Iterator[Problem]:
    for group, partition in places:
        state = states[partition.topic]
        if isinstance(state, Unavailable):
            yield Problem(group, *partition, state.reason)
