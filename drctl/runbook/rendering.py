"""Renders a runbook as a Markdown page, to review it or to follow it without drctl."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from drctl.config.problems import config_error
from drctl.model.plan import Duty, Step
from drctl.model.text import command, put, quote
from drctl.plans.inputs import PlanInputs
from drctl.runbook.allowlist import Allowlist
from drctl.runbook.building import PreparedStep, prepare_steps
from drctl.runbook.reading import Runbook
from drctl.runbook.specs import SettingMismatch
from drctl.runbook.values import Values, given_values, link_names, sample, shown
from drctl.steps.commands import CommandSettings
from drctl.steps.fences import AclFenceSettings
from drctl.steps.prechecks import SnapshotSettings
from drctl.steps.records import GapSettings
from drctl.steps.registry import KINDS
from drctl.steps.stop_replication import ConfirmSettings, StopSettings

Lines = tuple[str, ...]

_GROUPS = "kafka-consumer-groups.sh --bootstrap-server"
_ADMIN = "--command-config admin.properties"

_FORWARD_ONLY = ("drctl gap ", "drctl offsets apply ")
"""Commands that work only from a link's source to its target."""


def by_hand(step: Step, inputs: PlanInputs, *, reverse: bool = False) -> Lines:
    """The command lines that do a step by hand; none if no command can.

    Args:
        reverse: whether the step is part of a failback: its source is the link's target.
    """
    lines = _BY_HAND.get(step.kind)
    found = lines(KINDS[step.kind].kind.read_settings(step.settings), inputs) if lines else ()
    if not reverse:
        return found
    return tuple(_reversed(each) for each in found if not each.startswith(_FORWARD_ONLY))


def _reversed(line: str) -> str:
    parts = line.split('"$SOURCE"')
    return '"$TARGET"'.join(part.replace('"$TARGET"', '"$SOURCE"') for part in parts)


def _link(inputs: PlanInputs) -> str:
    return f"--link {quote(inputs.link)}"


def _fence(operation: str) -> Callable[[AclFenceSettings, PlanInputs], Lines]:
    def lines(settings: AclFenceSettings, inputs: PlanInputs) -> Lines:
        head = f'kafka-acls.sh --bootstrap-server "$SOURCE" {_ADMIN} --add --force'
        groups = operation == "Read" and settings.groups != "none"
        return tuple(
            f"{head} --deny-principal {quote(who)} --operation {operation} {resource}"
            for who in settings.principals
            for resource in ("--topic TOPIC", "--group GROUP")[: 1 + groups]
        )

    return lines


def _stop(settings: StopSettings | ConfirmSettings, inputs: PlanInputs) -> Lines:
    stops = (put("", name, "stop") for name in settings.connectors)
    return (*stops, 'curl -s "$CONNECT/connectors?expand=status"')


def _snapshots(settings: SnapshotSettings, inputs: PlanInputs) -> Lines:
    return tuple(f"drctl offsets snapshot --cluster {quote(c)}" for c in settings.clusters)


def _offsets(settings: object, inputs: PlanInputs) -> Lines:
    return (
        f"drctl offsets apply {_link(inputs)}",
        f"drctl offsets apply {_link(inputs)} --execute",
    )


def _commands(settings: CommandSettings, inputs: PlanInputs) -> Lines:
    return tuple(command(argv) for argv in (settings.argv, settings.verify) if argv)


def _gap(scope: str) -> Callable[[object, PlanInputs], Lines]:
    return lambda settings, inputs: (
        f"drctl gap {_link(inputs)}"
        f" --scope {quote(settings.scope if isinstance(settings, GapSettings) else scope)}",
    )


_BY_HAND: Mapping[str, Callable[[Any, PlanInputs], Lines]] = {
    "snapshot-state": _snapshots,
    "fence-producers": _fence("Write"),
    "fence-consumers": _fence("Read"),
    "measure-loss": _gap("estimate"),
    "drain": _gap("tail"),
    "gap": _gap("auto"),
    "quiesce-consumers": lambda settings, inputs: (
        f'{_GROUPS} "$SOURCE" {_ADMIN} --describe --all-groups --state',
    ),
    "request-stop": _stop,
    "stop-replication": _stop,
    "confirm-stop": _stop,
    "commit-offsets": _offsets,
    "verify-clients": lambda settings, inputs: (
        f'{_GROUPS} "$TARGET" {_ADMIN} --describe --all-groups --members',
    ),
    "command": _commands,
    "command-fence": _commands,
    "command-stop-replication": _commands,
}


