"""`drctl runbook`: YAML that becomes a plan; for people and for CI."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.cli.console import console
from drctl.cli.grammar import Acting, Answers, LinkName, asks, option_words
from drctl.cli.settings import configuration
from drctl.model.errors import ExitCode, UsageError
from drctl.model.text import Lines
from drctl.model.text import lines as meant

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.model.plan import Plan
    from drctl.plans.inputs import Circumstances
    from drctl.runbook.site import Site

app = typer.Typer(help="Runbooks: YAML that becomes a plan, for people and for CI.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Of a runbook; list names them.")]


@app.command("list")
def list_runbooks() -> int:
    """List the runbooks that there are: drctl's, and the site's own beside them."""
    from drctl.runbook.reading import listing
    from drctl.views.command_documents import ListedRunbook, RunbooksDocument

    found = listing(configuration().runbooks)
    width = max((len(each.name) for each in found), default=0)
    lines = (
        f"{each.name:<{width}}  {each.about}{_remark(each.own, each.replaced, each.sound)}"
        for each in found
    )
    return console().result(meant(lines), RunbooksDocument(runbooks=ListedRunbook.each(found)))


@app.command()
def show(name: Name) -> int:
    """Print a runbook as it stands in its file."""
    from drctl.config.document import file_text
    from drctl.runbook.reading import find

    runbook = find(name, configuration().runbooks)
    return _text(name, runbook.path, file_text(runbook.path))


@app.command()
def lint(
    path: Annotated[
        list[Path] | None, typer.Argument(metavar="[PATH]...", help="Else the site's own folder.")
    ] = None,
) -> int:
    """Say everything that is wrong with runbooks, each with its file and line.

    Exit codes: 0 nothing is wrong, 1 something is.
    """
    from drctl.runbook.linting import lint_all
    from drctl.views.command_documents import LintedRunbook, RunbookLintDocument

    config = configuration()
    paths = path or [each for each in (config.runbooks,) if each]
    if not paths:
        raise UsageError("no runbook is named", "name files or folders, or set `runbooks`")
    linted = lint_all(paths, _site(config))
    if not linted:
        raise UsageError(f"there is no runbook in {', '.join(map(str, paths))}")
    lines = [line for each in linted for line in each.lines]
    rows = tuple(LintedRunbook(path=str(each.path), problems=each.lines) for each in linted)
    told = meant(lines) if lines else f"{len(linted)} runbooks, nothing is wrong"
    code = ExitCode.FOUND if lines else ExitCode.DONE
    return console().result(told, RunbookLintDocument(runbooks=rows), code)


@dataclass(frozen=True, kw_only=True)
class Filled:
    """A runbook with its values, for a link."""

    name: Name
    link: LinkName = None
    values: Annotated[
        tuple[str, ...],
        typer.Option("--set", metavar="NAME=VALUE", help="Of a parameter; may be repeated."),
    ] = ()


@app.command()
@asks
def render(given: Filled) -> int:
    """Print a runbook as a Markdown page: every step, its commands, what to expect, the way back.

    Where no link is named, and drctl.yaml has several, placeholders stand for what a link says.
    """
    from drctl.app.plan_inputs import configured
    from drctl.cli.failback import with_failback
    from drctl.runbook.reading import find
    from drctl.runbook.rendering import PLACEHOLDERS
    from drctl.runbook.rendering import render as page

    config = configuration()
    runbook = find(given.name, config.runbooks)
    seen = PLACEHOLDERS
    if given.link is not None or len(config.links) == 1:
        wanted = config.link(given.link)
        seen = with_failback(config, wanted, configured(wanted))
    text = page(runbook, seen, _given(given.values), _site(config))
    return _text(given.name, runbook.path, text)


@dataclass(frozen=True, kw_only=True)
class Carried(Filled, Acting):
    """One that becomes a plan."""

    answer: Answers = ()


@app.command()
@asks
def run(given: Carried) -> int:
    """Make the plan of a runbook, and with --execute carry it out.

    Exit codes: those of drctl failover.
    """
    from drctl.cli.failback import either_direction
    from drctl.runbook.building import build
    from drctl.runbook.reading import find
    from drctl.runbook.values import given_values

    values = _given(given.values)
    runbook = find(given.name, configuration().runbooks)
    given_values(runbook.file.parameters, values)

    def make(config: "Config", seen: "Circumstances") -> "Plan":
        return build(runbook, values, seen, _site(config))

    typed = option_words({"--set": tuple(f"{name}={value}" for name, value in values.items())})
    words = ["runbook", "run", given.name, *typed]
    lost = runbook.gives_source_up
    return either_direction(given, words, make, home=runbook.is_failback, lost=lost)


def _site(config: "Config") -> "Site":
    from drctl.offsets.applying import Precheck
    from drctl.runbook.site import site_of

    return site_of(config, [precheck.value for precheck in Precheck])


def _given(values: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text}: there is no =", "write --set NAME=VALUE")
        found[name] = value
    return found


def _text(name: str, path: Path, text: str) -> int:
    from drctl.views.command_documents import RunbookDocument

    document = RunbookDocument(name=name, path=str(path), text=text)
    return console().result(Lines(text.rstrip("\n")), document)


def _remark(own: bool, replaced: bool, sound: bool) -> str:
    remarks = [
        *(["your own"] if own else []),
        *(["yours is run instead"] if replaced else []),
        *([] if sound else ["cannot be read: drctl runbook lint"]),
    ]
    return f" ({', '.join(remarks)})" if remarks else ""
