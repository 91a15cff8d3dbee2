"""Everything observed about a failback, as frozen values; verdicts depend on nothing else.

Source and target are those of the link as configured: the source is the cluster that was lost and
is back, the target is the cluster that applications use.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from drctl.checks.connector_settings import REPLICATOR
from drctl.config.mirrors import simple_class
from drctl.failback.gap_results import GapEvidence
from drctl.model.endpoints import EndpointState
from drctl.model.fencing import NoWrites
from drctl.model.health import ClusterHealth
from drctl.model.replication import Connector
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable

NOT_LOOKED_AT = Unavailable("not checked")

NO_WORKERS = Unavailable("drctl.yaml names no Connect workers for it")

DAMAGED = "damaged"
"""The status of a run with a damaged journal."""

Names = Mapping[str, str]
"""The name of each target topic on the source."""

Logs = Mapping[TopicPartition, OffsetRange | Unavailable]


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster of the link.

    Attributes:
        identity: Kafka cluster id.
        logs: offset ranges of the link's topics, by their names on this cluster.
        topic_ids: topic ids, if the cluster reports them.
        own_time: topics whose records may have other timestamps than their originals.
        compacted: topics in which compaction removes records; known on the target only.
        beside: if copies have other names, the logs of topics with the original names.
    """

    identity: str
    logs: Logs
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    beside: Logs = field(default_factory=dict)
    own_time: frozenset[str] = frozenset()
    compacted: frozenset[str] = frozenset()

    @property
    def topics(self) -> frozenset[str]:
        """Names of the link's topics that exist on this cluster."""
        return frozenset(place.topic for place in self.logs)

    @property
    def held(self) -> int:
        """Number of stored offsets, roughly the number of records."""
        return sum(
            log.end - log.start for log in self.logs.values() if isinstance(log, OffsetRange)
        )


@dataclass(frozen=True, slots=True)
class Fence:
    """Whether applications are prevented from writing to the source.

    Attributes:
        held: None if it cannot be observed.
        message: how the state of the fence is known.
        no_writes: whether the logs stayed the same between two reads; None if not read twice.
    """

    held: bool | None
    message: str
    no_writes: NoWrites | None = None


@dataclass(frozen=True, slots=True)
class Replicator:
    """A connector of one direction of replication.

    Attributes:
        copies: whether it copies records.
        positions: next offset to read, by partition; stored offsets may be a minute old.
    """

    connector: Connector
    copies: bool
    positions: Mapping[TopicPartition, int] | Unavailable = NOT_LOOKED_AT

    @property
    def name(self) -> str:
        """The connector's name."""
        return self.connector.name

    @property
    def config(self) -> Mapping[str, str]:
        """The connector's configuration."""
        return self.connector.config

    @property
    def is_replicator(self) -> bool:
        """Whether the connector is Confluent Replicator."""
        return simple_class(self.config) == REPLICATOR

    @property
    def group(self) -> str:
        """Confluent Replicator's consumer group."""
        return self.config.get("src.consumer.group.id") or self.config.get("name") or self.name

    @property
    def starts_at_group_offsets(self) -> bool:
        """Whether Replicator starts at its group's committed offsets, not at those in Connect."""
        return self.config.get("offset.start") == "consumer"

    @property
    def marks_copies(self) -> bool:
        """Whether Replicator writes provenance headers, and skips copies that have them."""
        return self.config.get("provenance.header.enable", "false").lower() == "true"

    @property
    def states(self) -> frozenset[str]:
        """States of the connector and its tasks."""
        return frozenset((self.connector.state, *(t.state for t in self.connector.tasks)))

    @property
    def idle(self) -> bool:
        """Whether the connector and all its tasks are stopped or paused."""
        return self.states <= {"STOPPED", "PAUSED"}

    @property
    def runs(self) -> bool:
        """Whether the connector is running."""
        return "RUNNING" in self.states and self.connector.state == "RUNNING"


