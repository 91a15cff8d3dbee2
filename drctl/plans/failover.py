"""The plans of a planned and an unplanned failover, and the builders of their steps.

`failover` lists the steps in order. Each builder after it makes one step, or a few, with
the settings that a link needs; failback plans and runbooks use the same builders.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import replace

from drctl.checks.source import BLOCKING
from drctl.engine.kind import BothClusters
from drctl.engine.source_fence import ALIVE
from drctl.model.errors import Refused
from drctl.model.loss import Mode
from drctl.model.plan import Duty, Plan, Step
from drctl.model.text import put
from drctl.plans.inputs import FenceMethod, PlanInputs
from drctl.steps.commands import (
    COMMAND,
    COMMAND_FENCE,
    COMMAND_STOP_REPLICATION,
    CommandFenceSettings,
    CommandSettings,
)
from drctl.steps.commit_offsets import CommitOffsets, CommitSettings
from drctl.steps.enable_writes import EnableSettings, EnableWrites
from drctl.steps.fences import FENCE_CONSUMERS, FENCE_PRODUCERS, AclFenceSettings
from drctl.steps.groups import PrepareGroups, Quiesce, QuiesceSettings
from drctl.steps.manual import (
    MANUAL_CHANGE,
    MANUAL_FENCE,
    MANUAL_STOP_REPLICATION,
    ManualFenceSettings,
    ManualSettings,
)
from drctl.steps.prechecks import Preflight, PreflightSettings, SnapshotSettings, SnapshotState
from drctl.steps.producer_ids import AdvanceProducerIds, AdvanceSettings
from drctl.steps.set_start_offsets import SET_START_OFFSETS_LATEST, SeedSettings, SetStartOffsets
from drctl.steps.source_connectors import (
    MoveSettings,
    MoveSourcePositions,
    ResumeSourceConnectors,
    SourceSettings,
    StopSourceConnectors,
)
from drctl.steps.start_replication import RESTART_REPLICATION, StartReplication, StartSettings
from drctl.steps.stop_replication import (
    STOPPED,
    ConfirmSettings,
    ConfirmStop,
    MeasureLoss,
    RequestStop,
    StopReplication,
    StopSettings,
)
from drctl.steps.switch_endpoint import SwitchEndpoint, SwitchSettings
from drctl.steps.transactions import AbortSettings, AbortTransactions
from drctl.steps.verify_clients import ClientsSettings, VerifyClients
from drctl.steps.waiting import Drain, DrainSettings

LIFT_FENCE = "let producers write to {source} again: remove the block, or restart them"
RESUME_REPLICATION = "resume replication from {source} to {target} as it ran before"

_PLANNED_STABILIZE_S = 0.5
"""Brokers append a record that they accepted before the fence within 0.1 s."""

_STATES = re.compile("[A-Z+]+")
"""States of a connector and its tasks; in their place the basis of a plan may have an error."""

_STOP_S = 180
"""A task that waits for a dead source stops only after its own timeouts."""


def failover(mode: Mode, inputs: PlanInputs) -> Plan:
    """Build the plan; the same inputs always give the same plan.

    Raises:
        Refused: a connector of the reverse replication runs, or its state is unknown.
    """
    if mode is Mode.PLANNED:
        _refuse_if_reversed(inputs)
        steps = tuple(_planned(inputs))
    else:
        steps = tuple(_unplanned(inputs))
    name, source, target = f"failover-{mode.value}", inputs.source, inputs.target
    return Plan(name, inputs.link, source, target, steps, inputs.basis, inputs.overrides)


def _refuse_if_reversed(inputs: PlanInputs) -> None:
    for name in inputs.reverse:
        state = inputs.basis.get(f"connector {name}", STOPPED)
        if not _STATES.fullmatch(state):
            raise Refused(
                f"connector {name} must be STOPPED, and its state is unknown: {state}",
                "check that Connect responds and has this connector, then run the command again;"
                " or remove `after_failover` from `reverse`",
            )
        if state != STOPPED:
            raise Refused(
                f"connector {name} must be STOPPED (its state: {state}): the failover starts it, to"
                f" replicate from {inputs.target} to {inputs.source}",
                f"stop it, so that its start offsets can be set: {put('', name, 'stop')}; or remove"
                " `after_failover` from `reverse`",
            )


def _planned(inputs: PlanInputs) -> Iterator[Step]:
    yield preflight(inputs, Mode.PLANNED, compare_ahead=True)
    yield snapshot_state(inputs)
    # Before the fence: a task whose writes are rejected fails instead of storing its position.
    yield from stop_source_connectors(inputs)
    # A short wait is enough: enable-writes compares the end offsets with these again.
    yield fence_producers(inputs, Duty.REQUIRED, stabilize_s=_PLANNED_STABILIZE_S)
    yield from abort_transactions(inputs)
    draining = DrainSettings(inputs.target, source=inputs.source)
    yield Drain().step("drain", draining, inputs.timeout_s)
    yield from quiesce_consumers(inputs, translate_ahead=True)
    yield prepare_groups(inputs)
    yield advance_producer_ids(inputs)
    yield stop_replication(inputs, rest_later=True)
    yield commit_offsets(inputs, leave_out=inputs.leaves_groups_out)
    yield from move_source_positions(inputs)
    if inputs.reverse:
        yield set_reverse_start_offsets(inputs)
    yield enable_writes(inputs, mode=Mode.PLANNED)
    yield from switch_endpoints(inputs)
    yield from resume_source_connectors(inputs)
    yield from confirm_stop(inputs, lost=False)
    yield verify_clients(inputs)
    if inputs.reverse:
        yield start_reverse_replication(inputs)


def _unplanned(inputs: PlanInputs) -> Iterator[Step]:
    yield preflight(inputs, Mode.UNPLANNED)
    yield snapshot_state(inputs)
    # A dead source cannot be fenced: the fence stays outstanding until the source is back.
    yield fence_producers(inputs, Duty.BEST_EFFORT)
    # Tasks take seconds to stop: they do so during the next steps.
    yield from request_stop(inputs)
    yield prepare_groups(inputs)
    yield advance_producer_ids(inputs)
    # Asks Connect, which responds only once those tasks have stopped.
    yield MeasureLoss().step("measure-loss", both_clusters(inputs), 30)
    yield stop_replication(inputs, tasks_only=True)
    # One group without evidence must not delay all others: it is reported as outstanding.
    yield commit_offsets(inputs, leave_out=True, lost=True)
    yield enable_writes(inputs, mode=Mode.UNPLANNED)
    yield from switch_endpoints(inputs)
    # Workers of a lost site time out: clients are served first.
    yield from stop_source_connectors(inputs, lost=True)
    yield from move_source_positions(inputs, lost=True)
    yield from resume_source_connectors(inputs)
    yield from confirm_stop(inputs, lost=True)
    yield verify_clients(inputs)


def preflight(
    inputs: PlanInputs, mode: Mode, identity: str = "preflight", *, compare_ahead: bool = False
) -> Step:
    """Run all prechecks of the mode.

    Args:
        compare_ahead: whether to compare idle partitions, too, so that the drain need not compare
            them.
    """
    settings = PreflightSettings(mode.value, inputs.overrides, compare_ahead=compare_ahead)
    return Preflight().step(identity, settings, 30)


def snapshot_state(inputs: PlanInputs, identity: str = "snapshot-state") -> Step:
    """Record the state of both clusters."""
    settings = SnapshotSettings((inputs.source, inputs.target), inputs.connectors)
    return SnapshotState().step(identity, settings, 30)


def fence_producers(
    inputs: PlanInputs, duty: Duty, identity: str = "fence-producers", stabilize_s: float = math.inf
) -> Step:
    """Fence producers on the source by ACLs, by the configured command, or by the operator.

    Args:
        stabilize_s: an upper limit for how long end offsets must be stable; applies to ACLs, which
            brokers confirm.
    """
    timeout_s = 120 if duty is Duty.REQUIRED else 15
    if inputs.fence_method is FenceMethod.ACL:
        settings = acl_fence(replace(inputs, stabilize_s=min(inputs.stabilize_s, stabilize_s)))
        return FENCE_PRODUCERS.step(identity, settings, timeout_s, duty)
    if inputs.fence_method is FenceMethod.COMMAND:
        command = CommandFenceSettings(
            question=identity,
            argv=inputs.fence_command,
            undo=inputs.fence_undo,
            verify=inputs.fence_verify,
            env={},
            timeout_seconds=inputs.command_timeout_s,
            cluster=inputs.source,
            stabilize_seconds=inputs.stabilize_s,
        )
        return COMMAND_FENCE.step(identity, command, timeout_s, duty)
    manual = ManualFenceSettings(
        question=identity,
        text=f"block all producers of {inputs.source} (at the network), or stop them",
        undo=LIFT_FENCE.format(source=inputs.source),
        cluster=inputs.source,
        stabilize_seconds=inputs.stabilize_s,
    )
    return MANUAL_FENCE.step(identity, manual, timeout_s, duty)


def abort_transactions(inputs: PlanInputs, identity: str = "abort-transactions") -> Iterator[Step]:
    """Abort transactions that block the drain; no step unless their precheck is overridden."""
    if reason := inputs.overrides.get(BLOCKING):
        settings = AbortSettings(inputs.source, reason)
        yield AbortTransactions().step(identity, settings, 60)


def acl_fence(inputs: PlanInputs) -> AclFenceSettings:
    """The settings of a fence by ACLs."""
    return AclFenceSettings(
        link=inputs.link,
        cluster=inputs.source,
        principals=inputs.principals,
        stabilize_seconds=inputs.stabilize_s,
        groups=inputs.fence_groups,
    )


def quiesce_consumers(inputs: PlanInputs, *, translate_ahead: bool = False) -> Iterator[Step]:
    """Wait until no group is active on the source; fence consumers or ask the operator first.

    Args:
        translate_ahead: whether to translate offsets in the background meanwhile.
    """
    quiesce = QuiesceSettings(inputs.source, translate_ahead=translate_ahead)
    if inputs.fence_method is FenceMethod.ACL:
        drain = replace(quiesce, drain_window=True)
        window_s = inputs.drain_window_s
        yield Quiesce().step("wait-for-consumers", drain, window_s, Duty.OPTIONAL)
        yield FENCE_CONSUMERS.step("fence-consumers", acl_fence(inputs), 60)
        yield Quiesce().step("quiesce-consumers", quiesce, 60)
        return
    if inputs.fence_method is FenceMethod.NONE:
        question = ManualSettings(
            question="stop-consumers",
            text=f"stop all consumers of the link's topics on {inputs.source}",
            undo=f"restart the consumers on {inputs.source} that you stopped",
        )
        yield MANUAL_CHANGE.step("stop-consumers", question, 60)
    yield Quiesce().step("quiesce-consumers", quiesce, 60 + inputs.drain_window_s)


def request_stop(inputs: PlanInputs, identity: str = "request-stop") -> Iterator[Step]:
    """Request the stop of the connector that replicates records; no step without connectors.

    Later steps run while its tasks stop. Requests to stop other connectors would wait for these
    tasks.
    """
    if inputs.connectors:
        settings = StopSettings(inputs.connectors[:1], translate_ahead=True)
        yield RequestStop().step(identity, settings, 60)


def confirm_stop(
    inputs: PlanInputs, identity: str = "confirm-stop", *, lost: bool
) -> Iterator[Step]:
    """Stop the remaining connectors and verify that all have stopped; clients are already served.

    Args:
        lost: whether the source is lost and must not have come back.
    """
    if inputs.connectors[0 if lost else 1 :]:
        settings = ConfirmSettings(inputs.connectors, inputs.source if lost else "")
        yield ConfirmStop().step(identity, settings, 120, Duty.BEST_EFFORT)


def stop_replication(
    inputs: PlanInputs,
    identity: str = "stop-replication",
    *,
    tasks_only: bool = False,
    rest_later: bool = False,
) -> Step:
    """Stop replication: the link's connectors, by the configured command, or by the operator.

    Args:
        tasks_only: whether to wait only for the tasks that write records or offsets.
        rest_later: whether to leave connectors that write neither to `confirm_stop`.
    """
    if inputs.connectors:
        settings = StopSettings(inputs.connectors, tasks_only, rest_later)
        return StopReplication().step(identity, settings, _STOP_S)
    if inputs.stop_command:
        command = CommandSettings(
            question=identity,
            argv=inputs.stop_command,
            undo=inputs.start_command,
            verify=inputs.stopped_command,
            env={},
            timeout_seconds=inputs.command_timeout_s,
        )
        return COMMAND_STOP_REPLICATION.step(identity, command, 120)
    source, target = inputs.source, inputs.target
    question = ManualSettings(
        question=identity,
        text=f"stop replication from {source} to {target}, and make sure that nothing restarts it",
        undo=RESUME_REPLICATION.format(source=source, target=target),
    )
    return MANUAL_STOP_REPLICATION.step(identity, question, 60)


def prepare_groups(inputs: PlanInputs, identity: str = "prepare-groups") -> Step:
    """Create the link's KIP-848 groups on the target: without their group, members fail."""
    return PrepareGroups().step(identity, both_clusters(inputs), 30, Duty.BEST_EFFORT)


