"""`drctl doctor --fix`: the target brought in line with the source, as a plan."""

from pathlib import Path
from typing import TYPE_CHECKING

from drctl.model.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from drctl.cli.runs.way import Prepared


def fix(
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
    from drctl.cli.doctor.fix_way import FIX, make_plan
    from drctl.cli.runs.plan_run import PlanOptions, show_or_go

    given = PlanOptions(("doctor", "--fix"), link, False, execute, yes, overrides, (), *files)
    return show_or_go(given, make_plan, FIX, _drawn)


def _drawn(prepared: "Prepared") -> "RenderableType":
    from drctl.cli.doctor.fix_table import fix_table

    return fix_table(prepared.plan, prepared.findings, prepared.against, prepared.execute)


def check_alone(
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
