"""Failback of a link's clients once its source is back: which steps, in which order.

The plan's direction is from the surviving cluster to the one that was lost and is back. Steps about
the link as it was before have the opposite direction. A rebuild is a failback to a cluster that is
emptied and filled again.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from drctl.model.loss import Mode
from drctl.model.plan import Duty, Plan, Step
from drctl.plans import step_builders
from drctl.plans.inputs import Circumstances, FenceMethod
from drctl.steps import commit_offsets
from drctl.steps.commands import COMMAND_FENCE, COMMAND_STOP_REPLICATION
from drctl.steps.commit_offsets import VerifyGroups
from drctl.steps.failback import (
    ASKED_FOR,
    REBUILDING,
    WRITES,
    FailbackOrder,
    OrderSettings,
    ResolveOutstanding,
    ResolveSettings,
)
from drctl.steps.fences import (
    COMMAND_FENCE_RETURNED,
    FENCE_PRODUCERS,
    FENCE_RETURNED,
    MANUAL_FENCE_RETURNED,
)
from drctl.steps.manual import MANUAL, MANUAL_FENCE, MANUAL_STOP_REPLICATION, ManualSettings
from drctl.steps.rebuild import EmptyReturned, EmptySettings, SetStartOffsetsEarliest
from drctl.steps.records import (
    VERIFY_FORWARD_COPIES,
    ClassifyRecords,
    DecideSettings,
    FindMissing,
    FindSettings,
    Reconcile,
    VerifyCopies,
    VerifySettings,
)
from drctl.steps.set_start_offsets import (
    EXCLUDE_RECONCILED,
    INCLUDE_RECONCILED,
    SET_START_OFFSETS,
    SET_START_OFFSETS_LATEST,
    FilterSettings,
    SeedSettings,
    SetStartOffsets,
)
from drctl.steps.start_replication import (
    BOUNDARY,
    END,
    MANUAL_START_REPLICATION,
    RESTART_REPLICATION,
    START,
    ManualStartSettings,
    RecordEndOffsets,
    StartReplication,
    StartSettings,
)
from drctl.steps.stop_replication import KEEP_STOPPED, StopReplication
from drctl.steps.waiting import CatchUpSettings, Drain, DrainSettings, WaitForCatchUp

NAME = "failback"
REBUILD_NAME = "rebuild"

SEEDED = "mirrormaker2"
"""The kind of replicator whose offsets drctl sets itself."""

IN_FLIGHT = 1_000
"""So many records may be in flight when clients are moved; once writes are fenced, none may."""

_COPIES = "wait-for-catch-up compares by content; copies that are left out count as lag"
_BY_A_PERSON = "a person keeps producers from it, and its logs have to stand still: fence-producers"
_OLD = "positions that were committed there before it was lost"

_BY_HAND = (
    "start the replication from {source} to {target} at {boundary}, so that {why}: set its position"
    " while it is stopped{how}"
)
_HOW = {
    "confluent-replicator": (
        ": PATCH /connectors/NAME/offsets; or offset.start=consumer with the src.consumer.group.id"
        " of the other direction, and provenance.header.enable=true in both"
    )
}

_REBUILD_HOW = {
    "confluent-replicator": (
        ": DELETE /connectors/NAME/offsets; with offset.start=consumer another"
        " src.consumer.group.id than that of the other direction; and"
        " provenance.header.filter.overrides for what once came from there, else it leaves all of"
        " that out"
    )
}
_EMPTY = (
    "empty the link's topics on {cluster}: kafka-topics.sh --delete --topic TOPIC for each of them"
    " (replication makes them anew where it keeps names), or kafka-delete-records.sh. What is"
    " nowhere else is saved by drctl gap truncation --link {link} --scope full --export DIR"
)

MIRRORED = "offset-preserving"
"""The kind of replicator that appends nothing to what differs: the other end is cut first."""

_MIRROR = (
    "let {target} mirror {source} from where both part: what {target} holds behind that is cut off,"
    " and what was reconciled comes back from {source} (Cluster Linking: confluent kafka mirror"
    " truncate-and-restore TOPIC --link LINK, with --dry-run first)"
)
_MIRROR_AGAIN = (
    "let {target} mirror {source} again, from where {source} ended when it was opened (Cluster"
    " Linking: confluent kafka mirror reverse-and-start TOPIC --link LINK)"
)


@dataclass(frozen=True, slots=True)
class FailbackInputs:
    """What a failback is planned from.

    Attributes:
        reverse: from the surviving cluster to the one that was lost.
        forward: the link as it was, and will be again.
        seeded: the connector of the reverse replication; empty where a person starts it.
        reseeded: the one that copied before, and will again; likewise.
        policy: what becomes of the records that only the returned cluster has; None where nobody
            said.
        topics: `TOPIC=POLICY`, for some of them.
        conflicting: what becomes of those of which the surviving cluster has something newer.
        at_most: records that may be on their way when clients are moved.
    """

    reverse: Circumstances
    forward: Circumstances
    seeded: str = ""
    reseeded: str = ""
    policy: str | None = None
    topics: tuple[str, ...] = ()
    conflicting: str = "refuse"
    at_most: int = 0


def is_failback(steps: Iterable[Step]) -> bool:
    """Whether they are those of a failback, by themselves or within a runbook."""
    return any(step.kind == FailbackOrder.name for step in steps)


def rebuilds(steps: Iterable[Step]) -> bool:
    """Whether they are those of a failback to a cluster that is emptied and filled again."""
    return any(step.kind == EmptyReturned.name for step in steps)


def turned(forward: Circumstances, connectors: tuple[str, ...] = ()) -> FailbackInputs:
    """The inputs of a failback, as far as the link itself tells.

    Args:
        connectors: of the reverse replication, the one that copies first.
    """
    # A user-supplied command is written for one cluster, and for one direction of replication.
    acl = forward.fence_method is FenceMethod.ACL
    reverse = replace(
        forward,
        source=forward.target,
        target=forward.source,
        connectors=connectors,
        fence_method=FenceMethod.ACL if acl else FenceMethod.NONE,
        stop_command=(),
        start_command=(),
        stopped_command=(),
        source_answers=forward.target_answers,
        target_answers=forward.source_answers,
    )
    known = forward.replicator == SEEDED and bool(connectors and forward.connectors)
    seeded = (connectors[0], forward.connectors[0]) if known else ("", "")
    return FailbackInputs(reverse, forward, *seeded)


def failback(inputs: FailbackInputs) -> Plan:
    """The plan; the same inputs give the same plan."""
    steps = (
        *_closed(inputs),
        *_decided(inputs),
        *_replicated(inputs),
        *_moved(inputs),
        *_restored(inputs),
    )
    return _plan(NAME, inputs.reverse, steps)


def rebuild(inputs: FailbackInputs, *, empty: bool) -> Plan:
    """The plan of a rebuild; the same inputs give the same plan.

    Args:
        empty: whether the returned cluster holds nothing of the link already.
    """
    steps = (
        *_closed(inputs, rebuild=True),
        *_decided(inputs, rebuild=True),
        _emptied(inputs, empty),
        *_replicated(inputs, rebuild=True),
        *_moved(inputs),
        *_restored(inputs, rebuild=True),
    )
    return _plan(REBUILD_NAME, inputs.reverse, steps)


def _plan(name: str, reverse: Circumstances, steps: tuple[Step, ...]) -> Plan:
    return Plan(
        name, reverse.link, reverse.source, reverse.target, steps, reverse.basis, reverse.overrides
    )


def _closed(inputs: FailbackInputs, *, rebuild: bool = False) -> Iterator[Step]:
    """a, b: nothing is written to the cluster that is back, and nothing is copied from it."""
    reverse, forward = inputs.reverse, inputs.forward
    order = OrderSettings(reverse.target, reverse.overrides, REBUILDING if rebuild else ASKED_FOR)
    yield FailbackOrder().step("order", order, 60)
    yield step_builders.stock(reverse)
    yield _close(
        inputs, step_builders.fence(forward, Duty.REQUIRED, f"fence-{reverse.target}"), rebuild
    )
    stop = step_builders.stop(forward, "stop-forward-replication")
    yield replace(stop, kind=_KEEPS[stop.kind])


def _close(inputs: FailbackInputs, fence: Step, rebuild: bool) -> Step:
    """The fence of the returned cluster, which stays."""
    reverse, duty = inputs.reverse.connectors, fence.duty
    if fence.kind == MANUAL_FENCE.name:
        asked = MANUAL_FENCE.read_settings(fence.settings)
        asked = replace(asked, undo="", reverse=reverse, made_anew=rebuild)
        return MANUAL_FENCE_RETURNED.step(fence.id, asked, fence.timeout_s, duty)
    if fence.kind == COMMAND_FENCE.name:
        command = COMMAND_FENCE.read_settings(fence.settings)
        command = replace(command, reverse=reverse, made_anew=rebuild)
        return COMMAND_FENCE_RETURNED.step(fence.id, command, fence.timeout_s, duty)
    acls = FENCE_PRODUCERS.read_settings(fence.settings)
    acls = replace(acls, reverse=reverse, made_anew=rebuild)
    return FENCE_RETURNED.step(fence.id, acls, fence.timeout_s, duty)


def _decided(inputs: FailbackInputs, *, rebuild: bool = False) -> Iterator[Step]:
    """c, d, e: what only the cluster has that is back is found, judged and decided on."""
    source, target = inputs.reverse.source, inputs.reverse.target
    decided = DecideSettings(source, target, inputs.policy, inputs.topics, inputs.conflicting)
    yield FindMissing().step("find-missing", FindSettings(source, target, rebuild), 0)
    yield ClassifyRecords().step("classify-records", decided, 0)
    yield Reconcile().step("reconcile", decided, 30)


def _emptied(inputs: FailbackInputs, empty: bool) -> Step:
    """A person empties the returned cluster, unless it is empty already."""
    reverse = inputs.reverse
    identity = f"empty-{reverse.target}"
    settings = EmptySettings(reverse.target, reverse.source, inputs.seeded)
    if not empty:
        text = _EMPTY.format(cluster=reverse.target, link=reverse.link)
        settings = replace(settings, question=identity, text=text)
    return EmptyReturned().step(identity, settings, 600)


def _replicated(inputs: FailbackInputs, *, rebuild: bool = False) -> Iterator[Step]:
    """f, g, h: what is new is replicated, and nothing else; all of it, where a rebuild begins."""
    reverse = inputs.reverse
    if inputs.seeded:
        filtering = INCLUDE_RECONCILED if rebuild else EXCLUDE_RECONCILED
        yield filtering.step(filtering.name, FilterSettings(inputs.seeded), 30)
        seeds = SeedSettings(reverse.source, reverse.target, inputs.seeded)
        if rebuild:
            seeding = SetStartOffsetsEarliest.name
            yield SetStartOffsetsEarliest().step("set-start-offsets", seeds, 30)
        else:
            seeding = SET_START_OFFSETS.name
            yield SET_START_OFFSETS.step("set-start-offsets", seeds, 30)
        yield StartReplication().step("start-reverse-replication", _starts(reverse, seeding), 180)
    elif rebuild:
        boundary, why = "the first record of each partition", "everything is copied"
        yield _by_hand(
            reverse, "start-reverse-replication", boundary, why, _REBUILD_HOW, begins=START
        )
    elif reverse.replicator == MIRRORED:
        yield _asked_to_start(reverse, "start-reverse-replication", BOUNDARY, _MIRROR, mirrors=True)
    else:
        boundary = "the first record that was written there since (step find-missing), without"
        told = f"{boundary} what reconcile copied"
        yield _by_hand(
            reverse, "start-reverse-replication", told, "nothing is copied twice", begins=BOUNDARY
        )
    scope, connectors = (
        "tail" if reverse.connectors else "full",
        (inputs.seeded,) if inputs.seeded else (),
    )
    at_most = max(inputs.at_most, IN_FLIGHT)
    caught_up = CatchUpSettings(reverse.source, reverse.target, scope, at_most, connectors)
    yield WaitForCatchUp().step("wait-for-catch-up", caught_up, reverse.timeout_s)
    if rebuild:
        # All of it is compared before anybody waits for it.
        whole = CatchUpSettings(reverse.source, reverse.target, "full", at_most)
        yield WaitForCatchUp().step("compare-all", whole, max(300, reverse.timeout_s))


def _moved(inputs: FailbackInputs) -> Iterator[Step]:
    """i: the planned switchover; and where the old replication will resume."""
    passed = {"replication-lag": _COPIES}
    if inputs.reverse.fence_method is FenceMethod.NONE:
        passed["fence-not-possible"] = _BY_A_PERSON
    reverse = replace(inputs.reverse, overrides={**passed, **inputs.reverse.overrides})
    yield step_builders.preflight(reverse, Mode.PLANNED)
    yield step_builders.stock(reverse, "snapshot-state-again")
    yield step_builders.fence(reverse, Duty.REQUIRED)
    yield Drain().step("drain", DrainSettings(reverse.target), reverse.timeout_s)
    yield from step_builders.quiet(reverse)
    yield step_builders.stop(reverse)
    yield step_builders.groups(reverse)
    forward = {"moves-backwards": _OLD, **reverse.overrides}
    yield step_builders.offsets(
        replace(reverse, overrides=forward), leave_out=reverse.leaves_groups_out
    )
    yield step_builders.skipping(reverse)
    if inputs.reseeded:
        settings = SeedSettings(inputs.forward.source, inputs.forward.target, inputs.reseeded)
        seeding = SetStartOffsets(SET_START_OFFSETS_LATEST, from_search=False)
        yield seeding.step("set-forward-start-offsets", settings, 30)
    else:
        yield RecordEndOffsets().step("record-end-offsets", step_builders.ends(inputs.forward), 30)
    yield step_builders.opening(reverse)
    yield from _let_in(inputs.forward)
    yield from step_builders.switches(reverse)
    yield step_builders.clients(reverse)


def _let_in(forward: Circumstances) -> Iterator[Step]:
    """What closed the returned cluster opens it again; rules of ACLs go when it is opened."""
    if forward.fence_method is FenceMethod.ACL:
        return
    if forward.fence_method is FenceMethod.COMMAND and forward.fence_undo:
        yield step_builders.by_command(forward, "lift-fence", forward.fence_undo)
        return
    text = step_builders.LIFT.format(source=forward.source)
    yield MANUAL.step("lift-fence", ManualSettings(question="lift-fence", text=text, undo=""), 60)


def _restored(inputs: FailbackInputs, *, rebuild: bool = False) -> Iterator[Step]:
    """j, k: the old replication resumes, everything is proven, and nothing is outstanding."""
    reverse, forward = inputs.reverse, inputs.forward
    # What was emptied has no record left that is to stay away; nor has a mirror that was cut off.
    emptied = rebuild or reverse.replicator == MIRRORED
    if inputs.reseeded:
        step = StartReplication().step(
            "restart-forward-replication", _starts(forward, SET_START_OFFSETS_LATEST), 180
        )
        yield replace(step, kind=RESTART_REPLICATION)
    else:
        if forward.replicator == MIRRORED:
            step = _asked_to_start(
                forward, "restart-forward-replication", END, _MIRROR_AGAIN, mirrors=True
            )
        else:
            told = f"where {forward.source} ended when it was opened"
            step = _by_hand(
                forward, "restart-forward-replication", told, "nothing is copied twice", begins=END
            )
        yield replace(step, kind="manual-restart-replication")
    proof = VerifySettings(reverse.source, reverse.target, old_way=False)
    yield VerifyCopies().step("verify-primary", proof, 300)
    proof = VerifySettings(forward.source, forward.target, old_way=True, emptied=emptied)
    yield replace(VerifyCopies().step("verify-secondary", proof, 300), kind=VERIFY_FORWARD_COPIES)
    yield VerifyGroups().step("verify-groups", commit_offsets.VerifySettings(reverse.target), 60)
    settling = ResolveSettings(reverse.source, reverse.target, "resolve-outstanding")
    yield ResolveOutstanding().step("resolve-outstanding", settling, 30)


_KEEPS = {
    StopReplication.name: KEEP_STOPPED,
    COMMAND_STOP_REPLICATION.name: "command-keep-stopped",
    MANUAL_STOP_REPLICATION.name: "manual-keep-stopped",
}


def _starts(seen: Circumstances, seeded_by: str) -> StartSettings:
    """What a start of connectors needs to know.

    Args:
        seeded_by: the kind of the step that told them where to begin.
    """
    passed = WRITES in seen.overrides
    return StartSettings(seen.source, seen.target, seen.connectors, seeded_by, passed)


def _by_hand(
    seen: Circumstances,
    identity: str,
    boundary: str,
    why: str,
    hows: Mapping[str, str] = _HOW,
    *,
    begins: str,
) -> Step:
    """Ask a person to start what copies, where drctl cannot.

    Args:
        boundary: where it begins, in words.
        hows: by the kind of the replicator, what it takes.
        begins: the same as `drctl.steps.start_replication` has it.
    """
    text = _BY_HAND.replace("{how}", hows.get(seen.replicator, ""))
    told = text.replace("{boundary}", boundary).replace("{why}", why)
    return _asked_to_start(seen, identity, begins, told)


def _asked_to_start(
    seen: Circumstances, identity: str, begins: str, text: str, *, mirrors: bool = False
) -> Step:
    told = text.format(source=seen.source, target=seen.target)
    undo = f"stop the replication from {seen.source} to {seen.target} again"
    settings = ManualStartSettings(
        question=identity,
        text=told,
        undo=undo,
        source=seen.source,
        target=seen.target,
        begins=begins,
        mirrors=mirrors,
        fields=seen.fields,
        connect=seen.replicator in _HOW,
    )
    # What an answer says beforehand is still to be done when it is asked for.
    return MANUAL_START_REPLICATION.step(identity, settings, max(120, seen.timeout_s))