def commit_offsets(
    inputs: PlanInputs, *, leave_out: bool, lost: bool = False, identity: str = "commit-offsets"
) -> Step:
    """Commit translated offsets for the link's groups on the target.

    Args:
        leave_out: whether to continue without groups that have no offset to resume from.
        lost: whether the source is lost, so that `policy.unproven_offsets` applies.
    """
    settings = CommitSettings(
        inputs.link,
        inputs.target,
        dict(inputs.offset_overrides),
        leave_out,
        inputs.unproven_offsets if lost else None,
        both_write=bool(inputs.origin_header),
    )
    return CommitOffsets().step(identity, settings, 30)


def advance_producer_ids(
    inputs: PlanInputs, timeout_s: float = 30, identity: str = "advance-producer-ids"
) -> Step:
    """Advance the target's producer ids; if time runs out, producers have to be restarted."""
    settings = AdvanceSettings(inputs.source, inputs.target, timeout_s)
    return AdvanceProducerIds().step(identity, settings, timeout_s, Duty.BEST_EFFORT)


def enable_writes(
    inputs: PlanInputs, identity: str = "enable-writes", mode: Mode = Mode.PLANNED
) -> Step:
    """Enable writes on the target, unless the source has changed since the steps before."""
    lost, given_up = mode is Mode.UNPLANNED, ALIVE in inputs.overrides
    settings = EnableSettings(
        cluster=inputs.target,
        principals=inputs.principals,
        link=inputs.link,
        source=inputs.source,
        must_be_silent=lost and not given_up,
        given_up=lost and given_up,
    )
    return EnableWrites().step(identity, settings, 60)


