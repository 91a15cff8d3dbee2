"""`drctl doctor`: whether a failover of a link would work, one row a check."""

from typing import TYPE_CHECKING, Annotated

import typer

from drctl.cli.console import console
from drctl.cli.settings import configuration
from drctl.cli.shared_options import Execute, ExpectPlan, LinkName, Overrides, PlanOut, Yes
from drctl.model.errors import UsageError

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


Fix = Annotated[
    bool,
    typer.Option(
        "--fix",
        help="Plan what brings the target in line with the source: topics, partitions, settings,"
        " ACLs. With --execute it is carried out.",
    ),
]


def doctor(
    link: LinkName = None,
    client: Clients = None,
    fix: Fix = False,
    execute: Execute = False,
    yes: Yes = False,
    override: Overrides = None,
    plan_out: PlanOut = None,
    expect_plan: ExpectPlan = None,
) -> int:
    """Look whether a failover of a link would work: one row a check, with a cure.

    Without --fix and --execute it reads only. Exit codes: 0 nothing fails, and everything was seen
    that a planned failover needs; 1 something to look at; 5 a cluster did not answer. With --fix: 0
    nothing differs, or all of it is done; 1 changes are planned, or something is left to a person;
    3 refused, or everything was put back; 4 stopped part-way: what stays is named; 5 unknown.
    """
    from drctl.cli.doctor import fix as doctor_fix
    from drctl.cli.doctor.sight import examined
    from drctl.report.doctor_document import doctor_document

    passed, files = tuple(override or ()), (plan_out, expect_plan)
    if fix:
        if client:
            raise UsageError("--client goes with the rows of doctor, not with --fix")
        return doctor_fix.fix(link, execute, yes, passed, files)
    doctor_fix.check_alone(execute, yes, passed, files)

    config = configuration()
    chosen = config.link(link)
    found = examined(config, chosen, tuple(client or ()))

    def drawn() -> "RenderableType":
        from drctl.cli.doctor.table import doctor_table

        return doctor_table(found)

    console().result(drawn, doctor_document(found))
    return int(found.exit_code)
