"""The report of a run: one view model for the terminal, Markdown and the HTML page."""

from collections.abc import Iterator
from dataclasses import dataclass

from drctl.model.text import plural
from drctl.views import run_lines, run_words
from drctl.views.client_moves import leaving_lines
from drctl.views.run_data import GroupRow, ReportData, RunStatus, StepReport, StepStatus, Writes
from drctl.views.run_lines import NextStep
from drctl.views.run_words import STEP_STATUS, Tone
from drctl.views.text import collected, length, number, plain, sentence, when
from drctl.views.view import (
    Figure,
    Items,
    Part,
    Table,
    Text,
    figures_table,
    heading,
    section,
    table,
    view,
)

_BAD = (
    StepStatus.FAILED,
    StepStatus.UNKNOWN,
    StepStatus.NOT_ROLLED_BACK,
    StepStatus.OUTSTANDING,
    StepStatus.STARTED,
)
"""Steps that need attention."""


@dataclass(frozen=True, slots=True)
class Detail:
    """A sentence about a step, or a list with a label."""

    label: str
    text: str = ""
    items: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepView:
    """A step and its result.

    Attributes:
        state: the result in words.
        took: empty if it was not started.
        seen: the last observation.
        details: observations, problems, and outstanding actions.
        about: its proof and its rollback, from the plan.
        bad: whether it needs attention.
    """

    number: int
    id: str
    title: str
    status: StepStatus
    state: str
    started: str
    took: str
    seen: str
    details: tuple[Detail, ...]
    about: tuple[Detail, ...]
    bad: bool


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the report; `name` is its anchor on the page.

    Attributes:
        what: a noun for its items, used to count hidden ones.
        on_terminal: whether the terminal shows it, too.
    """

    name: str
    title: str
    parts: tuple[Part, ...]
    what: str = "item"
    on_terminal: bool = False


@dataclass(frozen=True, slots=True)
class RunReport:
    """The content of a report, in reading order."""

    tone: Tone
    chip: str
    headline: str
    circumstances: str
    figures: tuple[Figure, ...]
    do_now: tuple[NextStep, ...]
    known: tuple[str, ...]
    unknown: tuple[str, ...]
    steps: tuple[StepView, ...]
    sections: tuple[Section, ...]


def report(data: ReportData) -> RunReport:
    """Build the report; every text is printable."""
    return RunReport(
        run_words.tone(data),
        run_words.chip(data),
        run_words.verdict(data),
        run_words.circumstances(data),
        (*run_lines.figures(data), _steps_figure(data)),
        run_lines.next_steps(data),
        run_lines.known(data),
        run_lines.unknown(data),
        tuple(map(_step, data.steps)),
        tuple(each for each in _sections(data) if each.parts),
    )


def _steps_figure(data: ReportData) -> Figure:
    through = len(data.with_status(StepStatus.DONE, StepStatus.SKIPPED))
    outstanding = (
        f"{plural(len(data.outstanding), 'action')} outstanding, " if data.outstanding else ""
    )
    return Figure(
        "Steps done", f"{through} of {len(data.steps)}", f"{outstanding}took {length(data.seconds)}"
    )


def _step(step: StepReport) -> StepView:
    began = f"{when(step.started)} UTC" if step.started else ""
    took = "" if step.seconds is None else length(step.seconds)
    waited = step.waited or 0.0
    if step.seconds and 0.1 < waited < step.seconds - 0.1:
        began += f", {length(waited)} to {'change' if step.changes else 'wait'} and verify"
    return StepView(
        step.number,
        plain(step.id),
        sentence(step.title),
        step.status,
        STEP_STATUS[step.status],
        began,
        took,
        sentence(step.rolled_back or step.message),
        tuple(_details(step)),
        tuple(_about(step)),
        step.status in _BAD,
    )


def _details(step: StepReport) -> Iterator[Detail]:
    if step.message or step.items:
        yield Detail("", sentence(step.message), tuple(map(sentence, step.items)))
    if step.errors:
        yield Detail("Errors when it was applied", items=tuple(map(sentence, step.errors)))
    if step.outstanding and step.outstanding != step.message:
        yield Detail("Outstanding", sentence(step.outstanding))
    if step.rolled_back:
        failed = step.status is StepStatus.NOT_ROLLED_BACK
        yield Detail("Not rolled back" if failed else "Rolled back", sentence(step.rolled_back))


def _about(step: StepReport) -> Iterator[Detail]:
    if step.proof:
        yield Detail("Proof", sentence(step.proof))
    if step.rollback or step.changes:
        yield Detail("Rollback", sentence(step.rollback) or "none")


def _sections(data: ReportData) -> Iterator[Section]:
    yield _list("loss", "What the loss estimate is based on", data.rpo.evidence, on_terminal=True)
    rows = tuple((plain(step), sentence(what)) for step, what in data.outstanding.items())
    lead = (
        "Nothing was rolled back when the run was abandoned: check each of these."
        if data.abandoned
        else "This run could not do these; a later run must."
    )
    yield Section("outstanding", "Outstanding actions", _table(lead, rows, "Step", "Action"))
    # A completed run has switched the clients; after one that stopped they need attention at once.
    clients = Items(leaving_lines(data.plan) if data.writes is Writes.TARGET else ())
    yield Section(
        "clients",
        f"Clients that are still connected to {plain(data.plan.source)}",
        (clients,) if clients.lines else (),
        on_terminal=data.ending.status is not RunStatus.DONE,
    )
    rows = tuple((plain(precheck), sentence(why)) for precheck, why in data.overrides.items())
    yield Section("overridden", "Overridden prechecks", _table("", rows, "Precheck", "Reason"))
    # Those that could not be checked are listed as such.
    warned = [each.message for each in data.warned if each.checked]
    yield _list("warnings", "Precheck warnings", warned, what="warning")
    yield from _groups(data)
    yield _source_connectors(data)
    lead = "These were not checked, or could not be checked: they may have problems."
    yield _list("not-checked", "Not checked", data.not_checked, lead)
    attempts = tuple(
        (plain(a.who), plain(a.host), when(a.began), when(a.until), sentence(a.ending))
        for a in data.attempts
    )
    heads = "User", "Host", "From (UTC)", "Until (UTC)", "Result"
    yield Section("who", "Who ran it", _table("", attempts, *heads))


def _source_connectors(data: ReportData) -> Section:
    rows = tuple(
        tuple(map(sentence, (each.connector, each.does, each.reason, each.if_purged)))
        for each in data.source_connectors
    )
    heads = "Connector", "On the target it", "Why", "If its position is lost"
    return Section("source-connectors", "Source connectors", _table("", rows, *heads))


def _groups(data: ReportData) -> Iterator[Section]:
    found = data.committed_offsets
    if found is None:
        return
    bounded = any(row.rereads_at_most is not None for row in found.groups)
    unproven = any(row.skips_only_if for row in found.groups)
    heads = ["Group", "Partitions"]
    heads += ["Re-read at most"] if bounded else []
    heads += ["Likely", "Based on", "Skips records only if"] if unproven else []
    texts = {"Group", "Based on", "Skips records only if"}
    numbers = tuple(place for place, head in enumerate(heads) if head not in texts)

    @collected
    def cells(row: GroupRow) -> Iterator[str]:
        yield plain(row.name)
        yield number(row.offsets)
        if bounded:
            yield _count(row.rereads_at_most)
        if unproven:
            yield _count(row.rereads_likely)
            yield sentence(row.based_on or "")
            yield sentence(row.skips_only_if or "")

    lead = run_lines.committed(found, data.mode)
    groups = _table(lead, tuple(map(cells, found.groups)), *heads, numbers=numbers)
    yield Section("groups", "Consumer groups", groups or (Text(lead),), what="group")
    yield _list("left-out", "Groups without offsets from this run", found.left_out)


def _count(records: int | None) -> str:
    return "unknown" if records is None else number(records)


def _table(
    lead: str, rows: tuple[tuple[str, ...], ...], *columns: str, numbers: tuple[int, ...] = ()
) -> tuple[Part, ...]:
    return (*((Text(lead),) if lead else ()), Table(rows, columns, numbers)) if rows else ()


def _list(
    name: str,
    title: str,
    lines: list[str] | tuple[str, ...],
    lead: str = "",
    what: str = "item",
    on_terminal: bool = False,
) -> Section:
    parts = (*((Text(lead),) if lead else ()), Items(tuple(map(sentence, lines)))) if lines else ()
    return Section(name, title, parts, what, on_terminal)


def named(shown: RunReport, data: ReportData) -> tuple[str, ...]:
    """Return all problems, each with its step; outstanding actions last."""
    bad = [
        f"{step.id}: {each}"
        for step in shown.steps
        if step.bad
        for d in step.details
        for each in d.items
    ]
    return (
        *bad,
        *(f"outstanding, {plain(s)}: {sentence(what)}" for s, what in data.outstanding.items()),
    )


_HEADLINE_STYLES = {Tone.FINE: "bold green", Tone.FOUND: "bold yellow", Tone.INCOMPLETE: "bold red"}
_MOST = 20


@view
def run_table(data: ReportData, page: str | None) -> Iterator[Part]:
    """Show the headline, the figures, the steps, and what to do now."""
    shown = report(data)
    yield Text(shown.headline, _HEADLINE_STYLES.get(shown.tone, "bold"))
    yield figures_table(shown.figures[:-1])
    yield heading("Steps")
    yield table(map(_step_row, shown.steps))
    bad = named(shown, data)
    more = [f"and {len(bad) - _MOST} more; the report lists all"] if len(bad) > _MOST else []
    yield from section("Problems", (*bad[:_MOST], *more), mark="- ")
    yield from section("Known", shown.known, mark="- ")
    yield from section("Unknown", shown.unknown, mark="- ")
    for each in shown.sections:
        if each.on_terminal:
            yield heading(each.title)
            yield from each.parts
    yield heading("Do now")
    for place, step in enumerate(shown.do_now, 1):
        yield Text(f"  {place}. {step.what} {step.why}")
        if step.command:
            yield Text(f"     {step.command}", "bold")
    if page:
        yield Text(f"\nReport: {page}")


def _step_row(step: StepView) -> Iterator[Text]:
    message = (str(step.number), step.id, step.state, step.took, step.seen)
    return (Text(word, "bold red" if step.bad else "") for word in message)
