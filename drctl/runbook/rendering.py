"""A runbook as a page of Markdown: to read before, and to work along where drctl is not there."""

from collections.abc import Iterator, Mapping

from drctl.config.problems import config_error
from drctl.engine.registry import KINDS
from drctl.engine.sequences.circumstances import Circumstances
from drctl.model.pasting import command
from drctl.model.plan import Duty, Step
from drctl.runbook import markdown
from drctl.runbook.building import Ready, prepared
from drctl.runbook.by_hand import by_hand
from drctl.runbook.parameters import Values, given_values, names_of, sample, shown
from drctl.runbook.reading import Runbook
from drctl.runbook.site import Site
from drctl.runbook.specs import Misfit

_IN = "  "
_DUTIES = {
    Duty.BEST_EFFORT: "the run goes on; what was not done is owed, and named in the report",
    Duty.OPTIONAL: "the run goes on without",
}
_LEGEND = (
    "Command lines are for working by hand. In them `$SOURCE` and `$TARGET` are the clusters'"
    " bootstrap addresses, `$CONNECT` is the address of a Connect worker, and `admin.properties`"
    " holds your credentials. What stands in capitals is to be filled in. Where drctl asks whether"
    " a step is done, a pipeline answers with `--answer STEP=yes`."
)

PLACEHOLDERS = Circumstances(
    "LINK", "SOURCE", "TARGET", ("User:APPLICATION",), ("CONNECTOR",), ("ENDPOINT",)
)
"""A link that is not known yet."""


def render(
    runbook: Runbook,
    seen: Circumstances = PLACEHOLDERS,
    given: Mapping[str, str] | None = None,
    site: Site | None = None,
) -> str:
    """The page; every step is there, also those that only some circumstances need.

    Args:
        given: values of parameters; those without one stand as their names, in capitals.

    Raises:
        UsageError: a value does not fit.
        ConfigError: a setting is wrong.
    """
    values = {**_values(runbook, given or {}), **names_of(seen)}
    ready, problems = prepared(runbook, values, site or Site())
    if problems:
        raise config_error(str(runbook.path), problems)
    lines = [
        *_head(runbook, seen),
        *_running(runbook, seen, given or {}),
        *_parameters(runbook),
        *_steps(runbook, ready, seen),
        *_after(runbook, seen),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _values(runbook: Runbook, given: Mapping[str, str]) -> Values:
    declared = runbook.file.parameters
    open_ones = {n: p for n, p in declared.items() if p.default is None and n not in given}
    words = {n: n.upper() if p.type == "string" else shown(sample(p)) for n, p in open_ones.items()}
    return given_values(declared, {**given, **words})


def _head(runbook: Runbook, seen: Circumstances) -> Iterator[str]:
    yield from (f"# {markdown.line(runbook.name)}", "", markdown.prose(runbook.file.about), "")
    ends = f"from {markdown.code(seen.source)} to {markdown.code(seen.target)}"
    yield f"Link {markdown.code(seen.link)}, {ends}. Made by `drctl runbook render` from"
    yield f"{markdown.code(runbook.path.name)}, version `{runbook.fingerprint}`."
    yield ""


def _running(runbook: Runbook, seen: Circumstances, given: Mapping[str, str]) -> Iterator[str]:
    words = ["drctl", "runbook", "run", runbook.name, "--link", seen.link]
    for name, parameter in runbook.file.parameters.items():
        if name in given or parameter.default is None:
            words += ["--set", f"{name}={given.get(name, name.upper())}"]
    typed = command(words)
    yield from ("## Running it", "")
    yield "The first line changes nothing: it looks, and prints the plan. The second one acts."
    yield from ("", *markdown.block([typed, f"{typed} --execute"], "sh"), "")
    yield "If it stops, `drctl resume` goes on from there, from any machine with the configuration."
    yield ""


def _parameters(runbook: Runbook) -> Iterator[str]:
    if not runbook.file.parameters:
        return
    yield from (
        "## Parameters",
        "",
        "| parameter | type | default | meaning |",
        "|---|---|---|---|",
    )
    for name, each in runbook.file.parameters.items():
        kind = " or ".join(map(markdown.code, each.choices)) or each.type
        default = "must be given" if each.default is None else markdown.code(shown(sample(each)))
        cells = (markdown.code(name), kind, default)
        told = " | ".join(cell.replace("|", "\\|") for cell in cells)
        yield f"| {told} | {markdown.cell(each.about)} |"
    yield ""


def _steps(runbook: Runbook, ready: tuple[Ready, ...], seen: Circumstances) -> Iterator[str]:
    yield from ("## Steps", "", _LEGEND, "")
    number = 0
    for each in ready:
        condition = runbook.file.steps[each.number].when
        for step in _made(each, seen):
            number += 1
            home = runbook.leads_home and each.kind == "sequence"
            yield from _step(number, step, each, condition, seen, home)
            yield ""


def _made(ready: Ready, seen: Circumstances) -> tuple[Step, ...]:
    try:
        return ready.steps(seen)
    except Misfit:
        # It is for links that have what this one lacks, and its condition says so.
        return ()


def _step(
    number: int,
    step: Step,
    ready: Ready,
    condition: str | None,
    seen: Circumstances,
    home: bool,
) -> Iterator[str]:
    told = KINDS[step.kind].describe(step.settings)
    title = _capital(markdown.line(told.title), seen)
    yield f"- [ ] **{number}. {markdown.code(step.id)}** {title}"
    if condition:
        yield f"{_IN}- Only where {markdown.code(condition)}."
    yield f"{_IN}- Expect: {markdown.line(ready.expect or told.proof)}."
    by_people = step.kind.startswith("manual")
    if step.patience_s and not by_people:
        yield f"{_IN}- Within: {_length(step.patience_s)}."
    if told.clients:
        yield f"{_IN}- Clients: {markdown.line(told.clients)}."
    if told.way_back:
        yield f"{_IN}- The way back: {markdown.line(told.way_back)}."
    if step.duty is not Duty.REQUIRED:
        yield f"{_IN}- If it cannot be done: {_DUTIES[step.duty]}."
    if by_people:
        yield f"{_IN}- drctl asks whether it is done."
    lines = ready.by_hand or by_hand(step, seen, home=home)
    if lines:
        yield from ("", *markdown.block(lines, "sh", _IN))


def _after(runbook: Runbook, seen: Circumstances) -> Iterator[str]:
    yield from ("## Afterwards", "")
    yield "- [ ] Keep the report of the run: what was done, when, by whom, and what is still owed."
    yield "- [ ] What is owed has an owner and a date."


def _length(seconds: float) -> str:
    for unit, width in (("h", 3600), ("min", 60)):
        if seconds >= width and seconds % width == 0:
            return f"{seconds / width:g} {unit}"
    return f"{seconds:g} s"


def _capital(text: str, seen: Circumstances) -> str:
    """With a capital, unless it begins with a name."""
    named = text.startswith((seen.link, seen.source, seen.target))
    return text if named else text[:1].upper() + text[1:]
