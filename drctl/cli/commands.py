"""The commands of drctl by name; modules are imported when a command is called, not for --help."""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer

from drctl.cli.grammar import DrctlCommand, DrctlGroup, adopt


@dataclass(frozen=True, slots=True)
class Registered:
    """A command that is not loaded yet.

    Attributes:
        where: `module:attribute`; a function, or a Typer app with subcommands.
        summary: the line in `drctl --help`; the same as the first sentence of the command's help.
        panel: the heading in `drctl --help` that it is listed under.
    """

    where: str
    summary: str
    panel: str = ""

    def load(self, name: str) -> Any:
        """Import the command."""
        module, attribute = self.where.split(":")
        found = getattr(import_module(module), attribute)
        if not isinstance(found, typer.Typer):
            app = typer.Typer()
            app.command(name, cls=DrctlCommand)(found)
            found = app
        command = typer.main.get_command(adopt(found))
        command.name = name
        if isinstance(command, DrctlCommand):
            command.subcommands = {
                inner.removeprefix(f"{name} "): each.summary
                for inner, each in SUBCOMMANDS.items()
                if inner.startswith(f"{name} ")
            }
        return command


SETUP, ASSESS, ACT = "Setup", "Assess", "Act"
RECOVER, OBSERVE, AUTOMATE = "Recover", "Observe", "Automate"

COMMANDS = {
    "init": Registered(
        "drctl.cli.setup:init", "Create a commented drctl.yaml for two clusters", SETUP
    ),
    "lab": Registered(
        "drctl.cli.lab:app", "Run two local Kafka clusters with MirrorMaker 2", SETUP
    ),
    "completion": Registered(
        "drctl.cli.setup:completion", "Print a completion script for your shell", SETUP
    ),
    "schema": Registered(
        "drctl.cli.setup:schema", "Print the JSON Schema of drctl's JSON output", SETUP
    ),
    "status": Registered(
        "drctl.cli.status:status",
        "Show whether a failover can start now, and the current RPO",
        ASSESS,
    ),
    "doctor": Registered(
        "drctl.cli.doctor:doctor", "Check whether a failover would work, and what to fix", ASSESS
    ),
    "gap": Registered(
        "drctl.cli.gap:gap", "Find records that are not replicated to the target", ASSESS
    ),
    "duplicates": Registered(
        "drctl.cli.duplicates:duplicates", "Find duplicate change events in a topic", ASSESS
    ),
    "offsets": Registered(
        "drctl.cli.offsets:app", "Translate, save and restore consumer group offsets", ASSESS
    ),
    "drill": Registered(
        "drctl.cli.drill:drill", "Rehearse a failover on a scratch topic and measure it", ASSESS
    ),
    "failover": Registered(
        "drctl.cli.failover:failover", "Move clients from the source cluster to the target", ACT
    ),
    "failback": Registered(
        "drctl.cli.failback:failback", "Move clients back to the recovered source cluster", ACT
    ),
    "resume": Registered("drctl.cli.resume:resume", "Resume an interrupted run", ACT),
    "elect": Registered("drctl.cli.elect:app", "Elect partition leaders inside a cluster", ACT),
    "connect": Registered(
        "drctl.cli.connect:app", "Diagnose, restart and migrate Kafka Connect connectors", ACT
    ),
    "reconcile": Registered(
        "drctl.cli.reconcile:reconcile",
        "Copy, quarantine, export or discard unreplicated records",
        RECOVER,
    ),
    "report": Registered("drctl.cli.journal:report", "Write the report of a run", OBSERVE),
    "journal": Registered(
        "drctl.cli.journal:journal", "List the runs of a link, or the entries of one run", OBSERVE
    ),
    "dump-consumer-timestamps": Registered(
        "drctl.cli.dump:dump_consumer_timestamps",
        "Decode Confluent Replicator's __consumer_timestamps topic",
        OBSERVE,
    ),
    "runbook": Registered("drctl.cli.runbook:app", "List, lint, render and run runbooks", AUTOMATE),
}

SUBCOMMANDS = {
    "gap truncation": Registered(
        "drctl.cli.gap:truncation", "Show which records would be lost if the source were truncated"
    ),
    "drill history": Registered("drctl.cli.drill:show_history", "List past drills"),
    "drill clean": Registered(
        "drctl.cli.drill:clean", "Delete the leftovers of interrupted drills"
    ),
}
"""Subcommands of commands that can also be called without a subcommand."""

_HELP = "help"


class LazyCommands(MutableMapping[str, Any]):
    """Loads a command when it is first used."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            found = SUBCOMMANDS.get(name) or COMMANDS[name]
            self._loaded[name] = found.load(name)
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class RootGroup(DrctlGroup):
    """`drctl` itself."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": LazyCommands()})

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands in the order of the help page."""
        return list(COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Find the command: `help CMD` means `CMD --help`, and `drill history` is one command."""
        if args[0] == _HELP:
            if ctx.resilient_parsing and not args[1:]:
                return None, None, []
            if not args[1:]:
                typer.echo(self.get_help(ctx))
                raise typer.Exit
            args = [*args[1:], *([] if ctx.resilient_parsing else ["--help"])]
        name, command, rest = super().resolve_command(ctx, args)
        inner = f"{name} {rest[0]}" if rest else ""
        if inner in SUBCOMMANDS:
            return inner, self.get_command(ctx, inner), rest[1:]
        return name, command, rest

    def panels(self, ctx: Any) -> Mapping[str, Sequence[tuple[str, str]]]:
        """Return the summaries by panel, without loading commands."""
        found: dict[str, list[tuple[str, str]]] = {}
        for name, command in COMMANDS.items():
            found.setdefault(command.panel, []).append((name, command.summary))
        return found
