"""`drctl connect`: connectors that failed, their cure, and how far they got."""

from pathlib import Path
from typing import Annotated

import typer

from drctl.cli.shared_options import Execute, LinkName, Overrides, Yes

app = typer.Typer(help="Connectors: failed tasks explained, restarted, their positions moved.")
offsets = typer.Typer(help="How far connectors got: exported, translated, given to others.")
app.add_typer(offsets, name="offsets")

Urls = Annotated[
    list[str] | None,
    typer.Option(
        "--connect",
        metavar="URL",
        help="Workers of one Connect cluster, with commas; may be repeated. Else those of links.",
    ),
]
Url = Annotated[
    str | None,
    typer.Option(
        "--connect", metavar="URL", help="Workers of it, with commas; else those of the link."
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Option("--connector", metavar="NAME", help="Only this one; may be repeated."),
]
Renames = Annotated[
    list[str] | None,
    typer.Option(
        "--rename", metavar="OLD=NEW", help="What a connector is called there; may be repeated."
    ),
]


@app.command()
def status(connect: Urls = None, link: LinkName = None) -> int:
    """Show all connectors of all workers, and why those failed that failed.

    Reads only. Exit codes: 0 nothing failed, 1 something did, 5 some workers do not answer.
    """
    from drctl.cli.connect.status import show_status

    return show_status(tuple(connect or ()), link)


@app.command()
def recover(
    connect: Url = None,
    link: LinkName = None,
    connector: Names = None,
    remedy: Annotated[
        str | None,
        typer.Option(
            metavar="reset|recreate",
            help="For one whose resume point is gone: it forgets it, or another one takes over.",
        ),
    ] = None,
    new_name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="What recreate calls it; else NAME-2."),
    ] = None,
    initial: Annotated[str, typer.Option(metavar="TIME", help="The first pause.")] = "1s",
    longest: Annotated[str, typer.Option(metavar="TIME", help="The longest pause.")] = "120s",
    attempts: Annotated[int, typer.Option(metavar="NUMBER", help="Restarts at most.")] = 16,
    settle: Annotated[
        str, typer.Option(metavar="TIME", help="So long it has to run to count as running.")
    ] = "10s",
    execute: Execute = False,
    yes: Yes = False,
    override: Overrides = None,
) -> int:
    """Restart what failed, with pauses that double each time; or begin anew what cannot go on.

    Where the trace says that a restart does not help, it is refused: --override cause=REASON once
    the cause is gone. Exit codes: 0 all run, or nothing stands against it; 1 some do not run; 3
    refused; 4 a remedy stopped part-way; 5 unknown; 130 interrupted.
    """
    from drctl.cli.connect.recover import RecoverOptions, recover_connectors
    from drctl.cli.durations import seconds
    from drctl.connectors.backoff import Backoff

    given = RecoverOptions(
        connect,
        link,
        tuple(connector or ()),
        remedy,
        new_name,
        Backoff(seconds(initial, "--initial"), seconds(longest, "--longest"), attempts),
        seconds(settle, "--settle", zero=True),
        (initial, longest, settle),
        execute,
        yes,
        tuple(override or ()),
    )
    return recover_connectors(given)


@offsets.command()
def export(
    connect: Url = None,
    link: LinkName = None,
    connector: Names = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What to write; else in the state_dir.")
    ] = None,
) -> int:
    """Save how far connectors got, to a file that apply --from takes.

    Reads only. Exit codes: 0 saved, 5 not all could be read.
    """
    from drctl.cli.connect.offsets import export_offsets

    return export_offsets(connect, link, tuple(connector or ()), out)


@offsets.command()
def translate(
    source: Annotated[Path, typer.Option("--from", metavar="FILE", help="What export wrote.")],
    connect: Url = None,
    link: LinkName = None,
    connector: Names = None,
    rename: Renames = None,
    override: Overrides = None,
) -> int:
    """Show what exported positions are for the connectors of other workers.

    Reads only. Exit codes: 0 nothing stands against writing them, 3 something does.
    """
    from drctl.cli.connect.offsets import ApplyOptions, apply_offsets

    given = ApplyOptions(
        connect, link, tuple(connector or ()), source, tuple(rename or ()), tuple(override or ())
    )
    return apply_offsets(given)


@offsets.command()
def apply(
    source: Annotated[
        Path, typer.Option("--from", metavar="FILE", help="What export wrote, or what was before.")
    ],
    connect: Url = None,
    link: LinkName = None,
    connector: Names = None,
    rename: Renames = None,
    execute: Execute = False,
    yes: Yes = False,
    override: Overrides = None,
) -> int:
    """Have stopped connectors of other workers go on from exported positions.

    What stood there before is kept in a file that apply --from takes. Exit codes: 0 all are there,
    3 a guard refused and nothing was written, 4 some were written, 5 an answer did not come.
    """
    from drctl.cli.connect.offsets import ApplyOptions, apply_offsets

    given = ApplyOptions(
        connect,
        link,
        tuple(connector or ()),
        source,
        tuple(rename or ()),
        tuple(override or ()),
        execute,
        yes,
    )
    return apply_offsets(given)
