"""`drctl drill`: a failover rehearsed on topics and groups of its own, measured and cleaned up."""

from pathlib import Path
from typing import Annotated

import typer

from drctl.cli.drill.inject import Fault
from drctl.cli.shared_options import Execute, LinkName, Yes


def drill(
    link: LinkName = None,
    records: Annotated[
        int, typer.Option(metavar="N", min=1, help="That are written before anything else.")
    ] = 2000,
    work: Annotated[
        str, typer.Option(metavar="TIME", help="How long applications work before it begins.")
    ] = "5s",
    budget: Annotated[
        str, typer.Option(metavar="TIME", help="For all of it, but for cleaning up.")
    ] = "15m",
    topic_prefix: Annotated[
        str, typer.Option(metavar="PREFIX", help="What names of its topic and group begin with.")
    ] = "",
    max_rto: Annotated[
        str | None, typer.Option(metavar="TIME", help="Exit with 1 where the RTO is above it.")
    ] = None,
    inject: Annotated[
        Fault | None, typer.Option(help="A fault while applications work; in a lab alone.")
    ] = None,
    lab: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="With --inject: the lab's folder; else the user's own."),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --execute: also write the result as JUnit XML."),
    ] = None,
    execute: Execute = False,
    yes: Yes = False,
    clean: Annotated[
        bool, typer.Option("--clean", help="Only delete what drills that died left behind.")
    ] = False,
    history: Annotated[
        bool, typer.Option("--history", help="Only show the drills that were.")
    ] = False,
) -> int:
    """Rehearse a failover on a topic and a group of its own, and measure it.

    Without --execute nothing is made: the plan is printed, and what a drill would make. Exit codes:
    0 within policy, and all else is as it was; 1 a measure is worse, or the drill did not go
    through; 3 refused; 4 something that was made is left: --clean; 5 unknown; 130 interrupted.
    """
    from drctl.model.errors import UsageError

    if clean and history:
        raise UsageError("--clean and --history do not go together")
    if history:
        from drctl.cli.drill.past import show

        return show(link)
    if clean:
        from drctl.cli.drill.clean import clean as clean_up

        return clean_up(link, execute=execute, yes=yes)
    from drctl.cli.drill.run import DrillOptions
    from drctl.cli.drill.run import drill as rehearse
    from drctl.cli.drill.stage import Wanted
    from drctl.cli.durations import seconds

    words = ["drill", "--records", str(records), "--work", work, "--budget", budget]
    for name, value in (("--topic-prefix", topic_prefix), ("--max-rto", max_rto)):
        words += [name, value] if value else []
    words += ["--inject", inject.value] if inject else []
    words += ["--lab", str(lab)] if lab else []
    words += ["--junit", str(junit)] if junit else []
    given = DrillOptions(
        tuple(words),
        link,
        Wanted(records, seconds(work, "--work", zero=True), seconds(budget, "--budget")),
        topic_prefix,
        seconds(max_rto, "--max-rto", zero=True) if max_rto else None,
        inject,
        lab,
        junit,
        execute,
        yes,
    )
    return rehearse(given)
