"""Where what is new on the target begins: behind the last record that came from the source.

A result of `drctl gap` counts new records; offsets also go to ends of transactions and to what was
compacted away, and copies that were brought over later are not new. So the records are counted
back from its end. Nor is new what the source has deleted and the target still holds.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drctl.failback.facts import Cluster
from drctl.failback.gap_results import GapEvidence
from drctl.failback.observers.copies import original
from drctl.failback.observers.leftovers import follow_the_last, left_over
from drctl.failback.observers.pieces import AT_A_LOOK, AT_ONCE, in_pieces
from drctl.model.errors import Unreachable
from drctl.model.ports import ClusterReader
from drctl.model.topology import TopicPartition, Unavailable


def observe_boundaries(
    result: GapEvidence,
    on_source: Cluster,
    source: ClusterReader,
    target: ClusterReader,
    most: int = AT_A_LOOK,
) -> Mapping[TopicPartition, int] | Unavailable:
    """By partition of the target; or why nobody has counted.

    Args:
        most: so many new records are counted, and no more.

    Raises:
        Unreachable: a partition could not be read, or holds fewer records than were counted.
    """
    total = sum(each.only_on_target for each in result.partitions)
    if total > most:
        return Unavailable(
            f"{total:,} records are new on {target.name}, too many to count at a look where they"
            " begin: drctl failback does it (step find-missing)"
        )
    origin = on_source.identity
    new = {each.copy: each.only_on_target for each in result.partitions}
    old = left_over(result, on_source, source, target, most)
    less = {copy: new[copy] - number for copy, number in old.items()}
    sure = _counted_back(result, less, target, origin)
    # Too few would begin behind the first new record: only what is seen to stand there counts.
    seen = follow_the_last(result, sure, origin, source, target) if sure else frozenset()
    sure = {copy: at for copy, at in sure.items() if copy in seen}
    rest = {copy: number for copy, number in new.items() if copy not in sure}
    return {**_counted_back(result, rest, target, origin), **sure}


def _counted_back(
    result: GapEvidence, new: Mapping[TopicPartition, int], reader: ClusterReader, origin: str
) -> dict[TopicPartition, int]:
    """Where so many records of each partition begin that are no copies of drctl's."""
    counts = {
        each.copy: _Count(each.copy, each.place, each.target.end, each.target.start, number, number)
        for each in result.partitions
        if each.target is not None and (number := new.get(each.copy)) is not None
    }
    while waiting := {place: each for place, each in counts.items() if each.left}:
        _count(waiting, reader, origin)
    return {place: each.at for place, each in counts.items()}


@dataclass(slots=True)
class _Count:
    """How far back the new records of a partition are counted.

    Attributes:
        home: the partition of the source.
        at: offset of the last one counted; all behind it are.
        start: where the partition began when they were found.
        left: how many are not counted yet.
        step: how many offsets are read next.
    """

    copy: TopicPartition
    home: TopicPartition
    at: int
    start: int
    left: int
    step: int

    @property
    def wanted(self) -> range:
        """The offsets to be read next."""
        return range(max(self.start, self.at - self.step), self.at)

    def go_back(self, found: int, last: Sequence[int]) -> None:
        """Go on before what was read.

        Args:
            found: how many of the offsets that were read hold new records.
            last: the last of these offsets, as many as were left; needed where more were read.
        """
        if found >= self.left:
            self.at, self.left = last[0] if last else self.wanted.start, 0
            return
        self.at, self.left = self.wanted.start, self.left - found
        # Much that is no record: go on in longer steps.
        self.step = max(self.left, min(2 * self.step, AT_ONCE))


def _count(waiting: Mapping[TopicPartition, _Count], reader: ClusterReader, origin: str) -> None:
    """Read the offsets before those that were read, of all partitions at once."""
    spent = [str(place) for place, each in waiting.items() if not each.wanted]
    if spent:
        raise Unreachable(
            f"{spent[0]} of {reader.name} holds fewer records than were new there: where they begin"
            " cannot be told any more",
            "run drctl gap again",
        )
    found: Counter[TopicPartition] = Counter()
    last = {p: deque[int](maxlen=e.left) for p, e in waiting.items() if e.step > e.left}
    for place, records in in_pieces(reader, {p: each.wanted for p, each in waiting.items()}):
        home = waiting[place].home
        new = [record.offset for record in records if original(record, origin, home) is None]
        found[place] += len(new)
        if place in last:
            last[place].extend(new)
    for place, each in waiting.items():
        each.go_back(found[place], last.get(place, ()))
