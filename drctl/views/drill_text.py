"""Drills as JSON and text: plan, result, cleanup and history."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Literal

from drctl.drill.cleaning import Scratch
from drctl.drill.inventory import Compared
from drctl.drill.planning import LeftOut, Rehearsal
from drctl.drill.result import (
    Limits,
    Loss,
    Outage,
    Past,
    Result,
    StepTime,
    TranslationError,
    Verdict,
)
from drctl.drill.takeovers import Takeover
from drctl.model.document import Count, Document, From, Name, Seconds
from drctl.model.loss import Mode
from drctl.model.text import plural
from drctl.steps.fences import FENCE_PRODUCERS
from drctl.steps.registry import KINDS
from drctl.views.text import length, plain, sentence
from drctl.views.view import Figure, Part, Text, figures_table, heading, section, table, view

VERDICTS = {
    Verdict.PASSED: "passed",
    Verdict.NOT_PASSED: "did not pass",
    Verdict.FAILED: "failed",
    Verdict.UNKNOWN: "unknown",
    Verdict.INTERRUPTED: "interrupted",
}

_WHICH = ("Started (UTC)", "Link", "Mode", "Verdict")
COLUMNS = (*_WHICH, "RTO", "Lost", "Re-read", "Skipped", "Reason")
"""Of `past_row`."""

_SINCE = {
    "refused": "after the first write that the source refused",
    "last-write": "after the last write that the source accepted",
}


_FAULTS = ("kill-source", "pause-source", "stop-connect", "restart-tasks", "kill-worker")
Inject = Annotated[str | None, ("enum", (*_FAULTS, None))]


class ScratchDocument(Document):
    """Resources that a drill creates.

    Attributes:
        principals: principals that ACLs deny access to the drill's topic; empty: no ACL is set.
    """

    source_topics: tuple[Name, ...]
    target_topics: tuple[Name, ...]
    groups: tuple[Name, ...]
    principals: tuple[Name, ...]


class TitledDocument(Document):
    """A step of the drill."""

    id: Name
    title: Name


class DrillPlanDocument(Document):
    """The plan of a drill.

    Attributes:
        plan: drill-planned or drill-unplanned.
        inject: the injected fault; null: none.
        seen_within_seconds: how long the replicator may take to detect a new topic; 0: unknown.
        left_out: steps of the real plan that a drill skips.
        leftovers: resources of interrupted drills; they are deleted first.
        execute: the command that executes the drill.
    """

    SCHEMA = "drctl/drill-plan/1"
    read = From(Rehearsal)
    link: Name = read(lambda r: r.plan.link)
    source: Name = read(lambda r: r.plan.source)
    target: Name = read(lambda r: r.plan.target)
    plan: Name = read(lambda r: r.plan.name)
    inject: Inject
    scratch: ScratchDocument
    seen_within_seconds: Seconds
    steps: tuple[TitledDocument, ...] = read(
        lambda r: tuple(
            TitledDocument(id=step.id, title=KINDS[step.kind].describe(step.settings).title)
            for step in r.plan.steps
        )
    )
    left_out: tuple[LeftOut, ...]
    leftovers: tuple[Name, ...]
    execute: Name


def scratch_document(
    planned: Rehearsal, scratch: Scratch, target_topic: Callable[[str], str]
) -> ScratchDocument:
    """List the resources of a planned drill."""
    fences = (step for step in planned.plan.steps if step.kind == FENCE_PRODUCERS.name)
    return ScratchDocument(
        source_topics=(scratch.topic,),
        target_topics=(target_topic(scratch.topic), scratch.probe_record),
        groups=(scratch.group,),
        principals=tuple(
            name
            for step in fences
            for name in FENCE_PRODUCERS.read_settings(step.settings).principals
        ),
    )


class OutageDocument(Document):
    """From the last write on the source to the first on the target.

    Attributes:
        seconds: until a write and a read succeeded on the target; null: they did not.
        since: start of the outage on the source.
    """

    read = From(Outage)
    seconds: Seconds | None
    since: Literal["refused", "last-write"]
    write_seconds: Seconds | None = read(lambda o: o.write_s)
    read_seconds: Seconds | None = read(lambda o: o.read_s)


class UntouchedDocument(Document):
    """All other resources, before and after.

    Attributes:
        compared: number of compared topics, ACLs, group offsets, brokers, SCRAM users, quotas and
            connectors, including the settings of topics and brokers.
        moved_by_members: offsets moved by active members.
        unavailable: resources that could not be read, so were not compared; any of them makes the
            exit code 5.
        not_compared: resources that are never compared, or that this user may not read.
    """

    read = From(Compared)
    compared: Count = read(lambda c: c.counted)
    differences: tuple[Name, ...]
    moved_by_members: Count = read(lambda c: c.moved)
    unavailable: tuple[Name, ...] = read(lambda c: c.unseen)
    not_compared: tuple[Name, ...]


class CleanedDocument(Document):
    """Cleanup of the drill's resources."""

    deleted: tuple[Name, ...]
    left: tuple[Name, ...]


