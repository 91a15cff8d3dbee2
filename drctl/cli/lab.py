"""`drctl lab`: two real local Kafka clusters with MirrorMaker 2, for trying, drills and demos."""

import os
import random
import signal
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.cli.console import console
from drctl.cli.options import Output, options
from drctl.model.text import Lines

if TYPE_CHECKING:
    from drctl.lab.lab import Lab
    from drctl.lab.scenarios.stage import Stage


def run(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="lost-primary.")],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the configuration and the result.")
    ] = Path(".drctl/demo"),
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the lab running; end it with lab down --dir.")
    ] = False,
) -> int:
    """Run a scenario on real clusters and check it against ground truth.

    Exit code 1 if a single record differs.
    """
    from drctl.lab.lab import Lab
    from drctl.lab.scenarios import SCENARIOS
    from drctl.lab.settings import LabSettings
    from drctl.lab.starting import free_port_base
    from drctl.model.errors import UsageError
    from drctl.views.command_documents import LabRunDocument
    from drctl.views.run_words import length

    began = time.monotonic()
    if scenario not in SCENARIOS:
        raise UsageError(f"there is no scenario {scenario!r}", f"scenarios: {', '.join(SCENARIOS)}")
    lab = Lab(out.absolute() / "lab", console().progress)
    stage = _stage(lab, out)
    lab.down()
    stage.config.unlink(missing_ok=True)
    try:
        console().progress(f"Starting two Kafka clusters and MirrorMaker 2 in {lab.root}")
        lab.up(LabSettings(port_base=free_port_base(random.Random(os.getpid()))))
        result = SCENARIOS[scenario](stage)
    finally:
        if not keep:
            console().progress(Lines("\nStopping the lab"))
            lab.down()
    seconds = round(time.monotonic() - began, 1)
    document = LabRunDocument.of(result, scenario=scenario, page=str(result.page), seconds=seconds)
    pages = "\n".join(
        (
            f"Failover report:      {result.report}",
            f"Unreplicated records: {result.page}",
            f"Failback report:      {result.failback}",
            f"Duration:             {length(seconds)}",
        )
    )
    console().result(Lines(f"\n{result.summary}\n\n{pages}"), document)
    return 0 if result.correct else 1


def _stage(lab: "Lab", out: Path) -> "Stage":
    from drctl.lab.scenarios.stage import Stage

    given = options()
    forwarded_headers = [
        *(("--quiet",) if given.quiet else ()),
        *(("--verbose",) if given.verbose else ()),
        *(("--no-color",) if given.no_color else ()),
    ]
    # With --output json, stdout is for the document alone.
    shown = sys.stderr if given.output is Output.JSON else None
    return Stage(lab, out, console().progress, tuple(forwarded_headers), shown)


app = typer.Typer(help="Two real local Kafka clusters with MirrorMaker 2.")

Dir = Annotated[
    Path | None,
    typer.Option("--dir", metavar="DIR", help="The lab's folder; else one of the user's state."),
]
Part = Annotated[
    str, typer.Argument(metavar="PART", help="primary, secondary, connect, or a node: primary-2.")
]

app.command()(run)


class Policy(StrEnum):
    """What copied topics are called."""

    IDENTITY = "identity"
    DEFAULT = "default"


class Cluster(StrEnum):
    """A cluster of the lab."""

    PRIMARY = "primary"
    SECONDARY = "secondary"


class Action(StrEnum):
    """What MirrorMaker 2 is told."""

    PAUSE = "pause"
    RESUME = "resume"


@app.command()
def up(
    dir: Dir = None,
    brokers: Annotated[
        int | None, typer.Option(metavar="N", help="Of each cluster: 1 or 3.")
    ] = None,
    policy: Annotated[
        Policy | None, typer.Option(help="default: copies are called primary.TOPIC.")
    ] = None,
    active_active: Annotated[
        bool | None, typer.Option("--active-active", help="Copy back, too.", show_default=False)
    ] = None,
    port_base: Annotated[
        int | None, typer.Option(metavar="PORT", help="First of a hundred ports; else 19000.")
    ] = None,
    heap_mb: Annotated[
        int | None, typer.Option(metavar="MB", help="Java heap of each part; else 512.")
    ] = None,
    full_speed: Annotated[
        bool | None,
        typer.Option("--full-speed", help="Let Java compile thoroughly.", show_default=False),
    ] = None,
    ivy_settings: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="DRCTL_IVY_SETTINGS",
            help="Ivy settings of a site with a Maven repository of its own.",
        ),
    ] = None,
) -> None:
    """Start what of the lab does not run.

    The options shape a new lab; one that exists goes on as it is.
    """
    from drctl.lab.settings import changed_settings

    lab = _lab(dir, ivy_settings)
    given = {
        "brokers": brokers,
        "policy": policy and policy.value,
        "active_active": active_active,
        "port_base": port_base,
        "heap_mb": heap_mb,
        "full_speed": full_speed,
    }
    lab.up(changed_settings(lab.root, given))
    _show(lab)