def switch_endpoints(inputs: PlanInputs, prefix: str = "switch-endpoint") -> Iterator[Step]:
    """Point each endpoint to the target, one step per endpoint."""
    for number, kind in enumerate(inputs.endpoints):
        settings = SwitchSettings(
            number,
            kind,
            inputs.target,
            inputs.source if inputs.redirects else "",
            inputs.redirects[number] if inputs.redirects else None,
            probed=number in inputs.probed_endpoints,
        )
        yield SwitchEndpoint().step(f"{prefix}-{number + 1}", settings, 120)


def stop_source_connectors(
    inputs: PlanInputs, identity: str = "stop-source-connectors", *, lost: bool = False
) -> Iterator[Step]:
    """Stop source connectors that write to the source; no step if the link has none.

    Args:
        lost: whether the source is lost, so that the stop may remain outstanding.
    """
    if inputs.source_connectors:
        settings = SourceSettings(inputs.source, tuple(inputs.source_connectors))
        duty = Duty.BEST_EFFORT if lost else Duty.REQUIRED
        yield StopSourceConnectors().step(identity, settings, 15 if lost else 60, duty)


def move_source_positions(
    inputs: PlanInputs, identity: str = "move-source-positions", *, lost: bool = False
) -> Iterator[Step]:
    """Set the positions of source connectors on the target's workers.

    Args:
        lost: whether the source is lost, so that positions may come from the last export.
    """
    if inputs.source_connectors:
        settings = MoveSettings(inputs.source, inputs.target, inputs.source_connectors, lost)
        duty = Duty.BEST_EFFORT if lost else Duty.REQUIRED
        yield MoveSourcePositions().step(identity, settings, 30, duty)


