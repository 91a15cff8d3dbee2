"""What every command of drctl has in common: the global options and the look of its help."""

import inspect
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from drctl.cli.help_page import help_page
from drctl.cli.options import shared_parameters

# Contexts, parameters and formatters are Any: they are classes of the Click that Typer has inside.


class DrctlCommand(TyperCommand):
    """A command that also takes the global options."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its own parameters, then the shared ones."""
        return with_shared(super().get_params(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, options and global options apart."""
        write_parameters(self.get_params(ctx), ctx, formatter)

    def get_help(self, ctx: Any) -> str:
        """The whole page, as text or JSON."""
        return help_page(ctx.command_path, super().get_help(ctx))


class DrctlGroup(TyperGroup):
    """A command with subcommands that also takes the global options."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its own parameters, then the shared ones."""
        return with_shared(super().get_params(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Subcommands first: they are what one looks for."""
        self.format_commands(ctx, formatter)
        write_parameters(self.get_params(ctx), ctx, formatter)

    def get_help(self, ctx: Any) -> str:
        """The whole page, as text or JSON."""
        return help_page(ctx.command_path, super().get_help(ctx))


def adopt(app: typer.Typer) -> typer.Typer:
    """The app with the classes above for all its commands."""
    app.rich_markup_mode = None
    app._add_completion = False
    app.info.cls = DrctlGroup
    app.info.no_args_is_help = False  # a forgotten command is an error, not a page on stdout
    for command in app.registered_commands:
        command.cls = DrctlCommand
    for group in app.registered_groups:
        group.cls = DrctlGroup
        if group.typer_instance is not None:
            adopt(group.typer_instance)
    return app


def with_shared(own: list[Any]) -> list[Any]:
    """The parameters and those global options whose names the command does not use itself."""
    taken = {name for param in own for name in param.opts}
    return own + [shared for shared in shared_parameters() if taken.isdisjoint(shared.opts)]


def write_parameters(params: list[Any], ctx: Any, formatter: Any) -> None:
    """A section of the help for each kind of parameter."""
    sections: dict[str, list[Any]] = {"Arguments": [], "Options": [], "Global options": []}
    for param in params:
        record = param.get_help_record(ctx)
        if record is None:
            continue
        shared = param in shared_parameters() or param.opts[0] in ctx.help_option_names
        kind = "Global options" if shared else "Options"
        sections["Arguments" if param.param_type_name == "argument" else kind].append(record)
    for title, records in sections.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def summary(text: str | None) -> str:
    """The first sentence of a help text."""
    return inspect.cleandoc(text or "").split("\n\n")[0].replace("\n", " ").rstrip(".")
