"""The comparer of `drctl gap --submit`: sends requests to a submitted Spark application.

The application is submitted once and answers all requests of a run through a shared directory. The
records that it finds are copied from there.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from drctl.gap.comparison import (
    BucketDigest,
    ComparePlan,
    Comparison,
    OrderCheck,
    Progress,
    Reads,
    ScanFailed,
    TopicSuspects,
)
from drctl.gap.json import plain, restored
from drctl.host.files import as_open_as
from drctl.model.errors import Unknown
from drctl.spark import results
from drctl.spark.comparer import WAITING
from drctl.spark.failure import shortened
from drctl.spark.inversions import INVERSIONS
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
from drctl.spark.session import SparkDidNotStart
from drctl.spark.submission import SubmitSettings, write_command

SHUTDOWN_S = 20.0
"""Time for an application to shut down."""

_FAULT = re.compile(
    r"^(?:.*? ERROR .*?|Exception in thread \"[^\"]*\" |Caused by: |: |Error: )?"
    r"(?P<fault>(?:[a-z_$][\w$]*\.)+[A-Z]\w*(?:Exception|Error|Failure)\b.*)$"
    r"|^Error: (?!Could not create the Java|A fatal exception)(?P<error>.+)$|^(?P<heap>Invalid .+)$"
)
_TAIL = 200_000


class Application:
    """A submitted application.

    Args:
        process: `spark-submit`, in a process group of its own.
        log: its log file; None for stderr.
        begins: size of the log before the application started.
    """

    def __init__(self, process: subprocess.Popen[bytes], log: Path | None, begins: int) -> None:
        self._process = process
        self._log = log
        self._begins = begins

    def ended_within(self, seconds: float) -> bool:
        """Wait up to this long; return whether it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode is not None

    @property
    def fault(self) -> str:
        """Why it ended, according to its output."""
        found = ""
        if self._log is not None:
            with self._log.open("rb") as file:
                file.seek(max(self._begins, file.seek(0, os.SEEK_END) - _TAIL))
                found = fault_in(file.read().decode("utf-8", "replace"))
        return found or f"spark-submit ended with exit code {self._process.returncode}"

    def end(self, patience: float) -> None:
        """Wait for its end; then terminate its process group."""
        try:
            if not self.ended_within(patience):
                self._signal(signal.SIGTERM)
                self.ended_within(SHUTDOWN_S)
        finally:  # also when Ctrl-C is pressed again
            self._signal(signal.SIGKILL)
            self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # all processes of the group have ended
            os.killpg(self._process.pid, number)


@contextmanager
def started(
    words: Sequence[str], *, environ: Mapping[str, str], log: Path | None, folder: Path, umask: int
) -> Iterator[Application]:
    """Run the application during the block; no processes are left on this host afterwards.

    The block has to ask the application to stop. Afterwards its end is awaited; after an error in
    the block, it is terminated at once.

    Args:
        folder: its working directory.
        umask: umask for its files.
    """
    with open(log or os.devnull, "ab") as file:  # noqa: PTH123 (one of two kinds of place)
        begins = file.tell()
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=file if log else 2,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environ,
            umask=umask,
            # Ctrl-C goes only to drctl, which then shuts everything down in order.
            start_new_session=True,
        )
    application = Application(process, log, begins)
    patience = 0.0
    try:
        yield application
        patience = SHUTDOWN_S
    finally:
        application.end(patience)


def fault_in(text: str) -> str:
    """Return the last innermost cause in a log; empty if there is none."""
    faults = [m for line in text.splitlines() if (m := _FAULT.match(line.rstrip()))]
    if not faults:
        return ""
    return shortened(faults[-1][faults[-1].lastgroup or 0])


POLL_S = 0.2
HEARTBEAT_S = 5.0


class SubmittedComparer:
    """Compares the two clusters of a link in a submitted Spark application.

    Args:
        folder: directory shared with the application.
        out: directory for the records that it finds.
    """

    def __init__(self, folder: JobFolder, application: Application, out: Path) -> None:
        self._folder = folder
        self._application = application
        self._out = out
        self._number = 0

    def digest(self, plan: ComparePlan, reads: Reads, progress: Progress) -> Sequence[BucketDigest]:
        """Digest every record of these ranges.

        Raises:
            ScanFailed: the records could not be read completely.
        """
        asked = {"plan": plain(plan), "reads": plain(reads)}
        table = self._answered(asked, progress)["digests"]
        found: Sequence[BucketDigest] = restored(tuple[BucketDigest, ...], table)
        return found

    def compare(
        self, plan: ComparePlan, suspects: Sequence[TopicSuspects], progress: Progress
    ) -> Comparison:
        """Compare record by record; copy the missing ones as Parquet.

        Raises:
            ScanFailed: the records could not be read completely.
        """
        asked = {"plan": plain(plan), "suspects": plain(suspects)}
        answered = self._answered(asked, progress)
        comparison: Comparison = restored(Comparison, answered["comparison"])
        for name in (results.RECORDS, results.OTHERS):
            fetch(self._folder.path / name, self._out / name)
        return comparison

    def check_order(self, plan: ComparePlan, progress: Progress) -> OrderCheck:
        """Check the order of all replicated records of the plan; copy the inversions.

        Raises:
            ScanFailed: the records could not be read completely.
        """
        asked = {"plan": plain(plan), "order": True}
        found: OrderCheck = restored(OrderCheck, self._answered(asked, progress)["check_order"])
        fetch(self._folder.path / INVERSIONS, self._out / INVERSIONS)
        return found

    def _answered(self, asked: Any, progress: Progress) -> Any:
        self._number += 1
        if self._number == 1:  # the application may start long before it gets executors
            progress(WAITING, 0, 0)
        self._folder.put(question(self._number), asked)
        name, ended = answer(self._number), False
        while (found := self._folder.get(name)) is None:
            if ended:
                raise ScanFailed(why_ended(self._folder, self._application))
            ended = self._application.ended_within(POLL_S)
            self._report(progress)
        if "failed" in found:
            raise ScanFailed(found["failed"])
        return found

    def _report(self, progress: Progress) -> None:
        state = self._folder.get(PROGRESS)
        if state is not None and state["question"] == self._number:
            progress(state["phase"], state["done"], state["total"])


