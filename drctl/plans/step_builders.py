"""The steps that sequences and runbooks are made of, as a link needs them."""

import math
from collections.abc import Iterator
from dataclasses import replace

from drctl.engine.kind import BothClusters
from drctl.engine.source_fence import ALIVE
from drctl.model.loss import Mode
from drctl.model.plan import Duty, Step
from drctl.plans.inputs import Circumstances, FenceMethod
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
from drctl.steps.start_replication import RESTART_REPLICATION, StartReplication, StartSettings
from drctl.steps.stop_replication import (
    ConfirmSettings,
    ConfirmStop,
    RequestStop,
    StopReplication,
    StopSettings,
)
from drctl.steps.switch_endpoint import SwitchEndpoint, SwitchSettings
from drctl.steps.verify_clients import ClientsSettings, VerifyClients

LIFT = "let producers write to {source} again, the same way"
START = "let replication from {source} to {target} go on, as it ran before"


def preflight(seen: Circumstances, mode: Mode, identity: str = "preflight") -> Step:
    """Ask every precheck."""
    return Preflight().step(identity, PreflightSettings(mode.value, seen.overrides), 30)


def stock(seen: Circumstances, identity: str = "snapshot-state") -> Step:
    """Snapshot the state of both clusters."""
    settings = SnapshotSettings((seen.source, seen.target), seen.connectors)
    return SnapshotState().step(identity, settings, 30)


def fence(
    seen: Circumstances, duty: Duty, identity: str = "fence-producers", settle_s: float = math.inf
) -> Step:
    """Keep producers from the source, by the means that the link has.

    Args:
        settle_s: how long the ends need to stand still at most, where brokers prove by themselves
            that they deny writes.
    """
    timeout_s = 120 if duty is Duty.REQUIRED else 15
    if seen.fence_method is FenceMethod.ACL:
        fenced = replace(seen, settle_s=min(seen.settle_s, settle_s))
        return FENCE_PRODUCERS.step(identity, by_acls(fenced), timeout_s, duty)
    if seen.fence_method is FenceMethod.COMMAND:
        return COMMAND_FENCE.step(
            identity,
            CommandFenceSettings(
                question=identity,
                argv=seen.fence_command,
                undo=seen.fence_undo,
                verify=seen.fence_verify,
                env={},
                timeout_seconds=seen.command_timeout_s,
                cluster=seen.source,
                settle_seconds=seen.settle_s,
            ),
            timeout_s,
            duty,
        )
    by_hand = ManualFenceSettings(
        question=identity,
        text=f"keep all producers from writing to {seen.source}: at the network, or stop them",
        undo=LIFT.format(source=seen.source),
        cluster=seen.source,
        settle_seconds=seen.settle_s,
    )
    return MANUAL_FENCE.step(identity, by_hand, timeout_s, duty)


def by_acls(seen: Circumstances) -> AclFenceSettings:
    """What a fence of ACLs needs to know."""
    return AclFenceSettings(
        link=seen.link,
        cluster=seen.source,
        principals=seen.principals,
        settle_seconds=seen.settle_s,
    )


def quiet(seen: Circumstances, *, ahead: bool = False) -> Iterator[Step]:
    """Wait until no group is active on the source, by the means that the link has.

    Args:
        ahead: whether groups are translated meanwhile: nobody waits for it then.
    """
    quiet = QuiesceSettings(seen.source, translate_ahead=ahead)
    if seen.fence_method is FenceMethod.ACL:
        yield Quiesce().step(
            "wait-for-consumers", replace(quiet, drain_window=True), seen.grace_s, Duty.OPTIONAL
        )
        yield FENCE_CONSUMERS.step("fence-consumers", by_acls(seen), 60)
        yield Quiesce().step("quiesce-consumers", quiet, 60)
        return
    if seen.fence_method is FenceMethod.NONE:
        question = ManualSettings(
            question="stop-consumers",
            text=f"stop the consumers that read the link's topics on {seen.source}",
            undo=f"let the consumers that were stopped read on {seen.source} again",
        )
        yield MANUAL_CHANGE.step("stop-consumers", question, 60)
    yield Quiesce().step("quiesce-consumers", quiet, 60 + seen.grace_s)


_STOPPING_S = 180
"""A task that waits for a dead source lets go of it only after its own timeouts."""


def request_stop(seen: Circumstances, identity: str = "request-stop") -> Iterator[Step]:
    """Stop what copies while other things are done; nothing where drctl knows no connector.

    The others would wait for its tasks.
    """
    if seen.connectors:
        settings = StopSettings(seen.connectors[:1], translate_ahead=True)
        yield RequestStop().step(identity, settings, 60)


def confirm_stop(
    seen: Circumstances, identity: str = "confirm-stop", *, lost: bool
) -> Iterator[Step]:
    """Stop what no application waits for, and see that all ended; clients are served meanwhile.

    Args:
        lost: whether the source is lost, and is to stay silent.
    """
    if seen.connectors[0 if lost else 1 :]:
        settings = ConfirmSettings(seen.connectors, seen.source if lost else "")
        yield ConfirmStop().step(identity, settings, 120, Duty.BEST_EFFORT)


