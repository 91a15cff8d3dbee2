"""All kinds of steps."""

from collections.abc import Mapping

from drctl.engine.kind import Journaled, StepKind
from drctl.steps.apply_offsets import ApplyOffsets
from drctl.steps.commands import COMMAND, COMMAND_FENCE, COMMAND_STOP_REPLICATION
from drctl.steps.commit_offsets import CommitOffsets, ProveGroups
from drctl.steps.connectors import (
    ConnectorsRun,
    ForgetPositions,
    KeepPositions,
    MakeConnector,
    RestartConnectors,
    ResumeConnector,
    SetPositions,
    StopConnector,
)
from drctl.steps.elections import ElectLeaders
from drctl.steps.failback import SettleOwed, WayBackOrder
from drctl.steps.fences import (
    CLOSE_SOURCE,
    COMMAND_CLOSE_SOURCE,
    FENCE_CONSUMERS,
    FENCE_PRODUCERS,
    MANUAL_CLOSE_SOURCE,
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
from drctl.steps.open_target import OpenTarget
from drctl.steps.prechecks import CheckGuards, Preflight, TakeStock
from drctl.steps.producer_ids import SkipProducerIds
from drctl.steps.rebuild import EmptySource, SeedFromStart
from drctl.steps.records import (
    PROVE_OLD_COPIES,
    FindGap,
    FindMissing,
    JudgeRecords,
    ProveCopies,
    Reconcile,
    ReconcileResult,
)
from drctl.steps.repairs import AddPartitions, AddRules, ConfigureTopics, MakeTopics, SecondLook
from drctl.steps.reversed import OtherWay, OweWhatMoved, Stays, WhileStopped
from drctl.steps.seed_replication import (
    LEAVE_COPIES_OUT,
    SEED_OLD,
    SEED_REPLICATION,
    TAKE_COPIES_ALONG,
    SeedReplication,
)
from drctl.steps.start_replication import (
    MANUAL_START_REPLICATION,
    START_OLD,
    NoteEnds,
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
from drctl.steps.verify_clients import VerifyClients
from drctl.steps.waiting import CaughtUp, Drain, Wait

_ALL: tuple[StepKind, ...] = (
    Preflight(),
    TakeStock(),
    FENCE_PRODUCERS,
    FENCE_CONSUMERS,
    MeasureLoss(),
    Drain(),
    Quiesce(),
    StopReplication(),
    PrepareGroups(),
    CommitOffsets(),
    SkipProducerIds(),
    OpenTarget(),
    SwitchEndpoint(),
    VerifyClients(),
    CheckGuards(),
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
"""Those that only drctl's own sequences make: a stop that is requested early, and seen to end."""

_STOPPED = "what copied from a cluster that is back stays stopped until clients are home"
_SEEDED = "where it begins stays right while it is stopped; once begun it is not set back"

_WAY_BACK: tuple[StepKind, ...] = (
    WayBackOrder(),
    CLOSE_SOURCE,
    COMMAND_CLOSE_SOURCE,
    MANUAL_CLOSE_SOURCE,
    OtherWay(Stays(StopReplication(), KEEP_STOPPED, _STOPPED, looks=True), KEEP_STOPPED),
    OtherWay(
        Stays(MANUAL_STOP_REPLICATION, "manual-keep-stopped", _STOPPED), "manual-keep-stopped"
    ),
    OtherWay(
        Stays(COMMAND_STOP_REPLICATION, "command-keep-stopped", _STOPPED, looks=True),
        "command-keep-stopped",
    ),
    FindMissing(),
    JudgeRecords(),
    WhileStopped(Reconcile()),
    WhileStopped(LEAVE_COPIES_OUT),
    WhileStopped(TAKE_COPIES_ALONG),
    WhileStopped(Stays(SEED_REPLICATION, SEED_REPLICATION.name, _SEEDED)),
    WhileStopped(EmptySource()),
    WhileStopped(SeedFromStart()),
    WhileStopped(StartReplication()),
    WhileStopped(CaughtUp()),
    OweWhatMoved(OtherWay(SeedReplication(SEED_OLD, from_search=False), SEED_OLD)),
    OweWhatMoved(OtherWay(NoteEnds(), NoteEnds.name)),
    OtherWay(StartReplication(), START_OLD),
    OtherWay(MANUAL_START_REPLICATION, "manual-start-old-replication"),
    ProveCopies(),
    OtherWay(ProveCopies(), PROVE_OLD_COPIES),
    ProveGroups(),
    SettleOwed(),
)

WAY_BACK = frozenset(kind.name for kind in _WAY_BACK)
"""Those that only `drctl failback` makes: they are about both directions at once."""

_REPAIRS: tuple[StepKind, ...] = (
    AddRules(),
    ConfigureTopics(),
    AddPartitions(),
    MakeTopics(),
    SecondLook(),
)

REPAIRS = frozenset(kind.name for kind in _REPAIRS)
"""Those that only `drctl doctor --fix` makes: each is a list of what was seen to differ."""

_LISTS: tuple[StepKind, ...] = (ElectLeaders(), ApplyOffsets(), ReconcileResult())

LISTS = frozenset(kind.name for kind in _LISTS)
"""Those that `drctl elect`, `offsets` and `reconcile` make: each is the only step of its plan."""

_CONNECTORS: tuple[StepKind, ...] = (
    ConnectorsRun(),
    RestartConnectors(),
    KeepPositions(),
    SetPositions(),
    StopConnector(),
    ForgetPositions(),
    ResumeConnector(),
    MakeConnector(),
)

CONNECTORS = frozenset(kind.name for kind in _CONNECTORS)
"""Those that only `drctl connect` makes: they are about workers, whatever these replicate."""

KINDS: Mapping[str, Journaled] = {
    kind.name: Journaled(kind)
    for kind in (*_ALL, *_FAILOVER, *_WAY_BACK, *_REPAIRS, *_LISTS, *_CONNECTORS)
}
