"""Whether what a cluster holds is what a connector has brought there, from the beginning on.

Then it goes on from where it came to: a way home that was interrupted copies nothing twice.
"""

from collections.abc import Mapping

from drctl.engine.first_records import first_records, same_record
from drctl.engine.ports import Look
from drctl.engine.returning import Offsets
from drctl.engine.source_offsets import copies_of, kept_offsets, logs_of
from drctl.engine.steps.stop_replication import STOPPED
from drctl.model.ports import ClusterReader
from drctl.model.topology import PartitionOffsets, TopicPartition


def brought_by(connector: str, source: str, target: str, look: Look) -> bool:
    """Whether each partition of the target is the beginning of that of the source, and no more.

    Where logs have holes (transactions, compaction) that is not told: then it is said not to be.

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
    last: dict[TopicPartition, int] = {}
    for place, copy in copies.items():
        number = _held(ours.get(copy))
        if number:
            last[place] = theirs[place].log_start + number - 1
        if not _fits(last.get(place), kept.get(place), stopped):
            return False
    first = {place: theirs[place].log_start for place in last}
    at_home = {copies[p]: ours[copies[p]].end - 1 for p in last}
    begins = {copies[p]: ours[copies[p]].log_start for p in last}
    same = _same(survivor, first, home, begins, copies)
    return bool(last) and same and _same(survivor, last, home, at_home, copies)


def _held(log: PartitionOffsets | None) -> int:
    return 0 if log is None else log.end - log.log_start


def _fits(last: int | None, kept: int | None, stopped: bool) -> bool:
    """Whether what it keeps fits what is there; what runs tells it a minute late."""
    if last is None or kept is None:
        return last is kept
    return kept == last if stopped else kept <= last


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
