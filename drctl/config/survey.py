"""What is there: two clusters and the connectors between them, looked at for `drctl init`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from drctl.config.fields import UNCHANGED
from drctl.config.mirrors import Mirror, brokers, mirrors
from drctl.config.schema import ClusterConfig
from drctl.model.errors import UsageError
from drctl.model.ports import ClusterReader


class ConnectorReader(Protocol):
    """Looks at the connectors of a Connect cluster."""

    def kafka_cluster_id(self) -> str:
        """The cluster that the workers keep their state in."""

    def connectors(self) -> tuple[str, ...]:
        """Names of all connectors."""

    def config(self, name: str) -> dict[str, str]:
        """A connector's configuration."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A cluster as it was found.

    Attributes:
        topics: names of those that are not internal, sorted.
        properties: of librdkafka, as they were given.
    """

    name: str
    bootstrap: str
    cluster_id: str
    topics: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FoundMirror:
    """Replication as it was found.

    Attributes:
        urls: workers that know its connectors.
        forward: whether it copies from the first cluster to the second; None where nothing tells.
    """

    mirror: Mirror
    urls: tuple[str, ...]
    forward: bool | None


def see(reader: ClusterReader, cluster: ClusterConfig) -> Seen:
    """A cluster's id and topics.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    names = sorted(name for name in reader.topic_names() if not name.startswith("__"))
    properties = {name: setting.raw for name, setting in cluster.properties.items()}
    bootstrap = cluster.bootstrap.raw
    return Seen(reader.name, bootstrap, reader.cluster_id(), tuple(names), properties)


def must_differ(first: Seen, second: Seen) -> None:
    """Two names for one cluster make no link.

    Raises:
        UsageError: it is one cluster.
    """
    if first.cluster_id == second.cluster_id:
        raise UsageError(
            f"{first.bootstrap} and {second.bootstrap} are the same cluster ({first.cluster_id})",
            "name brokers of two clusters",
        )


def find_mirrors(
    workers: Mapping[str, ConnectorReader], first: Seen, second: Seen
) -> tuple[FoundMirror, ...]:
    """All replication that the workers, by URL, run; one that several know is found once.

    Raises:
        Unreachable: a worker does not answer.
    """
    found: dict[tuple[str, str], FoundMirror] = {}
    for url, worker in workers.items():
        home = worker.kafka_cluster_id()
        configs = {name: worker.config(name) for name in worker.connectors()}
        for mirror in mirrors(configs):
            key = (home, mirror.connectors["source"])
            if key in found:
                found[key] = replace(found[key], urls=(*found[key].urls, url))
            else:
                found[key] = FoundMirror(mirror, (url,), _forward(mirror, home, first, second))
    return tuple(found.values())


def common_topics(first: Seen, second: Seen) -> tuple[tuple[str, ...], str]:
    """Topics that both clusters hold, and how they are called on the second."""
    for rename in (UNCHANGED, f"{first.name}.{UNCHANGED}"):
        both = [t for t in first.topics if rename.replace(UNCHANGED, t) in second.topics]
        if both:
            return tuple(both), rename
    return (), UNCHANGED


def _forward(mirror: Mirror, home: str, first: Seen, second: Seen) -> bool | None:
    """By the brokers that it names; else by where its workers write; else by its aliases."""
    one, other = brokers(first.bootstrap), brokers(second.bootstrap)
    source, target = mirror.source_brokers, mirror.target_brokers
    evidence = (
        (bool(source & one or target & other), bool(source & other or target & one)),
        (home == second.cluster_id, home == first.cluster_id),
        (mirror.source == first.name, mirror.source == second.name),
    )
    return next((forward for forward, back in evidence if forward != back), None)
