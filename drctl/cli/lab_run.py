"""`drctl lab run`: a whole story on a lab of its own, with the truth beside drctl's answer."""

import os
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.cli.console import console
from drctl.cli.options import Output, options
from drctl.model.lines import Lines

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
    """Play a story on real clusters and hold what drctl does and says against the truth.

    Exit code 1 where it differs by a single record.
    """
    from drctl.lab.guards import free_port_base
    from drctl.lab.lab import Lab
    from drctl.lab.scenarios import STORIES
    from drctl.lab.settings import LabSettings
    from drctl.model.errors import UsageError
    from drctl.report.run_words import length

    began = time.monotonic()
    if scenario not in STORIES:
        raise UsageError(f"there is no scenario {scenario!r}", f"scenarios: {', '.join(STORIES)}")
    lab = Lab(out.absolute() / "lab", console().progress)
    stage = _stage(lab, out)
    lab.down()
    stage.config.unlink(missing_ok=True)
    try:
        console().progress(f"two real Kafka clusters and MirrorMaker 2 start in {lab.root}")
        lab.up(LabSettings(port_base=free_port_base(random.Random(os.getpid()))))
        ending = STORIES[scenario](stage)
    finally:
        if not keep:
            console().progress(Lines("\nthe lab is brought down"))
            lab.down()
    seconds = round(time.monotonic() - began, 1)
    document = {
        "schema": "drctl/lab-run/1",
        "scenario": scenario,
        "true": ending.true,
        "summary": ending.summary,
        "page": str(ending.page),
        "seconds": seconds,
    }
    pages = "\n".join(
        (
            f"Failover: {ending.report}",
            f"Missing records: {ending.page}",
            f"Failback: {ending.home}",
            f"All of it took {length(seconds)}.",
        )
    )
    console().result(Lines(f"\n{ending.summary}\n{pages}"), document)
    return 0 if ending.true else 1


def _stage(lab: "Lab", out: Path) -> "Stage":
    from drctl.lab.scenarios.stage import Stage

    given = options()
    passed_on = [
        *(("--quiet",) if given.quiet else ()),
        *(("--verbose",) if given.verbose else ()),
        *(("--no-color",) if given.no_color else ()),
    ]
    # What the story shows of drctl's results must not stand beside the one document on stdout.
    shown = sys.stderr if given.output is Output.JSON else None
    return Stage(lab, out, console().progress, tuple(passed_on), shown)
