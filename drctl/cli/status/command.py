"""`drctl status`: go or no-go now, on one screen, for a person, for cron, for Prometheus."""

from typing import Annotated

import typer

from drctl.cli.settings import configuration
from drctl.cli.shared_options import LinkName

EVERY = "10s"


def status(
    link: LinkName = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again and again, until interrupted.")
    ] = False,
    every: Annotated[
        str | None,
        typer.Option(metavar="TIME", help=f"With --watch or --listen: from look to look; {EVERY}."),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="ADDR", help="Serve metrics at, for example, 127.0.0.1:9096."),
    ] = None,
) -> int:
    """Go or no-go now: blockers first, RPO by topic, groups that could not go on.

    Reads only. Exit codes of a single look: 0 go; 1 no-go, for a planned failover or for one that
    the loss of the source would force; 5 a cluster did not answer.
    """
    from drctl.cli.durations import seconds
    from drctl.cli.status.look import looking
    from drctl.cli.status.run import Watching, once
    from drctl.model.errors import UsageError

    if every and not (watch or listen):
        raise UsageError("--every goes with --watch or --listen", "without them it is one look")
    interval = seconds(every or EVERY, "--every")
    config = configuration()
    chosen = config.link(link)
    with looking(config, chosen) as opened:
        if watch or listen:
            Watching(opened, interval).go_on(listen)
        return once(opened)
