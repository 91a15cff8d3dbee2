"""What was observed of a failback, as frozen values; everything that is judged stands here.

Source and target are the ends of the link as the failover left it: the source is the cluster that
was lost and is back, the target the one on which applications run.
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

NOT_LOOKED_AT = Unavailable("nobody looked")

NO_WORKERS = Unavailable("drctl.yaml names no Connect workers for it")

DAMAGED = "damaged"
"""The status of a run whose journal is not as it was written."""

Names = Mapping[str, str]
"""What each copy is called on the source."""

Logs = Mapping[TopicPartition, OffsetRange | Unavailable]


@dataclass(frozen=True, slots=True)
class Cluster:
    """One end of the link.

    Attributes:
        identity: Kafka's own id of the cluster.
        logs: of the link's topics, or of their copies, by the cluster's own names.
        topic_ids: Kafka's ids of these topics, as far as the cluster tells them.
        own_time: those of which records may have another time than their originals.
        beside: where copies have other names: the logs of topics that have the link's own names.
    """

    identity: str
    logs: Logs
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    beside: Logs = field(default_factory=dict)
    own_time: frozenset[str] = frozenset()

    @property
    def topics(self) -> frozenset[str]:
        """Names of the link's topics, or of their copies, that are there."""
        return frozenset(place.topic for place in self.logs)

    @property
    def held(self) -> int:
        """How many offsets their logs hold, about as many as records."""
        return sum(
            log.end - log.start for log in self.logs.values() if isinstance(log, OffsetRange)
        )


@dataclass(frozen=True, slots=True)
class Fence:
    """Whether applications are kept from writing to the source.

    Attributes:
        held: None where that is not visible from outside.
        words: how that is known.
        no_writes: whether the logs grew while somebody looked; None where nobody did.
    """

    held: bool | None
    words: str
    no_writes: NoWrites | None = None


@dataclass(frozen=True, slots=True)
class Replicator:
    """A connector that copies in one direction, or helps to.

    Attributes:
        copies: whether it is the one that copies records.
        positions: the next offset that it reads, by partition; what it keeps may be a minute old.
    """

    connector: Connector
    copies: bool
    positions: Mapping[TopicPartition, int] | Unavailable = NOT_LOOKED_AT

    @property
    def name(self) -> str:
        """Its name on the workers."""
        return self.connector.name

    @property
    def config(self) -> Mapping[str, str]:
        """Its configuration."""
        return self.connector.config

    @property
    def is_replicator(self) -> bool:
        """Whether it is Confluent Replicator."""
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
        """Whether Replicator writes provenance headers, and leaves out copies by them."""
        return self.config.get("provenance.header.enable", "false").lower() == "true"

    @property
    def states(self) -> frozenset[str]:
        """Of itself and its tasks."""
        return frozenset((self.connector.state, *(t.state for t in self.connector.tasks)))

    @property
    def idle(self) -> bool:
        """Whether it does nothing, and does not begin by itself."""
        return self.states <= {"STOPPED", "PAUSED"}

    @property
    def runs(self) -> bool:
        """Whether it, or a task of it, is at work."""
        return "RUNNING" in self.states and self.connector.state == "RUNNING"


@dataclass(frozen=True, slots=True)
class Replication:
    """What copies in one direction.

    Attributes:
        missing: connectors that drctl.yaml names and the workers have not.
        workers: id of the Kafka cluster that the workers are of, and write to by themselves.
        into: addresses of the cluster that is to be written to, as drctl.yaml has them.
        out_of: likewise, of the one that is read from.
    """

    found: tuple[Replicator, ...]
    missing: tuple[str, ...] = ()
    workers: str | Unavailable = NOT_LOOKED_AT
    into: frozenset[str] = frozenset()
    out_of: frozenset[str] = frozenset()

    @property
    def copying(self) -> tuple[Replicator, ...]:
        """Those that copy records."""
        return tuple(each for each in self.found if each.copies)

    @property
    def runs(self) -> bool:
        """Whether records are copied."""
        return any(each.runs for each in self.copying)

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The next offset that is read, of each partition of which that is known."""
        known = [e.positions for e in self.copying if not isinstance(e.positions, Unavailable)]
        return {place: offset for each in known for place, offset in each.items()}

    @property
    def never_ran(self) -> bool:
        """Whether no connector is there that copies, or has ever copied anything."""
        return all(each.idle and each.positions == {} for each in self.copying)


@dataclass(frozen=True, slots=True)
class Stopped:
    """What the user-supplied check of the old replication says.

    Attributes:
        held: whether it is stopped.
        words: what was said.
    """

    held: bool
    words: str


class ReverseStart(StrEnum):
    """Which record of the target came to the source first, behind what it had when it was lost."""

    NOTHING = "nothing"
    BOUNDARY = "boundary"
    START = "start"
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True)
class Copies:
    """Records that name a record of the source as their origin, in drctl's provenance header.

    Attributes:
        offsets: of the originals, by partition of the source.
        others: how many records were seen that are no copies, by the cluster's own partitions.
        whole: whether all was looked through that was written since the failover.
    """

    offsets: Mapping[TopicPartition, frozenset[int]] = field(default_factory=dict)
    others: Mapping[TopicPartition, int] = field(default_factory=dict)
    whole: bool = True

    @property
    def total(self) -> int:
        """How many originals."""
        return sum(map(len, self.offsets.values()))


class Decision(NamedTuple):
    """What became of records of one order verdict.

    Attributes:
        order: safe, conflicting or unkeyed.
        action: copy, quarantine or discard; an export leaves no trace on a cluster.
    """

    order: str
    action: str


Decided = Mapping[str, Mapping[Decision, int]]
"""By the id of a result of `drctl gap`: how many of its records."""

LeftMissing = Mapping[TopicPartition, tuple[tuple[int, int], ...]]
"""Offsets of the source as runs, first and last, of records that were quarantined or given up."""


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group of the link on both clusters.

    Attributes:
        active_on: clusters on which it has members.
        positions: that it has committed on the source.
        unseen: why not all of this is known; empty where it is.
    """

    name: str
    active_on: tuple[str, ...]
    positions: Mapping[TopicPartition, int]
    unseen: str = ""


