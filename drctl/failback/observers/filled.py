"""Whether the source holds the beginning of what the target does, and nothing else.

So it is where it was emptied, or lost its disks, and is filled from the target. The first and the
last record of each partition are compared; where transactions or compaction leave holes in the
logs they do not stand where they would, and then it is said not to be so.
"""

from collections.abc import Mapping

from drctl.failback.facts import Cluster, Names
from drctl.model.ports import ClusterReader
from drctl.model.topology import OffsetRange, Record, TopicPartition, Unavailable

At = dict[TopicPartition, int]


def observe_filled(
    names: Names,
    on_source: Cluster,
    on_target: Cluster,
    source: ClusterReader,
    target: ClusterReader,
) -> bool:
    """By the records themselves; a source that holds nothing is not filled.

    Args:
        names: what each copy is called on the source.

    Raises:
        Unreachable: a cluster did not answer.
    """
    copies = {
        TopicPartition(names.get(copy.topic, copy.topic), copy.partition): copy
        for copy in on_target.logs
    }
    first: dict[TopicPartition, tuple[int, int]] = {}
    last: dict[TopicPartition, tuple[int, int]] = {}
    for place, log in on_source.logs.items():
        if isinstance(log, Unavailable):
            return False
        if log.end == log.start:
            continue
        there = on_target.logs.get(copies.get(place, place))
        if not isinstance(there, OffsetRange) or there.end - there.start < log.end - log.start:
            return False
        first[place] = log.start, there.start
        last[place] = log.end - 1, there.start + log.end - log.start - 1
    if not first:
        return False
    return all(_same(asked, copies, source, target) for asked in (first, last))


def _same(
    asked: Mapping[TopicPartition, tuple[int, int]],
    copies: Mapping[TopicPartition, TopicPartition],
    source: ClusterReader,
    target: ClusterReader,
) -> bool:
    here = source.records([(place, at) for place, (at, _) in asked.items()])
    there = target.records([(copies[place], at) for place, (_, at) in asked.items()])
    return all(
        _content(here.get((place, at))) == _content(there.get((copies[place], copy)), other=False)
        for place, (at, copy) in asked.items()
    )


def _content(record: object, *, other: bool = True) -> object:
    """What two copies have in common; what is not there is like nothing else."""
    if not isinstance(record, Record):
        return other
    return record.key, record.value, record.timestamp_ms
