"""Commands of this checkout compared with another one, in turns on the same clusters and data."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench import plan
from bench.crowd import Crowd, made
from bench.process import DRCTL, WrongAnswer, line
from bench.records import IDENTICAL
from bench.rows import Ratio, Row, Target, paired
from bench.stage import Stage
from bench.turns import Work, in_turns
from bench.ways import MATCH, configured

PART = "beside"
HELP = "drctl --help"
HERE = Path(__file__).resolve().parents[1]

_AT_MOST = Target(1.05)
_DEADLINE_S = 600


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the data; see `bench.options`."""

    topics: int
    partitions: int
    groups: int
    records: int
    cold_records: int
    runs: int


def measure(stage: Callable[[], Stage], other: Path, sizes: Sizes) -> Iterator[Row]:
    """Measure two rows per command, with the ratio of this checkout to the other one.

    Args:
        other: root of a checkout, whose drctl runs with this checkout's dependencies.

    Raises:
        WrongAnswer: a command ended with an unexpected exit code.
    """
    clusters = stage()
    for title, words, codes in _commands(clusters, sizes):
        runs = 4 * sizes.runs if title == HELP else sizes.runs
        here, there = (partial(_run, clusters, tree, words, codes) for tree in (HERE, other))
        times = in_turns((Work("here", here), Work("there", there)), runs, clusters.tell)
        ratio = Ratio(paired(times["here"], times["there"]), "here / there", _AT_MOST)
        yield Row(PART, title, times["here"], ratio=ratio)
        yield Row(PART, f"{title}, there", times["there"])


def _run(stage: Stage, tree: Path, words: Sequence[str], codes: Collection[int]) -> None:
    with tempfile.TemporaryDirectory(dir=stage.folder) as folder:
        done = subprocess.run(
            [word.replace("OUT", f"{folder}/out") for word in words],
            env={**os.environ, "PYTHONPATH": str(tree)},
            cwd=folder,
            capture_output=True,
            timeout=_DEADLINE_S,
        )
    if done.returncode not in codes:
        raise WrongAnswer(f"{words} of {tree} ended with {done.returncode}: {done.stderr!r}")


def _commands(stage: Stage, sizes: Sizes) -> Iterator[tuple[str, list[str], Collection[int]]]:
    """Title, command line (OUT stands for its own folder), expected exit codes."""
    yield HELP, [str(DRCTL), "--help"], (0,)
    for engine, records in (("direct", sizes.cold_records), ("spark", sizes.records)):
        dataset = stage.data(records, (IDENTICAL,))
        words = ["gap", "--link", dataset.link(IDENTICAL), "--scope", "full", "--engine", engine]
        title = f"drctl gap --engine {engine} of {records:,} records a side"
        yield title, line(stage.config, *words, "--out", "OUT"), (0,)
    crowd = Crowd("moved", sizes.groups, max(1, sizes.groups // 100), 4, 20_000)
    made(stage, crowd)
    title = f"drctl offsets translate of {crowd.shape}"
    yield title, line(configured(stage, crowd, MATCH), "offsets", "translate"), (0,)
    large = plan.crowd_of(sizes.topics, sizes.partitions, sizes.groups)
    plan.made(stage, large)
    config = plan.configured(stage, large)
    size = f"{sizes.topics:,} topics x {sizes.partitions:,} partitions, {sizes.groups:,} groups"
    yield f"drctl status of {size}", line(config, "status", form="text"), (0, 1)
    yield f"plan of drctl failover of {size}", line(config, "failover"), (0,)
