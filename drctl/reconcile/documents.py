"""Reconcile plans and results as JSON documents."""

from typing import Annotated

from drctl.model.document import Count, Document, From, Moment, Name, Seconds
from drctl.model.gap import OrderVerdict
from drctl.reconcile.policy import Action
from drctl.reconcile.prechecks import OVERRIDABLE, Blocker, Precheck
from drctl.reconcile.progress import TOPIC, Segment
from drctl.reconcile.results import Gone, LineResult, Outcome, ReconcileResult

_CONSEQUENCES = (
    (
        Action.COPY,
        "appended records cannot be rolled back; copies carry the header __drctl_provenance",
    ),
    (Action.QUARANTINE, "records in a quarantine topic stay there; applications do not read it"),
    (
        Action.DISCARD,
        "discarded records are recorded on the target for good: no later run copies them, and they"
        " are lost when the source deletes them",
    ),
    (Action.EXPORT, "an export changes nothing on either cluster"),
)


def rollback(result: ReconcileResult) -> str:
    """Describe whether the actions can be rolled back."""
    ours = {line.action for line in result.plan.acting}
    found = [words for action, words in _CONSEQUENCES if action in ours]
    return "; ".join(found) or "nothing to roll back"


class GapDocument(Document):
    """The gap result.

    Attributes:
        dir: directory of the gap result.
        id: digest of the result; progress is stored under it.
    """

    dir: Name
    id: Name
    started: Moment


class SideDocument(Document):
    """A cluster.

    Attributes:
        cluster: name in drctl.yaml.
        id: Kafka cluster id.
    """

    cluster: Name
    id: Name


class BlockerDocument(Document):
    """A precheck that failed.

    Attributes:
        topic: null if it concerns the whole result.
    """

    read = From(Blocker)
    precheck: Precheck
    topic: Name | None = read(lambda o: o.place.topic if o.place else None)
    partition: Count | None = read(lambda o: o.place.partition if o.place else None)
    reason: Name
    overridden: bool = read(lambda o: o.overridden)


class OverrideDocument(Document):
    """A precheck that was overridden."""

    precheck: Annotated[Precheck, ("enum", OVERRIDABLE)]
    reason: Name


class TotalsDocument(Document):
    """Totals over all lines.

    Attributes:
        due: records to process now.
        left_out: records of topics that were not selected.
    """

    read = From(ReconcileResult)
    records: Count = read(lambda r: sum(line.all.records for line in r.plan.lines))
    bytes: Count = read(lambda r: sum(line.all.bytes for line in r.plan.lines))
    done_before: Count = read(
        lambda r: sum(line.all.records - line.due.records for line in r.plan.lines)
    )
    due: Count = read(lambda r: sum(line.due.records for line in r.plan.lines if line.acts))
    refused: Count = read(lambda r: sum(line.due.records for line in r.plan.refused))
    done: Count = read(lambda r: sum(each.count.records for each in r.results))
    gone: Count = read(lambda r: sum(each.count.gone for each in r.results))
    left_out: Count = read(lambda r: r.plan.left_out)


class SegmentDocument(Document):
    """Records processed by an earlier run.

    Attributes:
        through: source offset of the last record.
    """

    read = From(Segment)
    action: Annotated[Action, ("enum", (Action.COPY, Action.QUARANTINE, Action.DISCARD))]
    through: Count
    records: Count
    gone: Count
    to: Name | None = read(lambda segment: segment.to or None)


