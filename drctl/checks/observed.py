"""What the checks look at, as frozen values; whoever observes it fills in what it could see."""

from collections.abc import Mapping
from dataclasses import dataclass

from drctl.config.link import Link
from drctl.model.acls import Acls
from drctl.model.topology import TopicState, Unavailable

NOT_LOOKED_AT = Unavailable("nobody looked")


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector as Connect's REST interface tells it.

    Attributes:
        kind: `source` or `sink`.
        config: as it was given. It may hold passwords: checks read named keys only.
    """

    name: str
    kind: str
    config: Mapping[str, str]


Connectors = Mapping[str, Connector]
Topics = Mapping[str, TopicState | Unavailable | None]
"""By name; None where the cluster says that there is none."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that was seen of a link and of what is around it.

    Attributes:
        connectors: on the workers that replicate it.
        reverse: on the workers that would replicate it back.
        worker: the configuration of the workers in `connectors`; Connect does not tell it.
        source_topics: all topics that the source has, and those that were asked for in vain.
        target_topics: the copies.
        source_groups: names of all groups.
        source_acls: of the source's topics.
    """

    link: Link
    connectors: Connectors | Unavailable = NOT_LOOKED_AT
    reverse: Connectors | Unavailable = NOT_LOOKED_AT
    worker: Mapping[str, str] | Unavailable = NOT_LOOKED_AT
    source_topics: Topics | Unavailable = NOT_LOOKED_AT
    target_topics: Topics | Unavailable = NOT_LOOKED_AT
    source_groups: tuple[str, ...] | Unavailable = NOT_LOOKED_AT
    source_acls: Acls | Unavailable = NOT_LOOKED_AT
