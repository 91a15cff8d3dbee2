"""`drctl journal`: what runs wrote down."""

from typing import TYPE_CHECKING, Annotated

import typer

from drctl.cli.console import console
from drctl.cli.runs import plan_wiring
from drctl.cli.settings import configuration
from drctl.cli.shared_options import LinkName, Local
from drctl.model.lines import lines as meant

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.journal import JournalReader

RunName = Annotated[str | None, typer.Argument(metavar="[RUN]", help="Else all are listed.")]


def journal(run: RunName = None, link: LinkName = None, local: Local = False) -> int:
    """Show the runs of a link, or every entry of one.

    Reads only. Exit codes: 0 shown, 5 the cluster does not answer: --local reads the copy.
    """
    from drctl.report.journal_lines import entry_lines, journal_document, run_lines

    config = configuration()
    chosen = config.link(link)
    reader = reader_of(config, chosen, local=local)
    with console().task("reading the journal"):
        document = journal_document(chosen.name, reader, run)
    lines = run_lines(document) if run is None else entry_lines(document)
    console().result(meant(lines), document)
    return 0


def reader_of(config: "Config", link: "Link", *, local: bool) -> "JournalReader":
    """What reads the journals of a link's runs."""
    if local:
        return plan_wiring.run_files(config)
    return plan_wiring.journal_reader(link)
