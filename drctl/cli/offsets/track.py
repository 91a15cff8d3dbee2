"""`drctl offsets track`: keeps where groups stand known on the cluster that survives."""

from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from drctl.cli.settings import configuration

if TYPE_CHECKING:
    from drctl.cli.offsets.track_run import Tracking

EVERY = "30s"


def track(
    link: Annotated[
        str | None, typer.Option(metavar="LINK", help="A link of drctl.yaml; else the only one.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="One pass; else again and again, until interrupted.")
    ] = False,
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help=f"From pass to pass; else {EVERY}.")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="ADDR", help="Serve metrics at, for example, 127.0.0.1:9095."),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Write; without, one pass says what it would do.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="With --execute: do not ask for the cluster's name.")
    ] = False,
) -> int:
    """Note on the target what each group consumed last, for the day when the source is dead.

    Looks at groups from outside: no client is changed, no group joined. Exit codes of a single
    pass: 0 all positions were seen, 5 something could not be looked at, or no answer came.
    """
    _check(once=once, every=every, listen=listen, execute=execute, yes=yes)
    from drctl.cli.confirmation import confirm
    from drctl.cli.durations import seconds
    from drctl.cli.offsets.track_run import tracking
    from drctl.model.errors import ConfigError
    from drctl.offsets.anchor_log import ANCHORS_TOPIC

    interval = seconds(every or EVERY, "--every")
    chosen = configuration().link(link)
    if not chosen.settings.translate:
        raise ConfigError(
            f"link {chosen.name} has translate: false: its groups are not to be translated",
            "remove it, or choose another link",
        )
    if execute:
        confirm(chosen.target, f"anchors, in topic {ANCHORS_TOPIC}", yes=yes)
    with tracking(chosen, execute=execute) as run:
        if once or not execute:
            return run.once()
        return _go_on(run, interval, listen)


def _go_on(run: "Tracking", interval_s: float, listen: str | None) -> NoReturn:
    if listen is None:
        run.repeat(interval_s)
    with run.served(listen):
        run.repeat(interval_s)


def _check(*, once: bool, every: str | None, listen: str | None, execute: bool, yes: bool) -> None:
    from drctl.model.errors import UsageError

    if once and (every or listen):
        raise UsageError("--every and --listen go with many passes, --once is one")
    if not execute and (every or listen):
        raise UsageError(
            "--every and --listen go with --execute",
            "without --execute one pass says what would be written",
        )
    if yes and not execute:
        raise UsageError("--yes goes with --execute: nothing is asked otherwise")
