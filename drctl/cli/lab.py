"""`drctl lab`: two local Kafka clusters with MirrorMaker 2, for trials, drills and demos."""

import os
import random
import signal
import sys
import time
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.cli.console import console
from drctl.cli.options import Output, options
from drctl.model.text import Lines, plural

if TYPE_CHECKING:
    from drctl.lab.lab import Lab
    from drctl.lab.scenarios.stage import Stage


Kafka = Annotated[
    str | None,
    typer.Option(
        metavar="VERSION", help="Kafka release of the lab, 3.7.0 or later.", show_default="4.3.1"
    ),
]
SecondaryKafka = Annotated[
    str | None,
    typer.Option(
        metavar="VERSION",
        help="Kafka release of the secondary and of Connect.",
        show_default="that of --kafka",
    ),
]


def run(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO", help="Scenario to run: lost-primary.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for configuration and results.")
    ] = Path(".drctl/demo"),
    keep: Annotated[
        bool,
        typer.Option(
            "--keep", help="Keep the lab running; stop it with `drctl lab down --dir DIR`."
        ),
    ] = False,
    kafka: Kafka = None,
    secondary_kafka: SecondaryKafka = None,
) -> int:
    """Run a scenario and check drctl's results against ground truth.

    Examples:
        drctl lab run lost-primary
        drctl lab run lost-primary --keep --out demo
        drctl lab run lost-primary --kafka 3.7.2 --secondary-kafka 4.3.1

    Exit codes:
        0: every result matches the ground truth
        1: a result differs, even by one record
    """
    from drctl.lab.lab import Lab
    from drctl.lab.scenarios import SCENARIOS
    from drctl.lab.settings import LabSettings
    from drctl.lab.starting import free_port_base
    from drctl.model.errors import UsageError
    from drctl.views.command_documents import LabRunDocument
    from drctl.views.text import length

    began = time.monotonic()
    if scenario not in SCENARIOS:
        raise UsageError(f"unknown scenario {scenario!r}", f"scenarios: {', '.join(SCENARIOS)}")
    base = LabSettings(free_port_base(random.Random(os.getpid())))
    settings = replace(base, kafka=kafka or base.kafka, secondary_kafka=secondary_kafka or "")
    lab = Lab(out.absolute() / "lab", console().progress)
    stage = _stage(lab, out)
    lab.down()
    stage.config.unlink(missing_ok=True)
    try:
        console().progress(f"Starting two Kafka clusters and MirrorMaker 2 in {lab.root}")
        lab.up(settings)
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


app = typer.Typer(
    help="""Run two local Kafka clusters with MirrorMaker 2.

    For trials, drills and demos on one machine. Needs Java.

    Examples:
        drctl lab up && drctl lab env    # start it and write a drctl.yaml for it
        drctl lab load --count 10000     # produce records
        drctl lab kill primary           # cause an outage
    """
)

Dir = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        metavar="DIR",
        help="Folder of the lab.",
        show_default="a folder in your state directory",
    ),
]
Part = Annotated[
    str,
    typer.Argument(
        metavar="COMPONENT", help="primary, secondary, connect, or one node such as primary-2."
    ),
]

app.command()(run)


class Policy(StrEnum):
    """Names of replicated topics."""

    IDENTITY = "identity"
    DEFAULT = "default"


class Cluster(StrEnum):
    """A cluster of the lab."""

    PRIMARY = "primary"
    SECONDARY = "secondary"


class Action(StrEnum):
    """What to do with MirrorMaker 2."""

    PAUSE = "pause"
    RESUME = "resume"


@app.command()
def up(
    dir: Dir = None,
    brokers: Annotated[
        int | None, typer.Option(metavar="N", help="Brokers per cluster: 1 or 3.", show_default="1")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Connect workers: 1, 2 or 3.", show_default="1")
    ] = None,
    racks: Annotated[
        bool | None, typer.Option("--racks", help="Put each broker into a rack of its own.")
    ] = None,
    kafka: Kafka = None,
    secondary_kafka: SecondaryKafka = None,
    policy: Annotated[
        Policy | None,
        typer.Option(
            "--replication-policy",
            help="With `default`, replicated topics are named primary.TOPIC.",
            show_default="identity",
        ),
    ] = None,
    active_active: Annotated[
        bool | None, typer.Option("--active-active", help="Replicate in both directions.")
    ] = None,
    port_base: Annotated[
        int | None, typer.Option(metavar="PORT", help="First of 100 ports.", show_default="19000")
    ] = None,
    heap_mb: Annotated[
        int | None,
        typer.Option(metavar="MB", help="Java heap of each process.", show_default="512"),
    ] = None,
    full_speed: Annotated[
        bool | None,
        typer.Option(
            "--full-speed", help="Enable all Java JIT compilers; the lab starts more slowly."
        ),
    ] = None,
    ivy_settings: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="DRCTL_IVY_SETTINGS",
            help="Ivy settings file for your own Maven repository, or set $DRCTL_IVY_SETTINGS.",
        ),
    ] = None,
) -> None:
    """Start the lab, or the parts of it that are not running.

    The settings apply to a new lab only; an existing lab keeps its own.

    Examples:
        drctl lab up
        drctl lab up --brokers 3 --racks
        drctl lab up --kafka 3.9.1 --secondary-kafka 4.3.1
        drctl lab up --dir /tmp/lab --port-base 21000

    Exit codes:
        0: the lab is running
    """
    from drctl.lab.settings import changed_settings

    lab = _lab(dir, ivy_settings)
    given = {
        "brokers": brokers,
        "workers": workers,
        "racks": racks,
        "kafka": kafka,
        "secondary_kafka": secondary_kafka,
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
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the data for the next `drctl lab up`.")
    ] = False,
) -> None:
    """Stop all processes of the lab and delete its data.

    Examples:
        drctl lab down
        drctl lab down --keep
    """
    from drctl.views.command_documents import LabDownDocument

    lab = _lab(dir)
    ended = lab.down(keep)
    data = "kept" if keep else "removed"
    document = LabDownDocument(dir=str(lab.root), ended=ended, data=data)
    console().result(f"{plural(ended, 'process', 'processes')} stopped; data {data}", document)


