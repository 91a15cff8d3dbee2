"""`drctl drill --clean`: deletes what drills left behind whose process is gone."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from drctl.cli.confirmation import confirm
from drctl.cli.console import console
from drctl.cli.drill import left as drill_left
from drctl.cli.drill import wiring as drill_wiring
from drctl.cli.offsets.writing import check_confirming, command_line
from drctl.cli.settings import configuration
from drctl.model.errors import ExitCode, Unreachable

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link


def clean(name: str | None, *, execute: bool, yes: bool) -> int:
    """Show what is there, or delete it.

    Raises:
        Refused: nobody confirmed.
        Unreachable: a cluster did not answer.
    """
    check_confirming(execute, yes)
    config = configuration()
    link = config.link(name)
    if execute:
        drill_left.bury(config)
    elif faults := drill_left.lasting(config):
        try:
            return _clean(config, link, faults, execute=False, yes=False)
        except Unreachable as silent:
            console().note(f"{silent.message}: what else is there is seen once that is taken back")
            return _show(link.name, (), faults, done=False)
    return _clean(config, link, (), execute=execute, yes=yes)


def _clean(
    config: "Config", link: "Link", faults: Sequence[str], *, execute: bool, yes: bool
) -> int:
    with (
        drill_wiring.ports(link.source, link.source_config) as source,
        drill_wiring.ports(link.target, link.target_config) as target,
    ):
        found = drill_left.leftovers(config, source, target, everything=True)
        for line in drill_left.told(found.spared):
            console().note(line)
        if not execute or not found.dead:
            return _show(link.name, (), (*faults, *found.words), done=execute)
        what = f"{len(found.words)} things of dead drills, and of cluster {link.source}"
        confirm(link.target, what, yes=yes)
        done = drill_left.clean_up(source, target, found.dead, time.sleep)
        return _show(link.name, done.gone, done.left, done=True)


def _show(link: str, deleted: Sequence[str], left: Sequence[str], *, done: bool) -> int:
    from drctl.cli.drill.table import clean_table
    from drctl.report.drill_document import clean_document

    execute = command_line(["drill", "--clean", "--link", link, "--execute"])
    document = clean_document(link, deleted, left, done, execute)
    console().result(lambda: clean_table(document), document)
    if not left:
        return int(ExitCode.DONE)
    return int(ExitCode.STOPPED if done else ExitCode.FOUND)
