"""What the checks read a link with; nothing here can write."""

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
    """Readers of one cluster. Each is used by one thread at a time, concurrently with the others.

    Attributes:
        not_asked: why producers and transactions are not read by partition; empty if they are.
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
    """Readers of a link.

    Attributes:
        progress: reads the replicator's progress; uses none of the readers here. None if the
            replicator reports none.
        connectors: on the workers that replicate the link; None if none are configured.
        reverse: connectors on the workers that would replicate the link back.
        endpoints: of the link, in their order.
        journal: where a run would write its journal.
        left_out: returns committed offsets that cannot be translated; may raise `Unreachable`.
        copies: reads the end offsets of the copies; uses none of the readers here; may raise
            `Unreachable`. None to skip this.
        heartbeats_topic: the topic in `copies` that holds copied heartbeats; empty if none is
            known.
        active_cluster: of the link's clients, from the journal; may raise any `DrctlError`. None to
            skip this.
        copies_before: returns an earlier reading of `copies`; may raise `Unreachable`.
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
    heartbeats_topic: str = ""
    active_cluster: Callable[[], ActiveCluster] | None = None
    copies_before: Callable[[], Before] | None = None
