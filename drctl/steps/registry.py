"""All kinds of steps."""

from collections.abc import Mapping

from drctl.engine.kind import Kind, StepKind
from drctl.steps.apply_offsets import ApplyOffsets
from drctl.steps.both_sites import BOTH_SITES
from drctl.steps.commands import COMMAND, COMMAND_FENCE, COMMAND_STOP_REPLICATION
from drctl.steps.commit_offsets import CommitOffsets, VerifyGroups
from drctl.steps.connectors import (
    CreateConnector,
    DeleteSourcePositions,
    RestartConnectors,
    ResumeConnector,
    SaveSourcePositions,
    SetSourcePositions,
    StopConnector,
    VerifyConnectorsRunning,
)
from drctl.steps.elections import ElectLeaders
from drctl.steps.enable_writes import EnableWrites
from drctl.steps.failback import FailbackOrder, ResolveOutstanding
from drctl.steps.fence_probe import ProbeAcls, RemoveProbeAcls
from drctl.steps.fences import (
    COMMAND_FENCE_RECOVERED,
    FENCE_CONSUMERS,
    FENCE_PRODUCERS,
    FENCE_RECOVERED,
    MANUAL_FENCE_RECOVERED,
)
from drctl.steps.groups import PrepareGroups, Quiesce
from drctl.steps.manual import (
    MANUAL,
    MANUAL_CHANGE,
    MANUAL_CHECK,
    MANUAL_FENCE,
    MANUAL_RECONCILE,
    MANUAL_STOP_REPLICATION,
)
from drctl.steps.prechecks import Preflight, RunPrechecks, SnapshotState
from drctl.steps.producer_ids import AdvanceProducerIds
from drctl.steps.quotas import SetQuotas
from drctl.steps.rebuild import EmptyRecovered, SetStartOffsetsEarliest
from drctl.steps.records import (
    VERIFY_FORWARD_COPIES,
    ClassifyRecords,
    FindGap,
    FindMissing,
    Reconcile,
    ReconcileResult,
    VerifyCopies,
)
from drctl.steps.repairs import AddAcls, AddPartitions, ConfigureTopics, CreateTopics, FinalPrecheck
from drctl.steps.reversed import (
    Irreversible,
    OppositeDirection,
    ReportMovedReplication,
    WhileStopped,
)
from drctl.steps.set_start_offsets import (
    EXCLUDE_RECONCILED,
    INCLUDE_RECONCILED,
    SET_START_OFFSETS,
    SET_START_OFFSETS_LATEST,
    SetStartOffsets,
)
from drctl.steps.source_connectors import (
    KEEP_SOURCES_STOPPED,
    MoveSourcePositions,
    ResumeSourceConnectors,
    StopSourceConnectors,
)
from drctl.steps.start_replication import (
    MANUAL_START_REPLICATION,
    RESTART_REPLICATION,
    RecordEndOffsets,
    StartReplication,
)
from drctl.steps.stop_replication import (
    KEEP_STOPPED,
    ConfirmStop,
    MeasureLoss,
    RequestStop,
    StopReplication,
)
from drctl.steps.switch_endpoint import SwitchEndpoint
from drctl.steps.transactions import AbortTransactions
from drctl.steps.verify_clients import VerifyClients
from drctl.steps.waiting import Drain, Wait, WaitForCatchUp

_ALL: tuple[StepKind, ...] = (
    Preflight(),
    SnapshotState(),
    FENCE_PRODUCERS,
    FENCE_CONSUMERS,
    AbortTransactions(),
    MeasureLoss(),
    Drain(),
    Quiesce(),
    StopReplication(),
    PrepareGroups(),
    CommitOffsets(),
    AdvanceProducerIds(),
    EnableWrites(),
    SwitchEndpoint(),
    VerifyClients(),
    StopSourceConnectors(),
    MoveSourcePositions(),
    ResumeSourceConnectors(),
    RunPrechecks(),
    Wait(),
    FindGap(),
    MANUAL,
    MANUAL_CHECK,
    MANUAL_FENCE,
    MANUAL_STOP_REPLICATION,
    WhileStopped(MANUAL_START_REPLICATION),
    MANUAL_RECONCILE,
    MANUAL_CHANGE,
    COMMAND,
    COMMAND_FENCE,
    COMMAND_STOP_REPLICATION,
)

_FAILOVER: tuple[StepKind, ...] = (RequestStop(), ConfirmStop())

