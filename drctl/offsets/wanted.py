"""Where groups are to stand on a cluster, and what that cluster says of them now.

What is wanted comes from a translation, a snapshot or a run that is undone; `applying` holds it
against the cluster.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from drctl.model.groups import Committed, Group, Positions
from drctl.model.ports import GroupReader, OffsetReader
from drctl.model.topology import Found, Mark, OffsetRange, TopicPartition, Unavailable
from drctl.model.translation import Translation
from drctl.offsets.translating import NEVER


class Bounds(NamedTuple):
    """How far off a position may be; None where nobody knows.

    Attributes:
        rereads_likely: while the source is silent, if the group consumed nothing since.
        skips_only_if: the condition under which more is skipped; empty where the source answers.
            With it, the end of the log is the bound of what is read again.
    """

    rereads_at_most: int | None
    skips_at_most: int | None
    rereads_likely: int | None = None
    skips_only_if: str = ""


class RestsOn(NamedTuple):
    """What a position was found by.

    Attributes:
        method: empty where no translation found it.
        age_seconds: None where that is not known.
    """

    method: str = ""
    evidence: str = ""
    age_seconds: float | None = None


NOTHING = RestsOn()


@dataclass(frozen=True, slots=True)
class Wanted:
    """One group is to stand here in one partition.

    Attributes:
        partition: on the cluster that is written; where it has none, the source's, and `blocked`.
        to: None to have no position any more.
        bounds: what is known from the records of the group; None where the only thing to compare
            with is where it stands.
        blocked: why it must not be applied; empty where it may be.
        rests_on: what it was found by.
        undoes: the position that a run wrote and this takes back. The group may stand there, or
            where it is put back to; nowhere else.
    """

    group: str
    partition: TopicPartition
    to: Committed | None
    bounds: Bounds | None = None
    blocked: str = ""
    undoes: "Written | None" = None
    rests_on: RestsOn = NOTHING


class Translated(NamedTuple):
    """Where the groups of a link are to stand.

    Attributes:
        unknown: full-match patterns of the link's groups by which not one is known: its source
            does not answer, and no evidence tells of any.
    """

    wanted: tuple[Wanted, ...]
    unknown: tuple[str, ...] = ()


class Written(NamedTuple):
    """What a run left behind; None where it removed the position."""

    position: Committed | None


@dataclass(frozen=True, slots=True)
class TargetState:
    """What a cluster says now of the groups and partitions that are wanted.

    Attributes:
        logs: log start and end of each partition.
    """

    groups: Mapping[str, Group | Unavailable]
    committed: Mapping[str, Positions | Unavailable]
    logs: Mapping[TopicPartition, OffsetRange | Unavailable]


def look(groups: GroupReader, offsets: OffsetReader, wanted: Iterable[Wanted]) -> TargetState:
    """Ask the cluster; nothing is asked of rows that are blocked without a position.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    asked = [row for row in wanted if row.to is not None or not row.blocked]
    names = tuple(dict.fromkeys(row.group for row in asked))
    logs = log_ranges(offsets, {row.partition for row in asked})
    return TargetState(groups.described(names), groups.committed(names), logs)


def log_ranges(
    offsets: OffsetReader, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, OffsetRange | Unavailable]:
    """Log start and end of each partition.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    places = sorted(partitions)
    if not places:
        return {}
    # Two calls in flight: a partition may stand in a request once.
    starts = offsets.look_up([(place, int(Mark.START)) for place in places])
    ends = offsets.look_up([(place, int(Mark.END)) for place in places])
    return {
        place: _range(start, end)
        for place, start, end in zip(places, starts(), ends(), strict=True)
    }


def _range(start: Found | Unavailable, end: Found | Unavailable) -> OffsetRange | Unavailable:
    if isinstance(start, Unavailable):
        return start
    return end if isinstance(end, Unavailable) else OffsetRange(start.offset, end.offset)


def from_translations(rows: Iterable[Translation]) -> tuple[Wanted, ...]:
    """What a translation wants; rows without an answer are kept, as blocked ones.

    Where a group has never committed there is nothing to apply.
    """
    return tuple(_from_translation(row) for row in rows if row.blocked != NEVER)


def unmatched(patterns: Iterable[str], wanted: Iterable[Wanted]) -> tuple[str, ...]:
    """The full-match patterns by which not one of the groups is called."""
    known = {row.group for row in wanted}
    return tuple(p for p in patterns if not any(re.fullmatch(p, name) for name in known))


def _from_translation(row: Translation) -> Wanted:
    group, source = row.place
    if row.answer is None or row.target is None:
        reason = row.blocked or "no method has evidence"
        return Wanted(group, row.target or source, None, blocked=reason)
    found = row.answer
    bounds = Bounds(
        found.rereads_at_most, found.skips_at_most, found.rereads_likely, found.skips_only_if
    )
    rests_on = RestsOn(found.method.value, found.evidence, found.age_seconds)
    to = Committed(found.target_offset)
    return Wanted(group, row.target, to, bounds, row.blocked, rests_on=rests_on)
