"""The reverse of a link: the same topics, from its target to its source.

If replicated topics are renamed, as by MirrorMaker 2's default policy, applications use the renamed
topics after a failover; their records are replicated back to the original names.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from drctl.config.fields import UNCHANGED
from drctl.config.link import Link
from drctl.config.schema import (
    FenceConfig,
    LinkConfig,
    ReplicatorConfig,
    ReverseConfig,
    SourceConnectorsConfig,
)
from drctl.model.errors import ConfigError

ON_CONNECT = ("mirrormaker2", "confluent-replicator")


@dataclass(frozen=True, slots=True)
class Reversed(Link):
    """The reverse of a link.

    Attributes:
        old: the link that is reversed.
    """

    old: Link

    @property
    def configured(self) -> str:
        """The name of the link in drctl.yaml: another link may have the name of this one."""
        return self.old.name


@dataclass(frozen=True, slots=True)
class ReverseLink(Reversed):
    """The reverse of a link with renamed topics: it restores the original names."""

    def carries(self, topic: str) -> bool:
        """Whether it is a replica of a topic of the link."""
        name = self.old.source_topic(topic)
        return name is not None and self.old.carries(name) and not self._internal(topic)

    def target_topic(self, topic: str) -> str:
        """The original name of a replicated topic."""
        return self.old.source_topic(topic) or topic

    def source_topic(self, topic: str) -> str | None:
        """The name of a topic's replica."""
        return self.old.target_topic(topic)


def name_of(link: Link) -> str:
    """The name of a link's reverse; results of comparisons are stored under it."""
    return f"{link.name}-back"


def opposite(link: Link, links: Iterable[Link]) -> Link | None:
    """A link in drctl.yaml with the same topics in reverse direction, if any."""
    ends = (link.target, link.source)
    back = (each for each in links if (each.source, each.target) == ends)
    return next((each for each in back if shares_topics(link, each)), None)


def both_sites(link: Link, links: Iterable[Link]) -> Link | None:
    """The opposite link, if applications write to the same topics on both clusters; else None.

    Raises:
        ConfigError: applications write on both clusters, but no opposite link covers all topics.
    """
    header = link.settings.origin_header
    if header is None:
        return None
    other = opposite(link, (each for each in links if each.settings.origin_header == header))
    if other is None:
        raise ConfigError(
            f"links.{link.name}: applications write to both clusters (`origin_header`), but no link"
            f" from {link.target} to {link.source} with the same header has all topics of"
            f" {link.name}",
            "list the same topics on both links: docs/howto/two-active-sites.md",
        )
    return other


def shares_topics(link: Link, other: Link) -> bool:
    """Whether another link covers all topics of a link, judged by their patterns."""
    return all(map(other.carries, link.settings.topics))


def reversed_link(link: Link, links: Iterable[Link] = ()) -> Link:
    """The reverse of a link, from `replicator.reverse` or from an opposite link.

    Raises:
        ConfigError: no replicator is configured for it, it renames topics, or applications write to
            the same topics on both clusters and no link replicates them back.
    """
    links = tuple(links)
    replicator, reverse = link.settings.replicator, link.settings.replicator.reverse
    other = both_sites(link, links) or opposite(link, links)
    if reverse is None and other is not None:
        back = other.settings.replicator
        reverse = ReverseConfig.model_construct(
            connect=back.connect,
            connect_access=back.connect_access,
            connectors=back.connectors,
            rename=back.rename,
        )
    if reverse is None:
        if replicator.kind in ON_CONNECT:
            raise ConfigError(
                f"links.{link.name}.replicator: no replication from {link.target} to"
                f" {link.source} is configured",
                "add `reverse: {connect: http://..., connectors: {source: NAME}}`",
            )
        reverse = ReverseConfig()
    if reverse.rename != UNCHANGED:
        raise _renames_again(link, reverse.rename)
    found = _reversed(link, reverse)
    if replicator.rename == UNCHANGED:
        return found
    return ReverseLink(
        found.name,
        found.source,
        found.source_config,
        found.target,
        found.target_config,
        found.settings,
        link,
    )


def _renames_again(link: Link, rename: str) -> ConfigError:
    """Reverse replication into renamed topics never restores the original topics."""
    there = rename.replace(UNCHANGED, "TOPIC")
    copy = link.target_topic("TOPIC")
    return ConfigError(
        f"links.{link.name}: replication from {link.target} to {link.source} renames TOPIC to"
        f" {there}: records written on {link.target} are not replicated back to TOPIC",
        f"if applications write to {copy} on {link.target}: configure a connector that replicates"
        f" it to TOPIC (`reverse:` without `rename`); if they write to TOPIC on both clusters and"
        " read both topics: see docs/howto/two-active-sites.md",
    )


def _reversed(link: Link, reverse: ReverseConfig) -> Link:
    replicator, fence = link.settings.replicator, link.settings.fence
    there = ReverseConfig.model_construct(
        connect=replicator.connect,
        connect_access=replicator.connect_access,
        connectors=replicator.connectors,
        rename=replicator.rename,
    )
    back: ReplicatorConfig = replicator.model_copy(
        update={
            "connect": reverse.connect,
            "connect_access": reverse.connect_access,
            "connectors": reverse.connectors,
            "rename": reverse.rename,
            "reverse": there,
            "copied_offsets_topic": None,
            # These commands stop the forward direction only.
            "stop": (),
            "start": (),
            "stopped": (),
        }
    )
    # A fence command is written for one cluster only.
    own = fence if fence.method == "acl" else FenceConfig(method="none")
    settings: LinkConfig = link.settings.model_copy(
        update={
            "source": link.target,
            "target": link.source,
            "replicator": back,
            "source_connectors": _reversed_connectors(link.settings.source_connectors),
            "fence": own,
        }
    )
    return Reversed(
        name_of(link),
        link.target,
        link.target_config,
        link.source,
        link.source_config,
        settings,
        link,
        journal_key=link.journal_key,
    )


def _reversed_connectors(forward: SourceConnectorsConfig | None) -> SourceConnectorsConfig | None:
    if forward is None:
        return None
    return forward.model_copy(
        update={
            "names": tuple(forward.pairs.values()),
            "rename": {new: old for old, new in forward.pairs.items() if new != old},
            "source": forward.target,
            "target": forward.source,
            "log_retention_hours": {
                forward.pairs[name]: hours for name, hours in forward.log_retention_hours.items()
            },
        }
    )
