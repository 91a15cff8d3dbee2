"""Whether producers that go home would meet others of their id there.

`preflight` asks it again; there it would come too late: records are decided on and home by then.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from drctl.cli.runs.link_sight import LinkSight
from drctl.model.errors import ConfigError, Unreachable

if TYPE_CHECKING:
    from drctl.failback.facts import Facts
    from drctl.model.finding import Finding
    from drctl.model.producer_ids import Producers
    from drctl.model.topology import TopicPartition, Unavailable


def producers_that_meet(sight: LinkSight, facts: "Facts") -> "tuple[Finding, ...]":
    """What the guard says now.

    Args:
        sight: of the way home, from the survivor to the returned cluster.
        facts: of the link as it was.
    """
    from drctl.checks.observed import Observed
    from drctl.checks.producers import collide
    from drctl.failback.facts import Cluster

    home, survivor = facts.on_source, facts.on_target
    if not (isinstance(home, Cluster) and isinstance(survivor, Cluster)):
        return ()
    link = sight.link
    return collide.findings(
        Observed(
            link,
            source_producers=_in_use(sight, link.source, survivor.logs),
            target_producers=_in_use(sight, link.target, home.logs),
        )
    )


def _in_use(
    sight: LinkSight, cluster: str, places: "Collection[TopicPartition]"
) -> "Producers | Unavailable":
    from drctl.model.topology import Unavailable

    try:
        return sight.producer_ids(cluster).in_use(list(places))
    except (Unreachable, ConfigError) as error:
        return Unavailable(error.message)
