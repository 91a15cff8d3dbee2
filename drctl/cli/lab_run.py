"""`drctl lab run`: a whole story on a lab of its own, with the truth beside drctl's answer."""

import os
import random
from pathlib import Path
from typing import Annotated

import typer

from drctl.cli.console import console


def run(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="lost-primary.")],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the configuration and the result.")
    ] = Path(".drctl/demo"),
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the lab running; end it with lab down --dir.")
    ] = False,
) -> int:
    """Play a story on real clusters and hold drctl's answer against the truth.

    Exit code 1 where the answer differs by a single record.
    """
    from drctl.lab.guards import free_port_base
    from drctl.lab.lab import Lab
    from drctl.lab.scenarios import STORIES
    from drctl.lab.scenarios.stage import Stage
    from drctl.lab.settings import LabSettings
    from drctl.model.errors import UsageError

    if scenario not in STORIES:
        raise UsageError(f"there is no scenario {scenario!r}", f"scenarios: {', '.join(STORIES)}")
    lab = Lab(out.absolute() / "lab", console().progress)
    stage = Stage(lab, out, console().progress)
    lab.down()
    stage.config.unlink(missing_ok=True)
    try:
        console().progress(f"two real Kafka clusters and MirrorMaker 2 start in {lab.root}")
        lab.up(LabSettings(port_base=free_port_base(random.Random(os.getpid()))))
        ending = STORIES[scenario](stage)
    finally:
        if not keep:
            console().progress("the lab is brought down")
            lab.down()
    document = {
        "schema": "drctl/lab-run/1",
        "scenario": scenario,
        "true": ending.true,
        "summary": ending.summary,
        "page": str(ending.page),
    }
    console().result(f"\n{ending.summary}\nPage: {ending.page}", document)
    return 0 if ending.true else 1