@dataclass(frozen=True, slots=True)
class Replication:
    """The replication in one direction.

    Attributes:
        missing: connectors in drctl.yaml that do not exist on the workers.
        workers: id of the workers' own Kafka cluster, to which they write by default.
        into: bootstrap servers of the cluster to write to, from drctl.yaml.
        out_of: bootstrap servers of the cluster to read from, from drctl.yaml.
    """

    found: tuple[Replicator, ...]
    missing: tuple[str, ...] = ()
    workers: str | Unavailable = NOT_LOOKED_AT
    into: frozenset[str] = frozenset()
    out_of: frozenset[str] = frozenset()

    @property
    def copying(self) -> tuple[Replicator, ...]:
        """The connectors that copy records."""
        return tuple(each for each in self.found if each.copies)

    @property
    def runs(self) -> bool:
        """Whether a connector that copies records is running."""
        return any(each.runs for each in self.copying)

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The next offset to read, by partition, where known."""
        known = [e.positions for e in self.copying if not isinstance(e.positions, Unavailable)]
        return {place: offset for each in known for place, offset in each.items()}

    @property
    def never_ran(self) -> bool:
        """Whether no connector copies, or has ever copied, any record."""
        return all(each.idle and each.positions == {} for each in self.copying)


@dataclass(frozen=True, slots=True)
class Stopped:
    """The result of the user-supplied check whether the old replication is stopped.

    Attributes:
        held: whether the old replication is stopped.
        message: the result as text.
    """

    held: bool
    message: str


class ReverseStart(StrEnum):
    """Which record of the target was the first one that reverse replication wrote to the source."""

    NOTHING = "nothing"
    BOUNDARY = "boundary"
    START = "start"
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True)
class Copies:
    """Records that name a record of the source as their origin, in drctl's provenance header.

    Attributes:
        offsets: offsets of the originals, by source partition.
        others: number of records that are not copies, by partition.
        whole: whether all records written since the failover were scanned.
    """

    offsets: Mapping[TopicPartition, frozenset[int]] = field(default_factory=dict)
    others: Mapping[TopicPartition, int] = field(default_factory=dict)
    whole: bool = True

    @property
    def total(self) -> int:
        """Number of originals."""
        return sum(map(len, self.offsets.values()))


class Decision(NamedTuple):
    """The action for records of one order verdict.

    Attributes:
        order: safe, conflicting or unkeyed.
        action: copy, quarantine or discard; exports are not recorded on a cluster.
    """

    order: str
    action: str


Decided = Mapping[str, Mapping[Decision, int]]
"""Number of records per decision, by the id of a gap result."""

LeftMissing = Mapping[TopicPartition, tuple[tuple[int, int], ...]]
"""Source offset ranges, first and last, of records that were quarantined or discarded."""


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group of the link on both clusters.

    Attributes:
        active_on: clusters on which it has members.
        positions: its committed offsets on the source.
        unseen: why some of this is unknown; empty if everything is known.
    """

    name: str
    active_on: tuple[str, ...]
    positions: Mapping[TopicPartition, int]
    unseen: str = ""


