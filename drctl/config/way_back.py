"""The way home over a link: the same topics in the other direction, by what copies back."""

from collections.abc import Iterable

from drctl.config.fields import UNCHANGED
from drctl.config.link import Link
from drctl.config.schema import FenceConfig, LinkConfig, ReplicatorConfig, ReverseConfig
from drctl.model.errors import ConfigError

ON_CONNECT = ("mirrormaker2", "confluent-replicator")


def name_of(link: Link) -> str:
    """What the way home of a link is called; results of comparisons are kept under it."""
    return f"{link.name}-back"


def opposite(link: Link, links: Iterable[Link]) -> Link | None:
    """A link of drctl.yaml that leads the other way; None where there is none."""
    ends = (link.target, link.source)
    return next((each for each in links if (each.source, each.target) == ends), None)


def way_home(link: Link, links: Iterable[Link] = ()) -> Link:
    """From the target to the source: by `replicator.reverse`, or a link that leads there.

    Raises:
        ConfigError: nothing says what copies back, or topics have other names there.
    """
    replicator, reverse = link.settings.replicator, link.settings.replicator.reverse
    if reverse is None and (other := opposite(link, links)) is not None:
        back = other.settings.replicator
        reverse = ReverseConfig.model_construct(
            connect=back.connect, connectors=back.connectors, rename=back.rename
        )
    if reverse is None:
        if replicator.kind in ON_CONNECT:
            raise ConfigError(
                f"links.{link.name}.replicator: nothing says what copies from {link.target} to"
                f" {link.source}",
                "name it: `reverse: {connect: http://..., connectors: {source: NAME}}`",
            )
        reverse = ReverseConfig()
    if (replicator.rename, reverse.rename) != (UNCHANGED, UNCHANGED):
        raise ConfigError(
            f"links.{link.name}: topics have other names on {link.target}: records that were"
            " written to a copy there are copied back by no replicator under the old name",
            "go home by hand: drctl runbook render failback",
        )
    return _turned(link, reverse)


def _turned(link: Link, reverse: ReverseConfig) -> Link:
    replicator, fence = link.settings.replicator, link.settings.fence
    there = ReverseConfig.model_construct(
        connect=replicator.connect, connectors=replicator.connectors, rename=replicator.rename
    )
    back: ReplicatorConfig = replicator.model_copy(
        update={
            "connect": reverse.connect,
            "connectors": reverse.connectors,
            "rename": reverse.rename,
            "reverse": there,
            "copied_offsets_topic": None,
        }
    )
    # A command of the site fences the cluster that it was written for.
    own = fence if fence.method == "acl" else FenceConfig(method="none")
    settings: LinkConfig = link.settings.model_copy(
        update={"source": link.target, "target": link.source, "replicator": back, "fence": own}
    )
    return Link(
        name_of(link),
        link.target,
        link.target_config,
        link.source,
        link.source_config,
        settings,
    )
