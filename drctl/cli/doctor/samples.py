"""Whether an offset means the same record on both clusters, by a few samples."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drctl.checks.surveyed import Sampled
    from drctl.config.link import Link
    from drctl.model.ports import ClusterReader

_SAMPLES = 20


def sampled(link: "Link", source: "ClusterReader", target: "ClusterReader") -> "Sampled":
    """The newest record that both should have, of a few partitions.

    Raises:
        Unreachable: a cluster did not answer.
    """
    from drctl.checks.surveyed import Sampled
    from drctl.model.topology import PartitionOffsets, Record, TopicPartition

    overview = source.overview()
    topics = link.topics_of(overview.partitions)
    # One partition of each topic first: what is wrong is wrong of whole topics, mostly.
    places = sorted(
        (TopicPartition(t, n) for t in topics for n in overview.partitions[t]),
        key=lambda place: (place.partition, place.topic),
    )
    copies = {p: TopicPartition(link.target_topic(p.topic), p.partition) for p in places}
    here, there = source.offsets(places), target.offsets(tuple(copies.values()))
    wanted: dict[TopicPartition, int] = {}
    for place, copy in copies.items():
        ours, theirs = here.get(place), there.get(copy)
        if not isinstance(ours, PartitionOffsets) or not isinstance(theirs, PartitionOffsets):
            continue
        newest = min(ours.last_stable, theirs.last_stable) - 1
        if newest >= max(ours.log_start, theirs.log_start) and len(wanted) < _SAMPLES:
            wanted[place] = newest
    originals = source.records(tuple(wanted.items()))
    copied = target.records(tuple((copies[p], o) for p, o in wanted.items()))
    same, different, unread = 0, [], []
    for place, offset in wanted.items():
        one, other = originals.get((place, offset)), copied.get((copies[place], offset))
        if not isinstance(one, Record) or not isinstance(other, Record):
            unread.append(f"{place} offset {offset}")
        elif (one.key, one.value, one.timestamp_ms) == (other.key, other.value, other.timestamp_ms):
            same += 1
        else:
            different.append((place, offset))
    return Sampled(same, tuple(different), tuple(unread))
