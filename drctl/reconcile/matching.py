"""Brings the wanted rows of a partition together with what its log still holds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from drctl.model.errors import Stopped
from drctl.model.gap import OrderVerdict
from drctl.model.rows import Row
from drctl.model.topology import TopicPartition
from drctl.reconcile.planning import Line
from drctl.reconcile.rows import Wanted, is_the_one
from drctl.wire import provenance
from drctl.wire.provenance import Provenance

Stamp = Callable[[int, int], bytes]
"""The value of the provenance header of a record, by its offset and timestamp."""


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """A line that is under way.

    Attributes:
        to: where copies go.
    """

    line: Line
    to: TopicPartition
    stamp: Stamp


Match = tuple[Work, Wanted, Row | None]
"""A row with its record; None where the log does not hold it any more."""


def work_of(line: Line, source_id: str) -> Work:
    """What copying the records of a line needs again and again."""
    place = line.lane.place
    return Work(line, TopicPartition(line.to, place.partition), stamp_of(source_id, place))


def stamp_of(source_id: str, place: TopicPartition) -> Stamp:
    """What encodes where a record of this partition was first: the same as `provenance.encode`."""
    whole = provenance.encode(Provenance(source_id, *place, 0, 0))
    first, _, rest = whole.rpartition(b'0,"timestamp":')
    assert rest == b"0}"
    return lambda offset, timestamp_ms: b'%b%d,"timestamp":%d}' % (first, offset, timestamp_ms)


class Matcher:
    """Walks through one partition; every wanted row comes out once, in order.

    Args:
        works: what is done, by order verdict.
    """

    def __init__(
        self,
        place: TopicPartition,
        wanted: Iterator[Wanted],
        works: Mapping[OrderVerdict, Work],
    ) -> None:
        self._place = place
        self._wanted = wanted
        self._works = works
        self._next = next(wanted, None)

    def matches(self, rows: Sequence[Row]) -> Iterator[Match]:
        """What these records of the log decide.

        Raises:
            Stopped: the log holds another record at a wanted offset.
        """
        works, following = self._works, self._wanted
        for row in rows:
            expected = self._next
            if expected is not None and expected.offset < row[0]:
                yield from self.gone_before(row[0])
                expected = self._next
            if expected is None:
                return
            if expected.offset == row[0]:
                if not is_the_one(expected, row):
                    raise self._other(row[0])
                self._next = next(following, None)
                yield works[expected.order], expected, row

    def gone_before(self, offset: int) -> Iterator[Match]:
        """The wanted rows before an offset: the log does not hold them."""
        while self._next is not None and self._next.offset < offset:
            gone, self._next = self._next, next(self._wanted, None)
            yield self._works[gone.order], gone, None

    def rest(self) -> Iterator[Match]:
        """All rows that are left, once the log was read to its end."""
        while self._next is not None:
            yield from self.gone_before(self._next.offset + 1)

    def _other(self, offset: int) -> Stopped:
        return Stopped(
            f"{self._place} holds another record at offset {offset} than the gap analysis saw: the"
            " topic was made anew, or it is another cluster",
            "run `drctl gap` again",
        )
