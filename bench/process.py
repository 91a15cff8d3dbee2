"""`drctl gap` as a process: time and memory."""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from bench.records import Variant
from bench.stage import Dataset, Stage
from bench.watching import high_water
from bench.watching import watched as watching
from drctl.model.errors import Unknown

DRCTL = Path(sys.executable).with_name("drctl")

_DEADLINE_S = 3600.0
_PAUSE_S = 0.1


class WrongAnswer(Unknown):
    """A measured command returned a wrong result, so its time does not count."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A run of `drctl gap` with the correct result.

    Attributes:
        seconds: duration of the process.
        jvm_bytes: peak memory of its JVM; 0 if not measured.
    """

    seconds: float
    jvm_bytes: int


@dataclass(frozen=True, slots=True)
class Done:
    """A command that ended as expected.

    Attributes:
        seconds: duration of the process.
        core_seconds: its CPU time.
        megabytes: peak memory.
        stdout: its output.
    """

    seconds: float
    core_seconds: float
    megabytes: float
    stdout: str

    @property
    def document(self) -> dict[str, Any]:
        """Its JSON document."""
        found: dict[str, Any] = json.loads(self.stdout)
        return found


def drctl(config: Path, *words: str, codes: Collection[int] = (0,), form: str = "json") -> Done:
    """Run drctl in a process.

    Raises:
        WrongAnswer: it ended with another exit code.
    """
    began, spent = time.perf_counter(), _core_seconds()
    process = subprocess.Popen(
        line(config, *words, form=form),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=config.parent,
    )
    try:
        with watching(process.pid) as peak:
            stdout, stderr = process.communicate(timeout=_DEADLINE_S)
    finally:
        process.kill()
        process.wait()
    taken = time.perf_counter() - began
    if process.returncode not in codes:
        output = (stdout.strip() or stderr)[-2000:]
        raise WrongAnswer(f"drctl {' '.join(words)} ended with {process.returncode}: {output}")
    return Done(taken, _core_seconds() - spent, peak.megabytes, stdout)


def _core_seconds() -> float:
    """CPU time of all processes that this one started and that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def line(config: Path, *words: str, form: str = "json") -> list[str]:
    """A command line of drctl."""
    return [str(DRCTL), "--config", str(config), "-o", form, *words]


def run_gap(
    stage: Stage,
    dataset: Dataset,
    variant: Variant,
    watched: bool = False,
    options: Sequence[str] = ("--scope", "full"),
    config: Path | None = None,
) -> Ended:
    """Compare a dataset's source with one of its targets.

    Args:
        watched: whether to measure the JVM's memory, which takes a little time.
        options: more command-line options.
        config: a drctl.yaml with the same links; None for the stage's.

    Raises:
        WrongAnswer: the result is missing or wrong.
    """
    with TemporaryDirectory(dir=stage.folder) as name:
        out, stderr_file = Path(name, "out"), Path(name, "stderr")
        words = [str(DRCTL), "--config", str(config or stage.config), "--output", "json", "gap"]
        words += ["--link", dataset.link(variant), "--out", str(out), *options]
        began = time.perf_counter()
        with stderr_file.open("wb") as stderr:
            process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=stderr)
        try:
            peak = _watch(process) if watched else 0
            code = process.wait(_DEADLINE_S)
        finally:
            _end(process)
        taken = time.perf_counter() - began
        _check(out / "gap.json", code, dataset.missing(variant), stderr_file)
        return Ended(taken, peak)


def _watch(process: "subprocess.Popen[bytes]") -> int:
    peak, until = 0, time.monotonic() + _DEADLINE_S
    while time.monotonic() < until:
        peak = max(peak, _jvm_peak(process.pid))
        try:
            process.wait(_PAUSE_S)
        except subprocess.TimeoutExpired:
            continue
        break
    return peak


def _jvm_peak(pid: int) -> int:
    """Peak memory of the largest JVM below a process."""
    with suppress(psutil.NoSuchProcess):
        children = psutil.Process(pid).children(recursive=True)
        return max((_jvm_bytes(child) for child in children), default=0)
    return 0


def _jvm_bytes(process: psutil.Process) -> int:
    with suppress(psutil.NoSuchProcess):
        return high_water(process.pid) if process.name() == "java" else 0
    return 0


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.terminate()
        process.wait(60)


def _check(document: Path, code: int, missing: int, stderr_file: Path) -> None:
    if code != (1 if missing else 0) or not document.is_file():
        text = stderr_file.read_text(encoding="utf-8", errors="replace").strip()
        raise WrongAnswer(f"drctl gap ended with exit code {code}: {text[-1000:]}")
    answer: dict[str, Any] = json.loads(document.read_text(encoding="utf-8"))
    if answer["totals"]["unreplicated"] != missing:
        raise WrongAnswer(f"drctl gap found other than {missing} records: {answer['totals']}")
