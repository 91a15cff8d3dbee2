"""The global options: accepted before the command and after it, kept for whoever asks."""

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer


class Output(StrEnum):
    """How results are printed."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """What holds for every command."""

    config: Path | None = None
    output: Output = Output.TEXT
    quiet: bool = False
    verbose: bool = False
    no_color: bool = False


_current: ContextVar[GlobalOptions | None] = ContextVar("options", default=None)


def options() -> GlobalOptions:
    """The global options of this command line; ask in the thread that runs the command."""
    return _current.get() or GlobalOptions()


def begin(arguments: Sequence[str]) -> None:
    """Forget earlier command lines.

    How to print is looked up before anything is parsed: errors of the command line itself, and
    --help in front of the other options, are printed in the same way.
    """
    ours = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    asked = any(
        word in ("--output=json", "-ojson") or (word in ("--output", "-o") and after == "json")
        for word, after in pairwise([*ours, ""])
    )
    output = Output.JSON if asked else Output.TEXT
    _current.set(GlobalOptions(output=output, no_color="--no-color" in ours))


def _keep(param: typer.CallbackParam, value: Any) -> Any:
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


def _option(*names: str, metavar: str | None = None, help: str) -> Any:
    return typer.Option(
        *names, help=help, metavar=metavar, callback=_keep, expose_value=False, show_default=False
    )


def _carrier(
    config: Annotated[
        Path | None,
        _option("--config", metavar="FILE", help="Else $DRCTL_CONFIG, else ./drctl.yaml."),
    ] = None,
    output: Annotated[
        Output | None, _option("--output", "-o", help="json: one document on stdout, always.")
    ] = None,
    quiet: Annotated[
        bool | None, _option("--quiet", "-q", help="Only the result and errors.")
    ] = None,
    verbose: Annotated[bool | None, _option("--verbose", "-v", help="Say more on stderr.")] = None,
    no_color: Annotated[
        bool | None, _option("--no-color", help="Plain text, as with NO_COLOR in the environment.")
    ] = None,
    version: Annotated[
        bool | None,
        typer.Option(
            "--version",
            help="Print the version.",
            callback=_print_version,
            is_eager=True,
            expose_value=False,
        ),
    ] = None,
) -> None: ...


@cache
def shared_parameters() -> tuple[Any, ...]:
    """The options as parameters that every command gets beside its own."""
    carrier = typer.Typer(add_completion=False, rich_markup_mode=None)
    carrier.command()(_carrier)
    return tuple(typer.main.get_command(carrier).params)
