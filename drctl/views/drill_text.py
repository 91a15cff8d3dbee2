"""Drills as JSON and in words: the plan of one, its result, what was cleaned up, all that were."""

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
from drctl.model.document import Count, Document, From, Name, Seconds
from drctl.model.loss import Mode
from drctl.steps.fences import FENCE_PRODUCERS
from drctl.steps.registry import KINDS
from drctl.views.run_words import length
from drctl.views.text import plain, plural, sentence
from drctl.views.view import Figure, Part, Text, figures_table, heading, section, table, view

VERDICTS = {
    Verdict.PASSED: "passed",
    Verdict.WORSE: "worse than allowed",
    Verdict.FAILED: "did not go through",
    Verdict.UNKNOWN: "not known",
    Verdict.DIED: "died",
}

COLUMNS = ("Began, UTC", "Link", "How", "Verdict", "RTO", "Lost", "Read again", "Skipped", "Why")
"""Of `past_row`."""

_SINCE = {
    "refused": "since the first write that the source refused",
    "last-write": "since the last write that the source took",
}


Inject = Annotated[str | None, ("enum", ("kill-source", "pause-source", "stop-connect", None))]


class ScratchDocument(Document):
    """What a drill would make.

    Attributes:
        principals: whom rules would deny the drill's topic; empty: no rule is set.
    """

    source_topics: tuple[Name, ...]
    target_topics: tuple[Name, ...]
    groups: tuple[Name, ...]
    principals: tuple[Name, ...]


class TitledDocument(Document):
    """A step that would be rehearsed."""

    id: Name
    title: Name


class DrillPlanDocument(Document):
    """What a drill would make, and which steps it would rehearse.

    Attributes:
        plan: the engine's plan: drill-planned or drill-unplanned.
        inject: the fault; null: none.
        seen_within_seconds: how long the replicator may take to see a new topic; 0: not known.
        left_out: steps of the real plan that a rehearsal does without.
        leftovers: of drills that died: deleted first.
        execute: the command line that carries it out.
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
    """What it would make."""
    fences = (step for step in planned.plan.steps if step.kind == FENCE_PRODUCERS.name)
    return ScratchDocument(
        source_topics=(scratch.topic,),
        target_topics=(target_topic(scratch.topic), scratch.canary),
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
        seconds: until both a write and a read had happened on the target; null: they did not.
        since: what it is counted from, on the source.
    """

    read = From(Outage)
    seconds: Seconds | None
    since: Literal["refused", "last-write"]
    write_seconds: Seconds | None = read(lambda o: o.write_s)
    read_seconds: Seconds | None = read(lambda o: o.read_s)


class UntouchedDocument(Document):
    """Everything else, before and after.

    Attributes:
        compared: topics, rules, positions, brokers, SCRAM users, quotas and connectors, whosever
            they are; with the settings of topics and brokers.
        moved_by_members: positions of groups in which somebody reads.
        not_seen: had to be compared, and could not be: then the exit code is 5.
        not_compared: never looked at, or beyond what this user may see.
    """

    read = From(Compared)
    compared: Count = read(lambda c: c.counted)
    differences: tuple[Name, ...]
    moved_by_members: Count = read(lambda c: c.moved)
    not_seen: tuple[Name, ...] = read(lambda c: c.unseen)
    not_compared: tuple[Name, ...]


class CleanedDocument(Document):
    """What became of what the drill made."""

    deleted: tuple[Name, ...]
    left: tuple[Name, ...]


class DrillDocument(Document):
    """What a drill measured, and that it left nothing behind.

    Attributes:
        inject: the fault; null: none.
        reasons: why it did not pass; empty where it did.
        rto: null: not measured.
        rpo: null: not measured.
        translation: null: not measured.
        steps: of the engine; empty where it did not begin.
        untouched: everything else, before and after; null: the second look was not possible.
        journal: of the engine's part.
        history: the page of all drills.
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
    verdict: Literal["passed", "worse", "failed", "unknown"]
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
    untouched: UntouchedDocument | None = read(
        lambda r: UntouchedDocument.of(r.compared) if r.compared else None
    )
    cleaned: CleanedDocument = read(CleanedDocument.of)
    journal: str | None = read(lambda r: r.journal or None)
    history: str | None


class DrillCleanDocument(Document):
    """What drills that died left, and what became of it.

    Attributes:
        execute: the command line that deletes it.
    """

    SCHEMA = "drctl/drill-clean/1"
    link: Name
    executed: bool
    deleted: tuple[Name, ...]
    left: tuple[Name, ...]
    execute: Name


class PastDocument(Document):
    """A drill of this machine.

    Attributes:
        steps: seconds of each step.
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
    """The drills of this machine, the oldest first."""

    SCHEMA = "drctl/drill-history/1"
    drills: tuple[PastDocument, ...]
    damaged_lines: Count
    page: str | None


def figures(result: Result) -> tuple[Figure, ...]:
    """RTO, RPO and translation error; none where nothing was measured."""
    measures = result.measures
    if measures is None:
        return ()
    outage, loss, translation = measures.outage, measures.loss, measures.translation
    promised = "no position was committed"
    if translation.promised is not None:
        promised = f"{translation.promised:,} at most were promised"
    return (
        Figure(
            "RTO",
            "not measured" if outage.seconds is None else length(outage.seconds),
            f"first write after {_length(outage.write_s)}, first record read after"
            f" {_length(outage.read_s)}, {_SINCE[outage.since]}",
        ),
        Figure(
            "RPO",
            plural(loss.missing, "record"),
            f"of {loss.acknowledged:,} acknowledged; of the last {length(loss.seconds)} of writes",
        ),
        Figure(
            "Read again",
            plural(translation.reread, "record"),
            f"of {translation.finished:,} that were finished; {promised}",
        ),
        Figure("Skipped", plural(translation.skipped, "record"), "of those on the target"),
    )


