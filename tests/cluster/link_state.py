"""Both clusters of a link and what is around it, in one value: two that are equal, nobody wrote."""

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
"""What the names of drctl's own topics begin with."""


class Looked(Protocol):
    """A cluster of any kind."""

    name: str
    admin: AdminClient

    def properties(self) -> dict[str, str]: ...


class End(NamedTuple):
    """One cluster, as far as a failover writes to one.

    Attributes:
        topics: how many partitions each of the link's has, and of drctl's own. What other tests
            have deleted goes when its cluster likes, and their replicators make some.
        configured: settings of the same.
        ends: their end offsets.
        rules: about topics.
        positions: of the link's groups.
    """

    topics: Mapping[str, int]
    configured: Mapping[str, Any]
    ends: Mapping[str, int]
    rules: frozenset[Any]
    positions: Any


def end(cluster: Looked, prefix: str, *names: str) -> End:
    """Looked at by the administrator.

    Args:
        prefix: what the names of the link's topics begin with.
        names: of the link's groups.
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

    def all_told() -> bool:
        """A partition whose leader has just moved is asked for again."""
        left = [each for each in led if f"{each.topic}-{each.partition}" not in ends]
        asked = cluster.admin.list_offsets(dict.fromkeys(left, OffsetSpec.latest())) if left else {}
        told = {p: each for p, each in asked.items() if each.exception() is None}
        ends.update({f"{p.topic}-{p.partition}": int(e.result().offset) for p, e in told.items()})
        return len(ends) == len(led)

    soon(all_told, f"ends that nobody tells: {led}", 30)
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
    """Of a stage: both clusters, the connector, the endpoint, runs that are written down here.

    Args:
        answering: whether the connector can be asked for.
    """
    clusters = {
        f"{name} of {each.name}": value
        for each in (stage.source, stage.target)
        for name, value in end(each, stage.topic, stage.group)._asdict().items()
    }
    return {
        **clusters,
        "connector": connector(stage) if answering else None,
        "endpoint": stage.led_to,
        "entries": stage.journaled(),
    }


def connector(stage: Stage) -> tuple[str, Mapping[str, str]]:
    """State and settings of what copies."""
    with connect(stage.lab) as client:
        return client.status(stage.copies).state, client.config(stage.copies)