@dataclass(frozen=True, slots=True)
class JournaledRun:
    """A run according to the journal; supplements observations, never replaces them.

    Attributes:
        switched_back: whether the run completed a switch of clients back to the source.
        in_progress: whether the run is an unfinished failback.
        left: when it began, if it moved, or may have moved, clients to the target; else None.
        fenced: when a fence of the source was verified and not rolled back since; None if there is
            none.
        gap: id of the gap result that it is based on; empty if none.
        boundaries: first new offset of each target partition, as the run located them.
        set_start: whether the run has set reverse replication to start there.
        refilling: whether the run has emptied the source, and has not completed the failback.
    """

    run: str
    plan: str
    status: str
    outstanding: tuple[str, ...] = ()
    switched_back: bool = False
    in_progress: bool = False
    left: datetime | None = None
    fenced: datetime | None = None
    gap: str = ""
    boundaries: Mapping[TopicPartition, int] = field(default_factory=dict)
    set_start: bool = False
    refilling: bool = False

    @property
    def damaged(self) -> bool:
        """Whether the run's journal is damaged, so that its changes are unknown."""
        return self.status == DAMAGED


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that was observed.

    Attributes:
        order: what the applications need: per-key, per-partition or none.
        max_lag: allowed lag of reverse replication when clients are moved, in records.
        gaps: results of `drctl gap` from source to target, newest first.
        reverse_gaps: the same in the other direction.
        stopped: result of the user-supplied check of the old replication; None without one.
        names: the source name of each of the link's topics on the target.
        filled: whether the source's content is a prefix of the target's.
        source_mismatch: by folder of a gap result, why the source no longer has the result's
            records, or why that is unknown.
        copied_since: by folder of a gap result, a record that was missing and that something other
            than drctl has copied since, or why that is unknown.
        diverged: how the clusters differ after the newest result, ignoring records in transit to
            the target; empty if they do not. Not read before clients are back on the source.
        boundaries: first new offset of each target partition.
        out_of_order: source partitions with records that something other than drctl copied after
            new records of the target.
        reverse_start: how reverse replication started, by partition of the source.
        drctl_copies: source records that drctl copied to the target.
        returned_copies: copies made by drctl that were replicated back to the source.
        pending: records on the target after the offset that reverse replication reports.
        decided: decisions of `drctl reconcile`, as stored on the target.
        exported: ids of gap results with an export on this host.
        local_journal: runs of local journal copies, if the journal cannot be read.
    """

    link: str
    source: str
    target: str
    order: str = "per-key"
    max_lag: int = 0
    on_source: Cluster | Unavailable = NOT_LOOKED_AT
    on_target: Cluster | Unavailable = NOT_LOOKED_AT
    health: ClusterHealth | Unavailable = NOT_LOOKED_AT
    fence: Fence | Unavailable = NOT_LOOKED_AT
    forward: Replication | Unavailable = NOT_LOOKED_AT
    stopped: Stopped | Unavailable | None = None
    reverse: Replication | Unavailable = NOT_LOOKED_AT
    gaps: tuple[GapEvidence, ...] = ()
    reverse_gaps: tuple[GapEvidence, ...] = ()
    source_mismatch: Mapping[str, str | Unavailable] = field(default_factory=dict)
    copied_since: Mapping[str, str | Unavailable] = field(default_factory=dict)
    diverged: str | Unavailable = NOT_LOOKED_AT
    names: Names = field(default_factory=dict)
    filled: bool = False
    boundaries: Mapping[TopicPartition, int] | Unavailable = NOT_LOOKED_AT
    out_of_order: tuple[str, ...] | Unavailable = NOT_LOOKED_AT
    reverse_start: Mapping[TopicPartition, ReverseStart | Unavailable] | Unavailable = NOT_LOOKED_AT
    drctl_copies: Copies | Unavailable = NOT_LOOKED_AT
    returned_copies: Copies | Unavailable = NOT_LOOKED_AT
    pending: Copies | Unavailable = NOT_LOOKED_AT
    decided: Decided | Unavailable = NOT_LOOKED_AT
    left_missing: LeftMissing = field(default_factory=dict)
    exported: frozenset[str] = frozenset()
    endpoints: tuple[EndpointState | Unavailable, ...] = ()
    groups: tuple[GroupState, ...] | Unavailable = NOT_LOOKED_AT
    journal: tuple[JournaledRun, ...] | Unavailable = NOT_LOOKED_AT
    local_journal: tuple[JournaledRun, ...] = ()

    @property
    def unavailable(self) -> tuple[str, ...]:
        """Reasons why something could not be observed, those of the clusters first."""
        ends = (self.on_source, self.on_target, self.journal, self.forward, self.reverse)
        rest = (self.fence, self.health, self.groups, self.decided, self.boundaries)
        known = (each.reason for each in (*ends, *rest) if isinstance(each, Unavailable))
        return tuple(dict.fromkeys(known))

    @property
    def runs(self) -> tuple[JournaledRun, ...]:
        """The runs in the journal; empty if it cannot be read."""
        return () if isinstance(self.journal, Unavailable) else self.journal

    @property
    def known_groups(self) -> tuple[GroupState, ...]:
        """The known groups; empty if they cannot be read."""
        return () if isinstance(self.groups, Unavailable) else self.groups

    def left_since(self, result: GapEvidence) -> str:
        """The run that moved clients to the target after a comparison; empty if none did."""
        later = (each.run for each in self.runs if each.left and each.left > result.started)
        return next(later, "")

    def fenced_before(self, result: GapEvidence) -> bool:
        """Whether a run had fenced the source before a comparison began."""
        return any(each.fenced and each.fenced < result.started for each in self.runs)

    @property
    def failed_back(self) -> str:
        """The run that moved clients back to the source, if it is the last move; else empty."""
        last = None if isinstance(self.journal, Unavailable) else self._last_that_moved
        return last.run if last is not None and last.switched_back else ""

    @property
    def unfinished_rebuild(self) -> str:
        """The run that emptied the source and did not complete; empty if none since a move."""
        telling = (each for each in self.runs if each.refilling or each.switched_back or each.left)
        last = next(telling, None)
        return last.run if last is not None and last.refilling else ""

    @property
    def never_moved(self) -> bool:
        """Whether the journal shows that no run has moved clients or may have done so."""
        return not isinstance(self.journal, Unavailable) and self._last_that_moved is None

    @property
    def left_source(self) -> bool:
        """Whether the last run that moved clients left them on the target, or may have."""
        return self._last_that_moved is not None and not self._last_that_moved.switched_back

    @property
    def _last_that_moved(self) -> JournaledRun | None:
        """The last run that moved clients, or may have (unfinished, or its journal is damaged)."""
        runs = self.local_journal if isinstance(self.journal, Unavailable) else self.journal
        moves = (
            each
            for each in runs
            if each.switched_back or each.in_progress or each.left or each.damaged
        )
        return next(moves, None)

    def of_now(self, results: tuple[GapEvidence, ...]) -> tuple[GapEvidence, ...]:
        """Gap results that cover what was written since clients moved to the target."""
        return tuple(each for each in results if not self.left_since(each))
