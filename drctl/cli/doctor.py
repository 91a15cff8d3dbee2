"""`drctl doctor`: whether a failover of a link would work, one row a check."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.cli.console import console
from drctl.cli.grammar import Execute, ExpectPlan, LinkName, Overrides, PlanOut, Yes
from drctl.cli.settings import configuration
from drctl.model.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from drctl.app.way import Prepared

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
    fix_: Fix = False,
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
    from drctl.app.doctor import examined
    from drctl.views.findings import DoctorDocument

    passed, files = tuple(override or ()), (plan_out, expect_plan)
    if fix_:
        if client:
            raise UsageError("--client goes with the rows of doctor, not with --fix")
        return _fix_target(link, execute, yes, passed, files)
    _check_alone(execute, yes, passed, files)

    config = configuration()
    chosen = config.link(link)
    found = examined(config, chosen, tuple(client or ()))

    def drawn() -> "RenderableType":
        from drctl.cli.doctor_table import doctor_table

        return doctor_table(found)

    console().result(drawn, DoctorDocument.of(found))
    return int(found.exit_code)


def _fix_target(
    link: str | None,
    execute: bool,
    yes: bool,
    overrides: tuple[str, ...],
    files: tuple[Path | None, Path | None],
) -> int:
    """Show the plan, or carry it out.

    Raises:
        Refused: something stands against it, or nobody confirmed.
        Unreachable: a cluster did not answer.
    """
    from drctl.app.repairs import FIX, make_plan
    from drctl.cli.running import PlanOptions, show_or_go

    given = PlanOptions(("doctor", "--fix"), link, False, execute, yes, overrides, (), *files)
    return show_or_go(given, make_plan, FIX, _drawn)


def _drawn(prepared: "Prepared") -> "RenderableType":
    from drctl.cli.doctor_table import fix_table

    return fix_table(prepared.plan, prepared.findings, prepared.against, prepared.execute)


def _check_alone(
    execute: bool,
    yes: bool,
    overrides: tuple[str, ...],
    files: tuple[Path | None, Path | None],
) -> None:
    """Refuse what goes with --fix only.

    Raises:
        UsageError: it was given without.
    """
    given = {
        "--execute": execute,
        "--yes": yes,
        "--override": bool(overrides),
        "--plan-out": files[0] is not None,
        "--expect-plan": files[1] is not None,
    }
    names = [name for name, there in given.items() if there]
    if names:
        raise UsageError(f"{' and '.join(names)}: doctor changes nothing without --fix")