@app.command()
def down(
    dir: Dir = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the data for the next up.")] = False,
) -> None:
    """End every process of the lab and remove its data."""
    from drctl.views.command_documents import LabDownDocument

    lab = _lab(dir)
    ended = lab.down(keep)
    data = "kept" if keep else "removed"
    document = LabDownDocument(dir=str(lab.root), ended=ended, data=data)
    console().result(f"{ended} processes ended, none left; data {data}", document)


@app.command()
def status(dir: Dir = None) -> int:
    """Say what of the lab runs, answers and copies; exit code 1 where something does not."""
    return _show(_lab(dir))


@app.command()
def env(
    dir: Dir = None,
    file: Annotated[Path, typer.Option(metavar="FILE", help="What to write.")] = Path("drctl.yaml"),
) -> None:
    """Write a complete, commented drctl.yaml for the lab; over no other file."""
    from drctl.lab.environment import in_words, write_environment

    document = write_environment(_lab(dir).parts, file)
    console().result(Lines(in_words(document)), document)


@app.command()
def load(
    dir: Dir = None,
    cluster: Annotated[Cluster, typer.Option(help="Where to.")] = Cluster.PRIMARY,
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Else flights.")] = None,
    count: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Rows at most; else all there are.")
    ] = None,
    rate: Annotated[
        float, typer.Option(metavar="N", min=0, help="Rows a second; 0: as fast as possible.")
    ] = 0,
    start: Annotated[
        int | None, typer.Option(metavar="ROW", min=0, help="Else where the last load ended.")
    ] = None,
    background: Annotated[
        bool, typer.Option("--background", help="Go on in a process of its own.")
    ] = False,
    stop: Annotated[bool, typer.Option("--stop", help="End the one in the background.")] = False,
) -> int:
    """Produce real records: flights of 2013 in order of time, keyed by aircraft.

    Every acknowledged row is logged with its offset. Exit code 1 where a row was not acknowledged.
    """
    from drctl.lab.loads import Loads, in_words

    loads = Loads(_lab(dir))
    if stop:
        state = loads.stop(cluster.value)
    else:
        spec = loads.spec(cluster.value, topic, start, count, rate)
        state = loads.start(spec) if background else loads.run(spec)
    console().result(Lines(in_words(state)), state)
    return int(bool(state.last and state.last.failed))


@app.command()
def replication(action: Annotated[Action, typer.Argument()], dir: Dir = None) -> None:
    """Stop MirrorMaker 2 (its offsets stay), or let it go on."""
    lab = _lab(dir)
    lab.replicate(action is Action.RESUME)
    _show(lab)


@app.command()
def start(part: Part, dir: Dir = None) -> None:
    """Start a part again, with its data, and wait until it answers."""
    lab = _lab(dir)
    lab.start(part)
    _show(lab)


@app.command()
def kill(part: Part, dir: Dir = None) -> None:
    """Kill a part at once (SIGKILL), as a power failure would."""
    _signal(dir, part, signal.SIGKILL)


@app.command()
def stop(part: Part, dir: Dir = None) -> None:
    """Let a part hang (SIGSTOP), as an overloaded machine would."""
    _signal(dir, part, signal.SIGSTOP)


@app.command()
def cont(part: Part, dir: Dir = None) -> None:
    """Let a hanging part go on (SIGCONT)."""
    _signal(dir, part, signal.SIGCONT)


def _signal(folder: Path | None, part: str, number: signal.Signals) -> None:
    lab = _lab(folder)
    lab.signal(part, number)
    _show(lab)


def _lab(folder: Path | None, ivy_settings: Path | None = None) -> "Lab":
    from drctl.lab.lab import Lab
    from drctl.lab.settings import default_root

    return Lab((folder or default_root()).absolute(), console().progress, ivy_settings)


def _show(lab: "Lab") -> int:
    from drctl.lab.status import in_words, look

    document = look(lab)
    console().result(Lines(in_words(document)), document)
    return 0 if document.answering else 1
