"""The ways in which drctl moves groups: what it is told of a link, and what it then goes by."""

import json
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.crowd import Crowd
from bench.process import DRCTL, WrongAnswer
from bench.stage import Stage, cluster_section
from bench.watching import watched
from drctl.config.loading import load

_DEAD = "127.0.0.1:1"  # nothing listens there
_OVERRIDE = ("--override", "skips-records=the groups of the benchmark never go back")
_DEADLINE_S = 900


@dataclass(frozen=True, slots=True)
class Way:
    """A link, and with it the evidence that is there.

    Attributes:
        kind: of the link's replicator.
        alive: whether the source answers.
        options: what `offsets apply` needs besides.
    """

    title: str
    kind: str
    alive: bool
    options: Sequence[str] = ()


MATCH = Way("source alive, record-match", "none", alive=True)
IDENTITY = Way("source alive, identity", "offset-preserving", alive=True)
CHECKPOINT = Way("source dead, checkpoint", "mirrormaker2", False, _OVERRIDE)
SYNC = Way("source dead, offset-sync and checkpoint", "mirrormaker2", False, _OVERRIDE)
TIMESTAMPS = Way("source dead, consumer-timestamp", "none", False, _OVERRIDE)
ANCHORS = Way("source dead, anchors", "none", alive=False)


@dataclass(frozen=True, slots=True)
class Done:
    """A command that ended as it should.

    Attributes:
        seconds: from the start of its process to its end.
        megabytes: the most memory that it ever held.
        document: what it wrote to stdout.
    """

    seconds: float
    megabytes: float
    document: Mapping[str, Any]


def configured(stage: Stage, crowd: Crowd, way: Way) -> Path:
    """Write a drctl.yaml with one link, for one crowd.

    Raises:
        ConfigError: drctl would not take it.
    """
    config = stage.folder / "offsets.yaml"
    clusters: dict[str, Any] = {c.name: cluster_section(c) for c in (stage.source, stage.target)}
    if not way.alive:
        clusters[stage.source.name]["bootstrap"] = _DEAD
    link: Mapping[str, Any] = {
        "from": stage.source.name,
        "to": stage.target.name,
        "topics": [f"{crowd.name}-.*"],
        "groups": [f"{crowd.name}-.*"],
        "replicator": {"kind": way.kind},
    }
    document = {"clusters": clusters, "links": {"crowd": link}}
    config.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    load(config)
    return config


def offsets_line(config: Path, *words: str) -> list[str]:
    """The command line of `drctl offsets`."""
    return [str(DRCTL), "--config", str(config), "-o", "json", "offsets", *words]


def drctl_offsets(config: Path, *words: str, codes: Collection[int] = (0,)) -> Done:
    """Run `drctl offsets` in a process of its own.

    Raises:
        WrongAnswer: it ended with another exit code than one of these.
    """
    began = time.perf_counter()
    process = subprocess.Popen(
        offsets_line(config, *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=config.parent,
    )
    try:
        with watched(process.pid) as peak:
            stdout, stderr = process.communicate(timeout=_DEADLINE_S)
    finally:
        process.kill()
        process.wait()
    taken = time.perf_counter() - began
    if process.returncode not in codes:
        said = (stdout.strip() or stderr)[:1000]
        raise WrongAnswer(f"drctl offsets {words[0]} ended with {process.returncode}: {said}")
    return Done(taken, peak.megabytes, json.loads(stdout))
