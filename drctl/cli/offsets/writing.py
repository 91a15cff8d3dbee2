"""Shows a plan of positions, or carries it out once somebody said so; for apply and undo."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from drctl.cli import wiring
from drctl.cli.confirmation import confirm
from drctl.cli.console import console
from drctl.cli.offsets import wiring as offsets_wiring
from drctl.cli.options import options
from drctl.model.errors import ExitCode, Interrupted, UsageError

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.model.ports import GroupReader
    from drctl.offsets.applying import ApplyPlan
    from drctl.offsets.results import ApplyResult


def check_confirming(execute: bool, yes: bool) -> None:
    """Refuse --yes where nothing is asked.

    Raises:
        UsageError: it was given without --execute.
    """
    if yes and not execute:
        raise UsageError("--yes goes with --execute: nothing is asked otherwise")


def show_plan(plan: "ApplyPlan", command_line: str) -> int:
    """Print what would be done."""
    from drctl.cli.offsets.plan_table import plan_table
    from drctl.offsets.plan_json import plan_document

    document = plan_document(plan, command_line)
    console().result(lambda: plan_table(plan, command_line), document)
    return int(ExitCode.REFUSED if plan.refused else ExitCode.DONE)


def carry_out(
    plan: "ApplyPlan", config: "Config", groups: "GroupReader", *, yes: bool, undone: str = ""
) -> int:
    """Write what the plan says, once the cluster's name was typed.

    Raises:
        Refused: nobody confirmed.
        Interrupted: Ctrl-C; the journal says how far it got.
    """
    from drctl.cli.offsets.plan_table import result_table
    from drctl.offsets.plan_json import result_document

    result = _written(plan, config, groups, yes, undone)
    undo = undo_line(result.run) if result.run else ""
    document = result_document(result, undo)
    console().result(lambda: result_table(result, undo), document)
    return int(result.exit_code)


def _written(
    plan: "ApplyPlan", config: "Config", groups: "GroupReader", yes: bool, undone: str
) -> "ApplyResult":
    from drctl.offsets.executing import Execution
    from drctl.offsets.results import nothing_written
    from drctl.report.printable import plural

    if not plan.writes:
        return nothing_written(plan)
    names = {line.group for line in plan.writes}
    what = f"{plural(len(plan.writes), 'position')} of {plural(len(names), 'group')}"
    confirm(plan.cluster, what, yes=yes)
    run = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    with (
        wiring.group_writer(plan.cluster, config.cluster(plan.cluster)) as writer,
        offsets_wiring.offsets_journal(config, run) as journal,
        console().task(f"writing {what} to {plan.cluster}", len(names)) as task,
    ):
        execution = Execution(
            groups,
            writer,
            journal,
            lambda: datetime.now(UTC),
            lambda done, total: task.update(done=done, total=total),
            undone,
        )
        try:
            return execution.run(plan)
        except KeyboardInterrupt:
            message = f"interrupted: what may have been written stands in {journal.where}"
            raise Interrupted(message, f"see and put it back: {undo_line(run)}") from None


def undo_line(run: str) -> str:
    """The command line that takes a run back."""
    return command_line(["offsets", "undo", run])


def command_line(words: Sequence[str]) -> str:
    """A command line with the configuration of this one."""
    config = options().config
    named = ["--config", str(config)] if config else []
    return shlex.join(["drctl", *named, *words])
