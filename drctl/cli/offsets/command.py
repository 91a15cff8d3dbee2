"""`drctl offsets`: where consumer groups stand: translated, saved, moved and put back."""

from pathlib import Path
from typing import Annotated

import typer

from drctl.cli.offsets.track import track
from drctl.cli.offsets.translate import explain, translate
from drctl.cli.shared_options import Execute, Overrides, Yes

app = typer.Typer(help="Where consumer groups stand: translated, saved, put back.")
app.command()(translate)
app.command()(explain)
app.command()(track)


@app.command()
def snapshot(
    cluster: Annotated[
        str | None, typer.Option(metavar="CLUSTER", help="A cluster of drctl.yaml.")
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="REGEX", help="Only groups of such a whole name; may be repeated."),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="REGEX", help="Only topics of such a whole name; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What to write; else in the state_dir.")
    ] = None,
) -> int:
    """Save where all groups of a cluster stand, to a file that apply --from takes.

    Reads only. Exit codes: 0 saved, 5 not all groups could be read.
    """
    from drctl.cli.offsets.snapshot import save_snapshot

    return save_snapshot(cluster, tuple(group or ()), tuple(topic or ()), out)


@app.command()
def apply(
    link: Annotated[
        str | None, typer.Option(metavar="LINK", help="A link of drctl.yaml; else the only one.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="CLUSTER", help="Write to this cluster, not to a link's target."),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="REGEX", help="Only groups of such a whole name; may be repeated."),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="A snapshot, or what translate printed."),
    ] = None,
    execute: Execute = False,
    yes: Yes = False,
    override: Overrides = None,
) -> int:
    """Commit positions on the target, where no group is read; without --execute say which.

    Exit codes: 0 all are there, 3 a guard refused and nothing was written, 4 some were written,
    5 an answer did not come.
    """
    from drctl.cli.offsets.apply import ApplyOptions, apply_offsets

    groups, overrides = tuple(group or ()), tuple(override or ())
    return apply_offsets(ApplyOptions(link, cluster, groups, source, execute, yes, overrides))


@app.command()
def undo(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="As apply named it; else the last one.")
    ] = "",
    execute: Execute = False,
    yes: Yes = False,
    override: Overrides = None,
) -> int:
    """Put back what a run of apply changed, as far as nobody has moved it since.

    Exit codes: as of apply.
    """
    from drctl.cli.offsets.undo import undo_offsets

    return undo_offsets(run, execute=execute, yes=yes, overrides=tuple(override or ()))
