"""Brings the wanted rows of a partition together with what its log still holds."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from drctl.model.errors import Stopped
from drctl.model.gap import OrderVerdict
from drctl.model.topology import TopicPartition
from drctl.reconcile.planning import Line
from drctl.reconcile.rows import Seen, WantedRow
from drctl.wire import provenance
from drctl.wire.provenance import Provenance

MOST = 1_000
"""Rows without a record that come at once."""

_BEHIND_ALL = 1 << 63

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


Match = tuple[Work, WantedRow, Seen | None]
"""A wanted row with its record; None where the log does not hold it any more."""


def work_of(line: Line, source_id: str) -> Work:
    """What copying the records of a line needs again and again."""
    place = line.lane.place
    return Work(line, TopicPartition(line.to, place.partition), stamp_of(source_id, place))


def stamp_of(source_id: str, place: TopicPartition) -> Stamp:
    """What encodes where a record of this partition was first: the same as `provenance.encode`."""
    whole = provenance.encode(Provenance(source_id, *place, 0, 0)).decode()
    first, _, rest = whole.rpartition('0,"timestamp":')
    assert rest == "0}"
    return lambda offset, timestamp_ms: f'{first}{offset},"timestamp":{timestamp_ms}}}'.encode()


class Matcher:
    """Walks through one partition; every wanted row comes out once, in order.

    Args:
        works: what is done, by order verdict.
    """

    def __init__(
        self,
        place: TopicPartition,
        wanted: Iterator[WantedRow],
        works: Mapping[OrderVerdict, Work],
    ) -> None:
        self._place = place
        self._wanted = wanted
        self._works = works
        self._next = next(wanted, None)

    def matches(self, rows: Iterable[Seen]) -> Iterator[list[Match]]:
        """What these records of the log decide, in order; some at a time.

        Raises:
            Stopped: the log holds another record at a wanted offset.
        """
        works, following, expected = self._works, self._wanted, self._next
        found: list[Match] = []
        for seen in rows:
            offset, timestamp_ms, key, size, _ = seen
            if expected is not None and expected[0] < offset:
                self._next = expected
                yield found
                yield from self.gone_before(offset)
                found, expected = [], self._next
            if expected is None:
                break
            at, its_ms, its_key, its_size, order = expected
            if at == offset:
                if its_ms != timestamp_ms or its_key != key or its_size != size:
                    raise self._other(offset)
                found.append((works[order], expected, seen))
                expected = next(following, None)
        self._next = expected
        yield found

    def gone_before(self, offset: int) -> Iterator[list[Match]]:
        """The wanted rows before an offset: the log does not hold them."""
        gone: list[Match] = []
        while self._next is not None and self._next[0] < offset:
            gone.append((self._works[self._next[4]], self._next, None))
            self._next = next(self._wanted, None)
            if len(gone) == MOST:
                yield gone
                gone = []
        yield gone

    def rest(self) -> Iterator[list[Match]]:
        """All rows that are left, once the log was read to its end."""
        return self.gone_before(_BEHIND_ALL)

    def _other(self, offset: int) -> Stopped:
        return Stopped(
            f"{self._place} holds another record at offset {offset} than the gap analysis saw: the"
            " topic was made anew, or it is another cluster",
            "run `drctl gap` again",
        )
