"""How far Spark has come, from its own count of finished tasks."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from drctl.gap.comparison import Progress

POLL_SECONDS = 0.25


@contextmanager
def watched(spark: SparkSession, phase: str, total: int, progress: Progress) -> Iterator[None]:
    """Report `progress(phase, done, total)` while the body runs Spark jobs.

    Records done are the finished share of the widest stage's tasks: tasks are of about one size.
    """
    finished = threading.Event()
    progress(phase, 0, total)
    watcher = threading.Thread(
        target=_watch, args=(spark, phase, total, progress, finished), daemon=True
    )
    watcher.start()
    try:
        yield
        progress(phase, total, total)
    finally:
        finished.set()
        watcher.join()


def _watch(
    spark: SparkSession, phase: str, total: int, progress: Progress, finished: threading.Event
) -> None:
    tracker = spark.sparkContext.statusTracker()
    most = 0
    while not finished.wait(POLL_SECONDS):
        try:
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except Py4JError:  # the context is closing; the job's own call reports why
            return
        tasks = [(s.numTasks, s.numCompletedTasks) for s in stages if s is not None]
        if tasks:
            all_tasks, done = max(tasks)
            most = max(most, total * done // max(1, all_tasks))
            progress(phase, most, total)
