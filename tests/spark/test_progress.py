"""What is reported while Spark runs a job, from what its status tracker reports in turn."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from drctl.spark import comparer
from drctl.spark.comparer import WAITING


@dataclass
class Tracker:
    """Answers as scripted, then ends the watch.

    Attributes:
        script: active stages of each look: number of tasks, active ones, completed ones.
    """

    script: list[Sequence[tuple[int, int, int]]]
    finished: threading.Event = field(default_factory=threading.Event)
    now: Sequence[tuple[int, int, int]] = ()

    @property
    def sparkContext(self) -> "Tracker":
        return self

    def statusTracker(self) -> "Tracker":
        return self

    def getActiveStageIds(self) -> range:
        self.now = self.script.pop(0)
        if not self.script:
            self.finished.set()
        return range(len(self.now))

    def getStageInfo(self, stage: int) -> Any:
        @dataclass
        class Stage:
            numTasks: int
            numActiveTasks: int
            numCompletedTasks: int

        return Stage(*self.now[stage])


def seen(monkeypatch: pytest.MonkeyPatch, *script: Sequence[tuple[int, int, int]]) -> list[object]:
    monkeypatch.setattr(comparer, "POLL_SECONDS", 0)
    tracker, found = Tracker([*script]), list[object]()
    spark = cast("SparkSession", tracker)
    comparer._watch(spark, "reading", 100, lambda *report: found.append(report), tracker.finished)
    return found


def test_a_job_that_gets_no_core_waits_for_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    waits, runs = [(4, 0, 0)], [(4, 2, 0)]
    assert seen(monkeypatch, [], waits, waits, waits, runs, [(4, 2, 2)]) == [
        ("reading", 0, 100),
        (WAITING, 0, 0),
        (WAITING, 0, 0),
        ("reading", 0, 100),
        ("reading", 50, 100),
    ]


def test_a_later_stage_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    later = [(2, 0, 0)]
    found = seen(monkeypatch, [(4, 1, 3)], later, later, later)
    assert found == [("reading", 75, 100)] * 4
