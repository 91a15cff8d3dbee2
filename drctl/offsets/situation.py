"""The groups of a link as both clusters report them now, read once for all methods."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from drctl.model.errors import Unreachable
from drctl.model.groups import Group, GroupProtocol
from drctl.model.ports import ClusterReader, GroupReader
from drctl.model.topology import TopicPartition, TopicState, Unavailable
from drctl.model.translation import GroupPartition
from drctl.offsets.consumed import Logs

NO_POSITIONS = "a share group keeps no position that could be translated"


class Carried(Protocol):
    """The part of a link that says what it carries."""

    def carries(self, topic: str) -> bool:
        """Whether a topic of the source is replicated."""

    def carries_group(self, group: str) -> bool:
        """Whether a group's positions are to be translated."""

    def target_topic(self, topic: str) -> str:
        """What a topic of the source is called on the target."""

    def source_topic(self, topic: str) -> str | None:
        """What a topic of the target is called on the source; None where its name is no copy's."""


@dataclass(frozen=True, slots=True)
class SourceGroups:
    """Groups as the source knows them.

    Attributes:
        positions: what they have committed in topics of the link.
        unseen: groups whose committed offsets could not be read, with the reason.
        untranslatable: groups without committed offsets to translate, with the reason.
        elsewhere: how many committed offsets are in topics that the link does not carry.
        others: how many groups the link does not carry.
        silent: why the source could not be asked at all; empty where it could.
    """

    positions: Mapping[GroupPartition, int]
    unseen: Mapping[str, str] = field(default_factory=dict)
    untranslatable: Mapping[str, str] = field(default_factory=dict)
    elsewhere: int = 0
    others: int = 0
    silent: str = ""


def look_at_source(
    link: Carried, groups: GroupReader, wanted: Callable[[str], bool]
) -> SourceGroups:
    """The groups of the link that are wanted; says so where the source does not answer."""
    try:
        everybody = groups.groups()
        names = [g for g in everybody if link.carries_group(g) and wanted(g)]
        described = groups.described(names)
        share = {
            name: NO_POSITIONS
            for name in names
            if isinstance(group := described[name], Group) and group.protocol is GroupProtocol.SHARE
        }
        committed = groups.committed([name for name in names if name not in share])
    except Unreachable as error:
        return SourceGroups({}, silent=error.message)
    unseen = {n: d.reason for n, d in described.items() if isinstance(d, Unavailable)}
    unseen |= {n: c.reason for n, c in committed.items() if isinstance(c, Unavailable)}
    positions = {
        GroupPartition(group, partition): position.offset
        for group, held in committed.items()
        if not isinstance(held, Unavailable)
        for partition, position in held.items()
    }
    carried = {place: p for place, p in positions.items() if link.carries(place.partition.topic)}
    elsewhere = len(positions) - len(carried)
    others = sum(not link.carries_group(group) for group in everybody)
    return SourceGroups(carried, unseen, share, elsewhere, others)


@dataclass(frozen=True, slots=True)
class Target:
    """Topics, logs and groups as the target reports them now.

    Attributes:
        topics: by name there.
        logs: of the partitions that groups would resume in.
    """

    topics: Mapping[str, TopicState | Unavailable | None]
    logs: Logs
    groups: Mapping[str, Group | Unavailable]

    @property
    def timed(self) -> Mapping[str, bool]:
        """Whether records keep their timestamps, by topic."""
        return {
            name: not state.log_append_time
            for name, state in self.topics.items()
            if isinstance(state, TopicState)
        }


def look_at_target(
    places: Collection[GroupPartition],
    rename: Callable[[str], str],
    cluster: ClusterReader,
    groups: GroupReader,
) -> Target:
    """The topics, logs and groups that these committed offsets are about.

    Raises:
        Unreachable: the target did not answer.
    """
    partitions = {p.partition for p in places}
    names = {p.topic: rename(p.topic) for p in partitions}
    topics = cluster.topics(sorted(set(names.values())))
    there = {
        place
        for partition in partitions
        if isinstance(state := topics[names[partition.topic]], TopicState)
        and (place := TopicPartition(state.name, partition.partition)).partition in state.partitions
    }
    logs = cluster.offsets(there)
    return Target(topics, logs, groups.described({p.group for p in places}))