def fetch(found: Path, to: Path) -> None:
    """Copy a directory of Parquet files; replace an existing one.

    Raises:
        Unknown: it cannot be read, or the disk is full.
    """
    try:
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir()
        for file in sorted(found.iterdir()):
            shutil.copyfile(file, to / file.name)
    except OSError as error:
        raise Unknown(
            f"cannot copy the records from {found}: {error.strerror}",
            "check that files of executors in spark.shared are readable on this host, and check"
            " the disk space for --out",
        ) from error


@contextmanager
def submitted(
    settings: SubmitSettings,
    clients: Mapping[str, Mapping[str, str]],
    out: Path,
    environ: Mapping[str, str],
) -> Iterator[SubmittedComparer]:
    """Submit an application and provide its comparer during the block.

    Args:
        clients: Kafka client properties by cluster, source first.
        out: directory for the records that it finds.

    Raises:
        ConfigError: the settings are inconsistent.
        SparkDidNotStart: the application ended before its session was open.
        Unknown: the shared directory cannot be used.
    """
    settings.check()
    with (
        _faults_of(settings.shared),
        tempfile.TemporaryDirectory(prefix="drctl-submit-") as scratch,
        _job_folder(settings.shared) as folder,
        _alive(folder),
    ):
        mode = folder.path.stat().st_mode & 0o777
        # The application may run as another user: its files get the mode of its directory.
        with as_open_as(mode):
            words = write_command(settings, clients, folder.path, Path(scratch))
        surroundings = {**environ, "SPARK_HOME": str(settings.home)}
        umask = 0o777 & ~mode
        with (
            started(
                words, environ=surroundings, log=settings.log, folder=Path(scratch), umask=umask
            ) as application,
            _stopped(folder, application, SHUTDOWN_S if settings.on_cluster else 0),
        ):
            _await_ready(settings, folder, application)
            for read in Path(scratch).glob("*.properties"):
                read.unlink()  # leave no secrets, even if drctl is killed from now on
            yield SubmittedComparer(folder, application, out)


def _await_ready(settings: SubmitSettings, folder: JobFolder, application: Application) -> None:
    """Wait until the session is open, however long the cluster takes to schedule it."""
    ended = False
    while folder.get(READY) is None:
        if ended:
            raise SparkDidNotStart(
                f"Spark did not start on {settings.master}: {why_ended(folder, application)}",
                "install Java 17 or later (PATH or JAVA_HOME), and check spark.master; --verbose"
                " shows the output of spark-submit",
            )
        ended = application.ended_within(POLL_S)


def why_ended(folder: JobFolder, application: Application) -> str:
    """Return why the job ended, from the job or its output."""
    crashed = folder.get(CRASHED)
    if crashed is not None:
        return str(crashed["cause"])
    ready = folder.get(READY)
    where = f" (application {ready['application']})" if ready else ""
    return application.fault + where


@contextmanager
def _job_folder(shared: Path) -> Iterator[JobFolder]:
    """Create a job directory with the shared one's group access; remove it at the end."""
    path = shared.absolute() / f"drctl-{uuid4().hex}"
    path.mkdir(mode=0o700)
    try:
        path.chmod(0o700 | shared.stat().st_mode & 0o2070)
        yield JobFolder(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _alive(folder: JobFolder) -> Iterator[None]:
    """Write heartbeats during the block."""
    over = threading.Event()

    def beat() -> None:
        number = 0
        while not over.wait(HEARTBEAT_S):
            number += 1
            try:
                folder.put(ALIVE, number)
            except OSError:  # e.g. the disk is full: without heartbeats the job stops later
                continue

    folder.put(ALIVE, 0)
    heart = threading.Thread(target=beat, daemon=True)
    heart.start()
    try:
        yield
    finally:
        over.set()
        heart.join()


@contextmanager
def _stopped(folder: JobFolder, application: Application, patience: float) -> Iterator[None]:
    """Tell the job to stop at the end of the block; after an error give it time to do so."""
    try:
        yield
        patience = 0
    finally:
        with suppress(OSError):  # removing the directory has the same effect
            folder.put(STOP, True)
        application.ended_within(patience)


@contextmanager
def _faults_of(shared: Path) -> Iterator[None]:
    """Convert errors of the shared directory to an error with a hint."""
    try:
        yield
    except OSError as error:
        if not str(error.filename).startswith(str(shared.absolute())):
            raise
        raise Unknown(
            f"cannot use the shared directory: {error.filename}: {error.strerror}",
            "this host, the Spark driver and all executors need write access to spark.shared",
        ) from error
