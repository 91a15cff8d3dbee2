"""`drctl doctor`: whether a failover of a link would work, one row a check."""

from typing import TYPE_CHECKING, Annotated

import typer

from drctl.cli.console import console
from drctl.cli.settings import configuration
from drctl.cli.shared_options import LinkName

if TYPE_CHECKING:
    from rich.console import RenderableType

Clients = Annotated[
    list[str] | None,
    typer.Option(
        "--client",
        metavar="FILE[=LIBRARY-VERSION]",
        help="Settings of an application, a properties file, to look at, too; may be repeated. Its"
        " library: java-3.9.1 or librdkafka-2.12.0.",
    ),
]


def doctor(link: LinkName = None, client: Clients = None) -> int:
    """Look whether a failover of a link would work: one row a check, with a cure.

    Reads only. Exit codes: 0 nothing fails, and everything was seen that a planned failover needs;
    1 something to look at; 5 a cluster did not answer.
    """
    from drctl.cli.doctor_sight import examined
    from drctl.report.doctor_document import doctor_document

    config = configuration()
    chosen = config.link(link)
    found = examined(config, chosen, tuple(client or ()))

    def drawn() -> "RenderableType":
        from drctl.cli.doctor_table import doctor_table

        return doctor_table(found)

    console().result(drawn, doctor_document(found))
    return int(found.exit_code)