FAILOVER = frozenset(kind.name for kind in _FAILOVER)
"""Kinds that only failover plans use: they request a stop early and confirm it later."""

_STOPPED = "forward replication stays stopped until the failback has completed"
_SOURCES_STOPPED = "the source connectors stay stopped until the failback has moved their positions"
_SEEDED = (
    "start offsets stay valid while the connector is stopped; those of a started connector are not"
    " reset"
)

_FAILBACK: tuple[StepKind, ...] = (
    FailbackOrder(),
    FENCE_RECOVERED,
    COMMAND_FENCE_RECOVERED,
    MANUAL_FENCE_RECOVERED,
    OppositeDirection(
        Irreversible(StopReplication(), KEEP_STOPPED, _STOPPED, verifies=True), KEEP_STOPPED
    ),
    OppositeDirection(
        Irreversible(MANUAL_STOP_REPLICATION, "manual-keep-stopped", _STOPPED),
        "manual-keep-stopped",
    ),
    OppositeDirection(
        Irreversible(COMMAND_STOP_REPLICATION, "command-keep-stopped", _STOPPED, verifies=True),
        "command-keep-stopped",
    ),
    OppositeDirection(
        Irreversible(StopSourceConnectors(), KEEP_SOURCES_STOPPED, _SOURCES_STOPPED, verifies=True),
        KEEP_SOURCES_STOPPED,
    ),
    FindMissing(),
    ClassifyRecords(),
    WhileStopped(Reconcile()),
    WhileStopped(EXCLUDE_RECONCILED),
    WhileStopped(INCLUDE_RECONCILED),
    WhileStopped(Irreversible(SET_START_OFFSETS, SET_START_OFFSETS.name, _SEEDED)),
    WhileStopped(EmptyRecovered()),
    WhileStopped(SetStartOffsetsEarliest()),
    WhileStopped(StartReplication()),
    WhileStopped(WaitForCatchUp()),
    ReportMovedReplication(
        OppositeDirection(
            SetStartOffsets(SET_START_OFFSETS_LATEST, from_search=False), SET_START_OFFSETS_LATEST
        )
    ),
    ReportMovedReplication(OppositeDirection(RecordEndOffsets(), RecordEndOffsets.name)),
    OppositeDirection(StartReplication(), RESTART_REPLICATION),
    OppositeDirection(MANUAL_START_REPLICATION, "manual-restart-replication"),
    VerifyCopies(),
    OppositeDirection(VerifyCopies(), VERIFY_FORWARD_COPIES),
    VerifyGroups(),
    ResolveOutstanding(),
    *BOTH_SITES,
)

FAILBACK = frozenset(kind.name for kind in _FAILBACK)
"""Kinds that only `drctl failback` uses: they concern both directions at once."""

_REPAIRS: tuple[StepKind, ...] = (
    AddAcls(),
    SetQuotas(),
    ConfigureTopics(),
    AddPartitions(),
    CreateTopics(),
    FinalPrecheck(),
)

REPAIRS = frozenset(kind.name for kind in _REPAIRS)
"""Kinds that only `drctl doctor --fix` uses: each fixes a list of differences."""

_LISTS: tuple[StepKind, ...] = (ElectLeaders(), ApplyOffsets(), ReconcileResult())

LISTS = frozenset(kind.name for kind in _LISTS)
"""Kinds of `drctl elect`, `offsets` and `reconcile`: each is the only step of its plan."""

_PROBE: tuple[StepKind, ...] = (ProbeAcls(), RemoveProbeAcls())

PROBE = frozenset(kind.name for kind in _PROBE)
"""Kinds that only `drctl doctor --fence-probe` uses."""

_CONNECTORS: tuple[StepKind, ...] = (
    VerifyConnectorsRunning(),
    RestartConnectors(),
    SaveSourcePositions(),
    SetSourcePositions(),
    StopConnector(),
    DeleteSourcePositions(),
    ResumeConnector(),
    CreateConnector(),
)

CONNECTORS = frozenset(kind.name for kind in _CONNECTORS)
"""Kinds that only `drctl connect` uses: they concern any connector of the workers."""

KINDS: Mapping[str, Kind] = {
    kind.name: Kind(kind)
    for kind in (*_ALL, *_FAILOVER, *_FAILBACK, *_REPAIRS, *_LISTS, *_PROBE, *_CONNECTORS)
}
