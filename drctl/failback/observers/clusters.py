"""The ends of the link: their ids, and where the logs of the link's topics begin and end."""

from collections.abc import Iterable, Mapping

from drctl.checks.lagging import log_ranges
from drctl.config.link import Link
from drctl.failback.facts import Cluster
from drctl.model.ports import OffsetReader
from drctl.model.topology import TopicPartition, TopicState, Unavailable


def observe_source(link: Link, reader: OffsetReader) -> Cluster:
    """The cluster that was lost.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    overview = reader.overview()
    names = link.topics_of(overview.partitions)
    places = [TopicPartition(t, n) for t in names for n in overview.partitions[t]]
    ids = _topic_ids(_states(reader, places))
    return Cluster(overview.cluster_id, log_ranges(reader, places), ids)


def observe_target(link: Link, reader: OffsetReader) -> Cluster:
    """The cluster on which applications run, and the link's copies there.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    overview = reader.overview()
    there = sorted(overview.partitions)
    copies = [name for name in there if _is_copy(link, name)]
    beside = [n for n in there if n not in copies and link.carries(n)]
    beside = [name for name in beside if link.target_topic(name) in copies]
    places, others = (
        [TopicPartition(name, number) for name in names for number in overview.partitions[name]]
        for names in (copies, beside)
    )
    logs, states = log_ranges(reader, [*places, *others]), _states(reader, places)
    return Cluster(
        overview.cluster_id,
        {place: logs[place] for place in places},
        _topic_ids(states),
        {place: logs[place] for place in others},
        frozenset(name for name, state in states.items() if not _keeps_time(state)),
    )


def _is_copy(link: Link, name: str) -> bool:
    origin = link.source_topic(name)
    return origin is not None and link.carries(origin)


States = Mapping[str, TopicState | Unavailable | None]


def _states(reader: OffsetReader, places: Iterable[TopicPartition]) -> States:
    names = sorted({place.topic for place in places})
    return reader.topics(names) if names else {}


def _topic_ids(states: States) -> dict[str, str]:
    return {
        name: state.topic_id
        for name, state in states.items()
        if isinstance(state, TopicState) and state.topic_id
    }


def _keeps_time(state: TopicState | Unavailable | None) -> bool:
    """Whether records have the time of their originals; where nobody can see that, they may not."""
    known = isinstance(state, TopicState) and bool(state.config)
    return known and isinstance(state, TopicState) and not state.log_append_time
