"""Derives what connectors replicate from their configurations, in terms of drctl.yaml.

Also the name of a topic on the target, and how to redirect a connector to another cluster. Only
listed fields are read: the configurations contain passwords.
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
    """Connectors that replicate from one cluster to another.

    Attributes:
        connectors: their names, by `source`, `checkpoint` and `heartbeat`.
        source: alias of the source cluster; empty if the replicator has none.
        source_brokers: bootstrap servers of the source cluster, as the connectors name them.
        rename: topic name on the target, with `${topic}`.
        notes: what could not be derived.
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
    """All replication between Kafka clusters among the connectors."""
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
    """A regular expression for exactly this topic; only `.` needs escaping."""
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
    """Patterns of the topics that Replicator replicates."""
    listed = map(pattern_of, _words(config.get("topic.whitelist", "")))
    return (*listed, *filter(None, [config.get("topic.regex", "")]))


def renaming(config: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """The topic name on the target by MirrorMaker 2, and a note if it is uncertain."""
    policy = config.get("replication.policy.class", _DEFAULT).rpartition(".")[2]
    if policy == _IDENTITY:
        return UNCHANGED, ()
    prefixed = config.get("source.cluster.alias", "source")
    rename = f"{prefixed}{config.get('replication.policy.separator', '.')}{UNCHANGED}"
    if policy == _DEFAULT:
        return rename, ()
    return UNCHANGED, (f"unknown replication policy {policy}: check `rename`",)


def _ends(config: Mapping[str, str]) -> tuple[str, str]:
    return config.get("source.cluster.alias", ""), config.get("target.cluster.alias", "")


def simple_class(config: Mapping[str, str]) -> str:
    """The connector's class without its package; Connect also accepts short names."""
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
"""A topic name; None if the topic is not replicated."""


def arrives_as(config: Mapping[str, str], topic: str) -> Arrival:
    """The name of a topic on the target of a connector."""
    try:
        if not _passes(config, topic):
            return None
        return _routed(config, _renamed(config, topic))
    except _Unknown as unknown:
        return Unavailable(str(unknown))


class _Unknown(Exception):
    """The configuration does not determine the answer."""


def _passes(config: Mapping[str, str], topic: str) -> bool:
    if _is_replicator(config):
        return _matches(_listed_topics(config), topic) and not _matches(
            map(pattern_of, _words(config.get("topic.blacklist", ""))), topic
        )
    own = config.get("topic.filter.class", _FILTER)
    if not own.endswith(_FILTER):
        raise _Unknown(f"it has a custom topic filter, {own}")
    within = _words(config.get("topics", ".*"))
    without = _words(config["topics.exclude"]) if "topics.exclude" in config else _EXCLUDED
    return _matches(within, topic) and not (_matches(without, topic) or _is_loop(config, topic))


def _is_loop(config: Mapping[str, str], topic: str) -> bool:
    """Whether MirrorMaker 2's default policy treats the topic as a replica from the target."""
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
    """The name after all transforms."""
    for name in _words(config.get("transforms", "")):
        of = f"transforms.{name}."
        kind = config.get(f"{of}type", "")
        if kind == _ROUTER:
            topic = _by_regex(config, of, topic)
        elif kind == _BY_TIME or not kind.startswith(_TRANSFORMS):
            raise _Unknown(f"its transform {kind} may change the topic of records")
    return topic


def _by_regex(config: Mapping[str, str], of: str, topic: str) -> str:
    if f"{of}predicate" in config:
        raise _Unknown(f"{of}predicate changes the topic of some records")
    found = _compiled(config.get(f"{of}regex", "")).fullmatch(topic)
    if found is None:
        return topic
    text = config.get(f"{of}replacement", "")
    groups = [int(number) for number in _GROUP.findall(text)]
    if "\\" in text or "${" in text or max(groups, default=0) > len(found.groups()):
        raise _Unknown(f"its replacement for {topic} is specific to Java: {text!r}")
    # Java's $1 is Python's \g<1>.
    return found.expand(_GROUP.sub(r"\\g<\1>", text))


def _matches(patterns: Iterable[str], topic: str) -> bool:
    return any(_compiled(pattern).fullmatch(topic) for pattern in patterns)


def _compiled(pattern: str) -> re.Pattern[str]:
    found = compiled(pattern)
    if found is None:
        raise _Unknown(f"its pattern {pattern!r} cannot be evaluated safely")
    return found


def _is_replicator(config: Mapping[str, str]) -> bool:
    return _REPLICATOR in config.get("connector.class", "")


_OVERRIDE = "producer.override."
NAMED = f"{_OVERRIDE}bootstrap.servers"
"""The setting for the cluster that a connector writes to."""

_PREFIXES = ("target.cluster.", "dest.kafka.")
_SECURITY = ("security.", "sasl.", "ssl.")


def own_producer(config: Mapping[str, str]) -> frozenset[str]:
    """Bootstrap servers of a connector's producer; empty if it uses those of the worker."""
    return brokers(config.get(NAMED, "")) - {""}


def how_to_write(connector: str, config: Mapping[str, str], cluster: str) -> str:
    """Instructions to make a connector write to a cluster; addresses are the only values in them.

    Args:
        cluster: its name in drctl.yaml.
    """
    prefix = next((each for each in _PREFIXES if f"{each}bootstrap.servers" in config), "")
    addresses = config.get(f"{prefix}bootstrap.servers", "") if prefix else ""
    text = f"stop connector {connector} (state STOPPED) and set"
    text += f" {NAMED}={addresses or f'the brokers of {cluster}'}"
    keys = sorted(key.removeprefix(prefix) for key in config if prefix and key.startswith(prefix))
    security = [f"{_OVERRIDE}{key}" for key in keys if key.startswith(_SECURITY)]
    if security:
        text += f", and {', '.join(security)} with the values of its {prefix}*"
    else:
        text += f", and {_OVERRIDE}security.*, sasl.* and ssl.* for {cluster}"
    return f"{text}; the worker requires connector.client.config.override.policy=All"


_FILTER, _BY_HEADER = ".transforms.Filter", ".predicates.HasHeaderKey"
_INSERT = ".transforms.InsertHeader"


def skips_header(config: Mapping[str, str], header: str) -> bool:
    """Whether a connector skips records that have a header."""
    return any(_filters(config, name, header) for name in _transforms(config))


def origin_fault(config: Mapping[str, str], header: str) -> str:
    """Why MirrorMaker 2 cannot recognize copies by a header; empty if it can."""
    names = _transforms(config)
    filters = [n for n, name in enumerate(names) if _filters(config, name, header)]
    inserts = [n for n, name in enumerate(names) if _inserts(config, name, header)]
    if not filters:
        return f"it replicates records that have header {header}: copies return to their origin"
    if not inserts:
        return f"it does not add header {header} to its copies"
    if inserts[0] < filters[-1]:
        return f"it adds header {header} before it filters by that header, so it skips every record"
    return ""


def skips_copies(config: Mapping[str, str]) -> bool:
    """Whether it is a Replicator that adds provenance headers, and skips records of its target."""
    overridden = config.get("provenance.header.filter.overrides", "").strip()
    enabled = config.get("provenance.header.enable", "").strip().lower() == "true"
    return _is_replicator(config) and enabled and not overridden


def _transforms(config: Mapping[str, str]) -> tuple[str, ...]:
    return _words(config.get("transforms", ""))


def _filters(config: Mapping[str, str], name: str, header: str) -> bool:
    of = f"transforms.{name}."
    predicate = f"predicates.{config.get(of + 'predicate', '')}."
    return (
        config.get(of + "type", "").endswith(_FILTER)
        and config.get(of + "negate", "false").lower() != "true"
        and config.get(predicate + "type", "").endswith(_BY_HEADER)
        and config.get(predicate + "name") == header
    )


def _inserts(config: Mapping[str, str], name: str, header: str) -> bool:
    of = f"transforms.{name}."
    return config.get(of + "type", "").endswith(_INSERT) and config.get(of + "header") == header
