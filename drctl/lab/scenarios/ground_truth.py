"""What is true, from what was acknowledged and what plain consumers found; drctl is not asked.

No two flights are alike, so a record is known by its value on either cluster.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drctl.lab.cluster import Position
from drctl.lab.scenarios.clients import GroupReads
from drctl.model.errors import Stopped

Values = Mapping[Position, bytes]

_LEGEND = """
  before: on the primary; after: on the secondary; ahead: read on the primary, and never copied;
  skipped: on the secondary, and neither read there nor finished before"""


@dataclass(frozen=True, slots=True)
class GroupTruth:
    """What became of a group that moved.

    Attributes:
        before: records that it read on the primary; after: on the secondary.
        twice: records that it read on both.
        ahead: records that it read on the primary and that the secondary never got.
        skipped: records of the secondary that it neither read there nor had finished before.
    """

    group: str
    before: int
    after: int
    twice: int
    ahead: int
    skipped: int


def group_truth(
    group: str, primary: GroupReads, secondary: GroupReads, there: Iterable[bytes]
) -> GroupTruth:
    """Hold what a group read against all that the secondary has.

    What was read on the primary counts as finished only where the group's position behind it was
    acknowledged: an application that dies before its commit reads again.
    """
    before, after = set(primary.values.values()), set(secondary.values.values())
    all_there = set(there)
    return GroupTruth(
        group,
        len(before),
        len(after),
        len(before & after),
        len(before - all_there),
        len(all_there - primary.finished - after),
    )


def in_table(groups: Sequence[GroupTruth]) -> str:
    """A row for each group, and what the columns mean."""
    headings = ("group", "read before", "read after", "of these twice", "ahead", "skipped")
    rows = [
        (g.group, *map("{:,}".format, (g.before, g.after, g.twice, g.ahead, g.skipped)))
        for g in groups
    ]
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    return "\n".join((*(_row(cells, widths) for cells in (headings, *rows)), _LEGEND))


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = cells
    width, *rest = widths
    aligned = (f"{cell:>{each}}" for cell, each in zip(others, rest, strict=True))
    return "  ".join((f"  {first:<{width}}", *aligned))


def require_kept(
    cluster: str, held: Values, acknowledged: Mapping[Position, int], rows: Mapping[int, bytes]
) -> None:
    """See that a cluster holds every record where it acknowledged it.

    Args:
        acknowledged: number of the row by position.
        rows: the records by their numbers.

    Raises:
        Stopped: one is not there.
    """
    for position, number in acknowledged.items():
        if held.get(position) != rows[number]:
            raise Stopped(f"{cluster} lost row {number}, which it had acknowledged at {position}")


@dataclass(frozen=True, slots=True)
class GapTruth:
    """What drctl's answer is held against.

    Attributes:
        missing: positions on the primary of the records that the secondary never got.
        acknowledged: how many records the primary had acknowledged.
        promised: how many of the missing ones it had acknowledged.
    """

    missing: frozenset[Position]
    acknowledged: int
    promised: int


def gap_truth(
    primary: Values, there: Iterable[bytes], acknowledged: Mapping[Position, int]
) -> GapTruth:
    """Which records of the primary nobody finds on the secondary."""
    all_there = set(there)
    missing = frozenset(place for place, value in primary.items() if value not in all_there)
    return GapTruth(missing, len(acknowledged), len(missing & acknowledged.keys()))


@dataclass(frozen=True, slots=True)
class GapVerdict:
    """Whether an answer is the truth.

    Attributes:
        differing: too many, and not found, in words; empty where it is.
    """

    named: int
    differing: str


def judge_gap(truth: GapTruth, answer: Mapping[str, Any], exit_code: int) -> GapVerdict:
    """Hold drctl's answer against the truth, position by position."""
    named = frozenset(
        (partition["partition"], offset)
        for topic in answer["topics"]
        for partition in topic["partitions"]
        for first, last in partition["ranges"]
        for offset in range(first, last + 1)
    )
    true = (
        answer["complete"]
        and exit_code == 1
        and bool(truth.missing)
        and named == truth.missing
        and answer["totals"]["unreplicated"] == len(truth.missing)
    )
    too_many, not_found = len(named - truth.missing), len(truth.missing - named)
    differing = f"{too_many:,} too many, {not_found:,} not found, exit code {exit_code}"
    return GapVerdict(len(named), "" if true else differing)
