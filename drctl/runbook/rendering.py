"""A runbook as a page of Markdown: to read before, and to work along where drctl is not there.

Command lines of steps for people, Markdown in which text stays text, then the page itself.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from drctl.config.problems import config_error
from drctl.model.plan import Duty, Step
from drctl.model.text import command, put, quote
from drctl.plans.inputs import Circumstances
from drctl.runbook.building import Ready, prepared
from drctl.runbook.reading import Runbook
from drctl.runbook.site import Site
from drctl.runbook.specs import SettingMismatch
from drctl.runbook.values import Values, given_values, names_of, sample, shown
from drctl.steps.commands import CommandSettings
from drctl.steps.fences import AclFenceSettings
from drctl.steps.prechecks import SnapshotSettings
from drctl.steps.records import GapSettings
from drctl.steps.registry import KINDS
from drctl.steps.stop_replication import ConfirmSettings, StopSettings

Lines = tuple[str, ...]

_GROUPS = "kafka-consumer-groups.sh --bootstrap-server"
_ADMIN = "--command-config admin.properties"


_ONE_WAY = ("drctl gap ", "drctl offsets apply ")
"""Command lines that go from a link's source to its target, and never the other way."""


def by_hand(step: Step, seen: Circumstances, *, home: bool = False) -> Lines:
    """The command lines; none where there are none that would do.

    Args:
        home: whether the step leads home over the link: its source is the link's target.
    """
    lines = _BY_HAND.get(step.kind)
    found = lines(KINDS[step.kind].kind.read_settings(step.settings), seen) if lines else ()
    return (
        tuple(_other_way(each) for each in found if not each.startswith(_ONE_WAY))
        if home
        else found
    )


def _other_way(line: str) -> str:
    parts = line.split('"$SOURCE"')
    return '"$TARGET"'.join(part.replace('"$TARGET"', '"$SOURCE"') for part in parts)


def _link(seen: Circumstances) -> str:
    return f"--link {quote(seen.link)}"


def _fence(operation: str) -> Callable[[AclFenceSettings, Circumstances], Lines]:
    def lines(settings: AclFenceSettings, seen: Circumstances) -> Lines:
        head = f'kafka-acls.sh --bootstrap-server "$SOURCE" {_ADMIN} --add --force'
        return tuple(
            f"{head} --deny-principal {quote(who)} --operation {operation} --topic TOPIC"
            for who in settings.principals
        )

    return lines


def _stop(settings: StopSettings | ConfirmSettings, seen: Circumstances) -> Lines:
    stops = (put("", name, "stop") for name in settings.connectors)
    return (*stops, 'curl -s "$CONNECT/connectors?expand=status"')


def _stock(settings: SnapshotSettings, seen: Circumstances) -> Lines:
    return tuple(f"drctl offsets snapshot --cluster {quote(c)}" for c in settings.clusters)


def _offsets(settings: object, seen: Circumstances) -> Lines:
    return (f"drctl offsets apply {_link(seen)}", f"drctl offsets apply {_link(seen)} --execute")


def _ran(settings: CommandSettings, seen: Circumstances) -> Lines:
    return tuple(command(argv) for argv in (settings.argv, settings.verify) if argv)


def _gap(scope: str) -> Callable[[object, Circumstances], Lines]:
    return lambda settings, seen: (
        f"drctl gap {_link(seen)}"
        f" --scope {quote(settings.scope if isinstance(settings, GapSettings) else scope)}",
    )


_BY_HAND: Mapping[str, Callable[[Any, Circumstances], Lines]] = {
    "snapshot-state": _stock,
    "fence-producers": _fence("Write"),
    "fence-consumers": _fence("Read"),
    "measure-loss": _gap("estimate"),
    "drain": _gap("tail"),
    "gap": _gap("auto"),
    "quiesce-consumers": lambda settings, seen: (
        f'{_GROUPS} "$SOURCE" {_ADMIN} --describe --all-groups --state',
    ),
    "request-stop": _stop,
    "stop-replication": _stop,
    "confirm-stop": _stop,
    "commit-offsets": _offsets,
    "verify-clients": lambda settings, seen: (
        f'{_GROUPS} "$TARGET" {_ADMIN} --describe --all-groups --members',
    ),
    "command": _ran,
    "command-fence": _ran,
    "command-stop-replication": _ran,
}


_CODE = re.compile(r"(`[^`\n]+`)")
_SPECIAL = re.compile(r"([\\`*_\[\]~|$@])")
_FIRST = re.compile(r"^(\s*)([-+=#]|\d+(?=[.)]))", re.MULTILINE)
_SCHEME = re.compile(r"(?<=[A-Za-z0-9]):(?=//)")


def prose(text: str) -> str:
    """A text of paragraphs; `code` stays code, everything else is plain."""
    # Indented lines would be code.
    parts = _CODE.split("\n".join(each.strip() for each in text.strip().split("\n")))
    plain = (part if n % 2 else _plain(part) for n, part in enumerate(map(printable, parts)))
    return _FIRST.sub(_guarded, "".join(plain))


def line(text: str) -> str:
    """The same on one line."""
    return prose(" ".join(text.split()))


def cell(text: str) -> str:
    """The same in a table, which a bar would end even inside of code."""
    return re.sub(r"(?<!\\)\|", r"\\|", line(text))


