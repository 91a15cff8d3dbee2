"""`drctl offsets track`: duration of a pass when all groups moved, and when none did."""

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Timer
from typing import Any

from bench.crowd import Crowd, World, commit, forget, made
from bench.evidence import remove
from bench.process import Done, WrongAnswer, line
from bench.rows import Row
from bench.stage import Stage
from bench.watching import Peak, traffic, watched
from bench.ways import MATCH, configured, drctl_offsets
from drctl.model.topology import TopicPartition
from drctl.offsets.tracking_log import TRACKED_OFFSETS_TOPIC

PART = "tracking"
EVERY_S = 15
"""Interval of passes; between two passes all groups move."""

_RECORDS = 20_000
_IDLE_S = 5.0
_DEADLINE_S = 1800


@dataclass(frozen=True, slots=True)
class Passed:
    """One pass.

    Attributes:
        seconds: as reported by the tracker.
        kilobytes: sent and received over the network.
    """

    seconds: float
    kilobytes: float


def measure(stage: Stage, groups: int, rounds: int) -> Iterator[Row]:
    """Measure the first pass, passes with and without moved offsets, and peak memory.

    Raises:
        WrongAnswer: a pass reported something wrong.
    """
    crowd = Crowd("followed", groups, max(1, groups // 100), 4, _RECORDS)
    stage.tell(f"writing {crowd.shape}")
    world = made(stage, crowd)
    remove(stage, TRACKED_OFFSETS_TOPIC)
    yield from _many_passes(stage, world, rounds)
    yield from _single_passes(stage, world, rounds)
    remove(stage, TRACKED_OFFSETS_TOPIC)
    forget(stage.source, world)


def _many_passes(stage: Stage, world: World, rounds: int) -> Iterator[Row]:
    """Measure one tracker that runs continuously."""
    positions = sum(1 for _ in world.places)
    still, moved = list[Passed](), list[Passed]()
    idle = _idle_kilobytes_per_second()
    with _tracker(stage, world, idle) as tracker:
        first = tracker.passed(positions)
        for number in range(rounds):
            still.append(tracker.passed(0))
            commit(stage.source, _elsewhere(world, back=number % 2 == 0))
            moved.append(tracker.passed(positions))
            stage.tell(f"all moved: {moved[-1].seconds:.2f} s, none: {still[-1].seconds:.2f} s")
        megabytes = tracker.peak.megabytes
    passes = (("first", [first]), ("nothing moved", still), ("all moved", moved))
    for title, taken in passes:
        name = f"{world.crowd.shape}, a pass of offsets track, {title}"
        yield Row(PART, name, tuple(each.seconds for each in taken))
        yield Row(PART, f"{name}: network", tuple(each.kilobytes for each in taken), unit="kB")
    title = f"peak of its process, {1 + 2 * rounds} passes"
    yield Row(PART, f"{world.crowd.shape}, offsets track, {title}", (megabytes,), unit="MB")


def _single_passes(stage: Stage, world: World, rounds: int) -> Iterator[Row]:
    """Measure single passes, as from cron, which first read the whole topic."""
    config = configured(stage, world.crowd, MATCH)
    done = list[Done]()
    for _ in range(rounds):
        done.append(drctl_offsets(config, "track", "--once", "--execute", "--yes"))
        _check(done[-1].document, 0)
    name = f"{world.crowd.shape}, offsets track --once from start to end, nothing moved"
    yield Row(PART, name, tuple(each.seconds for each in done))
    peaks = tuple(each.megabytes for each in done)
    yield Row(PART, f"{name}: peak of its process", peaks, unit="MB")


class _Tracker:
    """A running tracker, which prints a line of JSON per pass."""

    def __init__(self, process: "subprocess.Popen[str]", peak: Peak, idle: float) -> None:
        self._process = process
        self._idle = idle
        self.peak = peak

    def passed(self, moved: int) -> Passed:
        """Wait for its next pass.

        Args:
            moved: expected number of moved offsets.

        Raises:
            WrongAnswer: the tracker ended, or reported something else.
        """
        began, before = time.monotonic(), traffic()
        assert self._process.stdout is not None
        text = self._process.stdout.readline()
        waited, bytes_sent = time.monotonic() - began, traffic() - before
        if not text:
            raise WrongAnswer(f"drctl offsets track ended with {self._process.wait()}")
        document = json.loads(text)
        _check(document, moved)
        return Passed(document["seconds"], max(0.0, bytes_sent / 1000 - self._idle * waited))


@contextmanager
def _tracker(stage: Stage, world: World, idle: float) -> Iterator[_Tracker]:
    config = configured(stage, world.crowd, MATCH)
    words = ("track", "--execute", "--yes", "--every", f"{EVERY_S}s")
    with Path(stage.folder, "track.err").open("wb") as stderr:
        process = subprocess.Popen(
            line(config, "offsets", *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=config.parent,
        )
        deadline = Timer(_DEADLINE_S, process.kill)
        deadline.start()
        try:
            with watched(process.pid) as peak:
                yield _Tracker(process, peak, idle)
        finally:
            deadline.cancel()
            process.terminate()
            process.communicate(timeout=60)


def _check(document: Mapping[str, Any], moved: int) -> None:
    totals = document["totals"]
    if not document["complete"] or totals["moved"] != moved:
        raise WrongAnswer(f"{moved} committed offsets moved, drctl offsets track reports: {totals}")


def _elsewhere(world: World, *, back: bool) -> dict[str, dict[TopicPartition, int]]:
    """Move every committed offset back by one record, or restore it."""
    return {
        group: {place: offset - back for place, offset in positions.items()}
        for group, positions in world.positions.items()
    }


def _idle_kilobytes_per_second() -> float:
    """Network traffic of the idle clusters."""
    before = traffic()
    Event().wait(_IDLE_S)
    return (traffic() - before) / 1000 / _IDLE_S
