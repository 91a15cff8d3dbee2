"""`drctl doctor`: whether a failover of a link would work, one row a check."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.cli.console import console
from drctl.cli.grammar import Acting, LinkName, asks
from drctl.cli.settings import configuration
from drctl.model.errors import UsageError

if TYPE_CHECKING:
    from drctl.app.operation import Prepared
    from drctl.views.view import View


@dataclass(frozen=True, kw_only=True)
class Doctor(Acting):
    """What the command line says."""

    link: LinkName = None
    client: Annotated[
        tuple[str, ...],
        typer.Option(
            metavar="FILE[=LIBRARY-VERSION]",
            help="Settings of an application, a properties file, to look at, too; may be repeated."
            " Its library: java-3.9.1 or librdkafka-2.12.0.",
        ),
    ] = ()
    fix: Annotated[
        bool,
        typer.Option(
            "--fix",
            help="Plan what brings the target in line with the source: topics, partitions,"
            " settings, ACLs. With --execute it is carried out.",
        ),
    ] = False


@asks
def doctor(given: Doctor) -> int:
    """Look whether a failover of a link would work: one row a check, with a remedy.

    Without --fix and --execute it reads only. Exit codes: 0 nothing fails, and everything was seen
    that a planned failover needs; 1 something to look at; 5 a cluster did not answer. With --fix: 0
    nothing differs, or all of it is done; 1 changes are planned, or something is left to a person;
    3 refused, or everything was put back; 4 stopped part-way: what stays is named; 5 unknown.
    """
    from drctl.app.doctor import examined
    from drctl.views.doctor import doctor_table, fix_table
    from drctl.views.findings import DoctorDocument

    if given.fix:
        if given.client:
            raise UsageError("--client goes with the rows of doctor, not with --fix")
        from drctl.app.repairs import FIX, make_plan
        from drctl.cli.running import show_or_go

        def drawn(made: "Prepared") -> "View":
            return fix_table(made.plan, made.findings, made.against, made.execute)

        return show_or_go(given, ["doctor", "--fix"], make_plan, FIX, draw=drawn)
    acting = {
        "--execute": given.execute,
        "--yes": given.yes,
        "--override": given.override,
        "--plan-out": given.plan_out,
        "--expect-plan": given.expect_plan,
    }
    if names := [name for name, there in acting.items() if there]:
        raise UsageError(f"{' and '.join(names)}: doctor changes nothing without --fix")

    config = configuration()
    found = examined(config, config.link(given.link), given.client)
    return console().result(doctor_table(found), DoctorDocument.of(found), found.exit_code)
