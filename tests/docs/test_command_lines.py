"""Every command line in the pages is accepted by drctl's own parser."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import typer

from drctl.cli import options as given
from drctl.cli.main import app
from drctl.cli.options import shared_parameters
from tests.docs.pages import Page, page, pages


@pytest.fixture(autouse=True)
def _no_options_of_an_earlier_line() -> Iterator[None]:
    yield
    given.begin([])


def root() -> Any:
    return typer.main.get_command(app)


def parse(words: list[str]) -> None:
    """Parse a whole command line without executing it."""
    context = root().make_context("drctl", list(words))
    while hasattr(context.command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = context.command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


def look_up(words: list[str]) -> None:
    """Check that every subcommand and option exists; values are not checked."""
    command, rest = root(), iter(words)
    for word in rest:
        if word.startswith("-"):
            known = {name: p for p in [*command.params, *shared_parameters()] for name in p.opts}
            assert word in {*known, "--help", "-h"}, f"drctl {' '.join(words)}: no {word}"
            if word in known and not known[word].is_flag:
                next(rest, None)
        elif hasattr(command, "resolve_command"):
            assert word in command.commands, f"drctl {' '.join(words)}: no command {word}"
            command = command.commands[word]


@pytest.mark.parametrize("each", pages(), ids=lambda each: each.name)
def test_command_lines_in_blocks_parse(each: Page) -> None:
    for words in each.command_lines():
        with suppress(typer.Exit):  # --help, --version, a group alone
            parse(words)


@pytest.mark.parametrize("each", pages(), ids=lambda each: each.name)
def test_command_lines_in_prose_exist(each: Page) -> None:
    for code in each.inline():
        if code.startswith("drctl "):
            look_up(code.split()[1:])


def test_the_pages_have_command_lines() -> None:
    assert len(list(page("README.md").command_lines())) >= 3
    assert len(list(page("docs/tutorial/lab.md").command_lines())) >= 10
    assert len(list(page("runbooks/before-the-primary-returns.md").command_lines())) >= 2


@pytest.mark.parametrize(
    "words",
    [
        ["gpa"],
        ["gap", "--sope", "full"],
        ["gap", "--scope", "half"],
        ["lab", "replication"],
        ["lab", "replication", "halt"],
        ["init", "one:9092"],
        ["lab", "up", "--brokers", "many"],
        ["fallback"],
    ],
)
def test_the_parser_rejects_unknown_options(words: list[str]) -> None:
    with pytest.raises(typer.TyperException):
        parse(words)


def test_unknown_names_in_prose_are_found() -> None:
    for words in (["fallback"], ["lab", "destroy"], ["gap", "--tail"]):
        with pytest.raises(AssertionError):
            look_up(words)