class DrillDocument(Document):
    """The result of a drill.

    Attributes:
        inject: the injected fault; null: none.
        reasons: why it did not pass; empty if it passed.
        rto: null: not measured.
        rpo: null: not measured.
        translation: null: not measured.
        steps: steps of the run; empty if it did not start.
        takeovers: tasks of source connectors that the fault disrupted; all run again.
        untouched: all other resources, before and after; null: could not be checked.
        journal: journal of the run.
        history: HTML page of all drills.
    """

    SCHEMA = "drctl/drill/1"
    read = From(Result)
    drill: Name = read(lambda r: r.scratch.drill)
    link: Name
    source: Name
    target: Name
    mode: Mode
    inject: Inject = read(lambda r: r.inject or None)
    began: datetime
    seconds: Seconds = read(lambda r: round(r.seconds, 3))
    verdict: Literal["passed", "not-passed", "failed", "unknown"]
    reasons: tuple[Name, ...]
    rto: OutageDocument | None = read(
        lambda r: OutageDocument.of(r.measures.outage) if r.measures else None
    )
    rpo: Loss | None = read(lambda r: r.measures.loss if r.measures else None)
    translation: TranslationError | None = read(
        lambda r: r.measures.translation if r.measures else None
    )
    limits: Limits
    steps: tuple[StepTime, ...]
    left_out: tuple[LeftOut, ...]
    takeovers: tuple[Takeover, ...]
    untouched: UntouchedDocument | None = read(
        lambda r: UntouchedDocument.of(r.compared) if r.compared else None
    )
    cleaned: CleanedDocument = read(CleanedDocument.of)
    journal: str | None = read(lambda r: r.journal or None)
    history: str | None


class DrillCleanDocument(Document):
    """Resources of interrupted drills, and their cleanup.

    Attributes:
        execute: the command that deletes them.
    """

    SCHEMA = "drctl/drill-clean/1"
    link: Name
    executed: bool
    deleted: tuple[Name, ...]
    left: tuple[Name, ...]
    execute: Name


class PastDocument(Document):
    """A drill in the history.

    Attributes:
        steps: duration of each step in seconds.
    """

    read = From(Past)
    drill: Name
    link: str
    began: datetime
    mode: Mode | None = read(lambda past: Mode(past.mode) if past.mode else None)
    inject: str | None = read(lambda past: past.inject or None)
    verdict: Verdict
    reasons: tuple[Name, ...]
    rto_seconds: Seconds | None = read(lambda past: past.rto_s)
    acknowledged: Count | None
    missing: Count | None
    rpo_seconds: Seconds | None = read(lambda past: past.rpo_s)
    reread: Count | None
    skipped: Count | None
    steps: Mapping[str, Seconds] = read(lambda past: dict(past.seconds))


class DrillHistoryDocument(Document):
    """The drills of this state_dir, oldest first."""

    SCHEMA = "drctl/drill-history/1"
    drills: tuple[PastDocument, ...]
    damaged_lines: Count
    page: str | None


def figures(result: Result) -> tuple[Figure, ...]:
    """Return RTO, RPO and translation error; empty if nothing was measured."""
    measures = result.measures
    if measures is None:
        return ()
    outage, loss, translation = measures.outage, measures.loss, measures.translation
    promised = "no offset was committed"
    if translation.promised is not None:
        promised = f"the plan allowed at most {translation.promised:,}"
    return (
        Figure(
            "RTO",
            "not measured" if outage.seconds is None else length(outage.seconds),
            f"first write {_length(outage.write_s)}, first record read {_length(outage.read_s)}"
            f" {_SINCE[outage.since]}",
        ),
        Figure(
            "RPO",
            plural(loss.missing, "record"),
            f"of {loss.acknowledged:,} acknowledged, in the last {length(loss.seconds)} of writes",
        ),
        Figure(
            "Re-read",
            plural(translation.reread, "record"),
            f"of {translation.finished:,} committed; {promised}",
        ),
        Figure("Skipped", plural(translation.skipped, "record"), "of the records on the target"),
    )


def untouched(result: Result) -> str:
    """Say whether all other resources are unchanged."""
    found = result.compared
    if found is None:
        return "not checked"
    words = f"{found.counted:,} compared, including settings of topics and brokers"
    if found.moved:
        words += f"; {plural(found.moved, 'offset')} moved by active members"
    changed = plural(len(found.differences), "difference") if found.differences else "unchanged"
    return f"{words}: {changed}"


def kind(past: Past) -> str:
    """Return the mode of the failover and the injected fault, as far as known."""
    return plain(", ".join(filter(None, (past.mode, past.inject))))


def past_row(past: Past) -> tuple[str, ...]:
    """Format a row of the history table."""
    return (
        f"{past.began:%Y-%m-%d %H:%M}",
        plain(past.link),
        kind(past) or "-",
        VERDICTS[past.verdict],
        "-" if past.rto_s is None else length(past.rto_s),
        "-" if past.missing is None else f"{past.missing:,}",
        "-" if past.reread is None else f"{past.reread:,}",
        "-" if past.skipped is None else f"{past.skipped:,}",
        sentence(past.reasons[0]) if past.reasons else "",
    )