def resume_source_connectors(
    inputs: PlanInputs, identity: str = "resume-source-connectors"
) -> Iterator[Step]:
    """Resume source connectors on the target's workers; a failure is outstanding."""
    if inputs.source_connectors:
        names = tuple(inputs.source_connectors.values())
        settings = SourceSettings(inputs.target, names)
        yield ResumeSourceConnectors().step(identity, settings, 60, Duty.BEST_EFFORT)


def verify_clients(inputs: PlanInputs, identity: str = "verify-clients") -> Step:
    """Verify that clients have moved to the target and consume there."""
    settings = ClientsSettings(inputs.source, inputs.target, tuple(inputs.probed_endpoints))
    return VerifyClients().step(identity, settings, 120)


def run_command(inputs: PlanInputs, identity: str, argv: tuple[str, ...]) -> Step:
    """Run a user-supplied command that counts as done when it exits with 0."""
    settings = CommandSettings(
        question=identity,
        argv=argv,
        undo=(),
        verify=(),
        env={},
        timeout_seconds=inputs.command_timeout_s,
    )
    return COMMAND.step(identity, settings, 120)


def set_reverse_start_offsets(
    inputs: PlanInputs, identity: str = "set-reverse-start-offsets"
) -> Step:
    """Set the reverse connector to start at the target's end offsets, before writes are enabled."""
    settings = SeedSettings(inputs.target, inputs.source, inputs.reverse[0])
    return SetStartOffsets(SET_START_OFFSETS_LATEST, from_search=False).step(identity, settings, 30)


def start_reverse_replication(
    inputs: PlanInputs, identity: str = "start-reverse-replication"
) -> Step:
    """Start the reverse replication; a failure is outstanding but does not fail the run."""
    target, source = inputs.target, inputs.source
    settings = StartSettings(target, source, inputs.reverse, SET_START_OFFSETS_LATEST)
    step = StartReplication().step(identity, settings, 180, Duty.BEST_EFFORT)
    return replace(step, kind=RESTART_REPLICATION)


def both_clusters(inputs: PlanInputs) -> BothClusters:
    """The names of source and target, as settings of a step."""
    return BothClusters(inputs.source, inputs.target)