_CODE = re.compile(r"(`[^`\n]+`)")
_SPECIAL = re.compile(r"([\\`*_\[\]~|$@])")
_FIRST = re.compile(r"^(\s*)([-+=#]|\d+(?=[.)]))", re.MULTILINE)
_SCHEME = re.compile(r"(?<=[A-Za-z0-9]):(?=//)")


def prose(text: str) -> str:
    """Escape paragraphs of text for Markdown, except spans of `code`."""
    # Indented lines would be code.
    parts = _CODE.split("\n".join(each.strip() for each in text.strip().split("\n")))
    plain = (part if n % 2 else _plain(part) for n, part in enumerate(map(printable, parts)))
    return _FIRST.sub(_escaped_start, "".join(plain))


def line(text: str) -> str:
    """Escape text on one line."""
    return prose(" ".join(text.split()))


def cell(text: str) -> str:
    """Escape text in a table cell; a bar ends the cell even inside code."""
    return re.sub(r"(?<!\\)\|", r"\\|", line(text))


def code(text: str) -> str:
    """A span of code with any content."""
    shown = printable(" ".join(text.split(" "))).replace("\n", " ")
    ticks = "`" * (_longest(shown) + 1)
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{space}{shown}{space}{ticks}"


def block(lines: Iterable[str], language: str, indent: str = "") -> list[str]:
    """A block of code with any content."""
    shown = [line for each in lines for line in printable(each).split("\n")]
    ticks = "`" * max(3, _longest("\n".join(shown)) + 1)
    return [f"{indent}{each}".rstrip() for each in (f"{ticks}{language}", *shown, ticks)]


def printable(text: str) -> str:
    r"""Replace unprintable characters, except line ends, with \xNN of their UTF-8."""
    return "".join(
        char
        if char.isprintable() or char == "\n"
        else "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))
        for char in text
    )


def _plain(text: str) -> str:
    marked = _SPECIAL.sub(r"\\\1", text.replace("&", "&amp;"))
    # Some wikis turn plain URLs into links.
    shown = marked.replace("<", "&lt;").replace(">", "&gt;")
    return _SCHEME.sub("&#58;", shown)


def _escaped_start(found: re.Match[str]) -> str:
    """Escape what would start a list, a heading or a rule at the beginning of a line."""
    if found[2][0].isdigit():
        return f"{found[1]}{found[2]}\\"
    return f"{found[1]}\\{found[2]}"


