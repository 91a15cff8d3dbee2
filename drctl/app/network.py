"""The diagnosis for commands that reach neither cluster of a link: this host may be the cause."""

from contextlib import suppress
from typing import TYPE_CHECKING

from drctl.app import adapters
from drctl.checks.bounded_query import BoundedQuery
from drctl.host import connections
from drctl.model.errors import DrctlError
from drctl.model.health import NoClusterResponds

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link

_WAIT_S = 3.0
"""Timeout for a cluster that the command did not need: short, as the command has failed."""


def neither_responds(config: "Config", link: "Link | None" = None) -> NoClusterResponds | None:
    """The error if both clusters of the link are unreachable; None if one responds.

    A cluster that this command has not contacted yet is contacted now.

    Args:
        link: by default, each link with a cluster that is known to be unreachable.
    """
    for each in map(config.link, config.links) if link is None else (link,):
        ends = {each.source: each.source_config, each.target: each.target_config}
        unreachable = connections.unreachable_clusters()
        if not unreachable.keys() & ends:
            continue
        for name, cluster in ends.items():
            if name not in unreachable:
                with suppress(DrctlError), adapters.reader(name, cluster, _WAIT_S).topics as topics:
                    BoundedQuery(topics.cluster_id, 2 * _WAIT_S).value()
        unreachable = connections.unreachable_clusters()
        if ends.keys() <= unreachable.keys():
            return NoClusterResponds(unreachable[name] for name in ends)
    return None
