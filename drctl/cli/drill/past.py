"""`drctl drill --history`: the drills of this machine, and the page with their trend."""

from drctl.cli.console import console
from drctl.cli.drill import wiring as drill_wiring
from drctl.cli.drill.end import write_page
from drctl.cli.settings import configuration
from drctl.drill.history import read
from drctl.model.errors import ExitCode


def show(link: str | None) -> int:
    """Print them, the oldest first.

    Raises:
        UsageError: there is no such link.
        Unknown: the history cannot be read.
    """
    from drctl.cli.drill.table import history_table
    from drctl.report.drill_document import history_document

    config = configuration()
    drills, damaged = read(drill_wiring.history(config).lines())
    if link is not None:
        name = config.link(link).name
        drills = tuple(past for past in drills if past.link == name)
    if damaged:
        console().warn(f"{damaged} lines of the history cannot be read, and are left out")
    page = write_page(config)
    document = history_document(drills, damaged, page)
    console().result(lambda: history_table(drills, page), document)
    return int(ExitCode.DONE)
