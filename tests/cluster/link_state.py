"""Both clusters of a link and its surroundings in one value; equal values mean no change."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined, unused-ignore]

from drctl.kafka.acls import KafkaAclReader
from drctl.kafka.connection import Connection
from drctl.kafka.groups import KafkaGroupReader
from drctl.kafka.reader import KafkaClusterReader
from tests.cluster.failover_stage import Stage, connect
from tests.cluster.link_command import soon

OURS = "__drctl"
"""Prefix of drctl's own topics."""


class Looked(Protocol):
    """A cluster of any kind."""

    name: str
    admin: AdminClient

    def properties(self) -> dict[str, str]: ...


class End(NamedTuple):
    """What a failover may write to on one cluster.

    Attributes:
        topics: partition counts of the link's topics and of drctl's own. Topics of other tests
            are
            left out: their clusters delete them at any time, and their replicators create
            some.
        configured: configurations of these topics.
        ends: end offsets of these topics.
        rules: ACLs of topics.
        positions: committed offsets of the link's groups.
    """

    topics: Mapping[str, int]
    configured: Mapping[str, Any]
    ends: Mapping[str, int]
    rules: frozenset[Any]
    positions: Any


def end(cluster: Looked, prefix: str, *names: str) -> End:
    """Read a cluster as the administrator.

    Args:
        prefix: prefix of the link's topics.
        names: the link's groups.
    """
    known = cluster.admin.list_topics(timeout=30).topics
    named = sorted(name for name in known if name.startswith((prefix, OURS)))
    topics = {name: len(known[name].partitions) for name in named}
    led = [
        TopicPartition(name, number)
        for name in named
        for number, each in known[name].partitions.items()
        if each.leader >= 0
    ]
    ends: dict[str, int] = {}

    def all_reported() -> bool:
        """Ask again for partitions whose leader has just moved."""
        left = [each for each in led if f"{each.topic}-{each.partition}" not in ends]
        asked = cluster.admin.list_offsets(dict.fromkeys(left, OffsetSpec.latest())) if left else {}
        reported = {p: each for p, each in asked.items() if each.exception() is None}
        ends.update(
            {f"{p.topic}-{p.partition}": int(e.result().offset) for p, e in reported.items()}
        )
        return len(ends) == len(led)

    soon(all_reported, f"ends that nobody tells: {led}", 30)
    properties = cluster.properties()
    with (
        KafkaAclReader(Connection(cluster.name, properties)) as acls,
        KafkaClusterReader(Connection(cluster.name, properties)) as reader,
        KafkaGroupReader(Connection(cluster.name, properties)) as groups,
    ):
        rules = frozenset(getattr(acls.acls(), "rules", ()))
        configured = reader.configurations(named)
        positions = groups.committed(names)
    return End(topics, dict(configured), ends, rules, positions)


def picture(stage: Stage, *, answering: bool = True) -> Mapping[str, Any]:
    """Return both clusters of a stage, the connector, the endpoint, and the runs on this host.

    Args:
        answering: whether the connector can be read.
    """
    clusters = {
        f"{name} of {each.name}": value
        for each in (stage.source, stage.target)
        for name, value in end(each, stage.topic, stage.group)._asdict().items()
    }
    return {
        **clusters,
        "connector": connector(stage) if answering else None,
        "endpoint": stage.directed_to,
        "entries": stage.journaled(),
    }


def connector(stage: Stage) -> tuple[str, Mapping[str, str]]:
    """Return state and configuration of the connector."""
    with connect(stage.lab) as client:
        return client.status(stage.copies).state, client.config(stage.copies)
