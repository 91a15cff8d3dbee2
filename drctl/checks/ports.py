"""What is needed to observe a link; nothing of it can write."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from drctl.checks.replication_flow import Before, Ends
from drctl.model.active_cluster import ActiveCluster
from drctl.model.endpoints import EndpointReader
from drctl.model.fencing import AclReader
from drctl.model.health import HealthReader, RightsReader
from drctl.model.journal import JournalPlace
from drctl.model.ports import ClusterReader, GroupReader
from drctl.model.producer_ids import ProducerIdReader
from drctl.model.replication import ConnectorLister, LeftOut, ReplicationProgress


@dataclass(frozen=True, slots=True)
class ClusterPorts:
    """One cluster; each of these is used by one thread at a time, but beside the others.

    Attributes:
        not_asked: why nobody looks at each partition for producers and transactions; else empty.
    """

    reader: ClusterReader
    groups: GroupReader
    acls: AclReader
    health: HealthReader
    producers: ProducerIdReader
    rights: RightsReader
    not_asked: str = ""


@dataclass(frozen=True, slots=True)
class LinkPorts:
    """A link and what is around it.

    Attributes:
        progress: knows how far replication came; uses none of the readers here. None where nobody
            knows.
        connectors: on the workers that replicate the link; None where none are configured.
        reverse: on those that would replicate it back.
        endpoints: the link's, in their order.
        journal: where a run would write its journal to.
        left_out: which positions of groups have no place on the target; may raise `Unreachable`.
        copies: where the target's copies end; uses none of the readers here; may raise
            `Unreachable`. None where nobody looks.
        active_cluster: of the link's clients, by the journal; may raise any `DrctlError`. None
            where nobody looks.
        copies_before: where the copies ended when somebody looked a while ago; may raise
            `Unreachable`. None where nobody did.
        beats: the topic among these that holds copied heartbeats; empty where none is known.
    """

    source: ClusterPorts
    target: ClusterPorts
    progress: ReplicationProgress | None
    connectors: ConnectorLister | None
    reverse: ConnectorLister | None
    endpoints: Sequence[EndpointReader]
    journal: Sequence[JournalPlace]
    left_out: Callable[[], Sequence[LeftOut]] | None
    copies: Ends | None = None
    beats: str = ""
    active_cluster: Callable[[], ActiveCluster] | None = None
    copies_before: Callable[[], Before] | None = None