@dataclass(frozen=True, slots=True)
class JournaledRun:
    """A run, as the journal tells it: evidence beside what is seen, never instead of it.

    Attributes:
        home: whether it switched clients back, to its end.
        in_progress: whether it is to switch them back, and has not ended.
        left: when it began, where it led clients to the target, or may have; None where not.
        fenced: when it was seen that applications cannot write to the source, where that was not
            rolled back; None where it was not seen.
    """

    run: str
    plan: str
    status: str
    outstanding: tuple[str, ...] = ()
    home: bool = False
    in_progress: bool = False
    left: datetime | None = None
    fenced: datetime | None = None

    @property
    def damaged(self) -> bool:
        """Whether nobody knows what it did."""
        return self.status == DAMAGED


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that was seen.

    Attributes:
        order: what the applications need: per-key, per-partition or none.
        max_lag: how many records reverse replication may lag when clients are moved.
        gaps: results of `drctl gap` from source to target, the newest first.
        reverse_gaps: the same in the other direction.
        stopped: what the user-supplied command says of the old replication; None where it has none.
        names: what each of the link's copies on the target is called on the source.
        filled: whether the source holds the beginning of what the target does, and nothing else.
        source_mismatch: by folder of a result, why its records are not those of the source; or why
            that is not known.
        copied_since: likewise, which record that it misses was copied since, and not by drctl.
        diverged: how the clusters differ behind the newest result; empty where they do not, but for
            what is on its way to the target. Looked at where clients are back on the source.
        boundaries: where new records of the target begin, by its own partitions.
        behind: partitions of the source of which records stand behind new ones of the target, that
            drctl did not copy; empty where none do.
        began: by partition of the source.
        brought: records of the source that somebody copied to the target with drctl.
        returned_copies: such copies, on the source again.
        waiting: on the target, after the position that reverse replication reports.
        decided: what `drctl reconcile` has done, as the target keeps it.
        exported: ids of results of which an export is on this machine.
        local_journal: what copies of journals on this machine tell, where the journal is silent.
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
        """What the journal tells of; none where it is silent."""
        return () if isinstance(self.journal, Unavailable) else self.journal

    @property
    def known_groups(self) -> tuple[GroupState, ...]:
        """What is known of groups; none where nobody tells."""
        return () if isinstance(self.groups, Unavailable) else self.groups

    def left_since(self, result: GapEvidence) -> str:
        """The run that led clients to the target after a comparison; empty where none did."""
        later = (each.run for each in self.runs if each.left and each.left > result.started)
        return next(later, "")

    def fenced_before(self, result: GapEvidence) -> bool:
        """Whether a run had closed the source to applications before a comparison began."""
        return any(each.fenced and each.fenced < result.started for each in self.runs)

    @property
    def failed_back(self) -> str:
        """The run that led clients back to the source, if it is the last that moved them."""
        last = None if isinstance(self.journal, Unavailable) else self._last_that_moved
        return last.run if last is not None and last.home else ""

    @property
    def never_moved(self) -> bool:
        """Whether the journal knows that no run has moved clients, and none is under way."""
        return not isinstance(self.journal, Unavailable) and self._last_that_moved is None

    @property
    def left_source(self) -> bool:
        """Whether the last run that moved clients left them on the target, or may have."""
        return self._last_that_moved is not None and not self._last_that_moved.home

    @property
    def _last_that_moved(self) -> JournaledRun | None:
        """One that is damaged may have."""
        runs = self.local_journal if isinstance(self.journal, Unavailable) else self.journal
        moves = (
            each for each in runs if each.home or each.in_progress or each.left or each.damaged
        )
        return next(moves, None)

    def of_now(self, results: tuple[GapEvidence, ...]) -> tuple[GapEvidence, ...]:
        """Those that know what was written since clients came to the target."""
        return tuple(each for each in results if not self.left_since(each))
