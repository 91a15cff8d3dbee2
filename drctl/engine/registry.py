"""All kinds of steps."""

from collections.abc import Mapping

from drctl.engine.kind import Kind
from drctl.engine.steps.add_partitions import AddPartitions
from drctl.engine.steps.add_rules import AddRules
from drctl.engine.steps.caught_up import CaughtUp
from drctl.engine.steps.check_guards import CheckGuards
from drctl.engine.steps.closed_source import (
    CLOSE_SOURCE,
    COMMAND_CLOSE_SOURCE,
    MANUAL_CLOSE_SOURCE,
)
from drctl.engine.steps.command import COMMAND, COMMAND_STOP_REPLICATION
from drctl.engine.steps.command_fence import COMMAND_FENCE
from drctl.engine.steps.commit_offsets import CommitOffsets
from drctl.engine.steps.configure_topics import ConfigureTopics
from drctl.engine.steps.drain import Drain
from drctl.engine.steps.empty_source import EmptySource
from drctl.engine.steps.fences import FENCE_CONSUMERS, FENCE_PRODUCERS
from drctl.engine.steps.find_gap import FindGap
from drctl.engine.steps.find_missing import FindMissing
from drctl.engine.steps.judge_records import JudgeRecords
from drctl.engine.steps.leave_copies_out import LeaveCopiesOut
from drctl.engine.steps.make_topics import MakeTopics
from drctl.engine.steps.manual import MANUAL, MANUAL_CHECK
from drctl.engine.steps.manual_change import (
    MANUAL_CHANGE,
    MANUAL_RECONCILE,
    MANUAL_STOP_REPLICATION,
)
from drctl.engine.steps.manual_fence import MANUAL_FENCE
from drctl.engine.steps.manual_start import MANUAL_START_REPLICATION
from drctl.engine.steps.measure_loss import MeasureLoss
from drctl.engine.steps.note_ends import NoteEnds
from drctl.engine.steps.open_target import OpenTarget
from drctl.engine.steps.other_way import OtherWay, Stays
from drctl.engine.steps.preflight import Preflight
from drctl.engine.steps.prepare_groups import PrepareGroups
from drctl.engine.steps.prove_copies import ProveCopies
from drctl.engine.steps.prove_groups import ProveGroups
from drctl.engine.steps.quiesce import Quiesce
from drctl.engine.steps.reconcile import Reconcile
from drctl.engine.steps.second_look import SecondLook
from drctl.engine.steps.seed_from_start import SeedFromStart
from drctl.engine.steps.seed_replication import SeedReplication
from drctl.engine.steps.settle_owed import SettleOwed
from drctl.engine.steps.skip_producer_ids import SkipProducerIds
from drctl.engine.steps.start_replication import StartReplication
from drctl.engine.steps.stop_replication import ConfirmStop, RequestStop, StopReplication
from drctl.engine.steps.switch_endpoint import SwitchEndpoint
from drctl.engine.steps.take_stock import TakeStock
from drctl.engine.steps.verify_clients import VerifyClients
from drctl.engine.steps.wait import Wait
from drctl.engine.steps.way_back_order import WayBackOrder
from drctl.engine.steps.while_stopped import WhileStopped

_ALL: tuple[Kind, ...] = (
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
    WhileStopped(CaughtUp()),
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
    ProveGroups(),
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

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (*_ALL, *_FAILOVER, *_WAY_BACK, *_REPAIRS)}