@app.command()
def status(dir: Dir = None) -> int:
    """Show the lab's processes, and whether replication works.

    Examples:
        drctl lab status
        drctl lab status --dir /tmp/lab

    Exit codes:
        0: everything is running and answers
        1: something is not running or does not answer
    """
    return _show(_lab(dir))


@app.command()
def env(
    dir: Dir = None,
    output_file: Annotated[Path, typer.Option(metavar="FILE", help="File to write.")] = Path(
        "drctl.yaml"
    ),
    failback: Annotated[
        bool,
        typer.Option(
            "--failback", help="Also create a stopped reverse connector and an endpoint file."
        ),
    ] = False,
) -> None:
    """Write a commented drctl.yaml for the lab.

    Never overwrites a file with different content. With --failback, also prepares the lab for a
    failback: a connector that copies from the secondary to the primary, STOPPED until a failback
    starts it, and file `bootstrap`, from which clients read the address of their cluster.

    Examples:
        drctl lab env
        drctl lab env --failback
        drctl lab env --output-file lab.yaml
    """
    from drctl.lab.environment import in_words, write_environment

    lab = _lab(dir)
    if failback:
        from drctl.lab.scenarios.clients import ENDPOINT
        from drctl.lab.scenarios.stage import NAME, prepare_failback

        document = write_environment(lab.parts, output_file, endpoint=ENDPOINT, reverse=NAME)
        prepare_failback(lab, output_file.parent / ENDPOINT)
    else:
        document = write_environment(lab.parts, output_file)
    console().result(Lines(in_words(document)), document)


@app.command()
def load(
    dir: Dir = None,
    cluster: Annotated[Cluster, typer.Option(help="Cluster to write to.")] = Cluster.PRIMARY,
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Topic to write to.", show_default="flights")
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Maximum number of records.", show_default="all"),
    ] = None,
    rate: Annotated[
        float, typer.Option(metavar="N", min=0, help="Records per second; 0 means no limit.")
    ] = 0,
    start: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Number of the first record.",
            show_default="after the previous load",
        ),
    ] = None,
    background: Annotated[
        bool, typer.Option("--background", help="Run in a background process.")
    ] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Stop the background process.")] = False,
) -> int:
    """Produce records: flights of 2013, keyed by aircraft.

    Logs every acknowledged record with its offset.

    Examples:
        drctl lab load --count 10000
        drctl lab load --rate 100 --background
        drctl lab load --stop

    Exit codes:
        0: all records were acknowledged
        1: a record was not acknowledged
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
def replication(
    action: Annotated[Action, typer.Argument(metavar="pause|resume", help="What to do.")],
    dir: Dir = None,
) -> None:
    """Pause or resume MirrorMaker 2.

    Examples:
        drctl lab replication pause
        drctl lab replication resume
    """
    lab = _lab(dir)
    lab.replicate(action is Action.RESUME)
    _show(lab)


@app.command()
def start(part: Part, dir: Dir = None) -> None:
    """Restart a killed component with its data, and wait until it answers.

    Examples:
        drctl lab start primary
        drctl lab start secondary-2
    """
    lab = _lab(dir)
    lab.start(part)
    _show(lab)


@app.command()
def kill(part: Part, dir: Dir = None) -> None:
    """Kill a component (SIGKILL), like a power failure.

    `drctl lab start` restarts it.

    Examples:
        drctl lab kill primary
        drctl lab kill connect
    """
    _signal(dir, part, signal.SIGKILL)


@app.command()
def freeze(part: Part, dir: Dir = None) -> None:
    """Freeze a component (SIGSTOP), like a hung host.

    `drctl lab unfreeze` lets it continue.

    Examples:
        drctl lab freeze primary
        drctl lab freeze secondary-1
    """
    _signal(dir, part, signal.SIGSTOP)


@app.command()
def unfreeze(part: Part, dir: Dir = None) -> None:
    """Let a frozen component continue (SIGCONT).

    Examples:
        drctl lab unfreeze primary
        drctl lab unfreeze secondary-1
    """
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
