"""The plans of a failback, once the lost cluster is back, and of a rebuild.

The plan's direction is from the surviving cluster to the recovered one; steps about the link as it
was before the loss have the opposite direction. A rebuild is a failback to a cluster that the
operator empties first, so that replication fills it again.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from drctl.formats.provenance import HEADER as PROVENANCE
from drctl.model.loss import Mode
from drctl.model.plan import Duty, Plan, Step
from drctl.plans import failover as builders
from drctl.plans.inputs import FailbackInputs, FenceMethod, PlanInputs
from drctl.steps import commit_offsets
from drctl.steps.both_sites import (
    ENABLE_RECOVERED,
    FIND_MISSING_REVERSE,
    RECONCILE_REVERSE,
    KeepGroupOffsets,
)
from drctl.steps.commands import COMMAND_FENCE, COMMAND_STOP_REPLICATION
from drctl.steps.commit_offsets import VerifyGroups
from drctl.steps.enable_writes import EnableSettings
from drctl.steps.failback import (
    FAILBACK_MODE,
    REBUILD_MODE,
    WRITES,
    FailbackOrder,
    OrderSettings,
    ResolveOutstanding,
    ResolveSettings,
)
from drctl.steps.fences import (
    COMMAND_FENCE_RECOVERED,
    FENCE_PRODUCERS,
    FENCE_RECOVERED,
    MANUAL_FENCE_RECOVERED,
)
from drctl.steps.manual import MANUAL, MANUAL_FENCE, MANUAL_STOP_REPLICATION, ManualSettings
from drctl.steps.rebuild import EmptyRecovered, EmptySettings, SetStartOffsetsEarliest
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
    SET_START_OFFSETS_AFTER_SEARCH,
    SET_START_OFFSETS_LATEST,
    SET_START_OFFSETS_REVERSE,
    FilterSettings,
    SeedSettings,
    SetStartOffsets,
)
from drctl.steps.source_connectors import KEEP_SOURCES_STOPPED
from drctl.steps.start_replication import (
    BOUNDARY,
    END,
    MANUAL_START_REPLICATION,
    RESTART_REPLICATION,
    REVERSE_BOUNDARY,
    START,
    ManualStartSettings,
    RecordEndOffsets,
    StartReplication,
    StartSettings,
)
from drctl.steps.stop_replication import KEEP_REVERSE_STOPPED, KEEP_STOPPED, StopReplication
from drctl.steps.waiting import CatchUpSettings, Drain, DrainSettings, WaitForCatchUp

NAME = "failback"
REBUILD_NAME = "rebuild"

MIRROR_MAKER = "mirrormaker2"
"""The kind of replicator whose source offsets drctl sets itself."""

OFFSET_PRESERVING = "offset-preserving"
"""The kind of replicator that mirrors offsets: where logs differ, the target is truncated first."""

IN_FLIGHT = 1_000
"""Records that may be in flight when clients are moved; none may be once writes are fenced."""

_LAG_IS_COMPARED = "wait-for-catch-up compares by content; excluded copies would count as lag"
_MANUAL_FENCE = "the operator blocks producers, and fence-producers verifies stable end offsets"
_OLD_OFFSETS = "these offsets were committed on the recovered cluster before the loss"

_REPLICATOR = "confluent-replicator"
_SET_POSITIONS = {
    _REPLICATOR: (
        ": PATCH /connectors/NAME/offsets; or offset.start=consumer with the src.consumer.group.id"
        " of the other direction. Set provenance.header.enable=true in both directions"
    )
}
_RESET_POSITIONS = {
    _REPLICATOR: (
        ": DELETE /connectors/NAME/offsets. With offset.start=consumer, use another"
        " src.consumer.group.id than the other direction. Set provenance.header.filter.overrides so"
        " that records that came from {target} are not filtered out"
    )
}

_EMPTY = (
    "empty the link's topics on {cluster}: delete each of them with kafka-topics.sh --delete"
    " --topic TOPIC (replication recreates topics that keep their names), or empty them with"
    " kafka-delete-records.sh. To save the records that exist nowhere else, first run: drctl gap"
    " truncation --link {link} --scope full --export DIR"
)
_TRUNCATE_AND_MIRROR = (
    "truncate {target} to where it diverged from {source}, then mirror {source} from there: later"
    " records on {target} are deleted, and reconciled records come back from {source} (Cluster"
    " Linking: confluent kafka mirror truncate-and-restore TOPIC --link LINK; run it with --dry-run"
    " first)"
)
_MIRROR_AGAIN = (
    "mirror {source} to {target} again, from the end offsets that {source} had before its writes"
    " were enabled (Cluster Linking: confluent kafka mirror reverse-and-start TOPIC --link LINK)"
)


def is_failback(steps: Iterable[Step]) -> bool:
    """Whether the steps are those of a failback, also within a runbook."""
    return any(step.kind == FailbackOrder.name for step in steps)


def is_between_sites(steps: Iterable[Step]) -> bool:
    """Whether the steps are those of a failback after which replication runs in both directions."""
    return any(step.kind == ENABLE_RECOVERED.name for step in steps)


def is_rebuild(steps: Iterable[Step]) -> bool:
    """Whether the steps are those of a rebuild: a failback to a cluster that is emptied first."""
    return any(step.kind == EmptyRecovered.name for step in steps)


def reverse_inputs(forward: PlanInputs, connectors: tuple[str, ...] = ()) -> FailbackInputs:
    """The inputs of a failback, derived from the link alone.

    Args:
        connectors: connectors of the reverse replication; the first one replicates records.
    """
    # User-supplied commands are written for one cluster and one direction of replication.
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
        source_connectors={new: old for old, new in forward.source_connectors.items()},
    )
    known = forward.replicator == MIRROR_MAKER and bool(connectors and forward.connectors)
    names = (connectors[0], forward.connectors[0]) if known else ("", "")
    return FailbackInputs(reverse, forward, *names)


def failback(inputs: FailbackInputs) -> Plan:
    """Build the plan of a failback; the same inputs always give the same plan."""
    if inputs.forward.origin_header:
        return _plan(NAME, inputs.reverse, tuple(_between_sites(inputs)))
    steps = (
        *_isolate(inputs),
        *_reconcile(inputs),
        *_replicate(inputs),
        *_move_clients(inputs),
        *_restore(inputs),
    )
    return _plan(NAME, inputs.reverse, steps)


def rebuild(inputs: FailbackInputs, *, nothing_to_empty: bool) -> Plan:
    """Build the plan of a rebuild; the same inputs always give the same plan.

    Args:
        nothing_to_empty: whether the link's topics on the recovered cluster hold no records, or
            only those of an earlier rebuild.
    """
    steps = (
        *_isolate(inputs, rebuild=True),
        *_reconcile(inputs, rebuild=True),
        _empty_recovered(inputs, nothing_to_empty),
        *_replicate(inputs, rebuild=True),
        *_move_clients(inputs),
        *_restore(inputs, rebuild=True),
    )
    return _plan(REBUILD_NAME, inputs.reverse, steps)


def _between_sites(inputs: FailbackInputs) -> Iterator[Step]:
    """The steps if applications of the surviving cluster keep writing, as they did before."""
    reverse, forward = inputs.reverse, inputs.forward
    source, target = reverse.source, reverse.target
    yield FailbackOrder().step("order", OrderSettings(target, reverse.overrides), 60)
    yield builders.snapshot_state(reverse)
    for step in builders.stop_source_connectors(forward, KEEP_SOURCES_STOPPED):
        yield replace(step, kind=KEEP_SOURCES_STOPPED)
    stop = builders.stop_replication(reverse, "stop-reverse-replication")
    yield replace(stop, kind=_KEEP_REVERSE_STOPPED[stop.kind])
    stop = builders.stop_replication(forward, "stop-forward-replication")
    yield replace(stop, kind=_KEEP_STOPPED[stop.kind])
    fence = builders.fence_producers(forward, Duty.REQUIRED, f"fence-{target}")
    yield _fence_recovered(fence, reverse.connectors, rebuild=False)
    find, classify, reconcile = _reconcile(inputs)
    yield find
    yield FIND_MISSING_REVERSE.step("find-missing-reverse", FindSettings(target, source), 0)
    yield classify
    yield reconcile
    # As replication would have copied them: they are no leftovers of a lost cluster.
    everything = DecideSettings(target, source, "copy", (), "copy")
    yield RECONCILE_REVERSE.step("reconcile-reverse", everything, 30)
    yield from _resume_replication(inputs)
    yield from builders.stop_source_connectors(reverse)
    yield builders.prepare_groups(reverse)
    yield KeepGroupOffsets().step("keep-group-offsets", builders.both_clusters(reverse), 30)
    yield from builders.move_source_positions(reverse)
    yield builders.advance_producer_ids(reverse)
    enable = EnableSettings(cluster=target, principals=forward.principals, link=reverse.link)
    yield ENABLE_RECOVERED.step("enable-writes", enable, 60)
    yield from _lift_fence(forward)
    yield from builders.switch_endpoints(reverse)
    yield from builders.resume_source_connectors(reverse)
    yield builders.verify_clients(reverse)
    yield from _verify(inputs, emptied=False)


def _resume_replication(inputs: FailbackInputs) -> Iterator[Step]:
    """Start both directions, each where its comparison ended."""
    reverse, forward = inputs.reverse, inputs.forward
    identity, header = "start-reverse-replication", forward.origin_header
    where = (
        "the end offsets that {} had when its records were compared (found by step {}). The"
        f" replicator must also skip records with header {PROVENANCE}, so that no record is"
        " replicated twice"
    )
    if connector := inputs.reverse_connector:
        seeds = SeedSettings(reverse.source, reverse.target, connector)
        seeding = SetStartOffsets(SET_START_OFFSETS_REVERSE, from_search=True)
        yield seeding.step("set-start-offsets", seeds, 30)
        start = replace(_start_settings(reverse, seeding.name), origin_header=header)
        yield StartReplication().step(identity, start, 180)
    else:
        text = where.format(reverse.source, "find-missing-reverse")
        yield _manual_start(reverse, identity, text, REVERSE_BOUNDARY, header=header)
    at_most = max(inputs.max_in_flight, IN_FLIGHT)
    caught_up = CatchUpSettings(
        reverse.source, reverse.target, "full", at_most, (connector,) if connector else ()
    )
    yield WaitForCatchUp().step("wait-for-catch-up", caught_up, reverse.timeout_s)
    identity = "restart-forward-replication"
    if connector := inputs.forward_connector:
        seeds = SeedSettings(forward.source, forward.target, connector)
        seeding = SetStartOffsets(SET_START_OFFSETS_AFTER_SEARCH, from_search=True)
        yield seeding.step("set-forward-start-offsets", seeds, 30)
        start = replace(_start_settings(forward, seeding.name), origin_header=header)
        yield replace(StartReplication().step(identity, start, 180), kind=RESTART_REPLICATION)
    else:
        text = where.format(forward.source, "find-missing")
        step = _manual_start(forward, identity, text, BOUNDARY, header=header)
        yield replace(step, kind="manual-restart-replication")


def _plan(name: str, reverse: PlanInputs, steps: tuple[Step, ...]) -> Plan:
    return Plan(
        name, reverse.link, reverse.source, reverse.target, steps, reverse.basis, reverse.overrides
    )


def _isolate(inputs: FailbackInputs, *, rebuild: bool = False) -> Iterator[Step]:
    """Steps a and b: fence the recovered cluster, and stop replication from it."""
    reverse, forward = inputs.reverse, inputs.forward
    order = OrderSettings(
        reverse.target, reverse.overrides, REBUILD_MODE if rebuild else FAILBACK_MODE
    )
    yield FailbackOrder().step("order", order, 60)
    yield builders.snapshot_state(reverse)
    for step in builders.stop_source_connectors(forward, KEEP_SOURCES_STOPPED):
        yield replace(step, kind=KEEP_SOURCES_STOPPED)
    fence = builders.fence_producers(forward, Duty.REQUIRED, f"fence-{reverse.target}")
    yield _fence_recovered(fence, reverse.connectors, rebuild=rebuild)
    stop = builders.stop_replication(forward, "stop-forward-replication")
    yield replace(stop, kind=_KEEP_STOPPED[stop.kind])


def _fence_recovered(fence: Step, reverse: tuple[str, ...], *, rebuild: bool) -> Step:
    """The same fence, as a kind of step that is never rolled back."""
    timeout_s, duty = fence.timeout_s, fence.duty
    if fence.kind == MANUAL_FENCE.name:
        manual = MANUAL_FENCE.read_settings(fence.settings)
        manual = replace(manual, undo="", reverse=reverse, rebuild=rebuild)
        return MANUAL_FENCE_RECOVERED.step(fence.id, manual, timeout_s, duty)
    if fence.kind == COMMAND_FENCE.name:
        command = COMMAND_FENCE.read_settings(fence.settings)
        command = replace(command, reverse=reverse, rebuild=rebuild)
        return COMMAND_FENCE_RECOVERED.step(fence.id, command, timeout_s, duty)
    acls = FENCE_PRODUCERS.read_settings(fence.settings)
    acls = replace(acls, reverse=reverse, rebuild=rebuild)
    return FENCE_RECOVERED.step(fence.id, acls, timeout_s, duty)


def _reconcile(inputs: FailbackInputs, *, rebuild: bool = False) -> Iterator[Step]:
    """Steps c, d, e: find, classify and reconcile records that only the recovered cluster has."""
    source, target = inputs.reverse.source, inputs.reverse.target
    decided = DecideSettings(source, target, inputs.policy, inputs.topics, inputs.conflicting)
    yield FindMissing().step("find-missing", FindSettings(source, target, rebuild), 0)
    yield ClassifyRecords().step("classify-records", decided, 0)
    yield Reconcile().step("reconcile", decided, 30)


def _empty_recovered(inputs: FailbackInputs, nothing_to_empty: bool) -> Step:
    """Ask the operator to empty the recovered cluster, unless that is not needed."""
    reverse = inputs.reverse
    identity = f"empty-{reverse.target}"
    settings = EmptySettings(reverse.target, reverse.source, inputs.reverse_connector)
    if not nothing_to_empty:
        text = _EMPTY.format(cluster=reverse.target, link=reverse.link)
        settings = replace(settings, question=identity, text=text)
    return EmptyRecovered().step(identity, settings, 600)


def _replicate(inputs: FailbackInputs, *, rebuild: bool = False) -> Iterator[Step]:
    """Steps f, g, h: replicate only new records to the recovered cluster; in a rebuild, all."""
    reverse, source = inputs.reverse, inputs.reverse.source
    connector = inputs.reverse_connector
    identity = "start-reverse-replication"
    if connector:
        filtering = INCLUDE_RECONCILED if rebuild else EXCLUDE_RECONCILED
        yield filtering.step(filtering.name, FilterSettings(connector), 30)
        seeds = SeedSettings(source, reverse.target, connector)
        seeding = SetStartOffsetsEarliest() if rebuild else SET_START_OFFSETS
        yield seeding.step("set-start-offsets", seeds, 30)
        yield StartReplication().step(identity, _start_settings(reverse, seeding.name), 180)
    elif rebuild:
        where = "the first record of each partition, so that every record is replicated"
        yield _manual_start(reverse, identity, where, START, how=_RESET_POSITIONS)
    elif reverse.replicator == OFFSET_PRESERVING:
        yield _ask_to_start(reverse, identity, BOUNDARY, _TRUNCATE_AND_MIRROR, mirrors=True)
    else:
        where = (
            f"the first record that was written to {source} after the loss (found by step"
            " find-missing), not counting records that step reconcile copied, so that no record"
            " is replicated twice"
        )
        yield _manual_start(reverse, identity, where, BOUNDARY)
    scope = "tail" if reverse.connectors else "full"
    at_most = max(inputs.max_in_flight, IN_FLIGHT)
    connectors = (connector,) if connector else ()
    caught_up = CatchUpSettings(source, reverse.target, scope, at_most, connectors)
    yield WaitForCatchUp().step("wait-for-catch-up", caught_up, reverse.timeout_s)
    if rebuild:
        # The full comparison takes long: it runs while clients still use the surviving cluster.
        whole = CatchUpSettings(source, reverse.target, "full", at_most)
        yield WaitForCatchUp().step("compare-all", whole, max(300, reverse.timeout_s))


def _move_clients(inputs: FailbackInputs) -> Iterator[Step]:
    """Step i: a planned switchover, which also sets where forward replication will resume."""
    overrides = {"replication-lag": _LAG_IS_COMPARED}
    if inputs.reverse.fence_method is FenceMethod.NONE:
        overrides["fence-not-possible"] = _MANUAL_FENCE
    reverse = replace(inputs.reverse, overrides={**overrides, **inputs.reverse.overrides})
    yield builders.preflight(reverse, Mode.PLANNED)
    yield builders.snapshot_state(reverse, "snapshot-state-again")
    yield from builders.stop_source_connectors(reverse)
    yield builders.fence_producers(reverse, Duty.REQUIRED)
    yield from builders.abort_transactions(reverse)
    yield Drain().step(
        "drain", DrainSettings(reverse.target, source=reverse.source), reverse.timeout_s
    )
    yield from builders.quiesce_consumers(reverse)
    yield builders.stop_replication(reverse)
    yield builders.prepare_groups(reverse)
    to_older = replace(reverse, overrides={"moves-backwards": _OLD_OFFSETS, **reverse.overrides})
    yield builders.commit_offsets(to_older, leave_out=reverse.leaves_groups_out)
    yield from builders.move_source_positions(reverse)
    yield builders.advance_producer_ids(reverse)
    if inputs.forward_connector:
        settings = SeedSettings(
            inputs.forward.source, inputs.forward.target, inputs.forward_connector
        )
        seeding = SetStartOffsets(SET_START_OFFSETS_LATEST, from_search=False)
        yield seeding.step("set-forward-start-offsets", settings, 30)
    else:
        yield RecordEndOffsets().step(
            "record-end-offsets", builders.both_clusters(inputs.forward), 30
        )
    yield builders.enable_writes(reverse)
    yield from _lift_fence(inputs.forward)
    yield from builders.switch_endpoints(reverse)
    yield from builders.resume_source_connectors(reverse)
    yield builders.verify_clients(reverse)


def _lift_fence(forward: PlanInputs) -> Iterator[Step]:
    """Lift the fence of the recovered cluster; enable-writes has already removed ACL rules."""
    if forward.fence_method is FenceMethod.ACL:
        return
    if forward.fence_method is FenceMethod.COMMAND and forward.fence_undo:
        yield builders.run_command(forward, "lift-fence", forward.fence_undo)
        return
    text = builders.LIFT_FENCE.format(source=forward.source)
    yield MANUAL.step("lift-fence", ManualSettings(question="lift-fence", text=text, undo=""), 60)


def _restore(inputs: FailbackInputs, *, rebuild: bool = False) -> Iterator[Step]:
    """Steps j and k: resume forward replication, verify both clusters, resolve actions."""
    reverse, forward = inputs.reverse, inputs.forward
    mirrored = forward.replicator == OFFSET_PRESERVING
    identity = "restart-forward-replication"
    if inputs.forward_connector:
        settings = _start_settings(forward, SET_START_OFFSETS_LATEST)
        step = StartReplication().step(identity, settings, 180)
        yield replace(step, kind=RESTART_REPLICATION)
    else:
        if mirrored:
            step = _ask_to_start(forward, identity, END, _MIRROR_AGAIN, mirrors=True)
        else:
            where = (
                f"the end offsets that {forward.source} had before its writes were enabled, so that"
                " no record is replicated twice"
            )
            step = _manual_start(forward, identity, where, END)
        yield replace(step, kind="manual-restart-replication")
    # Emptying or truncating the recovered cluster deleted records that may be missing elsewhere.
    yield from _verify(inputs, emptied=rebuild or reverse.replicator == OFFSET_PRESERVING)


def _verify(inputs: FailbackInputs, *, emptied: bool) -> Iterator[Step]:
    """Step k: compare both directions, resolve outstanding actions of earlier runs."""
    reverse, forward = inputs.reverse, inputs.forward
    proof = VerifySettings(reverse.source, reverse.target, forward=False)
    yield VerifyCopies().step("verify-primary", proof, 300)
    proof = VerifySettings(forward.source, forward.target, forward=True, emptied=emptied)
    yield replace(VerifyCopies().step("verify-secondary", proof, 300), kind=VERIFY_FORWARD_COPIES)
    if not inputs.forward.origin_header:
        settings = commit_offsets.VerifySettings(reverse.target)
        yield VerifyGroups().step("verify-groups", settings, 60)
    resolve = ResolveSettings(reverse.source, reverse.target, "resolve-outstanding")
    yield ResolveOutstanding().step("resolve-outstanding", resolve, 30)


_KEEP_REVERSE_STOPPED = {
    StopReplication.name: KEEP_REVERSE_STOPPED,
    MANUAL_STOP_REPLICATION.name: f"manual-{KEEP_REVERSE_STOPPED}",
}

_KEEP_STOPPED = {
    StopReplication.name: KEEP_STOPPED,
    COMMAND_STOP_REPLICATION.name: "command-keep-stopped",
    MANUAL_STOP_REPLICATION.name: "manual-keep-stopped",
}


def _start_settings(inputs: PlanInputs, seeded_by: str) -> StartSettings:
    overridden = WRITES in inputs.overrides
    return StartSettings(inputs.source, inputs.target, inputs.connectors, seeded_by, overridden)


def _manual_start(
    inputs: PlanInputs,
    identity: str,
    where: str,
    begins: str,
    how: Mapping[str, str] = _SET_POSITIONS,
    header: str = "",
) -> Step:
    """Ask the operator to set positions and start a replicator that drctl cannot control.

    Args:
        where: in words, where replication starts, and why.
        begins: `BOUNDARY`, `END` or `START` of `drctl.steps.start_replication`.
        how: how to set positions, by kind of replicator.
        header: header of copies, if applications write to the same topics on both clusters.
    """
    text = (
        f"start replication from {{source}} to {{target}} at {where}. Before you start it,"
        f" set its start offsets{how.get(inputs.replicator, '')}"
    )
    return _ask_to_start(inputs, identity, begins, text, header=header)


def _ask_to_start(
    inputs: PlanInputs,
    identity: str,
    begins: str,
    text: str,
    *,
    mirrors: bool = False,
    header: str = "",
) -> Step:
    settings = ManualStartSettings(
        question=identity,
        text=text.format(source=inputs.source, target=inputs.target),
        undo=f"stop replication from {inputs.source} to {inputs.target} again",
        source=inputs.source,
        target=inputs.target,
        begins=begins,
        mirrors=mirrors,
        fields=inputs.fields,
        connect=inputs.replicator == _REPLICATOR,
        origin_header=header,
    )
    # With --answer given in advance, the operator starts replication only during this step.
    return MANUAL_START_REPLICATION.step(identity, settings, max(120, inputs.timeout_s))
