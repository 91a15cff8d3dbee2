"""A drctl that is killed repeatedly and resumed, here or on another host."""

import os
import signal
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path

import yaml

from tests.cluster import killed_program
from tests.cluster.command import Drctl
from tests.cluster.failover_stage import Stage
from tests.cluster.link_command import GO, LinkCommand

MOMENTS = ("after", "before")
"""Right after the announcement of a step, and right before its end is written."""

_PAUSE_S = 0.005


def dying(journal: str, moment: str, place: str) -> tuple[str, ...]:
    """Return the program that ends at this point, to be run in place of drctl."""
    return sys.executable, "-P", str(Path(killed_program.__file__)), journal, moment, place


def killed_at_a_new_step(stage: Stage, words: Sequence[str], known: Collection[str]) -> str:
    """Return the new step at which drctl was killed; empty if it ended before.

    A step counts from its first entry: that it is announced or cannot begin.
    """
    before = len(stage.journaled())
    with stage.running(*words) as process:
        until = time.monotonic() + stage.deadline_s
        while process.poll() is None:
            assert time.monotonic() < until, stage.output
            if set(steps_since(stage, before)) - set(known):
                os.kill(process.pid, signal.SIGKILL)
                break
            time.sleep(_PAUSE_S)
        else:
            assert process.returncode in (0, 1), stage.output
            return ""
    if stage.journaled()[-1]["entry"] == "ended":
        # The run completed before the signal arrived.
        return ""
    return steps_since(stage, 0)[-1]


def steps_since(stage: Stage, before: int) -> list[str]:
    """Return the steps in this host's journal after this many entries."""
    return [str(entry["step"]) for entry in stage.journaled()[before:] if entry.get("step")]


def move(stage: Stage, folder: Path) -> None:
    """Move drctl to a host that has only the configuration, and no file of any run."""
    document = yaml.safe_load(stage.drctl.config.read_text(encoding="utf-8"))
    (endpoint,) = document["links"][stage.link]["endpoints"]
    endpoint["path"] = str(stage.endpoint)
    folder.mkdir()
    config = folder / "drctl.yaml"
    config.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    stage.drctl = Drctl(folder, config)
    assert stage.journaled() == []


def killed_at(on: LinkCommand, moment: str, step: str, *words: str) -> None:
    """Run it until SIGKILL ends it at this moment of a step; without a step, of the run."""
    with on.running(*words, program=dying("run", moment, step)) as process:
        on.ends(process, -signal.SIGKILL)


def killed_in_each(on: LinkCommand, moment: str, steps: Sequence[str], *words: str) -> None:
    """Kill it in one step after the other; resume it each time on a host without its files."""
    for step in steps:
        killed_at(on, moment, step, *words)
        on.move_to_another_machine()
        words = ("resume", *GO)
