"""The commands of drctl by name. Their modules are imported when one is called, not for --help."""

from collections.abc import Iterator, MutableMapping
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
    """

    where: str
    summary: str

    def load(self, name: str) -> Any:
        """The command itself."""
        module, attribute = self.where.split(":")
        found = getattr(import_module(module), attribute)
        if not isinstance(found, typer.Typer):
            app = typer.Typer()
            app.command(name, cls=DrctlCommand)(found)
            found = app
        command = typer.main.get_command(adopt(found))
        command.name = name
        return command


COMMANDS = {
    "init": Registered(
        "drctl.cli.setup:init", "Write a commented drctl.yaml after looking at two clusters"
    ),
    "lab": Registered("drctl.cli.lab:app", "Two real local Kafka clusters with MirrorMaker 2"),
    "doctor": Registered(
        "drctl.cli.doctor:doctor",
        "Look whether a failover of a link would work: one row a check, with a remedy",
    ),
    "status": Registered(
        "drctl.cli.status:status",
        "Go or no-go now: blockers first, RPO by topic, groups that could not go on",
    ),
    "gap": Registered("drctl.cli.gap:gap", "Find every record that is not on the target"),
    "reconcile": Registered(
        "drctl.cli.reconcile:reconcile",
        "Copy, quarantine, export or discard the records that are not on the target",
    ),
    "failover": Registered(
        "drctl.cli.failover:failover",
        "Move a link's clients from its source to its target, in an order that loses nothing",
    ),
    "failback": Registered(
        "drctl.cli.failback:failback",
        "Lead a link's clients home to its source, which was lost and is back",
    ),
    "drill": Registered(
        "drctl.cli.drill:drill",
        "Rehearse a failover on a topic and a group of its own, and measure it",
    ),
    "resume": Registered(
        "drctl.cli.resume:resume",
        "Go on with a run where its journal says it came to, from any machine",
    ),
    "journal": Registered(
        "drctl.cli.journal:journal", "Show the runs of a link, or every entry of one"
    ),
    "report": Registered(
        "drctl.cli.journal:report",
        "Write what a run did, what it measured and what is owed, from its journal",
    ),
    "runbook": Registered(
        "drctl.cli.runbook:app", "Runbooks: YAML that becomes a plan, for people and for CI"
    ),
    "offsets": Registered(
        "drctl.cli.offsets:app", "Where consumer groups stand: translated, saved, put back"
    ),
    "elect": Registered(
        "drctl.cli.elect:app", "Leaders inside one cluster: who is back, preferred, or unclean"
    ),
    "connect": Registered(
        "drctl.cli.connect:app",
        "Connectors: failed tasks explained, restarted, their positions moved",
    ),
    "dump-consumer-timestamps": Registered(
        "drctl.cli.dump:dump_consumer_timestamps",
        "Show when each group consumed last, from Replicator's __consumer_timestamps",
    ),
    "schema": Registered("drctl.cli.setup:schema", "Print the JSON Schema of a document of drctl"),
    "completion": Registered(
        "drctl.cli.setup:completion", "Print a script that completes drctl in your shell"
    ),
}


class LazyCommands(MutableMapping[str, Any]):
    """Loads a command when it is asked for."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = COMMANDS[name].load(name)
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
        """In the order in which one needs them."""
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """From the summaries: nothing is loaded."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in COMMANDS.items()])
