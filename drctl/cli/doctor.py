"""`drctl doctor`: checks whether a failover of a link would work."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.cli.console import console
from drctl.cli.grammar import LinkName, PlanRequest, takes_request
from drctl.cli.settings import configuration
from drctl.model.errors import UsageError

if TYPE_CHECKING:
    from drctl.app.operation import Prepared
    from drctl.views.view import View


@dataclass(frozen=True, kw_only=True)
class Doctor(PlanRequest):
    """Arguments and options."""

    link: LinkName = None
    client: Annotated[
        tuple[str, ...],
        typer.Option(
            metavar="FILE[=LIBRARY-VERSION]",
            help="Also check the client properties file of an application, for example"
            " app.properties=java-3.9.1 or app.conf=librdkafka-2.12.0. Repeatable.",
        ),
    ] = ()
    worker: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Properties file that the link's Connect workers were started with: converters,"
            " interceptors and exactly-once support, which Connect does not report.",
        ),
    ] = None
    fix: Annotated[
        bool,
        typer.Option(
            "--fix",
            help="Plan the changes that align the target with the source: topics, partitions,"
            " topic configurations, ACLs and client quotas.",
        ),
    ] = False


@takes_request
def doctor(given: Doctor) -> int:
    """Check whether a failover would work, and how to fix it.

    Read-only, unless --fix and --execute are given. One row per check: ok, warn, fail or
    not-checked, with the reason and a fix.

    Examples:
        drctl doctor
        drctl doctor --client app.properties=java-3.9.1
        drctl doctor --worker connect-distributed.properties
        drctl doctor --fix                                # plan the changes
        drctl doctor --fix --execute

    Exit codes:
        0: no check fails; with --fix: no differences, or all were fixed
        1: a check fails; with --fix: changes are planned, or manual work remains
        3: --fix was refused, or rolled back completely
        4: --fix stopped part-way
        5: a cluster did not answer
    """
    from drctl.app.doctor import examined
    from drctl.views.doctor import doctor_table, fix_table
    from drctl.views.findings import DoctorDocument

    if given.fix:
        for name, there in (("--client", given.client), ("--worker", given.worker)):
            if there:
                raise UsageError(f"{name} and --fix cannot be combined", "leave out one of them")
        from drctl.app.repairs import FIX, make_plan
        from drctl.cli.running import plan_or_execute

        def drawn(made: "Prepared") -> "View":
            return fix_table(made.plan, made.findings, made.blockers, made.execute)

        return plan_or_execute(given, ["doctor", "--fix"], make_plan, FIX, draw=drawn)
    acting = {
        "--execute": given.execute,
        "--yes": given.yes,
        "--override": given.override,
        "--plan-out": given.plan_out,
        "--expect-plan": given.expect_plan,
    }
    if names := [name for name, there in acting.items() if there]:
        raise UsageError(f"{' and '.join(names)}: requires --fix", "drctl doctor --fix")

    config = configuration()
    found = examined(config, config.link(given.link), given.client, given.worker)
    return console().result(doctor_table(found), DoctorDocument.of(found), found.exit_code)
