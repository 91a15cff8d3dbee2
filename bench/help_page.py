"""Duration of `drctl --help`, compared with a trivial program that uses the same library."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bench.process import DRCTL
from bench.rows import Ratio, Row, Target, paired
from bench.turns import Tell, Work, in_turns

PART = "help"
OURS = "drctl --help"
TRIVIAL = "trivial Typer program --help"
PLAIN = "the same without rich"

_TARGET = Target(1.5)


def measure(runs: int, tell: Tell) -> Iterator[Row]:
    """Measure drctl, and each baseline with its ratio."""
    trivial = (sys.executable, str(Path(__file__).with_name("trivial.py")), "--help")
    works = (
        Work(OURS, _running(str(DRCTL), "--help")),
        Work(TRIVIAL, _running(*trivial)),
        Work(PLAIN, _running(*trivial, TYPER_USE_RICH="0")),
    )
    times = in_turns(works, runs, tell)
    yield Row(PART, OURS, times[OURS])
    for name, meaning in ((TRIVIAL, "drctl / trivial program"), (PLAIN, "drctl / without rich")):
        ratio = Ratio(paired(times[OURS], times[name]), meaning, _TARGET)
        yield Row(PART, name, times[name], ratio=ratio)


def _running(*words: str, **extra: str) -> Callable[[], None]:
    environment: Mapping[str, str] = {**os.environ, **extra}

    def run() -> None:
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True, timeout=60, env=environment)

    return run