class LineDocument(Document):
    """The records of a partition with one order verdict.

    Attributes:
        topic: topic on the source.
        records: records listed in the gap result.
        due: records still to process before this run.
        to: target topic; null if none.
        before: what earlier runs did, in order.
        precheck: the precheck that refused the line; null if none did.
        reason: why it is not done or not verified; empty if it is.
        done: records that this run wrote, exported or recorded as discarded.
        gone: records that no longer existed on the source.
    """

    read = From(LineResult)
    topic: Name = read(lambda r: r.line.record_set.place.topic)
    partition: Count = read(lambda r: r.line.record_set.place.partition)
    order: OrderVerdict = read(lambda r: r.line.record_set.order)
    records: Count = read(lambda r: r.line.all.records)
    bytes: Count = read(lambda r: r.line.all.bytes)
    due: Count = read(lambda r: r.line.due.records)
    due_bytes: Count = read(lambda r: r.line.due.bytes)
    action: Action = read(lambda r: r.line.action)
    to: Name | None = read(lambda r: r.line.to or None)
    before: tuple[SegmentDocument, ...] = read(lambda r: SegmentDocument.each(r.line.done))
    precheck: Precheck | None = read(lambda r: r.line.precheck)
    reason: str
    outcome: Outcome
    done: Count = read(lambda r: r.count.records)
    gone: Count = read(lambda r: r.count.gone)


class GoneDocument(Document):
    """Records that no longer existed on the source.

    Attributes:
        offsets: inclusive offset ranges, the first 1,000; the journal lists all.
    """

    read = From(Gone)
    topic: Name
    partition: Count
    records: Count
    offsets: tuple[tuple[Count, Count], ...] = read(lambda gone: tuple(gone.runs))


class ReconcileDocument(Document):
    """Plan or result of reconciling the unreplicated records of a gap result.

    Attributes:
        executed: whether the run was started.
        status: planned, done: exit code 0; found 1; refused 3; stopped 4; unknown 5.
        execute: the command that executes or continues it.
        run: null if no run was started.
        journal: the journal file of the run.
        exported: the export directory.
        progress_topic: the topic on the target that stores progress.
        failure: why the run ended early.
        blockers: failed prechecks; one that is not overridden blocks everything.
        overrides: overridden prechecks.
        notes: warnings.
        lines: one per partition and order verdict.
        gone: records that no longer existed on the source.
        rollback: what can be rolled back, in words.
    """

    SCHEMA = "drctl/reconcile/1"
    read = From(ReconcileResult)
    link: Name = read(lambda r: r.plan.gap.link)
    gap: GapDocument
    source: SideDocument = read(
        lambda r: SideDocument(cluster=r.plan.gap.source, id=r.plan.gap.source_id)
    )
    target: SideDocument = read(
        lambda r: SideDocument(cluster=r.plan.gap.target, id=r.plan.gap.target_id)
    )
    executed: bool = read(lambda r: bool(r.run))
    status: Annotated[
        str, ("enum", ("planned", "done", "found", "refused", "stopped", "unknown"))
    ] = read(lambda r: r.status)
    execute: Name
    run: Name | None = read(lambda r: r.run or None)
    journal: Name | None = read(lambda r: r.journal or None)
    exported: Name | None = read(lambda r: r.exported or None)
    progress_topic: Name = TOPIC
    seconds: Seconds = read(lambda r: round(r.seconds, 3))
    failure: Name | None = read(lambda r: r.failure or None)
    blockers: tuple[BlockerDocument, ...] = read(lambda r: BlockerDocument.each(r.plan.blockers))
    overrides: tuple[OverrideDocument, ...] = read(
        lambda r: tuple(
            OverrideDocument(precheck=precheck, reason=why)
            for precheck, why in r.plan.overrides.items()
        )
    )
    notes: tuple[str, ...] = read(lambda r: r.plan.notes)
    totals: TotalsDocument = read(TotalsDocument.of)
    lines: tuple[LineDocument, ...] = read(lambda r: LineDocument.each(r.results))
    gone: tuple[GoneDocument, ...] = read(
        lambda r: tuple(
            GoneDocument.of(gone, topic=place.topic, partition=place.partition)
            for place, gone in sorted(r.gone.items())
        )
    )
    rollback: Name = read(rollback)


def document(result: ReconcileResult, folder: str, execute: str) -> ReconcileDocument:
    """Build the `drctl/reconcile/1` document.

    Args:
        folder: directory of the gap result.
        execute: the command that executes or continues it.
    """
    gap = GapDocument.of(result.plan.gap, dir=folder)
    return ReconcileDocument.of(result, gap=gap, execute=execute)
