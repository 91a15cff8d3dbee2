"""A link with its two clusters: which topics it carries, and what they are called on the target."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from drctl.config.fields import UNCHANGED
from drctl.config.schema import ClusterConfig, LinkConfig
from drctl.config.setting import Setting

# What MirrorMaker 2 itself leaves out, whatever its topic patterns say. Others that end in
# `.internal` it does copy: checked on 4.3.1.
_NEVER_MIRRORED = re.compile(r"mm2.*\.internal|.*\.checkpoints\.internal|.*\.replica|heartbeats")


INSIDE = "cluster:"
"""How the journal calls what is inside one cluster; no link is called so."""


@dataclass(frozen=True, slots=True)
class Link:
    """Replication from a source to a target.

    Attributes:
        source: name of the cluster that replication reads from.
        target: name of the cluster that it writes to.
        settings: the link's section of drctl.yaml.
        journal_key: what journals of its runs are signed with; None where they are not.
    """

    name: str
    source: str
    source_config: ClusterConfig
    target: str
    target_config: ClusterConfig
    settings: LinkConfig
    journal_key: Setting | None = field(default=None, kw_only=True)

    @property
    def configured(self) -> str:
        """What drctl.yaml calls it; of a link's failback, the name of that link."""
        return self.name

    @property
    def is_inside(self) -> bool:
        """Whether it is one cluster, or some workers, and no link: see `Config.inside`."""
        return ":" in self.name

    @property
    def confirmed(self) -> str:
        """What has to be typed before something is written."""
        return self.name.partition(":")[2] or self.target

    def carries(self, topic: str) -> bool:
        """Whether the topic of the source is to be replicated.

        Internal topics are carried only where the configuration names them literally.
        """
        if _any_matches(self.settings.exclude, topic):
            return False
        if topic in self.settings.topics:
            return True
        return not self._internal(topic) and _any_matches(self.settings.topics, topic)

    def topics_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of the names that are carried, sorted."""
        return tuple(sorted(filter(self.carries, names)))

    def target_topic(self, topic: str) -> str:
        """What a topic of the source is called on the target."""
        return self.settings.replicator.rename.replace(UNCHANGED, topic)

    def source_topic(self, topic: str) -> str | None:
        """What a topic of the target is called on the source; None where its name is no copy's."""
        first, *more = map(re.escape, self.settings.replicator.rename.split(UNCHANGED))
        pattern = first + "(.+)" + r"\1".join(more)
        found = re.fullmatch(pattern, topic)
        return found[1] if found else None

    def copies_among(self, names: Iterable[str]) -> tuple[str, ...]:
        """Topics of the target that are called as copies of carried topics are, by these."""
        origins = {self.source_topic(name): name for name in names}
        return tuple(origins[t] for t in self.topics_of(o for o in origins if o is not None))

    def carries_group(self, group: str) -> bool:
        """Whether the offsets of the consumer group are to be translated."""
        return self.settings.translate and _any_matches(self.settings.groups, group)

    def _internal(self, topic: str) -> bool:
        mirrored = self.settings.replicator.kind == "mirrormaker2"
        return topic.startswith("__") or bool(mirrored and _NEVER_MIRRORED.fullmatch(topic))


def _any_matches(patterns: Iterable[str], name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)
