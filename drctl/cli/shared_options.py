"""Options that several commands have, with one meaning."""

from pathlib import Path
from typing import Annotated

import typer

LinkName = Annotated[
    str | None,
    typer.Option("--link", metavar="LINK", help="A link of drctl.yaml; else the only one."),
]
Execute = Annotated[
    bool, typer.Option("--execute", help="Carry it out; without, the plan is printed.")
]
Yes = Annotated[
    bool, typer.Option("--yes", help="With --execute: do not ask for the cluster's name.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--override",
        metavar="GUARD=REASON",
        help="Pass over a guard that the plan names; may be repeated. Kept in the journal.",
    ),
]
Answers = Annotated[
    list[str] | None,
    typer.Option(
        "--answer",
        metavar="QUESTION=yes|no",
        help="Answer a question of a manual step beforehand; may be repeated.",
    ),
]
Patience = Annotated[
    str,
    typer.Option(
        "--patience", metavar="TIME", help="How long replication may take to bring the rest."
    ),
]
Grace = Annotated[
    str,
    typer.Option(
        "--grace", metavar="TIME", help="How long consumers may take to leave by themselves."
    ),
]
PlanOut = Annotated[
    Path | None, typer.Option("--plan-out", metavar="FILE", help="Write the plan there, as JSON.")
]
ExpectPlan = Annotated[
    Path | None,
    typer.Option(
        "--expect-plan", metavar="FILE", help="Go on only if the plan is the one in this file."
    ),
]
Local = Annotated[bool, typer.Option("--local", help="Read the copy of this machine, no cluster.")]