def _length(seconds: float | None) -> str:
    return "an unknown time" if seconds is None else length(seconds)


_STYLES = {Verdict.PASSED: "bold green", Verdict.NOT_PASSED: "bold yellow"}
_MOST = 20


@view
def plan_table(document: DrillPlanDocument) -> Iterator[Part]:
    """Show the plan of a drill; the command that executes it comes last."""
    ends = f"{plain(document.source)} to {plain(document.target)}"
    fault = f", with {document.inject}" if document.inject else ""
    yield Text(f"Plan: drill of link {plain(document.link)}, {ends}{fault}", "bold")
    yield heading("Creates, and deletes at the end")
    scratch = document.scratch
    yield from _lines(f"topic {plain(n)} on the source" for n in scratch.source_topics)
    yield from _lines(f"topic {plain(n)} on the target" for n in scratch.target_topics)
    yield from _lines(f"consumer group {plain(n)} on both clusters" for n in scratch.groups)
    yield from _lines(f"ACLs that deny {plain(n)} access to the topic" for n in scratch.principals)
    if document.seen_within_seconds:
        seen = length(document.seen_within_seconds)
        yield Text(f"  the replicator detects new topics every {seen}", "dim")
    steps = enumerate(document.steps, 1)
    lines = (f"{n}. {plain(each.id)}: {sentence(each.title)}" for n, each in steps)
    yield from section("Steps", lines)
    yield heading("Skipped in a drill")
    yield from _lines(f"{plain(e.id)}: {sentence(e.why)}" for e in document.left_out)
    if document.leftovers:
        yield heading("Leftovers of interrupted drills (deleted first)")
        yield from _lines(map(plain, document.leftovers))
    yield from section("Nothing was changed. To execute:", [document.execute])


@view
def result_table(result: Result, page: str | None) -> Iterator[Part]:
    """Show the verdict, measures, steps and other resources."""
    words = VERDICTS[result.verdict]
    head = f"Drill {words}: link {plain(result.link)}, drill {result.scratch.drill}"
    yield Text(head, _STYLES.get(result.verdict, "bold red"))
    measured = figures(result)
    if measured:
        yield figures_table(measured)
    if result.reasons:
        yield heading("Reasons")
        yield from _lines(map(sentence, result.reasons))
    if result.steps:
        yield heading("Steps")
        yield table(_step(n, step) for n, step in enumerate(result.steps, 1))
        yield heading("Skipped in a drill")
        yield from _lines(f"{plain(each.id)}: {each.why}" for each in result.left_out)
    if result.takeovers:
        yield heading("Source connectors")
        yield from _lines(map(_takeover, result.takeovers))
    yield heading("Other resources")
    yield Text(f"  {untouched(result)}")
    if result.compared is not None:
        yield Text(f"  Not compared: {_some(result.compared.not_compared)}", "dim")
    left = f"; {len(result.left)} not deleted" if result.left else ""
    yield Text(f"  {plural(len(result.deleted), 'resource')} of the drill deleted{left}")
    if page:
        yield Text(f"\nHistory: {page}")


def _takeover(task: Takeover) -> str:
    where = f"on {task.after}"
    if task.after != task.before:
        where = f"taken over from {task.before} by {task.after}"
    name = f"{plain(task.connector)} task {task.task}"
    return f"{name}: running again after {length(task.seconds)}, {plain(where)}"


def _some(what: Sequence[str]) -> str:
    words = "; ".join(map(sentence, what[:_MOST]))
    return f"{words}; --output json lists all" if len(what) > _MOST else words


def _step(number: int, step: StepTime) -> tuple[str, ...]:
    seconds = "" if step.seconds is None else length(step.seconds)
    return str(number), plain(step.id), step.status, seconds, sentence(step.detail)


@view
def clean_table(document: DrillCleanDocument) -> Iterator[Part]:
    """Show deleted and remaining resources of drills."""
    if not document.deleted and not document.left:
        yield Text("No leftovers of drills")
        return
    if document.deleted:
        yield Text("Deleted", "bold")
        yield from _lines(map(plain, document.deleted))
    if document.left:
        yield Text(
            "Not deleted" if document.executed else "Leftovers of interrupted drills", "bold"
        )
        yield from _lines(map(plain, document.left))
        yield from section("To delete:", [document.execute])


@view
def history_table(drills: Sequence[Past], page: str | None) -> Iterator[Part]:
    """Show the history of drills."""
    if not drills:
        yield Text("No drills in this state_dir")
        return
    yield table(map(_past, drills), *COLUMNS)
    if page:
        yield Text(f"\nReport: {page}")


def _past(past: Past) -> tuple[Text, ...]:
    style = "" if past.verdict is Verdict.PASSED else "yellow"
    return tuple(Text(cell, style) for cell in past_row(past))


def _lines(lines: Iterable[str]) -> Iterator[Part]:
    for number, line in enumerate(lines):
        if number == _MOST:
            yield Text("  --output json lists all")
            return
        yield Text(f"  - {line}")
