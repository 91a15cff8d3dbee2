"""Plans `drctl reconcile`, and with `--execute` carries it out."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.cli.console import console
from drctl.cli.offsets.writing import check_confirming, command_line
from drctl.cli.reconcile.carrying_out import ReconcileOptions, carried_out, document_of, opened
from drctl.cli.reconcile.confirming import confirm_plan
from drctl.cli.settings import configuration
from drctl.model.errors import UsageError
from drctl.model.pasting import option

if TYPE_CHECKING:
    from drctl.reconcile.planning import ReconcilePlan
    from drctl.reconcile.results import ReconcileResult


def folder_of(given: Path | None, link: str | None) -> Path:
    """The folder of the result to act on: the one that is named, else the newest of the link.

    Raises:
        UsageError: the link has no result on this machine, or the folder's is of another link.
    """
    from drctl.cli.gap import results
    from drctl.reconcile.gap_result import read_gap

    if given is not None:
        if link is not None and (found := read_gap(document_of(given), str(given)).link) != link:
            raise UsageError(f"{given} is a result of link {found}, not of link {link}")
        return given
    config = configuration()
    name = config.link(link).name
    newest = results.newest(config.state_dir, name)
    if newest is None:
        raise UsageError(
            f"link {name} has no result of drctl gap in {config.state_dir}",
            f"drctl gap {option('--link', name)} makes one; one from elsewhere is named as DIR",
        )
    return newest


def reconcile_records(given: ReconcileOptions) -> int:
    """Make the plan, and with `--execute` carry it out."""
    check_confirming(given.execute, given.yes)
    with opened(given, configuration) as found:
        if not given.execute or not found.plan.writes:
            return _show(_unwritten(found.plan), given)
        confirm = partial(confirm_plan, yes=given.yes)
        return _show(carried_out(found, confirm, command_line(given.words)), given)


def _unwritten(plan: "ReconcilePlan") -> "ReconcileResult":
    from drctl.reconcile.results import ReconcileResult, planned

    return ReconcileResult(plan, results=planned(plan))


def _show(result: "ReconcileResult", given: ReconcileOptions) -> int:
    from drctl.cli.reconcile.table import reconcile_table
    from drctl.reconcile.documents import document

    execute = command_line(given.words)
    told = document(result, str(given.folder), execute)
    console().result(lambda: reconcile_table(result, execute), told)
    return int(result.exit_code)
