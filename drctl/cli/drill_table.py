"""Drills for a terminal: the plan, the end, what was cleaned up, all that were; no rich markup."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from drctl.cli.tables import figures_table, filled, heading, section, stacked
from drctl.drill.result import Past, Result, StepTime, Verdict
from drctl.views import drill_text
from drctl.views.drill_text import DrillCleanDocument, DrillPlanDocument
from drctl.views.run_words import length
from drctl.views.text import plain, plural, sentence

_STYLES = {Verdict.PASSED: "bold green", Verdict.WORSE: "bold yellow"}
_MOST = 20


@stacked
def plan_table(document: DrillPlanDocument) -> Iterator[RenderableType]:
    """What a drill would make and do; the command line that does it stands last."""
    ends = f"{plain(document.source)} to {plain(document.target)}"
    fault = f", with {document.inject}" if document.inject else ""
    yield Text(f"A drill over link {plain(document.link)}, from {ends}{fault}", style="bold")
    yield heading("It would make, and delete at its end")
    scratch = document.scratch
    yield from _lines(f"topic {plain(n)} of the source" for n in scratch.source_topics)
    yield from _lines(f"topic {plain(n)} of the target" for n in scratch.target_topics)
    yield from _lines(f"group {plain(n)} of both" for n in scratch.groups)
    yield from _lines(f"rules that deny {plain(n)} that topic" for n in scratch.principals)
    if document.seen_within_seconds:
        seen = length(document.seen_within_seconds)
        yield Text(f"  the replicator looks for new topics every {seen}", style="dim")
    steps = enumerate(document.steps, 1)
    lines = (f"{n}. {plain(each.id)}: {sentence(each.title)}" for n, each in steps)
    yield from section("Steps of the engine", lines)
    yield heading("Left out, because it is a rehearsal")
    yield from _lines(f"{plain(e.id)}: {sentence(e.why)}" for e in document.left_out)
    if document.leftovers:
        yield heading("Drills that died left, and it would delete first")
        yield from _lines(map(plain, document.leftovers))
    yield from section("Nothing was made. Carry it out:", [document.execute])


@stacked
def result_table(result: Result, page: str | None) -> Iterator[RenderableType]:
    """The verdict, the measures, the steps, and what became of everything else."""
    words = drill_text.VERDICTS[result.verdict]
    head = f"Drill {result.scratch.drill} over link {plain(result.link)}: {words}"
    yield Text(head, style=_STYLES.get(result.verdict, "bold red"))
    measured = drill_text.figures(result)
    if measured:
        yield figures_table(measured)
    if result.reasons:
        yield heading("Why")
        yield from _lines(map(sentence, result.reasons))
    if result.steps:
        yield heading("Steps")
        yield filled(_step(n, step) for n, step in enumerate(result.steps, 1))
        yield heading("Left out, because it is a rehearsal")
        yield from _lines(f"{plain(each.id)}: {each.why}" for each in result.left_out)
    yield heading("Everything else")
    yield Text(f"  {drill_text.untouched(result)}")
    if result.compared is not None:
        yield Text(f"  Not compared: {_some(result.compared.not_compared)}", style="dim")
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


@stacked
def clean_table(document: DrillCleanDocument) -> Iterator[RenderableType]:
    """What was, or would be, deleted."""
    if not document.deleted and not document.left:
        yield Text("drills left nothing behind")
        return
    if document.deleted:
        yield Text("Deleted", style="bold")
        yield from _lines(map(plain, document.deleted))
    if document.left:
        yield Text("Still there" if document.executed else "Left by drills", style="bold")
        yield from _lines(map(plain, document.left))
        yield from section("Delete it:", [document.execute])


@stacked
def history_table(drills: Sequence[Past], page: str | None) -> Iterator[RenderableType]:
    """A row for each drill."""
    if not drills:
        yield Text("no drill was carried out from this state_dir")
        return
    yield filled(map(_past, drills), *drill_text.COLUMNS)
    if page:
        yield Text(f"\nPage: {page}")


def _past(past: Past) -> tuple[Text, ...]:
    style = "" if past.verdict is Verdict.PASSED else "yellow"
    return tuple(Text(cell, style) for cell in drill_text.past_row(past))


def _lines(lines: Iterable[str]) -> Iterator[RenderableType]:
    for number, line in enumerate(lines):
        if number == _MOST:
            yield Text("  and more: --output json names all")
            return
        yield Text(f"  - {line}")
