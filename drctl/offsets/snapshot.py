"""All positions of a cluster at one moment, as a value and as the document that holds it."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Annotated, Any

from drctl.model.document import Count, Document, From, Moment, Name, Seconds
from drctl.model.errors import ExitCode, UsageError
from drctl.model.groups import Group, GroupProtocol, GroupState, Positions
from drctl.model.ports import GroupReader
from drctl.model.topology import TopicPartition, Unavailable
from drctl.offsets.applying import Wanted


@dataclass(frozen=True, slots=True)
class Filters:
    """Full-match patterns; none of a kind lets all pass."""

    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what is no pattern.

        Raises:
            UsageError: one of them is no regular expression.
        """
        for option, patterns in (("--group-regex", self.groups), ("--topic-regex", self.topics)):
            for pattern in patterns:
                try:
                    re.compile(pattern)
                except re.error as error:
                    raise UsageError(
                        f"{option} {pattern!r} is no regular expression: {error}",
                        "it has to match the whole name; escape what is meant literally with \\",
                    ) from None

    def wants_group(self, name: str) -> bool:
        """Whether the group is to be kept."""
        return _passes(self.groups, name)

    def wants_topic(self, name: str) -> bool:
        """Whether positions in the topic are to be kept."""
        return _passes(self.topics, name)


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """One group with its positions."""

    group: Group
    positions: Positions


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All positions of a cluster that were asked for.

    Attributes:
        unavailable: groups that could not be read, with the reason.
    """

    cluster: str
    cluster_id: str
    taken: datetime
    filters: Filters
    groups: tuple[GroupSnapshot, ...]
    unavailable: Mapping[str, str]

    @property
    def exit_code(self) -> ExitCode:
        """Not 0 where a group could not be read."""
        return ExitCode.UNKNOWN if self.unavailable else ExitCode.DONE

    @property
    def positions(self) -> int:
        """How many there are."""
        return sum(len(each.positions) for each in self.groups)

    @property
    def without_positions(self) -> tuple[str, ...]:
        """Share groups: where they stand is no committed offset, and is not here."""
        return tuple(
            each.group.name for each in self.groups if each.group.protocol is GroupProtocol.SHARE
        )


def take(
    reader: GroupReader, *, cluster: str, cluster_id: str, taken: datetime, filters: Filters
) -> Snapshot:
    """Read all positions that pass the filters; changes nothing.

    Raises:
        Unreachable: the cluster did not answer.
    """
    names = sorted(filter(filters.wants_group, reader.groups()))
    described, committed = reader.described(names), reader.committed(names)
    wants_topic = cache(filters.wants_topic)  # once a topic, not once for each group that reads it
    groups, unavailable = [], {}
    for name in names:
        group, positions = described[name], committed[name]
        if isinstance(group, Unavailable):
            unavailable[name] = group.reason
        elif isinstance(positions, Unavailable):
            unavailable[name] = positions.reason
        else:
            kept = {p: positions[p] for p in sorted(positions) if wants_topic(p.topic)}
            groups.append(GroupSnapshot(group, kept))
    return Snapshot(cluster, cluster_id, taken, filters, tuple(groups), unavailable)


def restored(snapshot: Snapshot) -> tuple[Wanted, ...]:
    """The positions of a snapshot, wanted again."""
    return tuple(
        Wanted(each.group.name, partition, position)
        for each in snapshot.groups
        for partition, position in each.positions.items()
    )


def renamed(
    wanted: Iterable[Wanted],
    carries_group: Callable[[str], bool],
    carries: Callable[[str], bool],
    target_topic: Callable[[str], str],
) -> tuple[Wanted, ...]:
    """Positions of a source as those of a target that keeps its offsets.

    The leader epoch is the source's own and stays behind.
    """
    name = cache(lambda topic: target_topic(topic) if carries(topic) else None)
    return tuple(
        replace(
            row,
            partition=TopicPartition(there, row.partition.partition),
            to=row.to._replace(leader_epoch=-1),
        )
        for row in wanted
        if row.to is not None
        and carries_group(row.group)
        and (there := name(row.partition.topic)) is not None
    )


def of_groups(wanted: Sequence[Wanted], patterns: Sequence[str]) -> tuple[Wanted, ...]:
    """Only the rows of groups whose whole name matches; all where there is no pattern.

    Raises:
        UsageError: a pattern matches none of them, or is no regular expression.
    """
    names = {row.group for row in wanted}
    chosen: set[str] = set() if patterns else names
    for pattern in patterns:
        found = set(filter(Filters((pattern,)).wants_group, names))
        if not found:
            raise UsageError(f"no group matches {pattern!r}", "name groups in full")
        chosen |= found
    return tuple(row for row in wanted if row.group in chosen)


class ClusterDocument(Document):
    """A cluster.

    Attributes:
        name: as drctl.yaml calls it.
        id: the cluster's own.
    """

    name: Name
    id: Name


class TotalsDocument(Document):
    """Sums.

    Attributes:
        protocols: groups of each.
    """

    read = From(Snapshot)
    groups: Count = read(lambda s: len(s.groups))
    positions: Count
    unavailable: Count = read(lambda s: len(s.unavailable))
    protocols: Annotated[Mapping[str, Count], ("propertyNames", {"enum": [*GroupProtocol]})] = read(
        lambda s: Counter(each.group.protocol.value for each in s.groups)
    )


class PositionDocument(Document):
    """A committed offset.

    Attributes:
        offset: of the next record that the group wants.
        leader_epoch: of the last one it read; -1: not known.
    """

    topic: Name
    partition: Count
    offset: Count
    leader_epoch: Annotated[int, ("minimum", -1)]
    metadata: str


class GroupDocument(Document):
    """A group and its committed offsets."""

    read = From(GroupSnapshot)
    group: Name = read(lambda g: g.group.name)
    protocol: GroupProtocol = read(lambda g: g.group.protocol)
    state: GroupState = read(lambda g: g.group.state)
    members: Count = read(lambda g: len(g.group.members))
    positions: tuple[PositionDocument, ...] = read(
        lambda g: tuple(
            PositionDocument(**partition._asdict(), **position._asdict())
            for partition, position in g.positions.items()
        )
    )


class GroupReason(Document):
    """A group, and why it could not be read."""

    group: Name
    reason: str


def reasons(groups: Mapping[str, str]) -> tuple[GroupReason, ...]:
    """By name; each with its reason."""
    return tuple(GroupReason(group=name, reason=why) for name, why in sorted(groups.items()))


class SnapshotDocument(Document):
    """Where the groups of a cluster stand.

    Attributes:
        out: the file.
        filters: full-match patterns; none of a kind: all.
        unavailable: groups that could not be read.
    """

    SCHEMA = "drctl/offsets-snapshot/1"
    read = From(Snapshot)
    cluster: ClusterDocument = read(lambda s: ClusterDocument(name=s.cluster, id=s.cluster_id))
    taken: Moment = read(lambda s: s.taken.isoformat())
    seconds: Seconds
    out: Name
    filters: Filters
    totals: TotalsDocument = read(TotalsDocument.of)
    groups: tuple[GroupDocument, ...]
    unavailable: tuple[GroupReason, ...] = read(lambda s: reasons(s.unavailable))


def snapshot_text(document: Mapping[str, Any]) -> str:
    """The document with a line for each position: people look things up in it, and compare."""

    def group_text(group: Mapping[str, Any]) -> str:
        head = {name: value for name, value in group.items() if name != "positions"}
        positions = ",\n".join(f"    {json.dumps(each)}" for each in group["positions"])
        inner = f"[\n{positions}\n  ]" if positions else "[]"
        return f'  {json.dumps(head)[:-1]}, "positions": {inner}}}'

    head = {name: value for name, value in document.items() if name != "groups"}
    groups = ",\n".join(map(group_text, document["groups"]))
    return f'{json.dumps(head, indent=1)[:-2]},\n "groups": [\n{groups}\n ]\n}}\n'


def _passes(patterns: Sequence[str], name: str) -> bool:
    return not patterns or any(re.fullmatch(pattern, name) for pattern in patterns)
