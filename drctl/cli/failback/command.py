"""`drctl failback`: the way home of a link's clients, once its source is back."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.cli.console import console
from drctl.cli.settings import configuration
from drctl.cli.shared_options import (
    Answers,
    Execute,
    ExpectPlan,
    Grace,
    LinkName,
    Overrides,
    Patience,
    PlanOut,
    Yes,
)
from drctl.reconcile.policy import Action

if TYPE_CHECKING:
    from rich.console import RenderableType


def failback(
    link: LinkName = None,
    check_order: Annotated[
        bool,
        typer.Option("--check-order", help="Judge record order and step order; change nothing."),
    ] = False,
    gap: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="With --check-order: a result of drctl gap to rest on; else the newest kept.",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="copy|quarantine|export|discard",
            help="What becomes of the records that only the returned source has.",
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC[=POLICY]",
            help="The same for one topic; repeatable, and then every topic has to be named.",
        ),
    ] = None,
    conflicting: Annotated[
        Action,
        typer.Option(help="What becomes of those that the target has something newer than."),
    ] = Action.REFUSE,
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild",
            help="The source has lost its records: it is emptied, and everything is copied to it.",
        ),
    ] = False,
    execute: Execute = False,
    yes: Yes = False,
    override: Overrides = None,
    answer: Answers = None,
    patience: Patience = "10m",
    grace: Grace = "20s",
    plan_out: PlanOut = None,
    expect_plan: ExpectPlan = None,
) -> int:
    """Lead a link's clients home to its source, which was lost and is back.

    Without --execute nothing is changed: the plan is printed, with what stands against it. Exit
    codes: 0 done, or nothing stands against the plan; 1 done, and something is owed; 3 refused; 4
    stopped part-way; 5 unknown: drctl resume looks first; 130 interrupted. --check-order only
    judges how far the way back has come: 0 in order; 3 something happened before its time; 5 not
    every step can be seen.
    """
    from drctl.model.errors import UsageError

    if check_order:
        if execute or policy or topic or rebuild:
            raise UsageError("--check-order only looks: it takes no --execute and no policy")
        return _judge(link, gap)
    if gap is not None:
        raise UsageError("--gap goes with --check-order", "a run finds what is missing by itself")
    from drctl.cli.failback.run import FailbackOptions, lead_home

    options = FailbackOptions(policy, tuple(topic or ()), conflicting, patience, grace, rebuild)
    return lead_home(
        options,
        link,
        execute,
        yes,
        tuple(override or ()),
        tuple(answer or ()),
        plan_out,
        expect_plan,
    )


def _judge(name: str | None, gap: Path | None) -> int:
    from drctl.cli.failback.sight import look_at, site_of
    from drctl.cli.gap.results import named
    from drctl.failback.answer import answer

    config = configuration()
    link = config.link(name)
    if gap is not None:
        named(gap)
    found = answer(look_at(config, link, gap))

    def drawn() -> "RenderableType":
        from drctl.cli.failback.table import failback_table

        return failback_table(found, site_of(config, link, found))

    console().result(drawn, found.to_json())
    return int(found.verdict.exit_code)
