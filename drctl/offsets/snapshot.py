"""A snapshot of all committed offsets of a cluster, and its JSON document."""

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
    """Patterns that match whole names; an empty list matches everything."""

    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Validate the patterns.

        Raises:
            UsageError: a pattern is not a valid regular expression.
        """
        for option, patterns in (("--group-regex", self.groups), ("--topic-regex", self.topics)):
            for pattern in patterns:
                try:
                    re.compile(pattern)
                except re.error as error:
                    raise UsageError(
                        f"{option} {pattern!r}: invalid regular expression: {error}",
                        "a pattern matches the whole name; escape literal characters with \\",
                    ) from None

    def wants_group(self, name: str) -> bool:
        """Return whether the group matches."""
        return _passes(self.groups, name)

    def wants_topic(self, name: str) -> bool:
        """Return whether the topic matches."""
        return _passes(self.topics, name)


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A group with its committed offsets."""

    group: Group
    committed_offsets: Positions


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The committed offsets of a cluster.

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
        """Exit code; not 0 if a group could not be read."""
        return ExitCode.UNKNOWN if self.unavailable else ExitCode.DONE

    @property
    def committed_offsets(self) -> int:
        """Number of committed offsets."""
        return sum(len(each.committed_offsets) for each in self.groups)

    @property
    def without_offsets(self) -> tuple[str, ...]:
        """Share groups, which have no committed offsets."""
        return tuple(
            each.group.name for each in self.groups if each.group.protocol is GroupProtocol.SHARE
        )


def take(
    reader: GroupReader, *, cluster: str, cluster_id: str, taken: datetime, filters: Filters
) -> Snapshot:
    """Read all committed offsets that match the filters.

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
    """Convert a snapshot to wanted offsets."""
    return tuple(
        Wanted(each.group.name, partition, committed)
        for each in snapshot.groups
        for partition, committed in each.committed_offsets.items()
    )


def renamed(
    wanted: Iterable[Wanted],
    carries_group: Callable[[str], bool],
    carries: Callable[[str], bool],
    target_topic: Callable[[str], str],
) -> tuple[Wanted, ...]:
    """Convert offsets of a source to offsets of an offset-preserving mirror.

    The leader epoch of the source is dropped.
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
    """Filter rows by group patterns; no pattern keeps all.

    Raises:
        UsageError: a pattern matches no group, or is not a valid regular expression.
    """
    names = {row.group for row in wanted}
    chosen: set[str] = set() if patterns else names
    for pattern in patterns:
        found = set(filter(Filters((pattern,)).wants_group, names))
        if not found:
            raise UsageError(
                f"no group matches {pattern!r}", "a pattern must match the whole group name"
            )
        chosen |= found
    return tuple(row for row in wanted if row.group in chosen)


class ClusterDocument(Document):
    """A cluster.

    Attributes:
        name: name in drctl.yaml.
        id: Kafka cluster id.
    """

    name: Name
    id: Name


class TotalsDocument(Document):
    """Totals.

    Attributes:
        protocols: number of groups per protocol.
    """

    read = From(Snapshot)
    groups: Count = read(lambda s: len(s.groups))
    committed_offsets: Count
    unavailable: Count = read(lambda s: len(s.unavailable))
    protocols: Annotated[Mapping[str, Count], ("propertyNames", {"enum": [*GroupProtocol]})] = read(
        lambda s: Counter(each.group.protocol.value for each in s.groups)
    )


class CommittedOffsetDocument(Document):
    """A committed offset.

    Attributes:
        offset: offset of the next record to consume.
        leader_epoch: leader epoch of the last consumed record; -1 if unknown.
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
    committed_offsets: tuple[CommittedOffsetDocument, ...] = read(
        lambda g: tuple(
            CommittedOffsetDocument(**partition._asdict(), **committed._asdict())
            for partition, committed in g.committed_offsets.items()
        )
    )


class GroupReason(Document):
    """A group, and why it could not be read."""

    group: Name
    reason: str


def reasons(groups: Mapping[str, str]) -> tuple[GroupReason, ...]:
    """List groups by name, each with its reason."""
    return tuple(GroupReason(group=name, reason=why) for name, why in sorted(groups.items()))


class SnapshotDocument(Document):
    """The committed offsets of a cluster.

    Attributes:
        out: the file.
        filters: patterns that match whole names; an empty list matches everything.
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
    """Format the document with one line per committed offset, for reading and diffing."""

    def group_text(group: Mapping[str, Any]) -> str:
        head = {name: value for name, value in group.items() if name != "committed_offsets"}
        offsets = ",\n".join(f"    {json.dumps(each)}" for each in group["committed_offsets"])
        inner = f"[\n{offsets}\n  ]" if offsets else "[]"
        return f'  {json.dumps(head)[:-1]}, "committed_offsets": {inner}}}'

    head = {name: value for name, value in document.items() if name != "groups"}
    groups = ",\n".join(map(group_text, document["groups"]))
    return f'{json.dumps(head, indent=1)[:-2]},\n "groups": [\n{groups}\n ]\n}}\n'


def _passes(patterns: Sequence[str], name: str) -> bool:
    return not patterns or any(re.fullmatch(pattern, name) for pattern in patterns)