def code(text: str) -> str:
    """A span of code, whatever it holds."""
    shown = printable(" ".join(text.split(" "))).replace("\n", " ")
    ticks = "`" * (_longest(shown) + 1)
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{space}{shown}{space}{ticks}"


def block(lines: Iterable[str], language: str, indent: str = "") -> list[str]:
    """A block of code, whatever it holds."""
    shown = [line for each in lines for line in printable(each).split("\n")]
    ticks = "`" * max(3, _longest("\n".join(shown)) + 1)
    return [f"{indent}{each}".rstrip() for each in (f"{ticks}{language}", *shown, ticks)]


def printable(text: str) -> str:
    r"""What cannot be shown as \xNN of its UTF-8; line ends stay."""
    return "".join(
        char
        if char.isprintable() or char == "\n"
        else "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))
        for char in text
    )


def _plain(text: str) -> str:
    marked = _SPECIAL.sub(r"\\\1", text.replace("&", "&amp;"))
    # Addresses become links by themselves where a wiki is helpful.
    shown = marked.replace("<", "&lt;").replace(">", "&gt;")
    return _SCHEME.sub("&#58;", shown)


def _guarded(found: re.Match[str]) -> str:
    """What would begin a list, a heading or a rule at the beginning of a line."""
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
_LEGEND = (
    "The command lines are for working by hand. In them, `$SOURCE` and `$TARGET` are the clusters'"
    " bootstrap addresses, `$CONNECT` is the address of a Connect worker, and `admin.properties`"
    " holds your credentials. Replace words in capitals. Where drctl asks whether"
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
    yield from (f"# {line(runbook.name)}", "", prose(runbook.file.about), "")
    ends = f"from {code(seen.source)} to {code(seen.target)}"
    yield f"Link {code(seen.link)}, {ends}. Made by `drctl runbook render` from"
    yield f"{code(runbook.path.name)}, version `{runbook.fingerprint}`."
    yield ""


def _running(runbook: Runbook, seen: Circumstances, given: Mapping[str, str]) -> Iterator[str]:
    words = ["drctl", "runbook", "run", runbook.name, "--link", seen.link]
    for name, parameter in runbook.file.parameters.items():
        if name in given or parameter.default is None:
            words += ["--set", f"{name}={given.get(name, name.upper())}"]
    typed = command(words)
    yield from ("## Running it", "")
    yield "The first command changes nothing: it prints the plan. The second one executes it."
    yield from ("", *block([typed, f"{typed} --execute"], "sh"), "")
    yield "If it stops, run `drctl resume` on any machine with the configuration."
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
        default = "must be given" if each.default is None else code(shown(sample(each)))
        cells = (code(name), kind, default)
        told = " | ".join(cell.replace("|", "\\|") for cell in cells)
        yield f"| {told} | {cell(each.about)} |"
    yield ""


def _steps(runbook: Runbook, ready: tuple[Ready, ...], seen: Circumstances) -> Iterator[str]:
    yield from ("## Steps", "", _LEGEND, "")
    number = 0
    for each in ready:
        condition = runbook.file.steps[each.number].when
        for step in _made(each, seen):
            number += 1
            home = runbook.is_failback and each.kind == "sequence"
            yield from _step(number, step, each, condition, seen, home)
            yield ""


def _made(ready: Ready, seen: Circumstances) -> tuple[Step, ...]:
    try:
        return ready.steps(seen)
    except SettingMismatch:
        # It is for links that have what this one lacks, and its condition says so.
        return ()


def _step(
    number: int, step: Step, ready: Ready, condition: str | None, seen: Circumstances, home: bool
) -> Iterator[str]:
    told = KINDS[step.kind].describe(step.settings)
    title = _capital(line(told.title), seen)
    yield f"- [ ] **{number}. {code(step.id)}** {title}"
    if condition:
        yield f"{_IN}- Only where {code(condition)}."
    yield f"{_IN}- Expect: {line(ready.expect or told.proof)}."
    by_people = step.kind.startswith("manual")
    if step.timeout_s and not by_people:
        yield f"{_IN}- Within: {_length(step.timeout_s)}."
    if told.clients:
        yield f"{_IN}- Clients: {line(told.clients)}."
    if told.rollback:
        yield f"{_IN}- Rollback: {line(told.rollback)}."
    if step.duty is not Duty.REQUIRED:
        yield f"{_IN}- If it cannot be done: {_DUTIES[step.duty]}."
    if by_people:
        yield f"{_IN}- drctl asks for confirmation."
    lines = ready.by_hand or by_hand(step, seen, home=home)
    if lines:
        yield from ("", *block(lines, "sh", _IN))


def _after(runbook: Runbook, seen: Circumstances) -> Iterator[str]:
    yield from ("## Afterwards", "")
    yield "- [ ] Keep the report of the run: what was done, when, by whom, and what is outstanding."
    yield "- [ ] Every outstanding action has an owner and a date."


def _length(seconds: float) -> str:
    for unit, width in (("h", 3600), ("min", 60)):
        if seconds >= width and seconds % width == 0:
            return f"{seconds / width:g} {unit}"
    return f"{seconds:g} s"


def _capital(text: str, seen: Circumstances) -> str:
    """With a capital, unless it begins with a name."""
    named = text.startswith((seen.link, seen.source, seen.target))
    return text if named else text[:1].upper() + text[1:]
