"""Positions in the words of the connector that shall go on from them.

Connect takes a position for any partition, also one that the connector never looks at: it would
then begin anew without a word. So the keys are checked, and changed where the other connector
calls the same thing otherwise.
"""

from collections.abc import Callable
from typing import NamedTuple

from drctl.connectors.connector import Connector, Partition
from drctl.connectors.positions import Kept

_MIRROR = "MirrorSourceConnector"
_MONGO = "MongoDbConnector"
_DEBEZIUM = "io.debezium.connector."


class Translated(NamedTuple):
    """A partition in the other connector's words.

    Attributes:
        doubt: why it may not be one that the other connector reads; empty where it is.
        unknown: whether the doubt is only that drctl does not know such partitions.
    """

    partition: Partition
    doubt: str = ""
    unknown: bool = False


def translate(kept: Kept, partition: Partition, to: Connector) -> Translated:
    """The partition as `to` would write it."""
    if to.plugin and kept.plugin and to.plugin != kept.plugin:
        return Translated(partition, f"it is a {to.plugin}, not a {kept.plugin}")
    for known, change in _KINDS:
        if known(kept.plugin):
            return change(kept, partition, to)
    return Translated(partition, f"drctl does not know partitions of {kept.plugin}", unknown=True)


def _mirrored(kept: Kept, partition: Partition, to: Connector) -> Translated:
    if partition.keys() != {"cluster", "topic", "partition"}:
        return Translated(partition, "it is no partition of MirrorMaker 2")
    alias = to.config.get("source.cluster.alias", "")
    ours, theirs = (
        _addresses(each.get("source.cluster.bootstrap.servers", ""))
        for each in (kept.about, to.config)
    )
    moved = {**partition, "cluster": alias}
    if ours.isdisjoint(theirs):
        told = "it reads from other brokers: these offsets are those of another cluster"
        return Translated(moved, told)
    return Translated(moved)


def _debezium(kept: Kept, partition: Partition, to: Connector) -> Translated:
    return _prefixed("server", partition, to)


def _mongo(kept: Kept, partition: Partition, to: Connector) -> Translated:
    return _prefixed("server_id", partition, to)


def _prefixed(key: str, partition: Partition, to: Connector) -> Translated:
    if key not in partition:
        return Translated(partition, f"it has no {key}: it is no partition of Debezium")
    prefix = to.config.get("topic.prefix", "")
    if not prefix:
        return Translated(partition, "the connector has no topic.prefix")
    return Translated({**partition, key: prefix})


def _addresses(servers: str) -> frozenset[str]:
    return frozenset(each.strip() for each in servers.split(",") if each.strip())


def _is(name: str) -> Callable[[str], bool]:
    return lambda plugin: plugin.rpartition(".")[2] == name


_KINDS: tuple[
    tuple[Callable[[str], bool], Callable[[Kept, Partition, Connector], Translated]], ...
] = (
    (_is(_MIRROR), _mirrored),
    (_is(_MONGO), _mongo),
    (lambda plugin: plugin.startswith(_DEBEZIUM), _debezium),
)