def _longest(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


_IN = "  "
_DUTIES = {
    Duty.BEST_EFFORT: "the run continues, and the report lists it as outstanding",
    Duty.OPTIONAL: "the run continues without it",
}
_AFTERWARDS = (
    "## Afterwards",
    "",
    "- [ ] Keep the report of the run: what was done, when, by whom, and what is outstanding.",
    "- [ ] Every outstanding action has an owner and a date.",
)
_LEGEND = (
    "The command lines are for doing a step by hand. In them, `$SOURCE` and `$TARGET` are the"
    " clusters' bootstrap addresses, `$CONNECT` is the address of a Connect worker, and"
    " `admin.properties` holds your credentials. Replace words in capitals. Where drctl asks"
    " whether a step is done, a pipeline answers with `--answer STEP=yes`."
)

PLACEHOLDERS = PlanInputs(
    "LINK", "SOURCE", "TARGET", ("User:APPLICATION",), ("CONNECTOR",), ("ENDPOINT",)
)
"""The link if none is chosen."""


def render(
    runbook: Runbook,
    inputs: PlanInputs = PLACEHOLDERS,
    given: Mapping[str, str] | None = None,
    allowlist: Allowlist | None = None,
) -> str:
    """Render the page, with all steps, including those that have a `when`.

    Args:
        given: values of parameters. One without a value is shown as its name in capitals.

    Raises:
        UsageError: a value does not fit.
        ConfigError: a setting is wrong.
    """
    values = {**_values(runbook, given or {}), **link_names(inputs)}
    steps, problems = prepare_steps(runbook, values, allowlist or Allowlist())
    if problems:
        raise config_error(str(runbook.path), problems)
    lines = [
        *_head(runbook, inputs),
        *_running(runbook, inputs, given or {}),
        *_parameters(runbook),
        *_steps(runbook, steps, inputs),
        *_AFTERWARDS,
    ]
    return "\n".join(lines) + "\n"


def _values(runbook: Runbook, given: Mapping[str, str]) -> Values:
    declared = runbook.file.parameters
    open_ones = {n: p for n, p in declared.items() if p.default is None and n not in given}
    words = {n: n.upper() if p.type == "string" else shown(sample(p)) for n, p in open_ones.items()}
    return given_values(declared, {**given, **words})


def _head(runbook: Runbook, inputs: PlanInputs) -> Iterator[str]:
    yield from (f"# {line(runbook.name)}", "", prose(runbook.file.about), "")
    ends = f"from {code(inputs.source)} to {code(inputs.target)}"
    yield f"Link {code(inputs.link)}, {ends}. Generated by `drctl runbook render` from"
    yield f"{code(runbook.path.name)}, version `{runbook.fingerprint}`."
    yield ""


def _running(runbook: Runbook, inputs: PlanInputs, given: Mapping[str, str]) -> Iterator[str]:
    words = ["drctl", "runbook", "run", runbook.name, "--link", inputs.link]
    for name, parameter in runbook.file.parameters.items():
        if name in given or parameter.default is None:
            words += ["--set", f"{name}={given.get(name, name.upper())}"]
    typed = command(words)
    yield from ("## Running it", "")
    yield "The first command changes nothing: it prints the plan. The second one executes it."
    yield from ("", *block([typed, f"{typed} --execute"], "sh"), "")
    resume = command(["drctl", "resume", "--link", inputs.link])
    yield "If the run stops, the first command shows its progress, and the second one continues it."
    yield "Both work on any host with the configuration."
    yield from ("", *block([resume, f"{resume} --execute"], "sh"))
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
        kind = " or ".join(map(code, each.choices)) or each.type
        given = shown(sample(each))
        default = "must be given" if each.default is None else code(given) if given else "none"
        cells = (code(name), kind, default)
        row = " | ".join(cell.replace("|", "\\|") for cell in cells)
        yield f"| {row} | {cell(each.about)} |"
    yield ""


def _steps(
    runbook: Runbook, prepared: tuple[PreparedStep, ...], inputs: PlanInputs
) -> Iterator[str]:
    yield from ("## Steps", "", _LEGEND, "")
    number = 0
    for each in prepared:
        condition = runbook.file.steps[each.number].when
        reverse = runbook.is_failback and each.kind == "sequence"
        try:
            steps = each.steps(inputs)
        except SettingMismatch:
            # The step is for other links, and its condition skips it for this one.
            continue
        for step in steps:
            number += 1
            yield from _step(number, step, each, condition, inputs, reverse)
            yield ""


def _step(
    number: int,
    step: Step,
    prepared: PreparedStep,
    condition: str | None,
    inputs: PlanInputs,
    reverse: bool,
) -> Iterator[str]:
    described = KINDS[step.kind].describe(step.settings)
    yield f"- [ ] **{number}. {code(step.id)}** {_capital(line(described.title), inputs)}"
    if condition:
        yield f"{_IN}- Only if {code(condition)}."
    yield f"{_IN}- Expect: {line(prepared.expect or described.proof)}."
    by_people = step.kind.startswith("manual")
    if step.timeout_s and not by_people:
        yield f"{_IN}- Within: {_duration(step.timeout_s)}."
    if described.clients:
        yield f"{_IN}- Clients: {line(described.clients)}."
    if described.rollback:
        yield f"{_IN}- Rollback: {line(described.rollback)}."
    if step.duty is not Duty.REQUIRED:
        yield f"{_IN}- If it cannot be done: {_DUTIES[step.duty]}."
    if by_people:
        yield f"{_IN}- drctl asks for confirmation."
    lines = prepared.by_hand or by_hand(step, inputs, reverse=reverse)
    if lines:
        yield from ("", *block(lines, "sh", _IN))


def _duration(seconds: float) -> str:
    for unit, width in (("h", 3600), ("min", 60)):
        if seconds >= width and seconds % width == 0:
            return f"{seconds / width:g} {unit}"
    return f"{seconds:g} s"


def _capital(text: str, inputs: PlanInputs) -> str:
    """Capitalize, unless the text starts with a name."""
    named = text.startswith((inputs.link, inputs.source, inputs.target))
    return text if named else text[:1].upper() + text[1:]
