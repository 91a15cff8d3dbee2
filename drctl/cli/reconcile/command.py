"""`drctl reconcile`: acts on the unreplicated records that a gap result lists."""

from pathlib import Path
from typing import Annotated

import typer

from drctl.cli.shared_options import Execute, LinkName, Overrides, Yes
from drctl.reconcile.policy import Action


def reconcile(
    directory: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR]",
            help="The folder that drctl gap left; else the newest result of the link.",
            show_default=False,
        ),
    ] = None,
    link: LinkName = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="copy|quarantine|export|discard",
            help="What becomes of the records; of every topic, unless some are named.",
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC[=POLICY]", help="Only this topic, by a policy of its own; repeatable."
        ),
    ] = None,
    conflicting: Annotated[
        Action,
        typer.Option(help="What becomes of records that the target has something newer than."),
    ] = Action.REFUSE,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for an export; else one in the state_dir."),
    ] = None,
    execute: Execute = False,
    yes: Yes = False,
    override: Overrides = None,
) -> int:
    """Copy, quarantine, export or discard the records that are not on the target.

    Each record is written once, in the order of the source, also after a crash: run the same
    command again. Without --execute nothing is written and the plan is printed. Exit codes: 0 done,
    1 done, but some records were gone; 3 refused, nothing was written; 4 stopped part-way, or some
    records are refused; 5 unknown.
    """
    from drctl.cli.reconcile.carrying_out import ReconcileOptions
    from drctl.cli.reconcile.run import folder_of, reconcile_records

    given = ReconcileOptions(
        folder_of(directory, link),
        policy,
        tuple(topic or ()),
        conflicting,
        out,
        execute,
        yes,
        tuple(override or ()),
    )
    return reconcile_records(given)
