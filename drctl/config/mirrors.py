"""Connectors' configurations -> what they replicate, in the words of drctl.yaml.

Also under which name a topic's records arrive, and how a connector is told to write elsewhere.
Only named fields are taken over: the configurations hold passwords.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from drctl.config.fields import UNCHANGED
from drctl.config.foreign_patterns import compiled
from drctl.model.topology import Unavailable

Configs = Mapping[str, Mapping[str, str]]

_PARTNERS = {"checkpoint": "MirrorCheckpointConnector", "heartbeat": "MirrorHeartbeatConnector"}
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
    notes: tuple[str, ...] = ()


def mirrors(configs: Configs) -> tuple[Mirror, ...]:
    """Everything among the connectors that replicates between Kafka clusters."""
    found = []
    for name in sorted(configs):
        kind = simple_class(configs[name])
        if kind == "MirrorSourceConnector":
            found.append(_mirrormaker(name, configs))
        elif kind == "ReplicatorSourceConnector":
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
        for role, kind in _PARTNERS.items()
        for other in sorted(configs, reverse=True)
        if simple_class(configs[other]) == kind and _ends(configs[other]) == pair
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
    return Mirror(
        kind="confluent-replicator",
        connectors={"source": name},
        source_brokers=brokers(config.get("src.kafka.bootstrap.servers", "")),
        target_brokers=brokers(config.get("dest.kafka.bootstrap.servers", "")),
        topics=_listed_topics(config) or (".*",),
        exclude=tuple(map(pattern_of, _words(config.get("topic.blacklist", "")))),
        rename=config.get("topic.rename.format", UNCHANGED),
    )


def _listed_topics(config: Mapping[str, str]) -> tuple[str, ...]:
    """Patterns of what Replicator copies."""
    listed = map(pattern_of, _words(config.get("topic.whitelist", "")))
    return (*listed, *filter(None, [config.get("topic.regex", "")]))


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


def simple_class(config: Mapping[str, str]) -> str:
    """The connector's class without its package; Connect takes short names, too."""
    name = config.get("connector.class", "").rpartition(".")[2]
    return name if name.endswith("Connector") else f"{name}Connector"


def _words(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (word.strip() for word in text.split(","))))


_EXCLUDED = (r"mm2.*\.internal", r".*\.replica", "__.*")
_FILTER = "DefaultTopicFilter"
_REPLICATOR = "ReplicatorSource"
_TRANSFORMS = "org.apache.kafka.connect.transforms."
_ROUTER, _BY_TIME = f"{_TRANSFORMS}RegexRouter", f"{_TRANSFORMS}TimestampRouter"
_GROUP = re.compile(r"\$(\d)")

Arrival = str | Unavailable | None
"""A name; None where it is not copied at all."""


def arrives_as(config: Mapping[str, str], topic: str) -> Arrival:
    """Under which name the records of a topic arrive that a connector reads from."""
    try:
        if not _passes(config, topic):
            return None
        return _routed(config, _renamed(config, topic))
    except _Unknown as untold:
        return Unavailable(str(untold))


class _Unknown(Exception):
    """Only the connector itself knows."""


def _passes(config: Mapping[str, str], topic: str) -> bool:
    if _is_replicator(config):
        return _matches(_listed_topics(config), topic) and not _matches(
            map(pattern_of, _words(config.get("topic.blacklist", ""))), topic
        )
    own = config.get("topic.filter.class", _FILTER)
    if not own.endswith(_FILTER):
        raise _Unknown(f"it has a filter of its own, {own}")
    within = _words(config.get("topics", ".*"))
    without = _words(config["topics.exclude"]) if "topics.exclude" in config else _EXCLUDED
    return _matches(within, topic) and not (_matches(without, topic) or _comes_back(config, topic))


