"""`drctl failback`: the way home of a link's clients; so far it only says how far that came."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.cli.console import console
from drctl.cli.settings import configuration
from drctl.cli.shared_options import LinkName

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
            help="A result of drctl gap to rest on; else the newest of the link in the state_dir.",
        ),
    ] = None,
) -> int:
    """Judge how far the way back to a link's lost source has come, and whether it is in order.

    Only --check-order exists so far: what leads home is done by hand. It looks at both clusters and
    at Connect, and writes nowhere. Exit codes: 0 in order; 3 something happened before its time; 5
    not every step can be seen.
    """
    from drctl.failback.doing import BY_HAND
    from drctl.model.errors import UsageError

    if not check_order:
        raise UsageError(
            "drctl failback does not lead home yet: only --check-order exists so far",
            f"do it by hand, in the order of {BY_HAND} and of drctl runbook render failback; drctl"
            " failback --check-order says after each step whether it is in order",
        )
    return _judge(link, gap)


def _judge(name: str | None, gap: Path | None) -> int:
    from drctl.cli.failback_sight import look_at, site_of
    from drctl.failback.answer import answer

    config = configuration()
    link = config.link(name)
    found = answer(look_at(config, link, gap))

    def drawn() -> "RenderableType":
        from drctl.cli.failback_table import failback_table

        return failback_table(found, site_of(config, link, found))

    console().result(drawn, found.to_json())
    return int(found.verdict.exit_code)