def untouched(result: Result) -> str:
    """Whether everything else is as it was."""
    found = result.compared
    if found is None:
        return "whether all else is as it was is not known"
    told = f"{found.counted:,} things compared, and the settings of topics and brokers"
    if found.moved:
        told += f"; {plural(found.moved, 'position')} moved by members of their groups"
    changed = plural(len(found.differences), "difference") if found.differences else "as before"
    return f"{told}: {changed}"


def past_row(past: Past) -> tuple[str, ...]:
    """A drill in the table of all."""
    return (
        f"{past.began:%Y-%m-%d %H:%M}",
        plain(past.link),
        plain(" ".join(filter(None, (past.mode, past.inject)))) or "-",
        VERDICTS[past.verdict],
        "-" if past.rto_s is None else length(past.rto_s),
        "-" if past.missing is None else f"{past.missing:,}",
        "-" if past.reread is None else f"{past.reread:,}",
        "-" if past.skipped is None else f"{past.skipped:,}",
        sentence(past.reasons[0]) if past.reasons else "",
    )


def _length(seconds: float | None) -> str:
    return "a time that is not known" if seconds is None else length(seconds)


_STYLES = {Verdict.PASSED: "bold green", Verdict.WORSE: "bold yellow"}
_MOST = 20


@view
def plan_table(document: DrillPlanDocument) -> Iterator[Part]:
    """What a drill would make and do; the command line that does it stands last."""
    ends = f"{plain(document.source)} to {plain(document.target)}"
    fault = f", with {document.inject}" if document.inject else ""
    yield Text(f"A drill over link {plain(document.link)}, from {ends}{fault}", "bold")
    yield heading("It would make, and delete at its end")
    scratch = document.scratch
    yield from _lines(f"topic {plain(n)} of the source" for n in scratch.source_topics)
    yield from _lines(f"topic {plain(n)} of the target" for n in scratch.target_topics)
    yield from _lines(f"group {plain(n)} of both" for n in scratch.groups)
    yield from _lines(f"rules that deny {plain(n)} that topic" for n in scratch.principals)
    if document.seen_within_seconds:
        seen = length(document.seen_within_seconds)
        yield Text(f"  the replicator looks for new topics every {seen}", "dim")
    steps = enumerate(document.steps, 1)
    lines = (f"{n}. {plain(each.id)}: {sentence(each.title)}" for n, each in steps)
    yield from section("Steps of the engine", lines)
    yield heading("Left out, because it is a rehearsal")
    yield from _lines(f"{plain(e.id)}: {sentence(e.why)}" for e in document.left_out)
    if document.leftovers:
        yield heading("Drills that died left, and it would delete first")
        yield from _lines(map(plain, document.leftovers))
    yield from section("Nothing was made. Carry it out:", [document.execute])


@view
def result_table(result: Result, page: str | None) -> Iterator[Part]:
    """The verdict, the measures, the steps, and what became of everything else."""
    words = VERDICTS[result.verdict]
    head = f"Drill {result.scratch.drill} over link {plain(result.link)}: {words}"
    yield Text(head, _STYLES.get(result.verdict, "bold red"))
    measured = figures(result)
    if measured:
        yield figures_table(measured)
    if result.reasons:
        yield heading("Why")
        yield from _lines(map(sentence, result.reasons))
    if result.steps:
        yield heading("Steps")
        yield table(_step(n, step) for n, step in enumerate(result.steps, 1))
        yield heading("Left out, because it is a rehearsal")
        yield from _lines(f"{plain(each.id)}: {each.why}" for each in result.left_out)
    yield heading("Everything else")
    yield Text(f"  {untouched(result)}")
    if result.compared is not None:
        yield Text(f"  Not compared: {_some(result.compared.not_compared)}", "dim")
    left = f"; {plural(len(result.left), 'thing')} still there" if result.left else ""
    yield Text(f"  {plural(len(result.deleted), 'thing')} made by the drill and deleted{left}")
    if page:
        yield Text(f"\nPage of all drills: {page}")


def _some(what: Sequence[str]) -> str:
    told = "; ".join(map(sentence, what[:_MOST]))
    return f"{told}; and more: --output json names all" if len(what) > _MOST else told


def _step(number: int, step: StepTime) -> tuple[str, ...]:
    seconds = "" if step.seconds is None else length(step.seconds)
    return str(number), plain(step.id), step.status, seconds, sentence(step.detail)


@view
def clean_table(document: DrillCleanDocument) -> Iterator[Part]:
    """What was, or would be, deleted."""
    if not document.deleted and not document.left:
        yield Text("drills left nothing behind")
        return
    if document.deleted:
        yield Text("Deleted", "bold")
        yield from _lines(map(plain, document.deleted))
    if document.left:
        yield Text("Still there" if document.executed else "Left by drills", "bold")
        yield from _lines(map(plain, document.left))
        yield from section("Delete it:", [document.execute])


@view
def history_table(drills: Sequence[Past], page: str | None) -> Iterator[Part]:
    """A row for each drill."""
    if not drills:
        yield Text("no drill was carried out from this state_dir")
        return
    yield table(map(_past, drills), *COLUMNS)
    if page:
        yield Text(f"\nPage: {page}")


def _past(past: Past) -> tuple[Text, ...]:
    style = "" if past.verdict is Verdict.PASSED else "yellow"
    return tuple(Text(cell, style) for cell in past_row(past))


def _lines(lines: Iterable[str]) -> Iterator[Part]:
    for number, line in enumerate(lines):
        if number == _MOST:
            yield Text("  and more: --output json names all")
            return
        yield Text(f"  - {line}")