def _comes_back(config: Mapping[str, str], topic: str) -> bool:
    """Whether MirrorMaker 2's default policy takes it for a copy of what its target has."""
    if not config.get("replication.policy.class", _DEFAULT).endswith(_DEFAULT):
        return False
    separator = config.get("replication.policy.separator", ".")
    if not separator:
        raise _Unknown("its replication.policy.separator is empty")
    parts = topic.split(separator)
    return config.get("target.cluster.alias", "target") in parts[:-1]


def _renamed(config: Mapping[str, str], topic: str) -> str:
    if _is_replicator(config):
        return config.get("topic.rename.format", UNCHANGED).replace(UNCHANGED, topic)
    rename, unsure = renaming(config)
    if unsure:
        raise _Unknown(unsure[0])
    return rename.replace(UNCHANGED, topic)


def _routed(config: Mapping[str, str], topic: str) -> str:
    """Behind its transforms, in their order."""
    for name in _words(config.get("transforms", "")):
        of = f"transforms.{name}."
        kind = config.get(f"{of}type", "")
        if kind == _ROUTER:
            topic = _by_regex(config, of, topic)
        elif kind == _BY_TIME or not kind.startswith(_TRANSFORMS):
            raise _Unknown(f"its transform {kind} may give records another topic")
    return topic


def _by_regex(config: Mapping[str, str], of: str, topic: str) -> str:
    if f"{of}predicate" in config:
        raise _Unknown(f"{of}predicate says which records get another topic")
    found = _compiled(config.get(f"{of}regex", "")).fullmatch(topic)
    if found is None:
        return topic
    text = config.get(f"{of}replacement", "")
    groups = [int(number) for number in _GROUP.findall(text)]
    if "\\" in text or "${" in text or max(groups, default=0) > len(found.groups()):
        raise _Unknown(f"only Java understands what it makes of {topic}: {text!r}")
    # Java's $1 is Python's \g<1>.
    return found.expand(_GROUP.sub(r"\\g<\1>", text))


def _matches(patterns: Iterable[str], topic: str) -> bool:
    return any(_compiled(pattern).fullmatch(topic) for pattern in patterns)


def _compiled(pattern: str) -> re.Pattern[str]:
    found = compiled(pattern)
    if found is None:
        raise _Unknown(f"its pattern {pattern!r} is left to Java")
    return found


def _is_replicator(config: Mapping[str, str]) -> bool:
    return _REPLICATOR in config.get("connector.class", "")


_OVERRIDE = "producer.override."
NAMED = f"{_OVERRIDE}bootstrap.servers"
"""The setting by which a connector names the cluster that it writes to."""

_PREFIXES = ("target.cluster.", "dest.kafka.")
_SECURITY = ("security.", "sasl.", "ssl.")


def own_producer(config: Mapping[str, str]) -> frozenset[str]:
    """Addresses that a connector names for its producer; none: it writes as its worker does."""
    return brokers(config.get(NAMED, "")) - {""}


def how_to_write(connector: str, config: Mapping[str, str], cluster: str) -> str:
    """The settings with which it writes to a cluster; no value of them but addresses is shown.

    Args:
        cluster: its name in drctl.yaml.
    """
    prefix = next((each for each in _PREFIXES if f"{each}bootstrap.servers" in config), "")
    addresses = config.get(f"{prefix}bootstrap.servers", "") if prefix else ""
    told = f"of connector {connector}, while it is STOPPED, set"
    told += f" {NAMED}={addresses or f'the brokers of {cluster}'}"
    keys = sorted(key.removeprefix(prefix) for key in config if prefix and key.startswith(prefix))
    security = [f"{_OVERRIDE}{key}" for key in keys if key.startswith(_SECURITY)]
    if security:
        told += f", and {', '.join(security)} as its {prefix}* has them"
    else:
        told += f", and what {cluster} asks of clients as {_OVERRIDE}security.*, sasl.* and ssl.*"
    return f"{told}; its worker needs connector.client.config.override.policy=All"
