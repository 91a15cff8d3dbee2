"""What is true once everybody is home, from what was acknowledged and what plain consumers find."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from drctl.lab.flights import Row
from drctl.lab.reading import Position
from drctl.lab.scenarios.reader import GroupReads

Held = Mapping[Position, bytes]


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of records on one cluster.

    Attributes:
        lost: acknowledged ones that it does not hold, and nobody decided to leave behind.
        twice: how many are there more often than once.
        disordered: records behind a later one of their key.
    """

    cluster: str
    held: int
    lost: int
    twice: int
    disordered: int

    @property
    def true(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.lost or self.twice or self.disordered)


def kept_on(
    cluster: str, held: Held, acknowledged: Set[int], rows: Sequence[Row], aside: Set[bytes]
) -> Kept:
    """Hold a cluster against what was acknowledged, by either.

    Args:
        acknowledged: numbers of rows.
        rows: all that were tried, by their numbers.
        aside: values that were put aside by decision.
    """
    counted = Counter(held.values())
    lost = sum(rows[n].value not in counted and rows[n].value not in aside for n in acknowledged)
    twice = counted.total() - len(counted)
    return Kept(cluster, len(held), lost, twice, _disordered(held, rows))


def _disordered(held: Held, rows: Sequence[Row]) -> int:
    """The application writes its rows in the order of their numbers."""
    known = {row.value: row for row in rows}
    last: dict[bytes, int] = {}
    found = 0
    for position in sorted(held):
        row = known[held[position]]
        if row.key is not None:
            found += row.number < last.get(row.key, -1)
            last[row.key] = max(row.number, last.get(row.key, -1))
    return found


def finished(reads: GroupReads) -> set[bytes]:
    """What a group had read and committed."""
    return {
        value
        for (partition, offset), value in reads.values.items()
        if offset < reads.committed.get(partition, 0)
    }


def skipped(home: Iterable[bytes], aside: Set[bytes], read: Iterable[Set[bytes]]) -> int:
    """How many records of the home cluster a group has read nowhere, but those put aside."""
    return len(set(home).difference(aside, *read))
