"""The Spark application of `drctl gap --submit`: answers requests until the client is done.

It runs in the Spark driver, from a zip with only the modules that it imports.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from traceback import format_exception_only
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from drctl.gap.comparison import (
    ComparePlan,
    Progress,
    Reads,
    RecordComparer,
    ScanFailed,
    Side,
    TopicSuspects,
)
from drctl.gap.json import plain, restored
from drctl.spark.comparer import SparkComparer
from drctl.spark.failure import cause_of
from drctl.spark.job_folder import (
    ALIVE,
    CRASHED,
    PROGRESS,
    READY,
    STOP,
    JobFolder,
    answer,
    question,
)
from drctl.spark.scan import KafkaRows

POLL_S = 0.2
CLIENT_TIMEOUT_S = 180.0
"""Timeout for heartbeats of the client; shared directories may show them late."""
PROGRESS_S = 0.5


def main(arguments: Sequence[str]) -> None:
    """Answer requests until the client asks to stop.

    Args:
        arguments: job directory, directory of client properties, names of source and target.
    """
    place, secrets, source, target = arguments
    folder = JobFolder(Path(place))
    with _report_crash(folder):
        spark = SparkSession.builder.getOrCreate()
        spark.sparkContext.setLogLevel("WARN")
        watch = ClientWatch(folder, spark.sparkContext.cancelAllJobs)
        properties = {
            side: _client_properties(spark, Path(secrets) / f"{name}.properties")
            for side, name in ((Side.SOURCE, source), (Side.TARGET, target))
        }
        rows = KafkaRows(spark, properties, spark.sparkContext.defaultParallelism)
        folder.put(READY, {"application": spark.sparkContext.applicationId})
        serve(folder, SparkComparer(spark, rows, folder.path), watch)
        spark.stop()


def serve(folder: JobFolder, comparer: RecordComparer, watch: "ClientWatch") -> None:
    """Answer requests one after the other, as long as the client is alive."""
    number = 1
    with watch:
        while not watch.released.is_set():
            asked = folder.get(question(number))
            if asked is None:
                watch.released.wait(POLL_S)
                continue
            found = _answered(asked, comparer, throttled(folder, number))
            if not watch.released.is_set():
                folder.put(answer(number), found)
            number += 1


def _answered(asked: Mapping[str, Any], comparer: RecordComparer, progress: Progress) -> Any:
    plan: ComparePlan = restored(ComparePlan, asked["plan"])
    try:
        if "reads" in asked:
            digests = comparer.digest(plan, restored(Reads, asked["reads"]), progress)
            return {"digests": digests}  # tuples, which JSON has as arrays
        if "order" in asked:
            return {"check_order": plain(comparer.check_order(plan, progress))}
        suspects = restored(tuple[TopicSuspects, ...], asked["suspects"])
        return {"comparison": plain(comparer.compare(plan, suspects, progress))}
    except ScanFailed as failed:
        below = failed.__cause__
        return {"failed": cause_of(below) if isinstance(below, Exception) else failed.message}


def throttled(folder: JobFolder, number: int) -> Progress:
    """Write the progress of a request to a file, not too often."""
    reported: tuple[str, float] = ("", 0.0)

    def progress(phase: str, done: int, total: int) -> None:
        nonlocal reported
        now = time.monotonic()
        if phase != reported[0] or now - reported[1] >= PROGRESS_S:
            reported = phase, now
            state = {"question": number, "phase": phase, "done": done, "total": total}
            folder.put(PROGRESS, state)

    return progress


class ClientWatch:
    """Watches the heartbeats of the client; cancels Spark jobs if it stops or times out.

    Args:
        end: cancels all Spark jobs; called from another thread.

    Attributes:
        released: set when the client has stopped or timed out.
    """

    def __init__(
        self, folder: JobFolder, end: Callable[[], object], seconds: float = CLIENT_TIMEOUT_S
    ) -> None:
        self.released = threading.Event()
        self._folder = folder
        self._end = end
        self._seconds = seconds
        self._left = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._watcher.start()

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._watcher.join()

    def _watch(self) -> None:
        last, since = None, time.monotonic()
        while not self._left.wait(POLL_S):
            sign = self._folder.get(ALIVE)
            if sign is not None and sign != last:
                last, since = sign, time.monotonic()
            silent = time.monotonic() - since > self._seconds
            if silent or self._folder.gone or self._folder.get(STOP) is not None:
                self.released.set()
                self._end()
                return


@contextmanager
def _report_crash(folder: JobFolder) -> Iterator[None]:
    """Report an unexpected error to the client, whose user may not have access to the log."""
    try:
        yield
    except BaseException as error:
        if not folder.gone:
            if isinstance(error, PySparkException | Py4JError):
                cause = cause_of(error)
            else:
                cause = format_exception_only(error)[-1].strip()
            folder.put(CRASHED, {"cause": cause})
        raise


def _client_properties(spark: SparkSession, path: Path) -> dict[str, str]:
    """Read a Java properties file with Java: it may be user-supplied."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    found = jvm.java.util.Properties()
    reader = jvm.java.io.FileReader(str(path), jvm.java.nio.charset.StandardCharsets.UTF_8)
    try:
        found.load(reader)
    finally:
        reader.close()
    return {str(name): str(found.getProperty(name)) for name in found.stringPropertyNames()}
