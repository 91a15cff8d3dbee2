"""The global options: accepted before and after the command, and kept for later."""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer


class Output(StrEnum):
    """Output formats."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """Options that apply to every command."""

    config: Path | None = None
    output: Output = Output.TEXT
    quiet: bool = False
    verbose: bool = False
    no_color: bool = False


_current: ContextVar[GlobalOptions | None] = ContextVar("options", default=None)


def options() -> GlobalOptions:
    """The global options; call it in the thread that runs the command."""
    return _current.get() or GlobalOptions()


def begin(arguments: Sequence[str]) -> None:
    """Forget the options of an earlier command line.

    The output format is read before the command line is parsed: usage errors, and --help before
    the other options, are printed in that format, too.
    """
    ours = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    asked = any(
        word in ("--output=json", "-ojson") or (word in ("--output", "-o") and after == "json")
        for word, after in pairwise([*ours, ""])
    )
    output = Output.JSON if asked else Output.TEXT
    _current.set(GlobalOptions(output=output, no_color="--no-color" in ours))


def _remember(param: typer.CallbackParam, value: Any) -> Any:
    if value is not None and param.name:
        _current.set(replace(options(), **{param.name: value}))
    return value


def _print_version(asked: bool | None) -> None:
    if asked:
        from importlib.metadata import version

        from drctl.cli.console import console
        from drctl.views.command_documents import VersionDocument

        number = version("drctl")
        console().result(f"drctl {number}", VersionDocument(version=number))
        raise typer.Exit(0)


def _option(*names: str, metavar: str | None = None, default: str | bool = False, help: str) -> Any:
    return typer.Option(
        *names,
        help=help,
        metavar=metavar,
        callback=_remember,
        expose_value=False,
        show_default=default,
    )


def _carrier(
    config: Annotated[
        Path | None,
        _option(
            "--config",
            metavar="FILE",
            default="$DRCTL_CONFIG, or ./drctl.yaml",
            help="Configuration file.",
        ),
    ] = None,
    output: Annotated[
        Output | None,
        _option(
            "--output", "-o", default="text", help="Output format; json prints one JSON document."
        ),
    ] = None,
    quiet: Annotated[
        bool | None, _option("--quiet", "-q", help="Print only the result, warnings and errors.")
    ] = None,
    verbose: Annotated[
        bool | None, _option("--verbose", "-v", help="Print more detail to stderr.")
    ] = None,
    no_color: Annotated[
        bool | None, _option("--no-color", help="Disable colors. NO_COLOR=1 does the same.")
    ] = None,
    version: Annotated[
        bool | None,
        typer.Option(
            "--version",
            "-V",
            help="Print the version and exit.",
            callback=_print_version,
            is_eager=True,
            expose_value=False,
        ),
    ] = None,
) -> None: ...


DRY_RUN = "drctl.dry_run"
"""The key in a command's context that stores whether --dry-run was given."""


def _note_dry_run(context: typer.Context, asked: bool) -> None:
    context.meta[DRY_RUN] = asked


def _dry_run_carrier(
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Change nothing on any cluster. This is the default.",
            callback=_note_dry_run,
            expose_value=False,
        ),
    ] = False,
) -> None: ...


@cache
def shared_parameters() -> tuple[Any, ...]:
    """The global options as parameters; every command gets them in addition to its own."""
    return _parameters_of(_carrier)


@cache
def dry_run_parameter() -> Any:
    """--dry-run, for commands that have --execute."""
    return _parameters_of(_dry_run_carrier)[0]


def _parameters_of(carrier: Callable[..., None]) -> tuple[Any, ...]:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(carrier)
    return tuple(typer.main.get_command(app).params)
