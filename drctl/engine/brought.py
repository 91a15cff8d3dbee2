"""Whether what a cluster holds is what a connector has brought there, from the beginning on.

Then it goes on from where it came to: a way home that was interrupted copies nothing twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from drctl.engine.first_records import first_records, records_from, same_record
from drctl.engine.ports import Look
from drctl.engine.returning import Offsets
from drctl.engine.source_offsets import copies_of, kept_offsets, logs_of
from drctl.engine.steps.stop_replication import STOPPED
from drctl.model.ports import ClusterReader
from drctl.model.topology import PartitionOffsets, TopicPartition

MOST = 1_000_000
"""So many records are read to see whether they are the same, where offsets do not tell."""

_AT_ONCE = 5_000


class _Both(NamedTuple):
    """A partition of the survivor, and its copy, which holds something.

    Attributes:
        kept: the last offset that the connector says it copied.
    """

    place: TopicPartition
    copy: TopicPartition
    theirs: PartitionOffsets
    ours: PartitionOffsets
    kept: int

    @property
    def last(self) -> int:
        """Where the last record of the copy stands on the survivor, where neither has holes."""
        return self.theirs.log_start + _held(self.ours) - 1


def brought_by(connector: str, source: str, target: str, look: Look) -> bool:
    """Whether each partition of the target is the beginning of that of the source, and no more.

    Offsets, the first and the last record tell where logs have no holes. Where they have some
    (transactions, compaction), the records are compared one by one, unless they are too many: then
    it is said not to be.

    Raises:
        UsageError: there is no such connector.
        Unreachable: a cluster, or every worker, did not answer.
    """
    survivor, home = look.site(source), look.site(target)
    theirs, ours = logs_of(survivor, look.topics()), logs_of(home, copies_of(look))
    copies = {place: TopicPartition(look.target_topic(place.topic), place[1]) for place in theirs}
    if any(_held(log) for copy, log in ours.items() if copy not in copies.values()):
        return False
    stopped = look.connectors().state(connector).state == STOPPED
    kept = kept_offsets(connector, look.connectors().offsets(connector))
    filled = {place for place, copy in copies.items() if _held(ours.get(copy))}
    if not filled or filled != kept.keys() & copies.keys():
        return False
    both = [_Both(p, copies[p], theirs[p], ours[copies[p]], kept[p]) for p in sorted(filled)]
    holed = [each for each in both if not _fits(each.last, each.kept, stopped)]
    if any(each.last > each.kept for each in holed) or _records(holed) > MOST:
        return False
    for each in holed:
        last = _one_by_one(each, survivor, home)
        if last is None or not _fits(last, each.kept, stopped):
            return False
    whole = [each for each in both if each not in holed]
    return _same_ends(whole, survivor, home)


def _held(log: PartitionOffsets | None) -> int:
    return 0 if log is None else log.end - log.log_start


def _records(some: Iterable[_Both]) -> int:
    return sum(_held(each.ours) for each in some)


def _fits(last: int, kept: int, stopped: bool) -> bool:
    """Whether what it keeps fits what is there; what runs tells it a minute late."""
    return kept == last if stopped else kept <= last


def _one_by_one(both: _Both, survivor: ClusterReader, home: ClusterReader) -> int | None:
    """Where the copy's last record stands on the survivor; None where it is no beginning of it."""
    at, here = both.theirs.log_start, both.ours.log_start
    last = None
    while ours := records_from(home, {both.copy: here}, _AT_ONCE)[both.copy]:
        theirs = records_from(survivor, {both.place: at}, len(ours))[both.place]
        if len(theirs) < len(ours) or not all(map(same_record, theirs, ours)):
            return None
        last = theirs[-1].offset
        at, here = last + 1, ours[-1].offset + 1
    return last


def _same_ends(whole: Sequence[_Both], survivor: ClusterReader, home: ClusterReader) -> bool:
    """Whether the first and the last record of each are the same, at these very offsets."""
    copies = {each.place: each.copy for each in whole}
    first = {each.place: each.theirs.log_start for each in whole}
    begins = {each.copy: each.ours.log_start for each in whole}
    last = {each.place: each.last for each in whole}
    ends = {each.copy: each.ours.end - 1 for each in whole}
    same = _same(survivor, first, home, begins, copies)
    return same and _same(survivor, last, home, ends, copies)


def _same(
    survivor: ClusterReader,
    theirs: Offsets,
    home: ClusterReader,
    ours: Offsets,
    copies: Mapping[TopicPartition, TopicPartition],
) -> bool:
    """Whether the records at these offsets are the same."""
    there, here = first_records(survivor, theirs), first_records(home, ours)
    return all(
        place in there
        and copies[place] in here
        and there[place].offset == at
        and same_record(there[place], here[copies[place]])
        for place, at in theirs.items()
    )
