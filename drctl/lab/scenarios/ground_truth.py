"""Ground truth: acknowledged records and what plain consumers read. drctl is not involved.

No two flights are alike, so the value identifies a record on both clusters.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drctl.lab.cluster import Position
from drctl.lab.scenarios.clients import GroupReads
from drctl.model.errors import Stopped

Values = Mapping[Position, bytes]

_LEGEND = """
  consumed before: on the primary; consumed after: on the secondary; not replicated: consumed on the
  primary and missing on the secondary; skipped: on the secondary, never consumed"""


@dataclass(frozen=True, slots=True)
class GroupTruth:
    """What a group consumed before and after the failover.

    Attributes:
        before: records consumed on the primary.
        after: records consumed on the secondary.
        duplicated: records consumed on both.
        unreplicated_reads: records consumed on the primary that never reached the secondary.
        skipped: records of the secondary that it did not consume on either cluster.
    """

    group: str
    before: int
    after: int
    duplicated: int
    unreplicated_reads: int
    skipped: int


def group_truth(
    group: str, primary: GroupReads, secondary: GroupReads, there: Iterable[bytes]
) -> GroupTruth:
    """Compare what a group consumed with the records of the secondary.

    A record counts as consumed on the primary only if its offset was committed: an application
    that dies before the commit consumes it again.
    """
    before, after = set(primary.values.values()), set(secondary.values.values())
    on_target = set(there)
    return GroupTruth(
        group,
        len(before),
        len(after),
        len(before & after),
        len(before - on_target),
        len(on_target - primary.finished - after),
    )


def as_table(groups: Sequence[GroupTruth]) -> str:
    """One row per group, and a legend."""
    headings = ("group", "consumed before", "consumed after", "twice", "not replicated", "skipped")
    rows = [
        (
            g.group,
            *map("{:,}".format, (g.before, g.after, g.duplicated, g.unreplicated_reads, g.skipped)),
        )
        for g in groups
    ]
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    return "\n".join((*(_row(cells, widths) for cells in (headings, *rows)), _LEGEND))


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = cells
    width, *rest = widths
    aligned = (f"{cell:>{each}}" for cell, each in zip(others, rest, strict=True))
    return "  ".join((f"  {first:<{width}}", *aligned))


def require_acknowledged(
    cluster: str, held: Values, acknowledged: Mapping[Position, int], rows: Mapping[int, bytes]
) -> None:
    """Require every acknowledged record at its acknowledged offset.

    Args:
        acknowledged: row number by partition and offset.
        rows: the record value of each row number.

    Raises:
        Stopped: a record is missing.
    """
    for position, number in acknowledged.items():
        if held.get(position) != rows[number]:
            raise Stopped(f"{cluster} lost row {number}, acknowledged at {position}")


@dataclass(frozen=True, slots=True)
class GapTruth:
    """The records that `drctl gap` must report.

    Attributes:
        missing: partition and offset on the primary of each unreplicated record.
        acknowledged: number of records that the primary acknowledged.
        acknowledged_missing: number of unreplicated records among them.
    """

    missing: frozenset[Position]
    acknowledged: int
    acknowledged_missing: int


def gap_truth(
    primary: Values, there: Iterable[bytes], acknowledged: Mapping[Position, int]
) -> GapTruth:
    """Find the records of the primary that are not on the secondary."""
    on_target = set(there)
    missing = frozenset(place for place, value in primary.items() if value not in on_target)
    return GapTruth(missing, len(acknowledged), len(missing & acknowledged.keys()))


@dataclass(frozen=True, slots=True)
class GapVerdict:
    """The result of `drctl gap`, compared with ground truth.

    Attributes:
        difference: surplus and missing records; empty if the result is correct.
    """

    reported: int
    difference: str


def judge_gap(truth: GapTruth, answer: Mapping[str, Any], exit_code: int) -> GapVerdict:
    """Compare the result of `drctl gap` with ground truth, offset by offset."""
    reported = frozenset(
        (partition["partition"], offset)
        for topic in answer["topics"]
        for partition in topic["partitions"]
        for first, last in partition["ranges"]
        for offset in range(first, last + 1)
    )
    correct = (
        answer["complete"]
        and exit_code == 1
        and bool(truth.missing)
        and reported == truth.missing
        and answer["totals"]["unreplicated"] == len(truth.missing)
    )
    too_many, not_found = len(reported - truth.missing), len(truth.missing - reported)
    difference = f"{too_many:,} surplus, {not_found:,} missing, exit code {exit_code}"
    return GapVerdict(len(reported), "" if correct else difference)
