"""`drctl runbook`: plans written in YAML, for engineers and for CI."""

from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.cli.console import console
from drctl.cli.grammar import Answers, LinkName, PlanRequest, option_words, takes_request
from drctl.cli.help_pages import WIDTH
from drctl.cli.settings import configuration, configuration_if_any
from drctl.model.errors import ExitCode, UsageError
from drctl.model.text import Lines, plural
from drctl.model.text import lines as meant

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.model.plan import Plan
    from drctl.plans.inputs import PlanInputs
    from drctl.runbook.allowlist import Allowlist

app = typer.Typer(
    help="""List, lint, render and run runbooks.

    A runbook is a YAML file from which drctl makes a plan. Some are built in; put your own in the
    folder that `runbooks` in drctl.yaml sets.

    Examples:
        drctl runbook list
        drctl runbook render planned-switchover > switchover.md
        drctl runbook run planned-switchover --execute
    """
)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the runbook; see `drctl runbook list`.")
]


@app.command("list")
def list_runbooks() -> int:
    """List the built-in runbooks and your own.

    Examples:
        drctl runbook list
        drctl runbook list --output json
    """
    from drctl.runbook.reading import listing
    from drctl.views.command_documents import ListedRunbook, RunbooksDocument

    found = listing(_own(configuration_if_any()))
    width = max((len(each.name) for each in found), default=0)
    lines = (
        line
        for each in found
        for line in wrap(
            f"{each.name:<{width}}  {each.about}{_remark(each.own, each.replaced, each.valid)}",
            WIDTH,
            subsequent_indent=" " * (width + 2),
            break_on_hyphens=False,
        )
    )
    return console().result(meant(lines), RunbooksDocument(runbooks=ListedRunbook.each(found)))


@app.command()
def show(name: Name) -> int:
    """Print the YAML of a runbook.

    `before-the-primary-returns` is a page: what to do before a lost source starts again.

    Examples:
        drctl runbook show planned-switchover
        drctl runbook show before-the-primary-returns
        drctl runbook show failback > runbooks/failback.yaml   # start your own
    """
    from drctl.config.document import file_text
    from drctl.runbook.reading import find_file

    path = find_file(name, _own(configuration_if_any()))
    return _text(name, path, file_text(path))


@app.command()
def lint(
    path: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH",
            help="Runbook files or folders.",
            show_default="`runbooks` in drctl.yaml",
        ),
    ] = None,
) -> int:
    """Report all errors in runbooks, with file and line.

    Examples:
        drctl runbook lint
        drctl runbook lint runbooks/switchover.yaml

    Exit codes:
        0: no errors
        1: errors were found
    """
    from drctl.runbook.linting import lint_all
    from drctl.views.command_documents import LintedRunbook, RunbookLintDocument

    config = configuration_if_any()
    paths = path or [each for each in (_own(config),) if each]
    if not paths:
        raise UsageError(
            "no runbook given", "name files or folders, or set `runbooks` in drctl.yaml"
        )
    linted = lint_all(paths, _allowlist(config))
    if not linted:
        raise UsageError(f"no runbooks found in {', '.join(map(str, paths))}")
    lines = [line for each in linted for line in each.lines]
    rows = tuple(LintedRunbook(path=str(each.path), problems=each.lines) for each in linted)
    text = meant(lines) if lines else f"{plural(len(linted), 'runbook')}, no errors"
    code = ExitCode.FOUND if lines else ExitCode.DONE
    return console().result(text, RunbookLintDocument(runbooks=rows), code)


@dataclass(frozen=True, kw_only=True)
class RunbookRequest:
    """A runbook with its parameters, for a link."""

    name: Name
    link: LinkName = None
    values: Annotated[
        tuple[str, ...],
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Set a parameter of the runbook. Repeatable."
        ),
    ] = ()


@app.command()
@takes_request
def render(given: RunbookRequest) -> int:
    """Print a runbook as a Markdown page.

    Lists every step with its commands, expected result and rollback. The page has placeholders if
    there is no drctl.yaml, or if it has several links and --link is not given.

    Examples:
        drctl runbook render planned-switchover > switchover.md
        drctl runbook render broker-failure --set cluster=primary
    """
    from drctl.app.plan_inputs import configured
    from drctl.cli.failback import with_failback
    from drctl.runbook.reading import find
    from drctl.runbook.rendering import PLACEHOLDERS
    from drctl.runbook.rendering import render as page

    config = configuration() if given.link else configuration_if_any()
    runbook = find(given.name, _own(config))
    seen = PLACEHOLDERS
    if config and (given.link or len(config.links) == 1):
        wanted = config.link(given.link)
        seen = with_failback(config, wanted, configured(wanted))
    text = page(runbook, seen, _given(given.values), _allowlist(config))
    return _text(given.name, runbook.path, text)


@dataclass(frozen=True, kw_only=True)
class RunRequest(RunbookRequest, PlanRequest):
    """A runbook to plan or run."""

    answer: Answers = ()


@app.command()
@takes_request
def run(given: RunRequest) -> int:
    """Print the plan of a runbook; run it with --execute.

    Examples:
        drctl runbook run planned-switchover
        drctl runbook run planned-switchover --plan-out plan.json
        drctl runbook run planned-switchover --expect-plan plan.json --execute --yes
    """
    from drctl.cli.failback import either_direction
    from drctl.runbook.building import build
    from drctl.runbook.reading import find
    from drctl.runbook.values import given_values

    values = _given(given.values)
    runbook = find(given.name, configuration().runbooks)
    given_values(runbook.file.parameters, values)

    def make(config: "Config", seen: "PlanInputs") -> "Plan":
        return build(runbook, values, seen, _allowlist(config))

    typed = option_words({"--set": tuple(f"{name}={value}" for name, value in values.items())})
    words = ["runbook", "run", given.name, *typed]
    lost = runbook.abandons_source
    return either_direction(given, words, make, back=runbook.is_failback, lost=lost)


def _own(config: "Config | None") -> Path | None:
    """The folder of the user's own runbooks."""
    return config.runbooks if config else None


def _allowlist(config: "Config | None") -> "Allowlist":
    from drctl.offsets.applying import Precheck
    from drctl.runbook.allowlist import allowlist_of

    return allowlist_of(config, [precheck.value for precheck in Precheck])


def _given(values: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text}: must be NAME=VALUE")
        found[name] = value
    return found


def _text(name: str, path: Path, text: str) -> int:
    from drctl.views.command_documents import RunbookDocument

    document = RunbookDocument(name=name, path=str(path), text=text)
    return console().result(Lines(text.rstrip("\n")), document)


def _remark(own: bool, replaced: bool, valid: bool) -> str:
    remarks = [
        *(["your own"] if own else []),
        *(["replaced by your own"] if replaced else []),
        *([] if valid else ["invalid: see drctl runbook lint"]),
    ]
    return f" ({', '.join(remarks)})" if remarks else ""
