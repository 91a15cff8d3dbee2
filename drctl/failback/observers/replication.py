"""Finds the connectors that replicate in one direction, including those not in drctl.yaml.

A connector that is not in drctl.yaml is identified by the clusters that it reads and writes, and by
the topics that it copies. Connectors of other links are ignored.
"""

from collections.abc import Callable, Collection, Mapping

from drctl.checks.connector_settings import REPLICATOR, SOURCE
from drctl.config.mirrors import Mirror, arrives_as, mirrors, simple_class
from drctl.config.schema import ConnectorsConfig
from drctl.failback.facts import Replication, Replicator
from drctl.failback.ports import Ends, Workers
from drctl.model.errors import DrctlError
from drctl.model.replication import Connector
from drctl.model.topology import TopicPartition, Unavailable
from drctl.steps.source_offsets import kept_offsets


def observe_replication(
    workers: Workers, named: ConnectorsConfig, ends: Ends, topics: Callable[[], Collection[str]]
) -> Replication:
    """The connectors on the workers that copy from one cluster to the other.

    Args:
        topics: returns the link's topics by their names on the cluster that is read; empty if
            unknown. Called last: the workers also wait for that cluster if it is unreachable,
            and this wait is then over, too.

    Raises:
        Unreachable: no worker answered within the deadline.
    """
    known = workers.all()
    names = named.named
    between = _between(known, ends)
    alike = (name for mirror in between for name in mirror.connectors.values())
    asked = (name for name in dict.fromkeys((*names, *alike)) if name in known)
    cluster = _cluster_of(workers)
    seen = {name: _replicator(known[name], workers) for name in asked}
    carried = topics()
    ours = {
        name
        for mirror in between
        if _copies_any(known[mirror.connectors["source"]], carried)
        for name in mirror.connectors.values()
    }
    found = tuple(each for name, each in seen.items() if name in ours or name in names)
    missing = tuple(name for name in names if name not in known)
    return Replication(found, missing, cluster, into=ends[1], out_of=ends[0])


def _cluster_of(workers: Workers) -> str | Unavailable:
    try:
        return workers.kafka_cluster_id()
    except DrctlError as error:
        return Unavailable(error.message)


def _between(known: Mapping[str, Connector], ends: Ends) -> tuple[Mirror, ...]:
    every = mirrors({name: each.config for name, each in known.items()})
    return tuple(e for e in every if e.source_brokers & ends[0] and e.target_brokers & ends[1])


def _copies_any(connector: Connector, topics: Collection[str]) -> bool:
    """Whether the connector copies one of the topics, as far as its configuration shows."""
    return not topics or any(arrives_as(connector.config, topic) is not None for topic in topics)


def _replicator(connector: Connector, workers: Workers) -> Replicator:
    copies = simple_class(connector.config) in (SOURCE, REPLICATOR)
    return Replicator(connector, copies, _positions(connector, workers) if copies else {})


def _positions(
    connector: Connector, workers: Workers
) -> Mapping[TopicPartition, int] | Unavailable:
    """The next offset by partition; MirrorMaker 2 stores the last offset, Replicator the next."""
    try:
        entries = workers.offsets(connector.name)
    except DrctlError as error:
        return Unavailable(error.message)
    step = 0 if simple_class(connector.config) == REPLICATOR else 1
    return {place: at + step for place, at in kept_offsets(connector.name, entries).items()}
