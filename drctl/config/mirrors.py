"""Connectors' configurations -> what they replicate, in the words of drctl.yaml.

Only named fields are taken over: the configurations hold passwords.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from drctl.config.fields import UNCHANGED

Configs = Mapping[str, Mapping[str, str]]

_IDENTITY = "IdentityReplicationPolicy"
_DEFAULT = "DefaultReplicationPolicy"


@dataclass(frozen=True, slots=True)
class Mirror:
    """Connectors that copy from one cluster to another.

    Attributes:
        connectors: their names, by `source`, `checkpoint` and `heartbeat`.
        source: alias of the cluster that it reads from; empty where the replicator has none.
        source_brokers: addresses by which it reaches that cluster.
        rename: what a topic is called on the target, with `${topic}`.
        notes: what could not be taken over.
    """

    kind: str
    connectors: Mapping[str, str]
    source: str = ""
    target: str = ""
    source_brokers: frozenset[str] = frozenset()
    target_brokers: frozenset[str] = frozenset()
    topics: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = ()
    groups: tuple[str, ...] = (".*",)
    rename: str = UNCHANGED
    notes: tuple[str, ...] = field(default=())


def mirrors(configs: Configs) -> tuple[Mirror, ...]:
    """Everything among the connectors that replicates between Kafka clusters."""
    found = []
    for name in sorted(configs):
        kind = _simple_class(configs[name])
        if kind == "MirrorSource":
            found.append(_mirrormaker(name, configs))
        elif kind == "ReplicatorSource":
            found.append(_replicator(name, configs[name]))
    return tuple(found)


def brokers(bootstrap: str) -> frozenset[str]:
    """The addresses of a bootstrap list."""
    return frozenset(broker.strip().rpartition("://")[2] for broker in bootstrap.split(","))


def pattern_of(topic: str) -> str:
    """The regular expression that matches this topic only: of its letters `.` alone is special."""
    return topic.replace(".", r"\.")


def _mirrormaker(name: str, configs: Configs) -> Mirror:
    config = configs[name]
    pair = _ends(config)
    partners = {
        role: other
        for role, kind in (("checkpoint", "MirrorCheckpoint"), ("heartbeat", "MirrorHeartbeat"))
        for other in sorted(configs, reverse=True)
        if _simple_class(configs[other]) == kind and _ends(configs[other]) == pair
    }
    rename, notes = renaming(config)
    checkpoint = configs.get(partners.get("checkpoint", ""), {})
    return Mirror(
        kind="mirrormaker2",
        connectors={"source": name, **partners},
        source=pair[0],
        target=pair[1],
        source_brokers=brokers(config.get("source.cluster.bootstrap.servers", "")),
        target_brokers=brokers(config.get("target.cluster.bootstrap.servers", "")),
        topics=_words(config.get("topics", "")) or (".*",),
        exclude=_words(config.get("topics.exclude", "")),
        groups=_words(checkpoint.get("groups", "")) or (".*",),
        rename=rename,
        notes=notes,
    )


def _replicator(name: str, config: Mapping[str, str]) -> Mirror:
    listed = map(pattern_of, _words(config.get("topic.whitelist", "")))
    pattern = config.get("topic.regex", "")
    return Mirror(
        kind="confluent-replicator",
        connectors={"source": name},
        source_brokers=brokers(config.get("src.kafka.bootstrap.servers", "")),
        target_brokers=brokers(config.get("dest.kafka.bootstrap.servers", "")),
        topics=(*listed, *filter(None, [pattern])) or (".*",),
        exclude=tuple(map(pattern_of, _words(config.get("topic.blacklist", "")))),
        rename=config.get("topic.rename.format", UNCHANGED),
    )


def renaming(config: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """What a connector of MirrorMaker 2 calls a topic on the target, and what is unsure there."""
    policy = config.get("replication.policy.class", _DEFAULT).rpartition(".")[2]
    if policy == _IDENTITY:
        return UNCHANGED, ()
    prefixed = config.get("source.cluster.alias", "source")
    rename = f"{prefixed}{config.get('replication.policy.separator', '.')}{UNCHANGED}"
    if policy == _DEFAULT:
        return rename, ()
    return UNCHANGED, (f"replication policy {policy} is not known here: check `rename`",)


def _ends(config: Mapping[str, str]) -> tuple[str, str]:
    return config.get("source.cluster.alias", ""), config.get("target.cluster.alias", "")


def _simple_class(config: Mapping[str, str]) -> str:
    return config.get("connector.class", "").rpartition(".")[2].removesuffix("Connector")


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
