"""The offsets that groups are to have on a cluster, and the state of that cluster now.

They come from a translation, a snapshot or a run that is undone; `applying` compares them with the
cluster.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from drctl.model.groups import Committed, Group, Positions
from drctl.model.ports import GroupReader, OffsetReader
from drctl.model.topology import Mark, OffsetRange, TopicPartition, Unavailable
from drctl.model.translation import Translation
from drctl.offsets.translating import NEVER


class Bounds(NamedTuple):
    """How far off an offset may be; None where that is unknown.

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
    """The evidence for an offset.

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
    """The offset that one group is to have in one partition.

    Attributes:
        partition: on the cluster that is written; where it has none, the source's, and `blocked`.
        to: None to have no committed offset any more.
        bounds: known from the group's records; None where there is only the committed offset to
            compare with.
        blocked: why it must not be applied; empty where it may be.
        rests_on: the evidence for it.
        undoes: the offset that a run wrote and this rolls back. The group must have that one, or
            already the one that it is rolled back to.
    """

    group: str
    partition: TopicPartition
    to: Committed | None
    bounds: Bounds | None = None
    blocked: str = ""
    undoes: "Written | None" = None
    rests_on: RestsOn = NOTHING


class Translated(NamedTuple):
    """The offsets that the groups of a link are to have.

    Attributes:
        unknown: full-match patterns of the link's groups that match no known group: the source
            does not answer, and there is no evidence of any.
    """

    wanted: tuple[Wanted, ...]
    unknown: tuple[str, ...] = ()


class Written(NamedTuple):
    """The offset that a run wrote; None where it removed it."""

    position: Committed | None


@dataclass(frozen=True, slots=True)
class TargetState:
    """The groups and partitions that are wanted, as the cluster reports them now.

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
    found: dict[TopicPartition, OffsetRange | Unavailable] = {}
    for place, start, end in zip(places, starts(), ends(), strict=True):
        if isinstance(start, Unavailable):
            found[place] = start
        elif isinstance(end, Unavailable):
            found[place] = end
        else:
            found[place] = OffsetRange(start.offset, end.offset)
    return found


def from_translations(rows: Iterable[Translation]) -> tuple[Wanted, ...]:
    """The offsets of a translation; rows without an answer are kept, as blocked ones.

    Where a group has never committed there is nothing to apply.
    """
    return tuple(_from_translation(row) for row in rows if row.blocked != NEVER)


def unmatched(patterns: Iterable[str], wanted: Iterable[Wanted]) -> tuple[str, ...]:
    """The full-match patterns that match none of the groups."""
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
