"""A run as Markdown, for wikis and tickets; what comes from clusters is text and nothing else."""

import re
from collections.abc import Iterable, Iterator

from drctl.views import run_lines, run_words
from drctl.views.client_moves import leaving_told
from drctl.views.run_data import ReportData, StepReport, Warned
from drctl.views.run_lines import figures, next_steps
from drctl.views.text import number, plain, plural, sentence

# Marks, references, and what some renderers make a link of without being asked.
_SPECIAL = re.compile(r"([\\`*_\[\]#|~$]|:(?=//)|(?<=www)\.)|([<>&@])", re.IGNORECASE)
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;"}


def render(data: ReportData) -> str:
    """The document."""
    return "\n".join(_lines(data)) + "\n"


def text(printable: str) -> str:
    """Printable text, of which nothing acts: no link, no markup, no mention."""
    return _SPECIAL.sub(lambda m: f"\\{m[1]}" if m[1] else _ENTITIES[m[2]], printable)


def code(printable: str) -> str:
    """Printable text to copy, whatever quotes it holds."""
    longest = max((len(run) for run in re.findall("`+", printable)), default=0)
    if not longest:
        return f"`{printable}`"
    fence = "`" * (longest + 1)
    return f"{fence} {printable} {fence}"


def _lines(data: ReportData) -> Iterator[str]:
    yield f"# {text(run_words.chip(data))}: {text(run_words.verdict(data))}"
    yield ""
    yield f"{text(run_words.circumstances(data))}"
    yield from _table(
        ("", "", "how it is known"), ((row.name, row.value, row.how) for row in figures(data))
    )
    yield from _section("Do now", _steps_now(data))
    yield from _section("Known", (f"- {text(each)}" for each in run_lines.known(data)))
    yield from _section("Unknown", (f"- {text(each)}" for each in run_lines.unknown(data)))
    rests = (f"- {text(sentence(each))}" for each in data.rpo.evidence)
    yield from _section("What the estimate of the loss rests on", rests)
    yield from _section("Steps", _steps(data.steps))
    left = (f"- {text(each)}" for each in leaving_told(data))
    yield from _section("Clients that are connected to the source", left)
    yield from _section("Owed", (f"- {_both(s, w)}" for s, w in data.outstanding.items()))
    yield from _section("Guards passed over", (f"- {_both(*o)}" for o in data.overrides.items()))
    yield from _section("Guards to know of", (f"- {_warned(each)}" for each in data.warned))
    yield from _section("Groups", _groups(data))
    yield from _section("Not checked", (f"- {text(sentence(n))}" for n in data.not_checked))
    yield from _section("Who ran it", _who(data))
    yield ""
    yield f"Journal: {text(run_words.journal_in_words(data))}. Plan {code(data.plan.fingerprint)}."


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    told = list(lines)
    if told:
        yield from ("", f"## {title}", "", *told)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield ""
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(text(cell) for cell in row)} |"


def _steps_now(data: ReportData) -> Iterator[str]:
    for place, step in enumerate(next_steps(data), 1):
        command = f" {code(step.command)}" if step.command else ""
        yield f"{place}. **{text(step.what)}** {text(step.why)}{command}"


def _steps(steps: Iterable[StepReport]) -> Iterator[str]:
    for step in steps:
        took = f", {run_words.length(step.seconds)}" if step.seconds is not None else ""
        title = text(sentence(step.title))
        yield f"{step.number}. **{run_words.BECAME[step.became]}**{took}: {title}"
        told = [sentence(step.words)] if step.words else []
        told += [sentence(each) for each in (*step.items, *step.complaints)]
        if step.rolled_back:
            told.append(f"taken back: {sentence(step.rolled_back)}")
        if step.outstanding and step.outstanding != step.words:
            told.append(f"owed: {sentence(step.outstanding)}")
        yield from (f"    - {text(each)}" for each in dict.fromkeys(told))


def _both(name: str, words: str) -> str:
    return f"**{text(plain(name))}**: {text(sentence(words))}"


def _warned(each: Warned) -> str:
    return f"{text(sentence(each.words))}{'' if each.checked else ' **(not checked)**'}"


def _groups(data: ReportData) -> Iterator[str]:
    if data.positions is None:
        return
    for row in data.positions.groups:
        again = row.rereads_at_most
        told = "" if again is None else f", at most {plural(again, 'record')} read again"
        if row.rereads_likely is not None:
            told += f", likely {number(row.rereads_likely)}"
        yield f"- **{text(plain(row.name))}**: {plural(row.positions, 'position')}{told}"
        if row.skips_only_if:
            yield f"    - rests on {text(sentence(row.based_on or ''))}"
            yield f"    - skips records only if {text(sentence(row.skips_only_if))}"
    yield from (f"- left out: {text(sentence(each))}" for each in data.positions.left_out)


def _who(data: ReportData) -> Iterator[str]:
    for each in data.attempts:
        span = f"{run_words.when(each.began)} to {run_words.when(each.until)} UTC"
        who = f"{text(plain(each.who))} on {text(plain(each.host))}"
        yield f"- {who}, {text(span)}: {text(sentence(each.ending))}"
