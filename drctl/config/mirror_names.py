"""What a connector makes of a topic: under which name its records arrive, or that they do not.

Its patterns say whether a topic passes, its policy what it is called then, and its transforms may
give the records another name after that.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from drctl.config.fields import UNCHANGED
from drctl.config.foreign_patterns import compiled
from drctl.config.mirrors import pattern_of, renaming
from drctl.model.topology import Unavailable

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
    except _Untold as untold:
        return Unavailable(str(untold))


class _Untold(Exception):
    """Only the connector itself knows."""


def _passes(config: Mapping[str, str], topic: str) -> bool:
    if _is_replicator(config):
        listed = map(pattern_of, _words(config.get("topic.whitelist", "")))
        patterns = (*listed, *filter(None, [config.get("topic.regex", "")]))
        return _matches(patterns, topic) and not _matches(
            map(pattern_of, _words(config.get("topic.blacklist", ""))), topic
        )
    own = config.get("topic.filter.class", _FILTER)
    if not own.endswith(_FILTER):
        raise _Untold(f"it has a filter of its own, {own}")
    within = _words(config.get("topics", ".*"))
    without = _words(config["topics.exclude"]) if "topics.exclude" in config else _EXCLUDED
    return _matches(within, topic) and not (_matches(without, topic) or _comes_back(config, topic))


def _comes_back(config: Mapping[str, str], topic: str) -> bool:
    """Whether MirrorMaker 2's default policy takes it for a copy of what its target has."""
    if not config.get("replication.policy.class", "DefaultReplicationPolicy").endswith(
        "DefaultReplicationPolicy"
    ):
        return False
    separator = config.get("replication.policy.separator", ".")
    if not separator:
        raise _Untold("its replication.policy.separator is empty")
    parts = topic.split(separator)
    return config.get("target.cluster.alias", "target") in parts[:-1]


def _renamed(config: Mapping[str, str], topic: str) -> str:
    if _is_replicator(config):
        return config.get("topic.rename.format", UNCHANGED).replace(UNCHANGED, topic)
    rename, unsure = renaming(config)
    if unsure:
        raise _Untold(unsure[0])
    return rename.replace(UNCHANGED, topic)


def _routed(config: Mapping[str, str], topic: str) -> str:
    """Behind its transforms, in their order."""
    for of, kind in _transforms(config):
        if kind == _ROUTER:
            topic = _by_regex(config, of, topic)
        elif kind == _BY_TIME or not kind.startswith(_TRANSFORMS):
            raise _Untold(f"its transform {kind} may give records another topic")
    return topic


def _transforms(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Of each, how its keys begin and its class."""
    for name in _words(config.get("transforms", "")):
        of = f"transforms.{name}."
        yield of, config.get(f"{of}type", "")


def _by_regex(config: Mapping[str, str], of: str, topic: str) -> str:
    if f"{of}predicate" in config:
        raise _Untold(f"{of}predicate says which records get another topic")
    found = _compiled(config.get(f"{of}regex", "")).fullmatch(topic)
    if found is None:
        return topic
    text = config.get(f"{of}replacement", "")
    groups = [int(number) for number in _GROUP.findall(text)]
    if "\\" in text or "${" in text or max(groups, default=0) > len(found.groups()):
        raise _Untold(f"only Java understands what it makes of {topic}: {text!r}")
    # Java's $1 is Python's \g<1>.
    return found.expand(_GROUP.sub(r"\\g<\1>", text))


def _matches(patterns: Iterable[str], topic: str) -> bool:
    return any(_compiled(pattern).fullmatch(topic) for pattern in patterns)


def _compiled(pattern: str) -> re.Pattern[str]:
    found = compiled(pattern)
    if found is None:
        raise _Untold(f"its pattern {pattern!r} is left to Java")
    return found


def _is_replicator(config: Mapping[str, str]) -> bool:
    return _REPLICATOR in config.get("connector.class", "")


def _words(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (word.strip() for word in text.split(","))))
