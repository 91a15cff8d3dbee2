"""The failback of a link: the same topics in the other direction, by what copies back.

Where copies have other names, as with MirrorMaker 2's default policy, applications continue in the
copies after a failover; what is written there is replicated back under the topics' own names.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from drctl.config.fields import UNCHANGED
from drctl.config.link import Link
from drctl.config.schema import FenceConfig, LinkConfig, ReplicatorConfig, ReverseConfig
from drctl.model.errors import ConfigError

ON_CONNECT = ("mirrormaker2", "confluent-replicator")


@dataclass(frozen=True, slots=True)
class Reversed(Link):
    """A link's failback: the same topics in the other direction.

    Attributes:
        old: the link as it was, and will be again.
    """

    old: Link

    @property
    def configured(self) -> str:
        """What drctl.yaml calls the link: another one may have the name of this direction."""
        return self.old.name


@dataclass(frozen=True, slots=True)
class ReverseLink(Reversed):
    """The failback of a link whose copies have other names: there topics get their own back."""

    def carries(self, topic: str) -> bool:
        """Whether it is a copy of a topic that the link carries."""
        name = self.old.source_topic(topic)
        return name is not None and self.old.carries(name) and not self._internal(topic)

    def target_topic(self, topic: str) -> str:
        """What a copy is called on the cluster that it came from."""
        return self.old.source_topic(topic) or topic

    def source_topic(self, topic: str) -> str | None:
        """What the copy of a topic is called."""
        return self.old.target_topic(topic)


def name_of(link: Link) -> str:
    """What the failback of a link is called; results of comparisons are kept under it."""
    return f"{link.name}-back"


def opposite(link: Link, links: Iterable[Link]) -> Link | None:
    """A link of drctl.yaml that leads the other way with the same topics; None where none does."""
    ends = (link.target, link.source)
    back = (each for each in links if (each.source, each.target) == ends)
    return next((each for each in back if shares_topics(link, each)), None)


def shares_topics(link: Link, other: Link) -> bool:
    """Whether all topics of a link are those of another, as far as their patterns tell."""
    return all(map(other.carries, link.settings.topics))


def reversed_link(link: Link, links: Iterable[Link] = ()) -> Link:
    """From the target to the source: by `replicator.reverse`, or a link that leads there.

    Raises:
        ConfigError: nothing says what copies back, or it gives topics other names there.
    """
    replicator, reverse = link.settings.replicator, link.settings.replicator.reverse
    if reverse is None and (other := opposite(link, links)) is not None:
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
                f"links.{link.name}.replicator: nothing says what copies from {link.target} to"
                f" {link.source}",
                "name it: `reverse: {connect: http://..., connectors: {source: NAME}}`",
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
    """What copies back keeps the records of both sites apart: no topic would hold them again."""
    there = rename.replace(UNCHANGED, "TOPIC")
    copy = link.target_topic("TOPIC")
    return ConfigError(
        f"links.{link.name}: what copies from {link.target} to {link.source} calls topics {there}"
        f" there: records that were written to {link.target} do not come home to TOPIC",
        f"where applications write to {copy} on {link.target}: name a connector that brings it"
        f" home as TOPIC (`reverse:` without `rename`). Where they write to TOPIC on"
        f" {link.target}, and read both topics on either side: docs/howto/two-active-sites.md",
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
            # What stops the one direction does not stop the other.
            "stop": (),
            "start": (),
            "stopped": (),
        }
    )
    # A command of the site fences the cluster that it was written for.
    own = fence if fence.method == "acl" else FenceConfig(method="none")
    settings: LinkConfig = link.settings.model_copy(
        update={"source": link.target, "target": link.source, "replicator": back, "fence": own}
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
