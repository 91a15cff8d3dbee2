"""What a direct comparison reads and writes: the ports its rows go through."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from drctl.gap.comparison import Side
from drctl.model.gap import OrderVerdict, RecordClass
from drctl.model.gap_order import Inversion
from drctl.model.rows import Chunk, TopicRanges


class LogReader(Protocol):
    """Reads the committed records of offset ranges, many partitions at once."""

    def read(self, side: Side, ranges: TopicRanges) -> Iterator[Chunk]:
        """Every committed record of these ranges, those of a partition in order.

        Raises:
            ScanFailed: something could not be read to its end.
        """


class MissingRow(NamedTuple):
    """A source record that has no equal on the target, as it is kept."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    size: int
    record_class: RecordClass
    order: OrderVerdict
    misplaced: bool
    repeated: bool


class RowWriter(Protocol):
    """Keeps what was found, in place of what was written before; also if there is nothing."""

    def write(self, rows: Iterable[MissingRow]) -> None:
        """Write all missing records: the unreplicated ones in one place, all others in another.

        Raises:
            ScanFailed: there is no room for them.
        """

    def write_inversions(self, rows: Iterable[Inversion]) -> None:
        """Write all replicated records that stand in another order.

        Raises:
            ScanFailed: there is no room for them.
        """
