"""A link with its two clusters: its topics, and their names on the target."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from drctl.config.fields import UNCHANGED
from drctl.config.schema import ClusterConfig, LinkConfig
from drctl.config.setting import Setting

# MirrorMaker 2 never replicates these, whatever its topic patterns are. It does replicate others
# that end in `.internal`: checked with 4.3.1.
_NEVER_MIRRORED = re.compile(r"mm2.*\.internal|.*\.checkpoints\.internal|.*\.replica|heartbeats")


INSIDE = "cluster:"
"""Prefix of the journal name of one cluster; no link name can contain it."""


@dataclass(frozen=True, slots=True)
class Link:
    """Replication from a source to a target.

    Attributes:
        source: name of the cluster that replication reads from.
        target: name of the cluster that it writes to.
        settings: the link's section of drctl.yaml.
        journal_key: key that signs the journals of its runs, if any.
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
        """Its name in drctl.yaml; for the reverse of a link, the name of that link."""
        return self.name

    @property
    def is_inside(self) -> bool:
        """Whether it stands for one cluster or Connect workers: see `Config.inside`."""
        return ":" in self.name

    @property
    def confirmed(self) -> str:
        """The name to type for confirmation."""
        return self.name.partition(":")[2] or self.target

    def carries(self, topic: str) -> bool:
        """Whether a topic of the source is replicated.

        Internal topics must be named literally in the configuration.
        """
        if _any_matches(self.settings.exclude, topic):
            return False
        if topic in self.settings.topics:
            return True
        return not self._internal(topic) and _any_matches(self.settings.topics, topic)

    def topics_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """The replicated topics among these names, sorted."""
        return tuple(sorted(filter(self.carries, names)))

    def target_topic(self, topic: str) -> str:
        """The name of a topic on the target."""
        return self.settings.replicator.rename.replace(UNCHANGED, topic)

    def source_topic(self, topic: str) -> str | None:
        """The name of a topic on the source; None if it is not the name of a replica."""
        first, *more = map(re.escape, self.settings.replicator.rename.split(UNCHANGED))
        pattern = first + "(.+)" + r"\1".join(more)
        found = re.fullmatch(pattern, topic)
        return found[1] if found else None

    def copies_among(self, names: Iterable[str]) -> tuple[str, ...]:
        """Replicas of replicated topics among these names of the target."""
        origins = {self.source_topic(name): name for name in names}
        return tuple(origins[t] for t in self.topics_of(o for o in origins if o is not None))

    def carries_group(self, group: str) -> bool:
        """Whether offsets of the consumer group are translated."""
        return self.settings.translate and _any_matches(self.settings.groups, group)

    def _internal(self, topic: str) -> bool:
        mirrored = self.settings.replicator.kind == "mirrormaker2"
        return topic.startswith("__") or bool(mirrored and _NEVER_MIRRORED.fullmatch(topic))


def _any_matches(patterns: Iterable[str], name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)
