"""The last records that a group consumed, as far as is needed to know them again elsewhere."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from drctl.model.rows import Chunk, Row, TopicRanges
from drctl.model.topology import OffsetRange, TopicPartition
from drctl.wire.fingerprint import fingerprint

LENGTH = 32
"""Records of a trail: so many equal ones in a row are told apart."""

_COALESCED = 64
"""Offsets between two ranges that are read as one."""


class Step(NamedTuple):
    """A record that can be recognised; headers do not count, for replicators change them."""

    timestamp_ms: int
    fingerprint: int


class Trail(NamedTuple):
    """The records before a position.

    A record is uncommitted where its transaction was aborted, or is open: a replicator may have
    copied it as a record like any other, or not.

    Attributes:
        steps: the newest first; the first one is committed.
        passed: uncommitted records between the first one and the position.
        uncommitted: which of the steps are, by index.
    """

    steps: tuple[Step, ...] = ()
    passed: int = 0
    uncommitted: frozenset[int] = frozenset()


class RangeReader(Protocol):
    """Reads the records of offset ranges of one cluster."""

    def read(self, ranges: TopicRanges, *, uncommitted: bool = False) -> Iterable[Chunk]:
        """Every committed record of these ranges, those of a partition in order.

        Args:
            uncommitted: whether to read records whose transaction was aborted or is open, too.

        Raises:
            ScanFailed: something could not be read to its end.
        """


def step_of(row: Row) -> Step:
    """How a record is recognised."""
    return Step(row[1], fingerprint(row[2], row[3]))


def read_ranges(
    reader: RangeReader,
    wanted: Mapping[TopicPartition, Sequence[OffsetRange]],
    *,
    uncommitted: bool = False,
) -> dict[TopicPartition, list[tuple[int, Step]]]:
    """The records of these ranges (which may overlap), ascending, as offset and step.

    Raises:
        ScanFailed: something could not be read to its end.
    """
    found: dict[TopicPartition, list[tuple[int, Step]]] = {place: [] for place in wanted}
    for chunk in chunks(reader, wanted, uncommitted=uncommitted):
        steps = found[TopicPartition(chunk.topic, chunk.partition)]
        steps += [(row[0], step_of(row)) for row in chunk.rows]
    return found


def chunks(
    reader: RangeReader,
    wanted: Mapping[TopicPartition, Sequence[OffsetRange]],
    *,
    uncommitted: bool = False,
) -> Iterable[Chunk]:
    """The records of these ranges (which may overlap), those of a partition in order, each once.

    Raises:
        ScanFailed: something could not be read to its end.
    """
    ranges: dict[str, dict[int, Sequence[OffsetRange]]] = {}
    for place, runs in wanted.items():
        if merged := coalesced(runs):
            ranges.setdefault(place.topic, {})[place.partition] = merged
    return reader.read(ranges, uncommitted=uncommitted) if ranges else ()


def coalesced(runs: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Disjoint ranges, ascending, that cover these; near ones become one."""
    merged: list[OffsetRange] = []
    for run in sorted(run for run in runs if run.span):
        if merged and run.start <= merged[-1].end + _COALESCED:
            merged[-1] = OffsetRange(merged[-1].start, max(merged[-1].end, run.end))
        else:
            merged.append(run)
    return merged
