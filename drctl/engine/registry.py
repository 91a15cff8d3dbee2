"""All kinds of steps."""

from collections.abc import Mapping

from drctl.engine.kind import Kind
from drctl.engine.steps.check_guards import CheckGuards
from drctl.engine.steps.command import COMMAND
from drctl.engine.steps.command_fence import COMMAND_FENCE
from drctl.engine.steps.commit_offsets import CommitOffsets
from drctl.engine.steps.drain import Drain
from drctl.engine.steps.fences import FENCE_CONSUMERS, FENCE_PRODUCERS
from drctl.engine.steps.find_gap import FindGap
from drctl.engine.steps.manual import MANUAL, MANUAL_CHECK
from drctl.engine.steps.manual_change import (
    MANUAL_CHANGE,
    MANUAL_RECONCILE,
    MANUAL_START_REPLICATION,
    MANUAL_STOP_REPLICATION,
)
from drctl.engine.steps.manual_fence import MANUAL_FENCE
from drctl.engine.steps.measure_loss import MeasureLoss
from drctl.engine.steps.open_target import OpenTarget
from drctl.engine.steps.preflight import Preflight
from drctl.engine.steps.prepare_groups import PrepareGroups
from drctl.engine.steps.quiesce import Quiesce
from drctl.engine.steps.skip_producer_ids import SkipProducerIds
from drctl.engine.steps.stop_replication import StopReplication
from drctl.engine.steps.switch_endpoint import SwitchEndpoint
from drctl.engine.steps.take_stock import TakeStock
from drctl.engine.steps.verify_clients import VerifyClients
from drctl.engine.steps.wait import Wait

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
    MANUAL_START_REPLICATION,
    MANUAL_RECONCILE,
    MANUAL_CHANGE,
    COMMAND,
    COMMAND_FENCE,
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _ALL}
