"""Ways in which drctl translates groups: the settings of a link, and the evidence that exists."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.crowd import Crowd
from bench.process import Done, drctl
from bench.stage import Stage, cluster_section, link_over

_DEAD = "127.0.0.1:1"  # an unused port
_OVERRIDE = ("--override", "skips-records=the groups of the benchmark never go back")


@dataclass(frozen=True, slots=True)
class Way:
    """A link and the available evidence.

    Attributes:
        kind: of the link's replicator.
        alive: whether the source answers.
        options: additional options of `offsets apply`.
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
TRACKED_OFFSETS = Way("source dead, tracked offsets", "none", alive=False)


def configured(stage: Stage, crowd: Crowd, way: Way) -> Path:
    """Write a drctl.yaml with one link, for one crowd.

    Raises:
        ConfigError: it is invalid.
    """
    sections: dict[str, Any] = {}
    if not way.alive:
        clusters = {c.name: cluster_section(c) for c in stage.clusters}
        clusters[stage.source.name]["bootstrap"] = _DEAD
        sections["clusters"] = clusters
    mine = f"{crowd.name}-.*"
    link = link_over(mine, groups=[mine], replicator={"kind": way.kind})
    return stage.configured("offsets", {"crowd": link}, **sections)


def drctl_offsets(config: Path, *words: str, codes: Collection[int] = (0,)) -> Done:
    """Run `drctl offsets` in a process.

    Raises:
        WrongAnswer: it ended with another exit code.
    """
    return drctl(config, "offsets", *words, codes=codes)