def stop(
    seen: Circumstances,
    identity: str = "stop-replication",
    *,
    tasks_only: bool = False,
    rest_later: bool = False,
) -> Step:
    """Stop what replicates the link: its connectors, by a user-supplied command, or a person.

    Args:
        tasks_only: whether it is enough that no task of a connector is left that writes records or
            offsets.
        rest_later: whether connectors that write neither are for `confirm_stop`.
    """
    if seen.connectors:
        settings = StopSettings(seen.connectors, tasks_only, rest_later)
        return StopReplication().step(identity, settings, _STOPPING_S)
    if seen.stop_command:
        command = CommandSettings(
            question=identity,
            argv=seen.stop_command,
            undo=seen.start_command,
            verify=seen.stopped_command,
            env={},
            timeout_seconds=seen.command_timeout_s,
        )
        return COMMAND_STOP_REPLICATION.step(identity, command, 120)
    question = ManualSettings(
        question=identity,
        text=f"stop replication from {seen.source} to {seen.target}, so that no restart starts it",
        undo=START.format(source=seen.source, target=seen.target),
    )
    return MANUAL_STOP_REPLICATION.step(identity, question, 60)


def groups(seen: Circumstances, identity: str = "prepare-groups") -> Step:
    """Make groups of KIP-848's protocol ready; members that find none end, and say so."""
    return PrepareGroups().step(identity, ends(seen), 30, Duty.BEST_EFFORT)


def offsets(
    seen: Circumstances, *, leave_out: bool, lost: bool = False, identity: str = "commit-offsets"
) -> Step:
    """Commit the offsets from which groups resume.

    Args:
        lost: the source is lost: the best that is known of a group is what there is.
    """
    settings = CommitSettings(
        seen.link,
        seen.target,
        dict(seen.offset_overrides),
        leave_out,
        seen.unproven_offsets if lost else None,
    )
    return CommitOffsets().step(identity, settings, 30)


def skipping(
    seen: Circumstances, timeout_s: float = 30, identity: str = "advance-producer-ids"
) -> Step:
    """Advance the target's producer ids; where that takes too long, producers are restarted."""
    settings = AdvanceSettings(seen.source, seen.target, timeout_s)
    return AdvanceProducerIds().step(identity, settings, timeout_s, Duty.BEST_EFFORT)


def opening(
    seen: Circumstances, identity: str = "enable-writes", mode: Mode = Mode.PLANNED
) -> Step:
    """Enable writes on the target, where the source is still as it was left."""
    lost, given_up = mode is Mode.UNPLANNED, ALIVE in seen.overrides
    settings = EnableSettings(
        cluster=seen.target,
        principals=seen.principals,
        link=seen.link,
        source=seen.source,
        must_be_silent=lost and not given_up,
        given_up=lost and given_up,
    )
    return EnableWrites().step(identity, settings, 60)


def switches(seen: Circumstances, prefix: str = "switch-endpoint") -> Iterator[Step]:
    """Send clients to the target: a step for each endpoint."""
    for number, kind in enumerate(seen.endpoints):
        settings = SwitchSettings(
            number,
            kind,
            seen.target,
            seen.source if seen.leaving else "",
            seen.leaving[number] if seen.leaving else None,
            asked=number in seen.entrances,
        )
        yield SwitchEndpoint().step(f"{prefix}-{number + 1}", settings, 120)


def clients(seen: Circumstances, identity: str = "verify-clients") -> Step:
    """Verify that clients are on the target, and consume."""
    settings = ClientsSettings(seen.source, seen.target, tuple(seen.entrances))
    return VerifyClients().step(identity, settings, 120)


def by_command(seen: Circumstances, identity: str, argv: tuple[str, ...]) -> Step:
    """Run a user-supplied command; its exit code is the proof."""
    settings = CommandSettings(
        question=identity,
        argv=argv,
        undo=(),
        verify=(),
        env={},
        timeout_seconds=seen.command_timeout_s,
    )
    return COMMAND.step(identity, settings, 120)


def begin_back(seen: Circumstances, identity: str = "set-reverse-start-offsets") -> Step:
    """Let what copies back begin at what is new, while it is stopped and nothing is written."""
    settings = SeedSettings(seen.target, seen.source, seen.reverse[0])
    return SetStartOffsets(SET_START_OFFSETS_LATEST, from_search=False).step(identity, settings, 30)


def replicate_back(seen: Circumstances, identity: str = "start-reverse-replication") -> Step:
    """Let it copy; where it does not, clients are served all the same, and it is owed."""
    settings = StartSettings(seen.target, seen.source, seen.reverse, SET_START_OFFSETS_LATEST)
    step = StartReplication().step(identity, settings, 180, Duty.BEST_EFFORT)
    return replace(step, kind=RESTART_REPLICATION)


def ends(seen: Circumstances) -> BothClusters:
    """The names of both clusters."""
    return BothClusters(seen.source, seen.target)
