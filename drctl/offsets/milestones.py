"""Records of the source further and further back from a position.

They tell how far the copies go where replication was behind when the source was lost. Each lies up
to four times as far back as the one before it: a group then reads again at most some four times of
what was not replicated. Positions in one partition share them. They are taken from what is known
anyhow, and where that leaves gaps records are read: only so many in a pass.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from drctl.model.errors import Unknown
from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition
from drctl.offsets.consumed import Before, Position
from drctl.offsets.trail import RangeReader, Step, read_ranges
from drctl.wire.anchors import MOST_MILESTONES, MOST_RECORDS, Anchor, Milestone

SPACING = 4
"""How many times as far back the next one may lie."""

REACH = MOST_RECORDS * SPACING**10
"""How many offsets back they go: some 35 million."""

READ_AT_ONCE = 500
"""How many are read in a pass at most, whatever the number of positions."""

_SPAN = 8
"""Offsets before a position that are looked at for its record."""

Known = dict[TopicPartition, dict[int, Milestone]]
"""By partition and position."""


def known_from(
    before: Mapping[Position, Before], anchors: Iterable[tuple[TopicPartition, Anchor]]
) -> Known:
    """What was read for other positions, and what earlier anchors of the same logs knew."""
    known: Known = defaultdict(dict)
    for partition, anchor in anchors:
        here = known[partition]
        here.update((milestone.position, milestone) for milestone in anchor.milestones)
        if not anchor.passed:
            here.update((anchor.offset, Milestone(anchor.offset, *r)) for r in anchor.records[:1])
    for (partition, _), (trail, last) in before.items():
        for step in trail.steps[:1]:
            known[partition][last + 1] = Milestone(last + 1, step.fingerprint, step.timestamp_ms)
    return known


def milestones_before(
    reader: RangeReader, logs: Mapping[Position, PartitionOffsets], known: Known, turn: int
) -> Mapping[Position, tuple[Milestone, ...]]:
    """Those of each position, the nearest one first; what cannot be read now is left out.

    Args:
        logs: of the positions.
        turn: a number that differs from pass to pass: others come first then.
    """
    held = {partition: dict(known.get(partition, {})) for partition, _ in logs}
    for (partition, _), milestone in _read(reader, _lacking(logs, held, turn), logs):
        held[partition][milestone.position] = milestone
    positions = {partition: sorted(found) for partition, found in held.items()}
    return {
        (partition, offset): tuple(
            held[partition][position] for position in _chosen(offset, positions[partition])
        )
        for partition, offset in logs
    }


def _chosen(offset: int, known: Sequence[int]) -> list[int]:
    """Of the known positions as few as will do, the nearest one first."""
    found: list[int] = []
    near = MOST_RECORDS
    while near < REACH and len(found) < MOST_MILESTONES:
        further = bisect_left(known, offset - near) - 1
        if further < 0:
            break
        within = bisect_left(known, offset - near * SPACING)
        found.append(known[min(within, further)])
        near = offset - found[-1]
    return found


def _lacking(
    logs: Mapping[Position, PartitionOffsets], known: Known, turn: int
) -> Sequence[Position]:
    """What to read: first that which is of use to many positions."""
    positions = {partition: sorted(found) for partition, found in known.items()}
    uses = Counter[Position]()
    for (partition, offset), log in logs.items():
        for position in _gaps(offset, log, positions[partition]):
            uses[partition, position] += 1
    found = sorted(uses)
    begin = turn % len(found) if found else 0
    found = found[begin:] + found[:begin]
    return sorted(found, key=lambda at: -uses[at])[:READ_AT_ONCE]


def _gaps(offset: int, log: PartitionOffsets, known: Sequence[int]) -> Iterator[int]:
    """Positions that would fill the gaps between the known ones."""
    near, far = MOST_RECORDS, min(REACH, offset - log.log_start - 1)
    while near < far:
        within = bisect_left(known, offset - near * SPACING)
        if within < bisect_left(known, offset - near):
            near = offset - known[within]
            continue
        distance = min(near * SPACING, far)
        position = offset - distance
        if distance < far:
            # On a grid, so that the positions nearby want the same ones, now and later.
            grid = 1 << (distance // 4).bit_length() - 1
            position = -(-position // grid) * grid
        if position <= log.last_stable:
            yield position
        near = offset - position


def _read(
    reader: RangeReader,
    wanted: Iterable[Position],
    logs: Mapping[Position, PartitionOffsets],
) -> Iterator[tuple[Position, Milestone]]:
    starts = {partition: log.log_start for (partition, _), log in logs.items()}
    ranges = {
        (partition, position): OffsetRange(max(starts[partition], position - _SPAN), position)
        for partition, position in wanted
    }
    runs: dict[TopicPartition, list[OffsetRange]] = defaultdict(list)
    for (partition, _), run in ranges.items():
        runs[partition].append(run)
    try:
        held = read_ranges(reader, runs)
    except Unknown:
        return  # they are for bad days; what the pass is for it has
    for at, run in ranges.items():
        steps = held[at[0]]
        last = bisect_left(steps, run.end, key=_offset) - 1
        if last >= 0 and steps[last][0] >= run.start:
            found, step = steps[last]
            yield at, Milestone(found + 1, step.fingerprint, step.timestamp_ms)


def _offset(step: tuple[int, Step]) -> int:
    return step[0]
