"""All kinds of steps."""

from collections.abc import Mapping

from drctl.engine.kind import Journaled, Kind
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
from drctl.steps.records import FindGap, FindMissing, JudgeRecords, ProveCopies, Reconcile
from drctl.steps.repairs import AddPartitions, AddRules, ConfigureTopics, MakeTopics, SecondLook
from drctl.steps.reversed import OtherWay, Stays, WhileStopped
from drctl.steps.seed_replication import LeaveCopiesOut, SeedReplication
from drctl.steps.start_replication import MANUAL_START_REPLICATION, NoteEnds, StartReplication
from drctl.steps.stop_replication import ConfirmStop, MeasureLoss, RequestStop, StopReplication
from drctl.steps.switch_endpoint import SwitchEndpoint
from drctl.steps.verify_clients import VerifyClients
from drctl.steps.waiting import CaughtUp, Drain, Wait

_ALL: tuple[Kind, ...] = (
    Preflight(),
    TakeStock(),
    FENCE_PRODUCERS,
    FENCE_CONSUMERS,
    MeasureLoss(),
    Journaled(Drain()),
    Quiesce(),
    StopReplication(),
    PrepareGroups(),
    Journaled(CommitOffsets()),
    SkipProducerIds(),
    OpenTarget(),
    Journaled(SwitchEndpoint()),
    VerifyClients(),
    CheckGuards(),
    Journaled(Wait()),
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

_FAILOVER: tuple[Kind, ...] = (RequestStop(), ConfirmStop())

FAILOVER = frozenset(kind.name for kind in _FAILOVER)
"""Those that only drctl's own sequences make: a stop that is requested early, and seen to end."""

_STOPPED = "what copied from a cluster that is back stays stopped until clients are home"
_SEEDED = "where it begins stays right while it is stopped; once begun it is not set back"

_WAY_BACK: tuple[Kind, ...] = (
    WayBackOrder(),
    CLOSE_SOURCE,
    COMMAND_CLOSE_SOURCE,
    MANUAL_CLOSE_SOURCE,
    OtherWay(Stays(StopReplication(), "keep-stopped", _STOPPED, looks=True), "keep-stopped"),
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
    WhileStopped(LeaveCopiesOut("leave-copies-out", out=True)),
    WhileStopped(LeaveCopiesOut("take-copies-along", out=False)),
    WhileStopped(
        Stays(SeedReplication("seed-replication", from_search=True), "seed-replication", _SEEDED)
    ),
    WhileStopped(EmptySource()),
    WhileStopped(SeedFromStart()),
    WhileStopped(StartReplication()),
    WhileStopped(Journaled(CaughtUp())),
    WhileStopped(
        OtherWay(
            SeedReplication("seed-old-replication", from_search=False), "seed-old-replication"
        ),
        refuses=False,
    ),
    WhileStopped(OtherWay(NoteEnds(), NoteEnds.name), refuses=False),
    OtherWay(StartReplication(), "start-old-replication"),
    OtherWay(MANUAL_START_REPLICATION, "manual-start-old-replication"),
    ProveCopies(),
    OtherWay(ProveCopies(), "prove-old-copies"),
    Journaled(ProveGroups()),
    SettleOwed(),
)

WAY_BACK = frozenset(kind.name for kind in _WAY_BACK)
"""Those that only `drctl failback` makes: they are about both directions at once."""

_REPAIRS: tuple[Kind, ...] = (
    AddRules(),
    ConfigureTopics(),
    AddPartitions(),
    MakeTopics(),
    SecondLook(),
)

REPAIRS = frozenset(kind.name for kind in _REPAIRS)
"""Those that only `drctl doctor --fix` makes: each is a list of what was seen to differ."""

_LISTS: tuple[Kind, ...] = (Journaled(ElectLeaders()), Journaled(ApplyOffsets()))

LISTS = frozenset(kind.name for kind in _LISTS)
"""Those that only `drctl elect` and `drctl offsets` make: each is a list of what it changes."""

_CONNECTORS: tuple[Kind, ...] = (
    Journaled(ConnectorsRun()),
    Journaled(RestartConnectors()),
    Journaled(KeepPositions()),
    Journaled(SetPositions()),
    Journaled(StopConnector()),
    Journaled(ForgetPositions()),
    Journaled(ResumeConnector()),
    Journaled(MakeConnector()),
)

CONNECTORS = frozenset(kind.name for kind in _CONNECTORS)
"""Those that only `drctl connect` makes: they are about workers, whatever these replicate."""

KINDS: Mapping[str, Kind] = {
    kind.name: kind for kind in (*_ALL, *_FAILOVER, *_WAY_BACK, *_REPAIRS, *_LISTS, *_CONNECTORS)
}
